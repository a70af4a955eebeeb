// SPDX-License-Identifier: Apache-2.0
// What kernels need, and whether a target or a device gives it. The one place that measures kernels and the one
// that compares: whoever lowers, runs, judges or ships kernels asks here.
//
//   KernelNeeds needs = needsOf(kernel);              of its text: invocations, shared bytes, bindings, features
//   addGrid(needs, grid), addRange(needs, …);         of its dispatches
//   addCode(needs, binary.code, target);              of its SPIR-V
//   for (const Unmet& each : unmet(needs, limitsOf(target))) …
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/location.h"
#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg {

#include "ir/limits.inc"

/// What a target promises to the kernels compiled for it. What a target does not tell, such as texel views and
/// 64-bit integers, it gives.
Limits limitsOf(const Target& target);
/// One of them without the others. In bytes where it is one of bytes.
int64_t limitOf(const Target& target, LimitId id);
inline bool gives(const Target& target, LimitId id, int64_t amount) { return amount <= limitOf(target, id); }
/// Gives a target what there is, as far as the kernel language goes; what is not limited it keeps.
void setLimits(Target& target, const Limits& limits);
/// A target's matrix product as kernels and manifests name it.
MatrixProduct productOf(const CoopShape& shape);
/// The shape of a tgk.coopmat_mma.
CoopShape shapeOf(const Op& product);

/// What a kernel's text needs wherever it is dispatched: workgroup, shared memory, buffers and views, and what
/// its ops do. Loops are counted by addLoops, which takes longer.
KernelNeeds needsOf(const Item& kernel);
/// What one op adds wherever it stands: subgroups, products of matrices.
void addOp(KernelNeeds& needs, const Op& op);
/// The iterations of all loops of an invocation together, at most; where data decide, the most there can be.
void addLoops(KernelNeeds& needs, const Item& kernel);
/// Workgroups along each axis.
void addGrid(KernelNeeds& needs, std::span<const int64_t> extents);
/// Bytes that a parameter is bound to. `texelBytes` is 0 for storage, else the bytes of a texel.
void addRange(KernelNeeds& needs, int64_t offset, int64_t bytes, int64_t texelBytes);
/// The capabilities that whole SPIR-V declares; with one of subgroups, the width that `made` promises kernels.
void addCode(KernelNeeds& needs, std::span<const uint32_t> code, const Target& made);
/// The larger amounts of both, and what either uses.
void join(KernelNeeds& into, const KernelNeeds& other);

/// A JSON object with a member for each limit, and `subgroup`, `capabilities` and `coopmat`: what a bundle's
/// manifest says and its loader reads.
std::string needsToJson(const KernelNeeds& needs);

/// "it has 9 storage buffers and the limit is 8", "it needs f16 storage (…), which the device lacks".
std::string sentence(const Unmet& need);
/// `who` has more than the target gives: "the kernel @k has 9 storage buffers, more than the 8 of target 'x'".
Error overLimit(const Loc& loc, std::string_view who, const Unmet& need, const Target& target);
/// `what` takes `bytes`, more than the `most` that one binding may span, with a note that says what to change.
Error overBinding(const Loc& loc, std::string_view what, int64_t bytes, int64_t most, const Target& target);
/// Bytes that one value may take: of a binding, and of a buffer.
int64_t mostBytes(const Target& target);

/// Refuses a module made for larger limits than the device has, naming each and both numbers. Features are
/// asked for by kernels, one by one.
Result<void> checkLimits(const Target& made, const Target& device, std::string_view deviceName);

}  // namespace tg
