// SPDX-License-Identifier: Apache-2.0
// Lists items of a module in messages, and checks patterns of their names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"

namespace tg {

/// The names of items as `@a, @b`, or `none`.
inline std::string namesOf(const std::vector<Item*>& items) {
  std::string names;
  for (const Item* item : items) names += (names.empty() ? "@" : ", @") + item->name;
  return names.empty() ? "none" : names;
}

/// Remarks each alternative of an option's name pattern that matches none of `names`. `known` lists the names in the text.
void remarkIdle(const PassContext& context, const Loc& loc, std::string_view option, std::string_view pattern,
                const std::vector<std::string>& names, std::string_view known);
void remarkIdle(const PassContext& context, const Loc& loc, std::string_view option, std::string_view pattern,
                const std::vector<Item*>& items);

}  // namespace tg
