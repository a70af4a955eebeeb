// SPDX-License-Identifier: Apache-2.0
#include "runtime/interp/kernel_interp.h"

#include <fmt/format.h>

#include <bit>
#include <memory>
#include <vector>

#include "ir/builder.h"
#include "ir/kernel/inline.h"
#include "ir/text.h"
#include "runtime/interp/kernel_machine.h"
#include "runtime/interp/kernel_program.h"

namespace tg {
namespace {

constexpr uint32_t kLargestSubgroup = 128;  // the number of bits in a ballot
/// The most invocations of a dispatch. They are numbered by a u32, and this many take minutes even if each does almost
/// nothing.
constexpr int64_t kMostInvocations = int64_t{1} << 30;

/// The extents of a parameter in this run.
Result<Shape> boundShape(const Item& kernel, const Value& param, const KernelBuffer& buffer, bool wide) {
  const Type& type = param.type;
  auto bad = [&](const std::string& what) {
    return failAt(kernel.loc, "kernel @{}: %{} {}", kernel.name, param.name, what);
  };
  int64_t lane = kernelElementBytes(type.dtype, wide);
  Shape shape = type.shape;
  if (buffer.shape.rank() > 0) {
    bool fits = buffer.shape.rank() == shape.rank();
    for (int axis = 0; fits && axis < shape.rank(); ++axis)
      fits = shape[axis] == Shape::kDynamic ? buffer.shape[axis] >= 0 : shape[axis] == buffer.shape[axis];
    if (!fits) return bad(fmt::format("is {}, not of shape {}", type.str(), buffer.shape.str()));
    shape = buffer.shape;
  } else if (shape.rank() > 0 && shape[0] == Shape::kDynamic) {
    shape[0] = 1;
    bool settled = true;
    for (int64_t extent : shape) settled &= extent != Shape::kDynamic;
    int64_t row = settled ? shape.elements() * type.lanes * lane : 0;
    shape[0] = row > 0 ? buffer.bytes / row : Shape::kDynamic;
  }
  for (int64_t extent : shape)
    if (extent == Shape::kDynamic) return bad(fmt::format("is {}, and no shape is given", type.str()));
  int64_t needed = shape.elements() * type.lanes * lane;
  if (buffer.bytes < needed) return bad(fmt::format("needs {} bytes, {} are given", needed, buffer.bytes));
  return shape;
}

const Op* firstCall(const Block& block) {
  for (Op* op : block.ops) {
    if (op->code == Opcode::k_call) return op;
    for (const auto& region : op->regions)
      if (const Op* found = firstCall(*region)) return found;
  }
  return nullptr;
}

Result<void> checkRun(const Item& kernel, std::array<int64_t, 3> grid, const KernelRunOptions& options) {
  for (int64_t extent : grid)
    if (extent < 1) return failAt(kernel.loc, "kernel @{}: a grid extent of {}", kernel.name, extent);
  const auto& group = kernel.workgroup;
  if (Shape{grid[0], grid[1], grid[2], group[0], group[1], group[2]}.elements() > kMostInvocations)
    return failAt(kernel.loc,
                  "kernel @{}: its grid is {} x {} x {} workgroups, of {} each; the interpreter runs up to "
                  "{} invocations in all",
                  kernel.name, grid[0], grid[1], grid[2],
                  countText(group[0] * group[1] * group[2], "invocation"), kMostInvocations);
  if (!std::has_single_bit(options.subgroupSize) || options.subgroupSize > kLargestSubgroup)
    return failAt(kernel.loc, "kernel @{}: a subgroup size of {}, not a power of two up to {}", kernel.name,
                  options.subgroupSize, kLargestSubgroup);
  const Op* call = options.module ? nullptr : firstCall(kernel.body);
  if (call)
    return failAt(call->loc, "kernel @{} calls @{}, and the run is given no module to find it in",
                  kernel.name, call->operands[0].text);
  return {};
}

}  // namespace

Result<KernelCounters> runKernel(const Item& kernel, std::span<KernelBuffer> buffers,
                                 std::array<int64_t, 3> grid, const KernelRunOptions& options) {
  const auto& params = kernel.body.args;
  if (buffers.size() != params.size())
    return failAt(kernel.loc, "kernel @{} has {}, {}", kernel.name, countText(params.size(), "buffer"),
                  countText(buffers.size(), "is given", "are given"));
  std::vector<Shape> shapes;
  for (size_t index = 0; index < params.size(); ++index) {
    TG_TRY(Shape shape, boundShape(kernel, *params[index], buffers[index], options.wide));
    shapes.push_back(shape);
  }
  TG_CHECK(checkRun(kernel, grid, options));
  std::unique_ptr<Item> inlined;
  if (firstCall(kernel.body)) {
    inlined = cloneItem(kernel);
    inlineCalls(*options.module, *inlined);
  }
  const Item& flat = inlined ? *inlined : kernel;
  Program program = flatten(flat, shapes, options.subgroupSize);
  if (options.wide) return KernelMachine<double>(flat, program, buffers, grid, options).run();
  return KernelMachine<float>(flat, program, buffers, grid, options).run();
}

std::string firstOf(const std::vector<std::string>& findings) {
  return findings[0] + (findings.size() > 1 ? fmt::format(" (and {} more)", findings.size() - 1) : "");
}

}  // namespace tg
