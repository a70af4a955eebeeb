// SPDX-License-Identifier: Apache-2.0
// Turns failed allocations into errors: a program may ask for more memory than there is.
#pragma once

#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ir/result.h"

namespace tg {

/// Calls `body` and returns its Result; if an allocation in it fails, an error at `loc` that names `what`.
template <class Body>
auto withinMemory(const Loc& loc, std::string_view what, Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // thrown by a container: more than it can ever hold
  }
  return failAt(loc, fmt::format("{}: out of memory", what));
}

}  // namespace tg
