// SPDX-License-Identifier: Apache-2.0
// Whether products are faster by a device's matrix units. Some drivers offer them and compute them by ordinary
// arithmetic, far more slowly than a kernel without them. So a product is timed both ways, once for a device and
// driver, when the first module that would use them is compiled.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "runtime/vulkan/device.h"

namespace tg {

/// The rates of one product, in GFLOP/s.
struct MatrixFigures {
  double matrices = 0, scalars = 0;
  bool operator==(const MatrixFigures&) const = default;
};

/// Matrix units are used where they are faster by this factor. True ones are so by 2 and more, computed ones are slower
/// than what they are computed by. Below it, kernels without them are the better ones: they take any extents and
/// compute what follows a product in registers.
constexpr double kMatrixGain = 1.25;
bool matricesPay(const MatrixFigures& figures);
/// What is known of a device's matrix units: their extension, their shapes, what was measured. "" where it has none.
std::string matrixLine(const Target& device, const std::optional<MatrixFigures>& figures);

/// The same target without matrix units.
Target withoutMatrices(Target target);
/// The device's target, without matrix units where figures say that they do not pay.
Target targetFrom(const vulkan::DeviceInfo& device, const std::optional<MatrixFigures>& figures);
/// Whether the choice matters to a module: it is of stage tensor, has an op on values of 16 bits or of another precision
/// than f32, and no kernel that asks for matrix units itself.
bool choosesMatrices(const Module& module);

/// The file in a cache folder for the figures of this device with this driver; "" in none.
std::string matrixFile(const std::string& cache, const vulkan::DeviceInfo& device);
/// What a file says; nothing where it is absent, damaged or of another version of the kernels.
std::optional<MatrixFigures> readMatrixFigures(const std::string& file);
Result<void> writeMatrixFigures(const std::string& file, const MatrixFigures& figures);

/// Two schedules of a product's region, the first without matrix units; none where there are not two.
using SchedulePair = std::function<std::optional<std::array<Schedule, 2>>(const Op& fused)>;
/// The rule's schedules for the target: without and with matrix units.
SchedulePair matrixSchedules(const Target& target);
/// Which square products are timed. Where matrices are computed a thousand times as slowly as they should be, the first
/// one still ends before a driver gives up on it. Each next one has twice its sides, while a dispatch without matrix
/// units takes less than `leastMicroseconds`, of which launching it is a part.
struct ProductSides {
  int64_t first = 512, most = 2048;
  double leastMicroseconds = 50;
};
/// Times a product of this precision by both schedules: of f16 or bf16 in memory, or of f32 there by f32x3. Nothing where
/// there are not two, or no timestamps. `shaders` is spirv-emit's option cache.
Result<std::optional<MatrixFigures>> measureProduct(const std::shared_ptr<vulkan::Device>& device,
                                                    const std::string& precision, const SchedulePair& pair,
                                                    const std::string& shaders,
                                                    const ProductSides& sides = {});

/// A module's target, and what a user should know of it, or "": told when a process first has the figures.
struct ChosenTarget {
  Target target;
  std::string note;
};
/// The target that a module is compiled for on a device: the device's own, without matrix units where those do not pay.
/// That is measured where nothing is kept in the cache folder ("" is none), once in a process. A device that
/// cannot be measured keeps them.
ChosenTarget targetFor(const Module& module, const std::shared_ptr<vulkan::Device>& device,
                       const std::string& cache);
/// The same by what is kept, for a device that is not open.
Target keptTarget(const Module& module, const vulkan::DeviceInfo& device, const std::string& cache);

/// targetFor with another way to measure.
using Measure = std::function<Result<std::optional<MatrixFigures>>()>;
ChosenTarget targetFor(const Module& module, const vulkan::DeviceInfo& device, const std::string& cache,
                       const Measure& measure);

}  // namespace tg
