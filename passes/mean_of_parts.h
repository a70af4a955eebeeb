// SPDX-License-Identifier: Apache-2.0
// Whether a batch may be run in parts without another result.
#pragma once

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Whether the loss of a function of stage tensor, its first result, is the mean of the losses of equal parts of its
/// batch, so that the mean of their gradients is the gradient of the whole. The error names the op that says no: one
/// that joins rows of the batch otherwise than by a mean at the end, draws random numbers, updates a state, or gives
/// another result that depends on the batch. An op that this does not know says no too.
Result<void> checkMeanOfParts(const Item& func);

}  // namespace tg
