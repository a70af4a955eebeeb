// SPDX-License-Identifier: Apache-2.0
// Canonicalisation of kernels: what a kernel computes stays bit for bit (the payload of a NaN apart), the
// text gets shorter. No sum is reassociated and x·0 stays for floats. A kernel that runs without a finding
// (race, access out of range, element written twice) still does; accesses that are dropped or moved take
// their findings with them.
//
// All of these take a kernel that verifies and leave one. Two parameters must not share bytes that the kernel
// writes, as a tg.custom's never do.
#pragma once

#include <vector>

#include "ir/module.h"

namespace tg {

/// All of the parts below, until nothing changes. Doing it twice is doing it once.
void simplifyKernel(Item& kernel);

/// Replaces what is known by literals and by what it equals: arithmetic on literals, identities that hold for
/// every value, extents, branches whose condition is known, loops of no trip or one, carried values that stay
/// as they start. What loses its readers stays; dropDead removes it.
void foldConstants(Item& kernel);

/// Merges equal pure ops, and equal loads of what nobody writes, into the first one in scope.
void mergeEqual(Item& kernel);

/// Removes what nobody reads: pure ops, loops and ifs without effect, carried values and results, stores to
/// shared, local and tape buffers that are never loaded, the declarations of buffers, and barriers
/// with no access to order. Parameters stay.
void dropDead(Item& kernel);

/// Removes the parameters that nothing in the kernel or its grid names, except those that `keep` (one entry
/// for each parameter) holds on to. Returns for each old parameter whether it is still there.
std::vector<bool> dropUnusedParams(Item& kernel, const std::vector<bool>& keep);

/// Moves what is the same in every trip of a loop before it: pure ops, also from inside of ifs, and loads of
/// memory that the loop does not change. A load that may not have been done moves only when its index is
/// in range for certain and nobody writes the buffer.
void hoistInvariants(Item& kernel);

/// Replaces trees in shared memory that fold one value of each invocation by tgk.workgroup_reduce, where the
/// workgroup is 1-d, a power of two, as large as the buffer, and the strides halve, which is the order of
/// workgroup_reduce. What is left of a tree goes with all that is dead.
void recogniseReductions(Item& kernel);

/// Gives a value whose name another value of the kernel has a name of its own, as moving ops between scopes
/// needs.
void makeNamesUnique(Item& kernel);

}  // namespace tg
