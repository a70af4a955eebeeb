// SPDX-License-Identifier: Apache-2.0
// What the inference of one op reads, and its rule for each row. Private to ir/infer*.cpp.
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

/// The op, its operands' types, its module.
struct Context {
  const Op& op;
  const Module* module;

  const Type& in(int index) const { return op.in(index)->type; }
  const Shape& shape(int index) const { return in(index).shape; }
  /// A labelled error; notes where operand `note` was defined.
  Error error(int constraint, std::string message, int note = -1) const {
    std::string_view name = op.info().name;
    std::string label(name.substr(name.find('.') + 1));
    Error out = failAt(op.loc, fmt::format("{} [{}.c{}]: {}", name, label, constraint, message));
    if (note >= 0 && op.operands[note].value)
      return std::move(out).note(op.operands[note].value->loc,
                                 fmt::format("%{} is defined here", op.operands[note].value->name));
    return out;
  }
  std::string_view label() const { return op.info().name; }
  /// An error with the constraint's number where `dtype` lacks the number of an attribute.
  Result<void> mayHold(DType dtype, double number, int constraint, std::string_view attribute) const {
    if (represents(number, dtype)) return {};
    return error(constraint, fmt::format("{} {} is no {}", attribute, formatReal(number), name(dtype)));
  }
  /// An error with the constraint's number where attribute `eps`, which is added to a square before its root, is none.
  Result<void> mayBeEps(double eps, int constraint) const {
    if (eps >= 0 && std::isfinite(eps)) return {};
    return error(constraint, fmt::format("eps = {} is not 0 or more and finite", formatReal(eps)));
  }
  /// The type the op already has, for ops whose type is free.
  Result<Type> declared() const {
    if (op.results.empty()) return failAt(op.loc, fmt::format("{}: the result type must be given", label()));
    return op.results[0]->type;
  }
};

/// Axes that are distinct and in range of a rank; else an error with the constraint's number.
Result<void> checkAxes(const Context& c, const std::vector<int64_t>& axes, int rank, int constraint);

/// The types of what a row's op gives, or what is wrong with it. Each row without a scalar has a definition, in the
/// file of its family; a program without it does not link, and says which row it lacks.
#define OP(id, ...) Result<Types> types(at::id, const Context& c);
#include "ir/ops.def"
#undef OP

/// What the region of a tg.fused may hold beside a tg.custom.
Result<void> customRegion(const Context& c);

}  // namespace tg::inference
