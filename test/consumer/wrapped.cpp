// SPDX-License-Identifier: Apache-2.0
// A library that runs the whole pipeline inside and shows only this function.
#include <string>

#include "ir/parser.h"
#include "passes/pass.h"

/// The kernels of a module's text as SPIR-V, or "" after an error.
std::string compiled(const std::string& text) {
  auto module = tg::parse(text, "wrapped.tgir");
  auto pipeline = tg::PassManager::parse("append-grad,append-adam,fuse,plan,spirv-emit");
  if (!module || !pipeline || !pipeline->run(*module)) return "";
  return tg::print(**module);
}
