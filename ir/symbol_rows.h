// SPDX-License-Identifier: Apache-2.0
// Rows of parameters and states: what a tg.param, tg.state or tg.update with `rows` means of its symbol.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"

namespace tg {

/// [first, end] of the rows that the op names; empty where it means the whole symbol. Before verification there may
/// be another number of them, by which the functions below take the whole.
std::vector<int64_t> rowsNamed(const Op& op);
/// Whether the op names rows of its symbol and not the whole.
bool namesRows(const Op& op);
/// The type of what the op reads or commits of a symbol of this type: with `rows = [first, end]` the first axis
/// has end - first. The rows must be the symbol's.
Type rowsType(const Op& op, const Type& symbol);
/// Where that lives. The symbol has a home.
Place rowsHome(const Op& op, const Item& symbol);
/// The symbol's name and the rows: equal for ops that mean the same bytes.
std::string rowsKey(const Op& op);

}  // namespace tg
