// SPDX-License-Identifier: Apache-2.0
// What kernels need (limits and features), and whether a target or a device provides it. The only place that measures
// kernels and compares: lowering, the runtime, the verifier and the bundler all use it.
//
//   KernelNeeds needs = needsOf(kernel);              from its text: invocations, shared bytes, bindings, features
//   addGrid(needs, grid), addRange(needs, …);         from its dispatches
//   addCode(needs, binary.code, target);              from its SPIR-V
//   for (const Unmet& each : unmet(needs, limitsOf(target))) …
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "ir/location.h"
#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg {

#include "ir/limits.inc"

/// The limits that a target guarantees to the kernels compiled for it. A property that targets do not have, such as
/// texel views and 64-bit integers, counts as unlimited.
Limits limitsOf(const Target& target);
/// One limit of a target; in bytes if it is a limit of bytes.
int64_t limitOf(const Target& target, LimitId id);
inline bool gives(const Target& target, LimitId id, int64_t amount) { return amount <= limitOf(target, id); }
/// Sets the target's limits, but no higher than the kernel language allows; properties without a limit are unchanged.
void setLimits(Target& target, const Limits& limits);
/// A target's matrix product in the form that kernels and manifests use.
MatrixProduct productOf(const CoopShape& shape);
/// The shape of the product of a tgk.coopmat_mma.
CoopShape shapeOf(const Op& product);

/// What a kernel needs in every dispatch, from its text: workgroup, shared memory, buffers and views, and the
/// features of its ops. Does not count loops: addLoops does and takes longer.
KernelNeeds needsOf(const Item& kernel);
/// Adds what one op needs wherever it is used: subgroups, matrix products.
void addOp(KernelNeeds& needs, const Op& op);
/// Adds the most iterations that all loops of one invocation make together; if data decides, the most that is
/// possible.
void addLoops(KernelNeeds& needs, const Item& kernel);
/// Adds the workgroups along each axis.
void addGrid(KernelNeeds& needs, std::span<const int64_t> extents);
/// Adds the byte range that a parameter is bound to. `texelBytes` is 0 for a storage buffer, else the bytes of a
/// texel.
void addRange(KernelNeeds& needs, int64_t offset, int64_t bytes, int64_t texelBytes);
/// Adds the capabilities that a SPIR-V module declares; if it uses subgroups, also the width that the target `made`
/// guarantees.
void addCode(KernelNeeds& needs, std::span<const uint32_t> code, const Target& made);
/// Makes `into` require what either requires: for each limit the stricter amount, and all features.
void join(KernelNeeds& into, const KernelNeeds& other);

/// A JSON object with a member for each limit, and `subgroup`, `capabilities` and `coopmat`, as a bundle's manifest
/// has it.
nlohmann::ordered_json needsToJson(const KernelNeeds& needs);

/// An unmet need in words: "it has 9 storage buffers and the limit is 8", "it needs f16 storage (…), which the device
/// lacks".
std::string sentence(const Unmet& need);
/// The error that `who` exceeds a limit of the target: "the kernel @k has 9 storage buffers, more than the 8 of
/// target 'x'".
Error overLimit(const Loc& loc, std::string_view who, const Unmet& need, const Target& target);
/// The error that `what` takes `bytes`, more than the `most` of one binding, with a note that says what to change;
/// and one that says how many `others` do, which are no larger.
Error overBinding(const Loc& loc, std::string_view what, int64_t bytes, int64_t most, const Target& target,
                  int64_t others = 0);
/// The most bytes of one value: limited by a binding and by a buffer.
int64_t mostBytes(const Target& target);

/// An error if the limits of the target `made`, for which a module was compiled, are larger than the device's; names
/// each limit with both numbers. Features are not compared: each kernel asks for its own.
Result<void> checkLimits(const Target& made, const Target& device, std::string_view deviceName);

}  // namespace tg
