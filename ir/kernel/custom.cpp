// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/custom.h"

#include "ir/kernel/axis_names.h"

#include <cassert>

namespace tg {

std::vector<CustomParam> customParams(const Item& kernel) {
  std::vector<CustomParam> params;
  int inputs = 0, results = 0;
  for (const auto& arg : kernel.body.args) {
    CustomParam param;
    BufMode mode = arg->type.mode;
    if (mode == BufMode::in || mode == BufMode::inout) param.input = inputs++;
    if (mode != BufMode::in) param.result = results++;
    params.push_back(param);
  }
  return params;
}

std::optional<Shape> boundShape(const Type& tensor, const Type& buffer) {
  Shape shape = tensor.shape;
  if (shape.rank() == 0) shape.push(1);
  if (shape.rank() != buffer.rank() || shape.back() % buffer.lanes != 0) return std::nullopt;
  shape[shape.rank() - 1] /= buffer.lanes;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (buffer.shape[axis] != Shape::kDynamic && buffer.shape[axis] != shape[axis]) return std::nullopt;
  return shape;
}

std::vector<Shape> boundShapes(const Op& custom, const Item& kernel) {
  std::vector<CustomParam> params = customParams(kernel);
  std::vector<Shape> shapes;
  for (size_t index = 0; index < params.size(); ++index) {
    const CustomParam& param = params[index];
    const Value* value = param.result >= 0 ? custom.result(param.result) : custom.in(param.input + 1);
    std::optional<Shape> shape = boundShape(value->type, kernel.body.args[index]->type);
    assert(shape && "boundShapes: inference refuses this tg.custom");
    shapes.push_back(*shape);
  }
  return shapes;
}

std::vector<std::optional<Shape>> namedResults(const Op& custom, const Item& kernel) {
  const std::vector<CustomParam> params = customParams(kernel);
  AxisExtents extents;
  for (size_t i = 0; i < params.size(); ++i)
    if (const Value& param = *kernel.body.args[i]; params[i].input >= 0)
      if (const auto shape = boundShape(custom.in(params[i].input + 1)->type, param.type))
        addExtents(param, *shape, extents);
  std::vector<std::optional<Shape>> out(custom.results.size());
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].result < 0) continue;
    const Value& param = *kernel.body.args[i];
    const Shape& declared = custom.result(params[i].result)->type.shape;
    std::optional<Shape>& shape = out[static_cast<size_t>(params[i].result)];
    shape = declared.rank() == 0 ? declared : namedShape(param, extents);
    if (shape && declared.rank() > 0 && param.type.lanes > 1) (*shape)[shape->rank() - 1] *= param.type.lanes;
  }
  return out;
}

const Item* customKernel(const Op& custom, const Module& module) {
  return module.find(ItemKind::kernel, custom.operands[0].text);
}

const Op* customOf(const Op& fused) {
  if (fused.regions.empty()) return nullptr;
  for (Op* op : fused.regions[0]->ops)
    if (op->code == Opcode::custom) return op;
  return nullptr;
}

int customBinding(const Op& fused, const Op& custom, int input) {
  const Value* value = custom.in(input + 1);
  while (value->def) value = value->def->in(0);
  for (int binding = 0; binding < fused.numOperands(); ++binding)
    if (fused.operands[binding].value == value) return binding;
  return -1;
}

}  // namespace tg
