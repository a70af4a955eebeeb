// SPDX-License-Identifier: Apache-2.0
// What the inference of one op reads, and the families of ops that infer in files of their own. Private to
// ir/infer*.cpp.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
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
  /// The type the op already has, for ops whose type is free.
  Result<Type> declared() const {
    if (op.results.empty()) return failAt(op.loc, fmt::format("{}: the result type must be given", label()));
    return op.results[0]->type;
  }
};

/// Axes that are distinct and in range of a rank; else an error with the constraint's number.
Result<void> checkAxes(const Context& c, const std::vector<int64_t>& axes, int rank, int constraint);

/// flip, swap_axes, stack, split, tile, where_causal, take_along_axis and its gradient.
Result<Types> structure(const Context& c);
/// param, state, update and param_grad.
Result<Types> symbol(const Context& c);
/// unfold, fold, convolution and pooling.
Result<Types> window(const Context& c);
/// adam_update and sgd_update.
Result<Types> optimizer(const Context& c);
/// all_reduce, reduce_scatter, all_gather.
Result<Types> collective(const Context& c);
/// attention and its gradients.
Result<Types> attention(const Context& c);

// ir/infer_custom.cpp
Result<Types> custom(const Context& c);
/// What the region of a tg.fused may hold beside a tg.custom.
Result<void> customRegion(const Context& c);

// ir/infer_random.cpp
Result<Types> randomUniform(const Context& c);
Result<Types> randomNormal(const Context& c);
Result<Types> dropout(const Context& c);
Result<Types> categorical(const Context& c);

// ir/infer_transformer.cpp
Result<Types> causalMask(const Context& c);
Result<Types> crossEntropy(const Context& c);
Result<Types> crossEntropyGrad(const Context& c);
Result<Types> rmsNorm(const Context& c);
Result<Types> rmsNormGrad(const Context& c);
Result<Types> rope(const Context& c);

}  // namespace tg::inference
