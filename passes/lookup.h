// SPDX-License-Identifier: Apache-2.0
// Finds the items that the options of passes name, and checks patterns of their names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/text.h"
#include "passes/pass.h"

namespace tg {

/// The function that a pass is to change, or the error of its first constraint, which lists those of the module.
Result<Item*> funcNamed(std::string_view pass, Module& module, const std::string& name);
/// Whether a function names the gradient of a parameter, or of any.
bool hasGradients(const Item& func, std::string_view param = "");
/// The error c2 of a pass that needs gradients, where a function has none.
Error noGradients(std::string_view pass, const Item& func);
/// The function of the optimizer's step: one with the attribute `every` that has gradients, as append-grad{accumulate=N}
/// makes it; otherwise `train`.
Item& stepFunction(const Module& module, Item& train);
/// Remarks each alternative of an option's name pattern that matches none of `names`. `known` lists the names in the text.
void remarkIdle(const PassContext& context, const Loc& loc, std::string_view option, std::string_view pattern,
                const std::vector<std::string>& names, std::string_view known);
void remarkIdle(const PassContext& context, const Loc& loc, std::string_view option, std::string_view pattern,
                const std::vector<Item*>& items);

}  // namespace tg
