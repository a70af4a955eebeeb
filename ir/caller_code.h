// SPDX-License-Identifier: Apache-2.0
// Functions that a caller hands to the library: what they throw becomes an error.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace tg {

/// Runs `body`, which calls such a function: what it threw, as text, or nothing.
template <class Body>
std::optional<std::string> thrownBy(Body&& body) {
  try {
    std::forward<Body>(body)();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
  return std::nullopt;
}

}  // namespace tg
