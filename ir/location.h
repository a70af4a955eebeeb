// SPDX-License-Identifier: Apache-2.0
// Locations: a place in a source text, or a location derived from another by a pass.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tg {

/// A source text that was parsed. The locations that point into it keep it alive, so that every later diagnostic can
/// show the line.
struct SourceFile {
  std::string name;
  std::string text;
};

struct LocNode;
/// A shared, immutable location; null means unknown.
using Loc = std::shared_ptr<const LocNode>;

/// Either a place (`file` set, line and column counted from 1) or a derivation (`how` names the
/// step, such as "grad", and `origin` is what it derived from).
struct LocNode {
  std::shared_ptr<const SourceFile> file;
  uint32_t line = 0;
  uint32_t col = 0;
  std::string how;
  Loc origin;
};

/// A location derived from `origin` by the step `how`. A null origin stays null.
Loc derivedLoc(std::string how, const Loc& origin);

/// The place at the end of a chain of derivations, or null.
const LocNode* placeOf(const Loc& loc);

/// `file:line:col`, or "" when unknown.
std::string locString(const Loc& loc);

/// The text form, `loc("f.tgir":3:5)` or `loc(grad("f.tgir":3:5))`; `loc(unknown)` for null.
std::string locAttr(const Loc& loc);

}  // namespace tg
