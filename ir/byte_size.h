// SPDX-License-Identifier: Apache-2.0
// Byte counts as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/result.h"

namespace tg {

/// Parses `8GiB`, `1.5 MiB`, `512KB`, `4096`: a number and a unit, at least 1 byte. Units are B, KiB, MiB, GiB, TiB
/// (powers of 1024) and KB, MB, GB, TB (of 1000), in letters of any case. An error says what is expected.
Result<int64_t> parseBytes(std::string_view text);

/// `512 B`, `12.5 KiB`, `13.0 MiB`: uses the larger unit from 10 of it on.
std::string sizeText(int64_t bytes);

}  // namespace tg
