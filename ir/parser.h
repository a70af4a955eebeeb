// SPDX-License-Identifier: Apache-2.0
// Parses and prints modules. Print, parse, print is a fixpoint at every stage.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Parses one module. Stops at the first error, which has file, line and column. The module is well-formed but not
/// yet verified (verify.h).
Result<std::unique_ptr<Module>> parse(std::string_view text, std::string fileName);
/// Reads and parses a file; "-" is standard input.
Result<std::unique_ptr<Module>> parseFile(const std::string& path);
/// Parses an attribute value by itself, as in pass options: `matmul{tile=[8,8]}`.
Result<Attr> parseAttr(std::string_view text, std::string fileName = "<attribute>");

struct PrintOptions {
  bool locations = false;  ///< append loc(…) to ops and items
};
std::string print(const Module& module, const PrintOptions& options = {});
std::string print(const Item& item, const PrintOptions& options = {});
std::string print(const Op& op, const PrintOptions& options = {});

}  // namespace tg
