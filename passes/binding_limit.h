// SPDX-License-Identifier: Apache-2.0
// What exceeds the bytes that one storage binding may span: one error for the places that find it.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/location.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg {

/// `what` takes `bytes`, more than the `most` of the target, with a note that says what a user can change.
Error overBinding(const Loc& loc, std::string_view what, int64_t bytes, int64_t most, const Target& target);

}  // namespace tg
