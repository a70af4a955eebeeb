// SPDX-License-Identifier: Apache-2.0
// The target that a tensor module carries on its way through fuse.
#pragma once

#include <string_view>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg::fuse {

/// The target that set-target wrote on the module; an error that names the pass where none did.
Result<Target> targetOn(const Module& module, std::string_view pass);

}  // namespace tg::fuse
