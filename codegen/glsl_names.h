// SPDX-License-Identifier: Apache-2.0
// The identifiers of a shader.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/module.h"

namespace tg {

/// Gives each value of a kernel a GLSL identifier: its own name, changed only if GLSL does not allow it (keywords,
/// built-in functions, characters, double underscores).
class GlslNames {
 public:
  /// The identifier of a value, the same at every call.
  const std::string& of(const Value* value);
  /// Makes `alias` print as `value` does.
  void alias(const Value* alias, const Value* value) { names_[alias] = of(value); }
  /// An identifier that no value has yet, like `hint`.
  std::string unique(const std::string& hint);

 private:
  std::unordered_map<const Value*, std::string> names_;
  std::unordered_set<std::string> taken_;
};

}  // namespace tg
