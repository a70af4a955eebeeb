// SPDX-License-Identifier: Apache-2.0
// Gives a named axis of functions another extent; a part of set-dim.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"

namespace tg {

/// The requested change, and the pass for messages.
struct NewDim {
  std::string pass, name;
  int64_t n = 0;
  template <class... Args>
  Error error(const Loc& loc, int constraint, fmt::format_string<Args...> format, Args&&... args) const {
    return passError(pass, loc, constraint, format, std::forward<Args>(args)...);
  }
};

/// Gives the axes of an argument, a parameter or a state that have the name the new extent; returns these axes.
Result<std::vector<int>> resizeDeclared(const NewDim& dim, std::string_view holder, const Loc& loc,
                                        const AttrList& attrs, Type& type);

/// Resizes the functions of a module. Parameters and states have their new types in it already; `before` has the old types
/// of those with the axis. Remarks random numbers that have the old extent and were not resized.
Result<void> resizeFunctions(const Module& module, const std::vector<Item*>& functions, const NewDim& dim,
                             const std::unordered_map<std::string, Type>& before, const PassContext& context);

}  // namespace tg
