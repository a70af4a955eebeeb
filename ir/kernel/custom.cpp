// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/custom.h"

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
