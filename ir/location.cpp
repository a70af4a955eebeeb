// SPDX-License-Identifier: Apache-2.0
#include "ir/location.h"

#include <fmt/format.h>

#include "ir/attr.h"

namespace tg {

Loc derivedLoc(std::string how, const Loc& origin) {
  if (!origin) return nullptr;
  LocNode node;
  node.how = std::move(how);
  node.origin = origin;
  return std::make_shared<const LocNode>(std::move(node));
}

const LocNode* placeOf(const Loc& loc) {
  const LocNode* node = loc.get();
  while (node && !node->file) node = node->origin.get();
  return node;
}

std::string locString(const Loc& loc) {
  const LocNode* place = placeOf(loc);
  return place ? fmt::format("{}:{}:{}", place->file->name, place->line, place->col) : "";
}

static std::string locBody(const LocNode& node) {
  if (node.file) return fmt::format("{}:{}:{}", Attr::string(node.file->name).str(), node.line, node.col);
  return fmt::format("{}({})", node.how, node.origin ? locBody(*node.origin) : "unknown");
}

std::string locAttr(const Loc& loc) { return fmt::format("loc({})", loc ? locBody(*loc) : "unknown"); }

}  // namespace tg
