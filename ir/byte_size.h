// SPDX-License-Identifier: Apache-2.0
// Numbers of bytes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/result.h"

namespace tg {

/// `8GiB`, `1.5 MiB`, `512KB`, `4096`: a number, at least 1 byte, and B, KiB, MiB, GiB, TiB (powers of 1024) or
/// KB, MB, GB, TB (of 1000), in letters of any case. An error says what is expected.
Result<int64_t> parseBytes(std::string_view text);

/// `512 B`, `12.5 KiB`, `13.0 MiB`: a larger unit from ten of it on.
std::string sizeText(int64_t bytes);

}  // namespace tg
