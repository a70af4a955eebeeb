// SPDX-License-Identifier: Apache-2.0
// Serializes ops, attributes and types to bytes: keys by which equal ops, regions and kernels are found. Equal regions
// are lowered once, and a schedule measured for one is used for all.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ir/module.h"

namespace tg {

/// Numbers values in the order in which they are first seen, so that the bytes do not depend on addresses.
class ValueNumbering {
 public:
  size_t of(const Value* value) { return numbers_.try_emplace(value, numbers_.size()).first->second; }

 private:
  std::unordered_map<const Value*, size_t> numbers_;
};

/// Appends ops and their parts. Lists and texts start with their length, so that different trees have different
/// bytes; values are written as their numbers. Names of values, locations and places are left out. Reals are written
/// as their bits, so that -0 differs from 0.
class OpBytes {
 public:
  explicit OpBytes(ValueNumbering& numbers) : numbers_(numbers) {}

  template <class Number>
  void number(Number value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out_.append(bytes, sizeof value);
  }
  void count(size_t value) { number(static_cast<uint32_t>(value)); }
  void text(std::string_view text) {
    count(text.size());
    out_ += text;
  }
  void value(const Value* value) { count(numbers_.of(value)); }
  void type(const Type& type);
  void attrs(const AttrList& attrs, std::string_view leftOut = "");
  void operand(const Operand& operand);
  void operands(const OperandList& operands);
  /// The results as values and types, and their groups.
  void results(const Op& op);
  /// An op with its regions.
  void op(const Op& op);
  /// The arguments and the ops.
  void block(const Block& block);

  std::string take() { return std::move(out_); }

 private:
  void attr(const Attr& attr);

  ValueNumbering& numbers_;
  std::string out_;
};

/// Keys are equal exactly for ops without regions that compute the same: name, operands, attributes, result types. The
/// operands of a commutative op may be in either order. The key is bytes, not text.
std::string keyOf(const Op& op, ValueNumbering& numbers);

/// Equal for tg.fused ops that differ only in names, locations, sources of bindings, places and schedules: the types
/// of block arguments, ops, attributes, result types and groups agree. The key is binary.
std::string regionKey(const Op& fused);

/// Equal for kernels that differ only in names and locations: workgroup, grid, attributes, parameter types and ops
/// agree. The key is binary.
std::string kernelKey(const Item& kernel);
/// A hash that is equal for kernels with equal keys, and much cheaper to compute.
uint64_t quickHash(const Item& kernel);

}  // namespace tg
