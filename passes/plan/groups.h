// SPDX-License-Identifier: Apache-2.0
// Merges groups into runs: lists of members that must lie next to each other in one order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg::plan {

/// One group of the text; its members as keys from 0 to keyCount - 1.
struct Sequence {
  std::vector<int> keys;
  const Op* op = nullptr;  ///< for messages
  bool required = true;    ///< false: a wish, dropped if it does not fit
};

/// Runs such that each required sequence is a contiguous part of one; in order of their lowest key. `nameOf(key)` is for
/// messages. It is an error if two groups need a member at two positions.
Result<std::vector<std::vector<int>>> mergeRuns(std::vector<Sequence> sequences, int keyCount,
                                                const std::function<std::string(int)>& nameOf);

}  // namespace tg::plan
