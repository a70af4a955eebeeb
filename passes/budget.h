// SPDX-License-Identifier: Apache-2.0
// Parses the option `budget` of passes.
#pragma once

#include <cstdint>
#include <string>

#include "ir/module.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace tg {

/// The budget `least`: as few bytes as possible.
constexpr int64_t kLeastBudget = -1;

/// The bytes that all buffers together may take: the number in `text`, kLeastBudget, or kMaxBytes if it is empty.
inline Result<int64_t> budgetOf(const Module& module, const std::string& text) {
  if (text.empty()) return kMaxBytes;
  if (text == "least") return kLeastBudget;
  auto bytes = parseBytes(text);
  if (!bytes) return failAt(module.loc, "budget: " + bytes.error().message());
  return *bytes;
}

}  // namespace tg
