// SPDX-License-Identifier: Apache-2.0
// Changes to kernels after form-regions: maps that move from one kernel into those that read their values.
#pragma once

#include "ir/module.h"
#include "ir/target.h"
#include "passes/fuse/slice.h"

namespace tg::fuse {

/// The first argument of a kernel that is bound to this value alone, or null.
const Value* argFor(const Op& op, const Value& value);
/// Whether a kernel writes no groups and has a schedule that any map can be added to.
bool takesMaps(const Op& op);
/// Whether a kernel that maps can be taken from reads no groups either.
bool isPlain(const Op& op);
/// Whether an op computes each element from the same elements of its operands, without random draws.
bool isElementwise(const Op& op);
/// Whether a kernel reads each element of an argument only to compute the same element of another value, or to sum.
bool readsByElement(const Op& op, const Value& arg);
/// Whether a product reads a value as a factor, maybe through views and casts: many times, once for each tile of its result.
/// The same for ops whose kernels have forms of their own.
bool isFactor(const Value& value);

/// Puts the slice of the kernel `from`, whose value is `inner`, into the reader's region in place of the argument.
void computeArg(Op& reader, const Value* arg, const Op& from, const Slice& slice, const Value* inner,
                const Target& target);
/// Removes one result of a kernel, and the ops that only it needs.
void dropResult(Op& fused, int slot, const Target& target);

}  // namespace tg::fuse
