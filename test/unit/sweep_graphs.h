// SPDX-License-Identifier: Apache-2.0
// Small random functions: chains of maps, rows, matmuls, views, reductions and residuals, with values that
// are read several times, captured and returned. The seed decides everything.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/interp/nd_array.h"

namespace tg::test {

/// Adds the function @f<seed> to a module of stage tensor that has the params of addGraphParams.
void addGraph(Module& module, uint32_t seed);
void addGraphParams(Module& module);

/// Values in [-1, 1] for a function's arguments (ids for i32), and for the params when `function` is empty.
std::map<std::string, NdArray> graphInputs(const Module& module, const std::string& function, uint32_t seed);

}  // namespace tg::test
