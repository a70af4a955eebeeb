// SPDX-License-Identifier: Apache-2.0
#include "ir/op_bytes.h"

namespace tg {

void OpBytes::type(const Type& type) {
  number(type.kind);
  number(type.dtype);
  number(type.lanes);
  number(type.mode);
  number(type.texel);
  number(type.use);
  count(static_cast<size_t>(type.rank()));
  for (int64_t dim : type.shape) number(dim);
}

void OpBytes::attr(const Attr& attr) {
  number(attr.kind);
  number(attr.angle);
  number(attr.integer);
  number(attr.real);
  text(attr.text);
  count(attr.list.size());
  for (const Attr& element : attr.list) this->attr(element);
  attrs(attr.dict);
}

void OpBytes::attrs(const AttrList& attrs, std::string_view leftOut) {
  count(attrs.size() - (find(attrs, leftOut) != nullptr));
  for (const NamedAttr& named : attrs) {
    if (named.name == leftOut) continue;
    text(named.name);
    attr(named.value);
  }
}

void OpBytes::operand(const Operand& operand) {
  number(operand.kind);
  number(operand.value != nullptr);
  if (operand.value) value(operand.value);
  text(operand.text);
  if (operand.isLiteral()) {
    number(operand.isInteger);
    number(operand.integer);
    number(operand.real);
  }
  operands(operand.items);
}

void OpBytes::operands(const OperandList& operands) {
  count(operands.size());
  for (const Operand& each : operands) operand(each);
}

void OpBytes::results(const Op& op) {
  count(op.groups.size());
  for (int members : op.groups) number(members);
  count(op.results.size());
  for (const auto& result : op.results) {
    value(result.get());
    type(result->type);
  }
}

void OpBytes::op(const Op& op) {
  text(op.info().name);  // the name, not the number, which changes when ops are added to the table
  operands(op.operands);
  attrs(op.attrs);
  results(op);
  count(op.regions.size());
  for (const auto& region : op.regions) block(*region);
}

void OpBytes::block(const Block& block) {
  count(block.args.size());
  for (const auto& arg : block.args) {
    value(arg.get());
    type(arg->type);
  }
  count(block.ops.size());
  for (Op* entry : block.ops) op(*entry);
}

}  // namespace tg
