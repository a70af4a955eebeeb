// SPDX-License-Identifier: Apache-2.0
// Evaluates tg.custom: runs the module's kernel lane by lane on arrays.

#include "ir/kernel/custom.h"
#include "ir/kernel/inline.h"
#include "ir/kernel/rewrites.h"
#include "runtime/interp/element_bytes.h"
#include "runtime/interp/eval_ops.h"
#include "runtime/interp/kernel_interp.h"

namespace tg {

namespace {

/// Converts tensor elements to the kernels' representation in memory. In wide runs, floats stay f64.
class KernelBytes {
 public:
  explicit KernelBytes(bool wide) : wide_(wide) {}

  std::vector<std::byte> room(const Type& type) const {
    return std::vector<std::byte>(static_cast<size_t>(type.elements()) * size(type));
  }
  std::vector<std::byte> store(const NdArray& array) const {
    std::vector<std::byte> bytes = room(array.type);
    for (size_t i = 0; i < array.data.size(); ++i) {
      std::byte* to = bytes.data() + i * size(array.type);
      if (asDouble(array.type))
        storeBytes(array.data[i], to);
      else
        encodeElement(array.type.dtype, array.data[i], to);
    }
    return bytes;
  }
  NdArray load(const Type& type, const std::vector<std::byte>& bytes) const {
    NdArray array = NdArray::zeros(type);
    for (size_t i = 0; i < array.data.size(); ++i) {
      const std::byte* from = bytes.data() + i * size(type);
      array.data[i] = asDouble(type) ? loadBytes<double>(from) : decodeElement(type.dtype, from);
    }
    return array;
  }
  /// The initial contents of a parameter's buffer: its input, zeros to accumulate to, or undefined.
  std::vector<std::byte> start(const Op& op, const CustomParam& param, BufMode mode,
                               std::span<const NdArray* const> inputs) const {
    if (param.input >= 0) return store(*inputs[static_cast<size_t>(param.input)]);
    const Type& type = op.result(param.result)->type;
    if (mode == BufMode::accum) return room(type);
    if (asDouble(type)) return store(NdArray::filled(type, std::nan("")));
    std::vector<std::byte> bytes = room(type);
    poisonBytes(bytes);
    return bytes;
  }

 private:
  size_t size(const Type& type) const { return static_cast<size_t>(kernelElementBytes(type.dtype, wide_)); }
  bool asDouble(const Type& type) const { return wide_ && isFloat(type.dtype); }
  bool wide_;
};

}  // namespace

Result<std::vector<NdArray>> evalCustom(const Op& op, std::span<const NdArray* const> inputs,
                                        EvalContext& context) {
  const Item* source = context.module ? customKernel(op, *context.module) : nullptr;
  if (!source) return failAt(op.loc, "tg.custom: the kernel @{} is not available", op.operands[0].text);
  const std::unique_ptr<Item> kernel = specialize(*source, boundShapes(op, *source));
  inlineCalls(*context.module, *kernel);
  const std::vector<CustomParam> params = customParams(*source);
  KernelRunOptions options = context.kernel;
  options.wide = !context.exact;
  // The kernel may leave elements of a result unwritten if only slices read it. Behind a region these are not seen.
  for (const CustomParam& param : params)
    options.complete.push_back(
        param.result >= 0 && std::ranges::any_of(op.result(param.result)->uses, [](const Use& use) {
          return use.user()->code != Opcode::slice && use.user()->code != Opcode::yield;
        }));
  const KernelBytes memory(options.wide);
  std::vector<std::vector<std::byte>> bytes;
  for (size_t index = 0; index < params.size(); ++index)
    bytes.push_back(memory.start(op, params[index], kernel->body.args[index]->type.mode, inputs));
  std::vector<KernelBuffer> buffers;
  for (std::vector<std::byte>& each : bytes)
    buffers.push_back({each.data(), static_cast<int64_t>(each.size())});
  std::array<int64_t, 3> grid{1, 1, 1};
  for (size_t axis = 0; axis < grid.size(); ++axis) grid[axis] = kernel->grid[axis].integer;
  TG_TRY(KernelCounters counted, runKernel(*kernel, buffers, grid, options));
  if (!counted.findings.empty())
    return failAt(op.loc, "tg.custom: @{}: {}", source->name, firstOf(counted.findings))
        .note(source->loc, "@{} is here", source->name);
  std::vector<NdArray> results;
  for (size_t index = 0; index < params.size(); ++index)
    if (params[index].result >= 0)
      results.push_back(memory.load(op.result(params[index].result)->type, bytes[index]));
  return results;
}

}  // namespace tg
