// SPDX-License-Identifier: Apache-2.0
// Calls of helper funcs, replaced by the funcs' bodies, and what else rewrites of kernels build.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace tg {

/// Replaces every tgk.call in a kernel (or in a func of kernel scalars) by the body of the func it names,
/// calls inside that included; values get names that are free in the kernel and keep their locations. With
/// `keepOwnVjp`, calls of funcs that name their own gradient stay. The module must verify: the funcs exist
/// and none calls itself.
void inlineCalls(const Module& module, Item& kernel, bool keepOwnVjp = false);

/// Gives what an op and its bodies define names that are free there.
void rename(Op& op, NameTable& names);

/// Builds a literal, which only its place gives a type, as a value of its own.
Value* literalValue(Builder& builder, const Operand& literal, const Type& type, std::string hint);

/// A tgk.for over a body whose arguments are the index and, for each of `first`, a carried value. It has no
/// results yet; the body may still be empty.
std::unique_ptr<Op> makeLoop(std::unique_ptr<Block> body, Operand from, Operand to, Operand step,
                             const OperandList& first, const Loc& loc);

/// Takes results of a tgk.for or tgk.if away, by their places, with what its bodies yield for them and, of a loop, the
/// values that it carries. Nobody reads them.
void removeCarried(Op& op, const std::vector<bool>& gone);

}  // namespace tg
