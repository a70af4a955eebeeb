// SPDX-License-Identifier: Apache-2.0
// Listing a module's items in messages.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace tg {

/// `@a, @b`, or `none`.
inline std::string namesOf(const std::vector<Item*>& items) {
  std::string names;
  for (const Item* item : items) names += (names.empty() ? "@" : ", @") + item->name;
  return names.empty() ? "none" : names;
}

}  // namespace tg
