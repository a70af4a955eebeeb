// SPDX-License-Identifier: Apache-2.0
// The option `budget` of passes.
#pragma once

#include <cstdint>
#include <string>

#include "ir/byte_size.h"
#include "ir/module.h"
#include "ir/verify_structure.h"

namespace tg {

/// As few bytes as there can be.
constexpr int64_t kLeastBudget = -1;

/// The bytes of all buffers together that a budget says, kLeastBudget, or kMaxBytes where it is empty.
inline Result<int64_t> budgetOf(const Module& module, const std::string& text) {
  if (text.empty()) return kMaxBytes;
  if (text == "least") return kLeastBudget;
  auto bytes = parseBytes(text);
  if (!bytes) return failAt(module.loc, "budget: " + bytes.error().message());
  return *bytes;
}

}  // namespace tg
