// SPDX-License-Identifier: Apache-2.0
#include "passes/binding_limit.h"

#include <fmt/format.h>

namespace tg {

Error overBinding(const Loc& loc, std::string_view what, int64_t bytes, int64_t most, const Target& target) {
  return failAt(loc, fmt::format("{} takes {} bytes, more than the {} one binding may span on target '{}'",
                                 what, bytes, most, target.name))
      .note(loc, "a smaller batch, context or vocabulary makes it fit; so does a target with a larger "
                 "storage_range, "
                 "such as --target=auto on a device that has one");
}

}  // namespace tg
