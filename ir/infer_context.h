// What the inference rules of all families share. Part of infer.cpp and infer_<family>.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// What every inference reads: the op, its operands' types, its place in the module.
struct InferContext {
  const Op& op;
  const Module* module;
  const Item* func;

  const Type& in(int index) const { return op.in(index)->type; }
  const Shape& shape(int index) const { return in(index).shape; }
  /// A labelled error; notes where operand `note` was defined.
  Error error(int constraint, std::string message, int note = -1) const;
  std::string_view label() const { return op.info().name; }
  /// The type the op already has, for ops whose type is free.
  Result<Type> declared() const;
};

/// unfold, fold, convolution and pooling.
Result<std::vector<Type>> inferWindow(const InferContext& context);

}  // namespace tg
