// SPDX-License-Identifier: Apache-2.0
// Memory that is not to be had as an error: what a program asks for, it may ask too much.
#pragma once

#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ir/result.h"

namespace tg {

/// The Result of `body`; an error that names `what`, at `loc`, where an allocation in it fails.
template <class Body>
auto withinMemory(const Loc& loc, std::string_view what, Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // of a container: more than it can ever hold
  }
  return failAt(loc, fmt::format("{}: out of memory", what));
}

}  // namespace tg
