// SPDX-License-Identifier: Apache-2.0
// Canonicalisation of kernels: simplifies a kernel that computes the same bits (except for the payload of a NaN). No sum is
// reassociated, and x·0 stays for floats. A kernel that runs without findings of the interpreter (race, access out of
// range, element written twice) still does; an access that is dropped or moved takes its findings with it.
//
// All functions require a kernel that verifies and leave one. Two parameters must not share bytes that the kernel writes;
// those of a tg.custom never do.
#pragma once

#include <vector>

#include "ir/module.h"

namespace tg {

/// Applies all of the parts below until nothing changes. Idempotent.
void simplifyKernel(Item& kernel);

/// Replaces known values by literals and by equal values: arithmetic on literals, identities that hold for every value,
/// extents, branches with a known condition, loops of no trip or one, carried values that do not change. Ops that lose their
/// readers stay; dropDead removes them.
void foldConstants(Item& kernel);

/// Merges equal pure ops, and equal loads of buffers that the kernel does not write, into the first one in scope.
void mergeEqual(Item& kernel);

/// Removes dead code: pure ops, loops and ifs without effect, carried values and results, stores to shared, local and tape
/// buffers that are never loaded, the declarations of buffers, and barriers with no access to order. Parameters stay.
void dropDead(Item& kernel);

/// Removes the parameters that neither the kernel nor its grid uses, except those with `keep` (one entry for each
/// parameter). Returns for each old parameter whether it is still there.
std::vector<bool> dropUnusedParams(Item& kernel, const std::vector<bool>& keep);

/// Moves loop-invariant ops in front of the loop: pure ops, also from inside of ifs, and loads of memory that the loop does
/// not change. A load that may not run moves only if its index is certainly in range and the kernel does not write the
/// buffer.
void hoistInvariants(Item& kernel);

/// Replaces trees in shared memory that reduce one value of each invocation by tgk.workgroup_reduce. Requires: the workgroup
/// is 1-d, a power of two, and as large as the buffer, and the strides halve, which is the order of workgroup_reduce. The
/// rest of a tree is removed as dead code.
void recogniseReductions(Item& kernel);

/// Renames values that share their name with another value of the kernel, as moving ops between scopes requires.
void makeNamesUnique(Item& kernel);

}  // namespace tg
