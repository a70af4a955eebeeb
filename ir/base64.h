// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, with padding), for binary data in text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tg {

std::string base64Encode(std::string_view bytes);
/// Nothing if the text is not valid base64.
std::optional<std::string> base64Decode(std::string_view text);

}  // namespace tg
