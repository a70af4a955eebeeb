// SPDX-License-Identifier: Apache-2.0
#include "ir/op_bytes.h"

#include <algorithm>
#include <bit>
#include <vector>

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

static std::string bytesOf(const Operand& operand, ValueNumbering& numbers) {
  OpBytes bytes(numbers);
  bytes.operand(operand);
  return bytes.take();
}

std::string keyOf(const Op& op, ValueNumbering& numbers) {
  OpBytes bytes(numbers);
  bytes.number(op.code);
  if (op.info().has(table::commutative)) {
    std::vector<std::string> operands;
    for (const Operand& operand : op.operands) operands.push_back(bytesOf(operand, numbers));
    std::ranges::sort(operands);
    for (const std::string& operand : operands) bytes.text(operand);
  } else {
    bytes.operands(op.operands);
  }
  bytes.attrs(op.attrs);
  for (const auto& result : op.results) bytes.type(result->type);
  return bytes.take();
}

std::string regionKey(const Op& fused) {
  ValueNumbering numbers;
  OpBytes bytes(numbers);
  bytes.attrs(fused.attrs, "schedule");
  bytes.block(*fused.regions[0]);
  bytes.results(fused);
  return bytes.take();
}

std::string kernelKey(const Item& kernel) {
  ValueNumbering numbers;
  OpBytes bytes(numbers);
  for (int64_t extent : kernel.workgroup) bytes.number(extent);
  bytes.operands(kernel.grid);
  bytes.attrs(kernel.attrs);
  bytes.block(kernel.body);
  return bytes.take();
}

uint64_t quickHash(const Item& kernel) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio: spreads close numbers
  uint64_t hash = 0;
  auto add = [&](uint64_t number) {
    hash = (hash ^ number) * kFactor;
    hash ^= hash >> 32;
  };
  for (int64_t extent : kernel.workgroup) add(static_cast<uint64_t>(extent));
  walk(kernel.body, [&](const Op& op) {
    add(static_cast<uint64_t>(op.code));
    for (const Operand& operand : op.operands) {
      add(static_cast<uint64_t>(operand.kind));
      add(static_cast<uint64_t>(operand.integer));
      add(std::bit_cast<uint64_t>(operand.real));
    }
  });
  return hash;
}

}  // namespace tg
