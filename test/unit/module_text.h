// SPDX-License-Identifier: Apache-2.0
// Modules from text.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "ir/parser.h"
#include "ir/verify.h"

namespace tg::test {

/// The module of a text, which may be a wrong one; null after a reported failure.
inline std::unique_ptr<Module> parsed(const std::string& text) {
  auto module = parse(text, "test.tgir");
  if (!module) {
    ADD_FAILURE() << module.error().str() << text;
    return nullptr;
  }
  return *std::move(module);
}

/// The same, verified.
inline std::unique_ptr<Module> verified(const std::string& text) {
  auto module = parsed(text);
  if (!module) return nullptr;
  auto checked = verify(*module);
  if (checked) return module;
  ADD_FAILURE() << checked.error().str() << text;
  return nullptr;
}

}  // namespace tg::test
