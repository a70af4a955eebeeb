// SPDX-License-Identifier: Apache-2.0
// Types of tg.custom: checks the kernel's parameters against the operands and the declared results.
#include <algorithm>

#include "ir/infer_context.h"
#include "ir/kernel/axis_names.h"
#include "ir/kernel/custom.h"
#include "ir/kernel/rewrites.h"
#include "ir/op_view.h"
#include "ir/text.h"

namespace tg::inference {

namespace {

/// Whether a tensor can bind to a buffer by element type. An i32 may bind to u32. An i1 binds to a u32 of 0 or 1 that
/// is only read: nothing guarantees that a kernel would write only 0 and 1.
bool elementsFit(const Type& tensor, const Type& buffer) {
  if (tensor.dtype == buffer.dtype) return tensor.dtype != DType::i1;
  if (buffer.dtype != DType::u32) return false;
  return tensor.dtype == DType::i32 || (tensor.dtype == DType::i1 && buffer.mode == BufMode::in);
}

Result<void> checkCounts(const Context& c, const Item& kernel, const std::vector<CustomParam>& params) {
  int inputs = 0, results = 0;
  for (const CustomParam& param : params) {
    inputs += param.input >= 0;
    results += param.result >= 0;
  }
  if (results == 0) return c.error(2, "@{} has no result", kernel.name);
  if (c.op.numOperands() - 1 != inputs)
    return c.error(2, "@{} has {} in and inout parameters, {}", kernel.name, inputs,
                   countText(c.op.numOperands() - 1, "input is given", "inputs are given"));
  if (static_cast<int>(c.op.results.size()) != results)
    return c.error(2, "@{} has {} out, inout, accum and tape parameters, {}", kernel.name, results,
                   countText(c.op.results.size(), "result is named", "results are named"));
  return {};
}

Result<void> checkFit(const Context& c, const Value& param, const Value& value, int note) {
  const Type& buffer = param.type;
  std::string pair = fmt::format("%{}: {} is bound to {}: {}", param.name, buffer.str(),
                                 value.name.empty() ? "a result" : "%" + value.name, value.type.str());
  if (!buffer.isBuffer() || buffer.mode == BufMode::shared || buffer.mode == BufMode::local || buffer.texel)
    return c.errorAt(note, 3, "{}; only plain buffers are bound", pair);
  if (!elementsFit(value.type, buffer)) return c.errorAt(note, 3, "{}: the elements differ", pair);
  if (boundShape(value.type, buffer)) return {};
  std::string hint;
  if (buffer.lanes > 1)
    hint = fmt::format(", the last extent counts vectors of {}", buffer.lanes);
  else if (value.type.rank() == 0)
    hint = ", a scalar is bound as one element of one axis: buf<1x…>";
  return c.errorAt(note, 3, "{}: the {} differ{}", pair,
                   std::max(value.type.rank(), 1) == buffer.rank() ? "extents" : "ranks", hint);
}

/// Checks that axes of one name have one extent.
Result<void> checkNames(const Context& c, const Item& kernel) {
  const std::vector<Shape> shapes = boundShapes(c.op, kernel);
  struct Known {
    std::string name;
    const Value* param;
    int64_t extent;
  };
  std::vector<Known> all;
  for (size_t index = 0; index < shapes.size(); ++index) {
    const Value& param = *kernel.body.args[index];
    const std::vector<std::string> names = axisNames(param);
    for (size_t axis = 0; axis < names.size(); ++axis) {
      if (names[axis].empty()) continue;
      const int64_t extent = shapes[index][static_cast<int>(axis)];
      auto known = std::ranges::find_if(all, [&](const Known& each) { return each.name == names[axis]; });
      if (known == all.end())
        all.push_back({names[axis], &param, extent});
      else if (known->extent != extent)
        return c.error(6, "{} is {} in %{}: {} and {} in %{}: {}", names[axis], known->extent,
                       known->param->name, namedType(*known->param), extent, param.name, namedType(param));
    }
  }
  return {};
}

/// Checks that `batch = [0, -1]` names open axes.
Result<void> checkBatch(const Context& c, const Item& kernel, const std::vector<CustomParam>& params) {
  std::vector<int64_t> axes = as::custom(c.op).batch();
  if (axes.empty()) return {};
  if (axes.size() != c.op.results.size())
    return c.error(5, "batch gives {} for {}", countText(axes.size(), "axis", "axes"),
                   countText(c.op.results.size(), "result"));
  for (size_t index = 0; index < params.size(); ++index) {
    if (params[index].result < 0) continue;
    const Value& arg = *kernel.body.args[index];
    int64_t axis = axes[static_cast<size_t>(params[index].result)];
    if (axis == -1) continue;
    if (axis < 0 || axis >= arg.type.rank() || arg.type.shape[static_cast<int>(axis)] != Shape::kDynamic)
      return c.error(5, "axis {} of %{}: {} is not open", axis, arg.name, arg.type.str());
  }
  return {};
}

}  // namespace

static bool isReshape(const Op& op) { return op.code == Opcode::reshape || op.code == Opcode::stop_gradient; }

Result<void> customRegion(const Context& c) {
  const Op* custom = customOf(c.op);
  if (!custom) return {};
  bool alone = c.op.groups.empty();
  for (const Operand& binding : c.op.operands) alone = alone && !binding.bindsGroup();
  for (Op* op : c.op.regions[0]->ops)
    alone = alone && (op == custom || isReshape(*op) || op->code == Opcode::yield);
  for (int input = 1; alone && input < custom->numOperands(); ++input) {
    const Value* value = custom->in(input);
    while (value->def && isReshape(*value->def)) value = value->def->in(0);
    alone = !value->def;
  }
  const Op* yield = c.op.regions[0]->terminator();
  bool all = yield->operands.size() == custom->results.size();
  for (size_t index = 0; all && index < custom->results.size(); ++index)
    all = yield->in(static_cast<int>(index)) == custom->results[index].get();
  if (alone && all) return {};
  return c.error(3, "a region with tg.custom may contain only reshapes of its inputs besides, and must yield "
                    "all its results in order");
}

Result<Types> types(at::custom, const Context& c) {
  Types out;
  for (const auto& result : c.op.results) out.push_back(result->type);
  if (!c.module) return out;
  const Item* kernel = customKernel(c.op, *c.module);
  if (!kernel) return c.error(1, "there is no kernel @{}", c.op.operands[0].text);
  std::vector<CustomParam> params = customParams(*kernel);
  TG_CHECK(checkCounts(c, *kernel, params));
  for (size_t index = 0; index < params.size(); ++index) {
    const Value& arg = *kernel->body.args[index];
    const auto [input, result] = params[index];
    if (input >= 0) TG_CHECK(checkFit(c, arg, *c.op.in(input + 1), input + 1));
    if (result >= 0) TG_CHECK(checkFit(c, arg, *c.op.result(result), -1));
    if (input >= 0 && result >= 0 && !(c.in(input + 1) == c.op.result(result)->type))
      return c.errorAt(input + 1, 3, "%{} takes {} and gives {}", arg.name, c.in(input + 1).str(),
                       c.op.result(result)->type.str());
  }
  TG_CHECK(checkNames(c, *kernel));
  TG_CHECK(checkBatch(c, *kernel, params));
  const std::vector<Shape> shapes = boundShapes(c.op, *kernel);
  if (auto grid = evaluateGrid(*kernel, shapes); !grid) return c.error(4, "{}", grid.error().message());
  if (auto inside = checkIndices(*kernel, shapes); !inside) {
    const Diagnostic& access = inside.error().diagnostics().front();
    return c.error(7, "{}", access.message).note(access.loc, "the access is here");
  }
  return out;
}

}  // namespace tg::inference
