// SPDX-License-Identifier: Apache-2.0
// The form of schedules: how a region becomes one kernel, as it stands behind `schedule =` and in tuning
// files.
#pragma once

#include "ir/attr.h"
#include "ir/result.h"

namespace tg {

/// Checks the kind of a schedule, that its fields are the kind's, and each number's range. Whether the
/// numbers suit a region, such as a tile that divides a product, is judged where the kernel is made
/// (codegen/lower.h).
Result<void> verifySchedule(const Attr& schedule);

}  // namespace tg
