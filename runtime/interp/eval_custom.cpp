// tg.custom: the kernel of the module, lane by lane, on arrays.
#include <fmt/format.h>

#include "ir/kernel/custom.h"
#include "ir/kernel/specialize.h"
#include "runtime/interp/element_bytes.h"
#include "runtime/interp/eval_ops.h"
#include "runtime/interp/kernel_interp.h"

namespace tg {

namespace {

std::vector<std::byte> bytesOf(const NdArray& array) {
  const auto size = static_cast<size_t>(byteSize(array.type.dtype));
  std::vector<std::byte> bytes(array.data.size() * size);
  for (size_t i = 0; i < array.data.size(); ++i)
    encodeElement(array.type.dtype, array.data[i], bytes.data() + i * size);
  return bytes;
}

/// What a parameter finds in its buffer.
std::vector<std::byte> startBytes(const Op& op, const CustomParam& param, BufMode mode,
                                  std::span<const NdArray* const> inputs) {
  if (param.input >= 0) return bytesOf(*inputs[static_cast<size_t>(param.input)]);
  std::vector<std::byte> bytes(static_cast<size_t>(op.result(param.result)->type.bytes()));
  if (mode != BufMode::accum) poisonBytes(bytes);
  return bytes;
}

NdArray arrayOf(const Type& type, const std::vector<std::byte>& bytes) {
  NdArray array = NdArray::zeros(type);
  const auto size = static_cast<size_t>(byteSize(type.dtype));
  for (size_t i = 0; i < array.data.size(); ++i)
    array.data[i] = decodeElement(type.dtype, bytes.data() + i * size);
  return array;
}

}  // namespace

Result<std::vector<NdArray>> evalCustom(const Op& op, std::span<const NdArray* const> inputs,
                                        EvalContext& context) {
  const Item* source = context.module ? customKernel(op, *context.module) : nullptr;
  if (!source)
    return failAt(op.loc, fmt::format("tg.custom: the kernel @{} is not at hand", op.operands[0].text));
  const std::unique_ptr<Item> kernel = specialize(*source, boundShapes(op, *source));
  const std::vector<CustomParam> params = customParams(*source);
  std::vector<std::vector<std::byte>> memory;
  std::vector<KernelBuffer> buffers;
  for (size_t index = 0; index < params.size(); ++index)
    memory.push_back(startBytes(op, params[index], kernel->body.args[index]->type.mode, inputs));
  for (std::vector<std::byte>& bytes : memory)
    buffers.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
  std::array<int64_t, 3> grid{1, 1, 1};
  for (size_t axis = 0; axis < grid.size(); ++axis) grid[axis] = kernel->grid[axis].integer;
  TG_TRY(KernelCounters counted, runKernel(*kernel, buffers, grid, context.kernel));
  if (!counted.findings.empty())
    return failAt(op.loc, fmt::format("tg.custom: @{}: {}", source->name, counted.findings[0]))
        .note(source->loc, fmt::format("@{} is here", source->name));
  std::vector<NdArray> results;
  for (size_t index = 0; index < params.size(); ++index)
    if (params[index].result >= 0)
      results.push_back(arrayOf(op.result(params[index].result)->type, memory[index]));
  return results;
}

}  // namespace tg
