// SPDX-License-Identifier: Apache-2.0
// The hash that identifies texts and bytes in modules, checkpoints and caches.
#pragma once

#include <string>
#include <string_view>

namespace tg {

/// XXH3-64 of the bytes as 16 hexadecimal digits.
std::string textHash(std::string_view bytes);

}  // namespace tg
