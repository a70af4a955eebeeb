// SPDX-License-Identifier: Apache-2.0
// Calls functions that a user passes to the library, and turns what they throw into errors.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace tg {

/// Runs `body`, which calls such a function. Returns the text of the exception that it threw, or nothing.
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
