// SPDX-License-Identifier: Apache-2.0
// What a misspelt name may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tg {

/// The known name nearest to a misspelt one, or "" when none is near.
std::string nearestName(std::string_view name, const std::vector<std::string>& known);

}  // namespace tg
