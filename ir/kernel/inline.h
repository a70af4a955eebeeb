// SPDX-License-Identifier: Apache-2.0
// Inlining of helper funcs, and shared pieces of kernel rewrites.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace tg {

/// Replaces every tgk.call in a kernel (or in a func of kernel scalars) by the body of the func it names, calls
/// inside that body included. Values get names that are free in the kernel and keep their locations. With
/// `keepOwnVjp`, calls of funcs with a gradient of their own stay. The module must verify: the funcs exist and none
/// calls itself.
void inlineCalls(const Module& module, Item& kernel, bool keepOwnVjp = false);

/// Gives the values that an op and its bodies define names that are free in `names`.
void rename(Op& op, NameTable& names);

/// Builds an op that defines a literal as a value: a literal itself takes its type from its place.
Value* literalValue(Builder& builder, const Operand& literal, const Type& type, std::string hint);

/// A tgk.for over a body whose arguments are the index and one carried value for each of `first`, the initial values.
/// It has no results yet; the body may still be empty.
std::unique_ptr<Op> makeLoop(std::unique_ptr<Block> body, Operand from, Operand to, Operand step,
                             const OperandList& first, const Loc& loc);

/// Removes results of a tgk.for or tgk.if, those at the places where `gone` is true, together with the values that
/// the bodies yield for them and, for a loop, the carried values. Nothing may read them.
void removeCarried(Op& op, const std::vector<bool>& gone);

}  // namespace tg
