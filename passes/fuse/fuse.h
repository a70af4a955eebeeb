// SPDX-License-Identifier: Apache-2.0
// The parts of fuse. Private to passes/fuse*.cpp.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"
#include "passes/pass.h"

namespace tg::fuse {

/// Puts casts around the ops on f16 and bf16, which kernels compute in f32.
void computeInF32(Module& module, Item& func);
/// Whether an op is a cast from memory's type to the one kernels compute with, which changes no value.
bool isWidening(const Op& op);

/// Rewrites that make regions possible: a reduced cross entropy into rows and a mean, row composites
/// to the last axis, long reductions into two stages, joins of more tensors than a kernel may bind into
/// joins of joins, large scatters with blocks to skip, an attention's gradient into its two kernels and
/// short attentions into matmul, softmax, matmul.
void prepare(Module& module, Item& func, const Target& target);

/// Merges all updates of an optimizer into one tg.fused over groups, and the gradient norm's sums of
/// squares into another. Other ops stay tensor ops.
void flattenOptimizer(Module& module, Item& func, const Target& target);

/// What is known of a kernel besides its text.
struct KernelNote {
  std::string holds;  ///< the tensor ops it computes, where they stand in parts
  std::string more;   ///< why its first op starts a kernel, and with which others it stands
};
using KernelNotes = std::unordered_map<const Op*, KernelNote>;

/// Partitions the function's remaining tensor ops into tg.fused regions and gives each a schedule. Notes are
/// taken where `notes` is not null.
void formRegions(Item& func, const Target& target, KernelNotes* notes);

/// Moves elementwise ops, whose result one kernel stores for another alone, into the one that reads it: where
/// what they read is stored in any case.
void sinkMaps(Item& func, const Target& target);

/// Puts kernels that do not depend on each other into one: reductions and few elements side by side, with a
/// schedule of parts, and passes over the same rows together. None is put off past its first reader, and no
/// more bytes are alive at one time than before.
void mergeKernels(Item& func, const Target& target, KernelNotes* notes);

/// The tensor ops a kernel computes; its last view where it does nothing else.
std::string opsOf(const Op& region);
/// What `--report` says of a value or a kernel.
struct Report {
  Loc loc;
  std::string text;
};
/// Of the function's kernels, in their order.
std::vector<Report> reportKernels(const Item& func, const KernelNotes& notes);

/// Lowers the function's peak of memory: values of at least so many bytes that cheap ops compute from others
/// which are alive anyway are computed again where they are read after the peak. Returns what to say of each.
std::vector<Report> recompute(Module& module, Item& func, const Target& target, int64_t least);

/// Completes the schedules of a function by what all its kernels together tell; the last to be done.
void settleSchedules(Item& func, const Target& target, const PassContext& context);

/// Gives the regions of a function the schedules that the table has for them; `used` collects the
/// keys that were met.
void applyTuning(Item& func, const AttrList& tuning, std::unordered_set<std::string>& used);

/// Whether an op is copied into every region that reads it: views, constants, iota, masks computed from
/// those.
bool isInline(const Op& op);
/// Whether a value is a view, constant or iota other than reshapes of something that stands in memory.
bool isInlineBelowReshapes(Value& value);
/// Views are copied into their readers; of a long chain of them, one in so many becomes a kernel's result:
/// adds it to `forced`.
void boundViews(const Item& func, std::unordered_map<const Op*, const Op*>& forced);
/// Arithmetic that is no more work than to read what it computes.
bool isCheapMap(const Op& op);
/// Whether an op stands for memory outside of kernels: parameters, states, updates, what is returned or kept.
bool isBoundary(const Op& op);
/// The value a chain of order-preserving views starts from.
Value* throughReshapes(Value* value);
/// A divisor of n that is at most `limit`, the largest there is; 1 when there is none.
int64_t divisorUpTo(int64_t n, int64_t limit);

}  // namespace tg::fuse
