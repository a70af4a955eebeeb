// SPDX-License-Identifier: Apache-2.0
// Turns exceptions into errors: of functions that a user passes to the library, and of failed allocations, since a
// program may ask for more memory than there is.
#pragma once

#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "ir/result.h"

namespace tg {

/// Runs `body`, which calls a function of the user. Returns the text of the exception that it threw, or nothing.
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

/// Calls `body` and returns its Result; if an allocation in it fails, an error at `loc` that names `what`.
template <class Body>
auto withinMemory(const Loc& loc, std::string_view what, Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // thrown by a container: more than it can ever hold
  }
  return failAt(loc, "{}: out of memory", what);
}

}  // namespace tg
