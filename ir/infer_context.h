// SPDX-License-Identifier: Apache-2.0
// The input of inference for one op, and a rule for each row of the op table. Private to ir/infer*.cpp.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "ir/infer.h"
#include "ir/module.h"
#include "ir/op_view.h"
#include "ir/result.h"

namespace tg::inference {

using Types = std::vector<Type>;

/// An op, its operands' types and its module.
struct Context {
  const Op& op;
  const Module* module;

  const Type& in(int index) const { return op.in(index)->type; }
  const Shape& shape(int index) const { return in(index).shape; }
  /// An error with the constraint's label.
  template <class... Args>
  Error error(int constraint, fmt::format_string<Args...> format, Args&&... args) const {
    std::string_view name = op.info().name, label = name.substr(name.find('.') + 1);
    return failAt(op.loc, "{} [{}.c{}]: {}", name, label, constraint,
                  fmt::format(format, std::forward<Args>(args)...));
  }
  /// The same with a note at the definition of an operand, unless `operand` is negative.
  template <class... Args>
  Error errorAt(int operand, int constraint, fmt::format_string<Args...> format, Args&&... args) const {
    Error out = error(constraint, format, std::forward<Args>(args)...);
    if (const Value* value = operand < 0 ? nullptr : op.operands[operand].value)
      out.addNote(value->loc, "%{} is defined here", value->name);
    return out;
  }
  /// An error for the constraint unless an operand has the type of the first one.
  Result<void> isLikeFirst(int operand, int constraint) const {
    if (in(operand) == in(0)) return {};
    return errorAt(operand, constraint, "types differ: {} and {}", in(0).str(), in(operand).str());
  }
  /// The same for the element types of two operands.
  Result<void> haveOneElement(int first, int operand, int constraint) const {
    const DType one = in(first).dtype, other = in(operand).dtype;
    if (one == other) return {};
    return errorAt(operand, constraint, "element types differ: {} and {}", name(one), name(other));
  }
  /// The axis that an attribute names. An error for the constraint, with a note at operand `noted` unless that is
  /// negative, if it is out of range for the rank.
  Result<int> axisOf(std::string_view attr, int rank, int constraint, int noted = -1) const {
    const int64_t given = op.intAttr(attr);
    const int axis = normalAxis(given, rank);
    if (axis < 0) return errorAt(noted, constraint, "axis {} is out of range for rank {}", given, rank);
    return axis;
  }
  std::string_view label() const { return op.info().name; }
  /// An error for the constraint if `dtype` cannot represent the number of an attribute.
  Result<void> mayHold(DType dtype, double number, int constraint, std::string_view attribute) const {
    if (represents(number, dtype)) return {};
    return error(constraint, "{} {} is not a value of type {}", attribute, formatReal(number), name(dtype));
  }
  /// An error for the constraint unless the attribute `eps`, which is added before a root, is finite and not
  /// negative.
  Result<void> mayBeEps(double eps, int constraint) const {
    if (eps >= 0 && std::isfinite(eps)) return {};
    return error(constraint, "eps = {} is not 0 or more and finite", formatReal(eps));
  }
  /// The declared type, for ops whose type does not follow from operands.
  Result<Type> declared() const {
    if (op.results.empty()) return failAt(op.loc, "{}: the result type must be given", label());
    return op.results[0]->type;
  }
};

/// Checks that axes are distinct and in range of a rank; the error is that of the constraint.
Result<void> checkAxes(const Context& c, const std::vector<int64_t>& axes, int rank, int constraint);

/// The result types of an op of each row, or what is wrong with it. Each row without a scalar function has a
/// definition, in the file of its family. A program that lacks one does not link, and the linker's message names the
/// row.
#define OP(id, ...) Result<Types> types(at::id, const Context& c);
#include "ir/ops.def"
#undef OP

/// Checks that the region of a tg.fused holds nothing but reshapes beside a tg.custom.
Result<void> customRegion(const Context& c);

}  // namespace tg::inference
