// SPDX-License-Identifier: Apache-2.0
// Compute pipelines from SPIR-V.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"
#include "runtime/vulkan/device.h"
#include "runtime/vulkan/statistics.h"

namespace tg::vulkan {

/// How a kernel accesses a buffer: as storage, or as read-only texels of one or four components.
enum class BindingKind : uint8_t {
  storage,
  texelF32,
  texelF32x4,
  texelI32,
  texelI32x4,
  texelU32,
  texelU32x4
};

/// One row for each kind, in the order of the enum.
struct BindingRow {
  BindingKind kind;
  std::string_view name;
  DType dtype;  ///< of a texel's components
  int lanes;    ///< components of a texel; 0 for storage
};
inline constexpr BindingRow kBindingRows[] = {
    {BindingKind::storage, "storage", DType::u32, 0},  {BindingKind::texelF32, "f32", DType::f32, 1},
    {BindingKind::texelF32x4, "f32x4", DType::f32, 4}, {BindingKind::texelI32, "i32", DType::i32, 1},
    {BindingKind::texelI32x4, "i32x4", DType::i32, 4}, {BindingKind::texelU32, "u32", DType::u32, 1},
    {BindingKind::texelU32x4, "u32x4", DType::u32, 4},
};
constexpr const BindingRow& rowOf(BindingKind kind) { return kBindingRows[static_cast<size_t>(kind)]; }
constexpr std::string_view name(BindingKind kind) { return rowOf(kind).name; }
/// Bytes of one texel; 0 for storage.
constexpr int64_t texelBytes(BindingKind kind) { return rowOf(kind).lanes * byteSize(rowOf(kind).dtype); }

/// A compiled kernel with the entry point "main". Its bindings are in descriptor set 0, numbered by their position in
/// the list.
struct KernelCode {
  std::string name;
  std::vector<uint32_t> spirv;
  std::vector<BindingKind> bindings;
  uint32_t subgroupSize = 0;  ///< the subgroup width that the code relies on; 0 if none
  int64_t sharedBytes = 0;    ///< that the kernel declares; reported beside the driver's figure
};

struct PipelineState;

/// A kernel ready to be dispatched on one device. Equal kernels share one pipeline, with the first one's name.
class Pipeline {
 public:
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  const std::string& name() const { return name_; }
  const std::vector<BindingKind>& bindings() const { return bindings_; }
  const Device& device() const { return *device_; }
  /// Empty unless the device was opened for statistics.
  const KernelStatistics& statistics() const { return statistics_; }

  /// For the other files of this folder.
  const PipelineState& state() const { return *state_; }

 private:
  friend struct PipelineMaker;
  Pipeline() = default;
  std::string name_;
  std::vector<BindingKind> bindings_;
  KernelStatistics statistics_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<PipelineState> state_;
};

/// Receives each kernel's name and compilation time.
using CompileTimes = std::function<void(const std::string& kernel, double seconds)>;

/// Creates one pipeline for each kernel, in order, compiling on all processors. Equal code is compiled once, also
/// across calls while a pipeline with this code exists. A single error names every kernel that cannot be used, each
/// with the driver's answer or the limit that it exceeds.
Result<std::vector<std::shared_ptr<Pipeline>>>
createPipelines(Device& device, std::span<const KernelCode> kernels, const CompileTimes& took = {});

}  // namespace tg::vulkan
