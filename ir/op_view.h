// SPDX-License-Identifier: Apache-2.0
// Access to the operands and attributes of an op by their names in ir/ops.def, generated from its rows:
//
//   as::matmul m(op);                       at::matmul::rhs      the number of an operand in its row
//   m.lhs(), m.rhs(), m.transpose_a()       context.in(at::matmul::rhs)
//
// A name that the row does not have is a compile error.
#pragma once

#include <cassert>

#include "ir/module.h"

// NOLINTBEGIN(readability-identifier-naming): the names are those of the rows.
// clang-format off
namespace tg {

/// Numbers of operands. An optional operand may be missing; a variadic one extends to the last operand.
namespace at {
#define operands(...) __VA_ARGS__
#define val(name, type) name,
#define opt(name, type) name,
#define vals(name, type) name,
#define sym(name) name,
#define lit(name) name,
#define callee(name) name,
#define bind(name) name,
#define key(name) name,
#define arglist(name) name,
#define OP(id, text, slots, ...) struct id { enum At : int { slots }; };
#include "ir/ops.def"
#include "ir/rows_end.def"
}  // namespace at

namespace view_reads {
inline const Operand& operandAt(const Op& op, int place, [[maybe_unused]] std::string_view name) {
  assert(op.info().slots[place].name == name && "an op of another form");
  return op.operands[static_cast<size_t>(place)];
}
/// Null where an optional operand is missing.
inline Value* valueAt(const Op& op, int place, std::string_view name) {
  return place < op.numOperands() ? operandAt(op, place, name).value : nullptr;
}
inline std::vector<Value*> valuesFrom(const Op& op, int place) {
  std::vector<Value*> out;
  for (int index = place; index < op.numOperands(); ++index) out.push_back(op.in(index));
  return out;
}
inline std::string wordOf(const Op& op, std::string_view name) { return op.word(name); }
}  // namespace view_reads

/// A view of an op as one of a given row. An op of the same family, with the same operands and attributes, may be
/// viewed by another row of it.
class OpView {
 public:
  explicit OpView(const Op& op) : op_(op) {}
  const Op& op() const { return op_; }

 private:
  const Op& op_;
};

namespace as {
#define operands(...) __VA_ARGS__
#define val(name, type) Value* name() const { return view_reads::valueAt(this->op(), At::name, #name); }
#define opt(name, type) val(name, type)
#define vals(name, type) std::vector<Value*> name() const { return view_reads::valuesFrom(this->op(), At::name); }
#define sym(name) const std::string& name() const { return view_reads::operandAt(this->op(), At::name, #name).text; }
#define lit(name) const Operand& name() const { return view_reads::operandAt(this->op(), At::name, #name); }
#define callee(name) sym(name)
#define bind(name)
#define key(name) const Operand* name() const { return this->op().keyword(#name); }
#define arglist(name)
#define attributes(...) __VA_ARGS__
#define index(name, fallback) int64_t name() const { return this->op().intAttr(#name); }
#define real(name, fallback) double name() const { return this->op().realAttr(#name); }
#define flag(name, fallback) bool name() const { return this->op().flag(#name); }
#define text(name, fallback) std::string name() const { return view_reads::wordOf(this->op(), #name); }
#define word(name, fallback, choices) text(name, fallback)
#define ints(name, ...) std::vector<int64_t> name() const { return this->op().ints(#name); }
#define anyattr(name, fallback) const Attr& name() const { return this->op().attr(#name); }
#define OP(id, name, slots, attrs, ...) \
  class id : public OpView {            \
    using At = at::id;                  \
                                        \
   public:                              \
    using OpView::OpView;               \
    slots attrs                         \
  };
#include "ir/ops.def"
#include "ir/rows_end.def"
}  // namespace as

}  // namespace tg
// clang-format on
// NOLINTEND(readability-identifier-naming)
