// SPDX-License-Identifier: Apache-2.0
// Rows of parameters and states: the part of its symbol that a tg.param, tg.state or tg.update with `rows` accesses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"

namespace tg {

/// The attribute `rows`, [first, end]; empty if the op accesses the whole symbol. Before verification it may have
/// another length; the functions below then take the whole symbol.
std::vector<int64_t> rowsNamed(const Op& op);
/// Whether the op accesses only some rows of its symbol.
bool namesRows(const Op& op);
/// The type of what the op reads or updates, for a symbol of this type: with `rows = [first, end]` the first axis has
/// the extent end - first. The rows must be in range.
Type rowsType(const Op& op, const Type& symbol);
/// Where these rows are stored. The symbol must have a home.
Place rowsHome(const Op& op, const Item& symbol);
/// The symbol's name and the rows: equal for ops that access the same bytes.
std::string rowsKey(const Op& op);

}  // namespace tg
