// SPDX-License-Identifier: Apache-2.0
// Checks whether a batch may be run in parts with the same result.
#pragma once

#include <unordered_set>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Whether the loss of a function of stage tensor, its first result, is the mean of the losses of equal parts of its batch,
/// so that the mean of their gradients is the gradient of the whole. The error names an op for which this fails: it joins
/// rows of the batch other than by a mean at the end, draws random numbers, updates a state, or makes another result that
/// depends on the batch. Ops that the check does not know also fail.
Result<void> checkMeanOfParts(const Item& func);

/// The values of such a function that are known to have a row for each row of its batch, which depends on no other.
std::unordered_set<const Value*> rowsOfBatch(const Item& func);

}  // namespace tg
