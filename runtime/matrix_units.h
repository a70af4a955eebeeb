// SPDX-License-Identifier: Apache-2.0
// Decides whether products use a device's matrix units. Some drivers offer matrix units but emulate them with ordinary
// arithmetic, far more slowly than a kernel without them. So a product is timed both ways, once for each device and
// driver, when the first module that could use matrix units is compiled.
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

/// The measured rates of one product, in GFLOP/s.
struct MatrixFigures {
  double matrices = 0, scalars = 0;
  bool operator==(const MatrixFigures&) const = default;
};

/// Matrix units are used if they are faster by at least this factor. Real ones are faster by 2 and more; emulated ones
/// are slower than the arithmetic that emulates them. Below this factor, kernels without matrix units are preferable:
/// they take any extents, and compute epilogues in registers.
constexpr double kMatrixGain = 1.25;
bool matricesPay(const MatrixFigures& figures);
/// One line on a device's matrix units: their extension, shapes and measured rates. "" if the device has none.
std::string matrixLine(const Target& device, const std::optional<MatrixFigures>& figures);

/// The same target without matrix units.
Target withoutMatrices(Target target);
/// The device's target, without matrix units if the figures show that these are too slow.
Target targetFrom(const vulkan::DeviceInfo& device, const std::optional<MatrixFigures>& figures);
/// Whether the choice makes a difference for a module: it is of stage tensor, has an op on 16-bit values or of a
/// precision other than f32, and has no kernel that asks for matrix units itself.
bool choosesMatrices(const Module& module);

/// The file in a cache folder with the figures for this device and driver; "" if `cache` is "".
std::string matrixFile(const std::string& cache, const vulkan::DeviceInfo& device);
/// The figures in a file; nothing if it is absent, damaged or of another version of the kernels.
std::optional<MatrixFigures> readMatrixFigures(const std::string& file);
Result<void> writeMatrixFigures(const std::string& file, const MatrixFigures& figures);

/// Gives two schedules for a product's region, the first without matrix units; nothing if there are not two.
using SchedulePair = std::function<std::optional<std::array<Schedule, 2>>(const Op& fused)>;
/// The schedules that the target's rule chooses without and with matrix units.
SchedulePair matrixSchedules(const Target& target);
/// The sizes of square products to time. The first is so small that even if emulated matrix units are a thousand times
/// too slow, the dispatch ends before the driver's timeout. The size doubles, up to `most`, while a dispatch without
/// matrix units takes less than `leastMicroseconds`: of so short a dispatch, the launch is a large part.
struct ProductSides {
  int64_t first = 512, most = 2048;
  double leastMicroseconds = 50;
};
/// Times a product of this precision with both schedules: operands in memory are f16 or bf16, or f32 for f32x3. Nothing
/// if there are not two schedules, or the device has no timestamps. `shaders` is spirv-emit's option cache.
Result<std::optional<MatrixFigures>> measureProduct(const std::shared_ptr<vulkan::Device>& device,
                                                    const std::string& precision, const SchedulePair& pair,
                                                    const std::string& shaders,
                                                    const ProductSides& sides = {});

/// The target for a module, and a note for the user or "". The note is given once, when the process first measures or
/// reads the figures.
struct ChosenTarget {
  Target target;
  std::string note;
};
/// The target to compile a module for: the device's own, without matrix units if these are too slow. This is measured
/// if the cache folder ("" means none) has no figures yet, and at most once in a process. If the device cannot be
/// measured, its target keeps the matrix units.
ChosenTarget targetFor(const Module& module, const std::shared_ptr<vulkan::Device>& device,
                       const std::string& cache);
/// The same from the cached figures alone, for a device that is not open.
Target keptTarget(const Module& module, const vulkan::DeviceInfo& device, const std::string& cache);

/// targetFor with another way to measure, for tests.
using Measure = std::function<Result<std::optional<MatrixFigures>>()>;
ChosenTarget targetFor(const Module& module, const vulkan::DeviceInfo& device, const std::string& cache,
                       const Measure& measure);

}  // namespace tg
