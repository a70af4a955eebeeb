// SPDX-License-Identifier: Apache-2.0
// Groups become runs: members that must lie next to each other, in one order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg::plan {

/// One group somewhere in the text, its members as keys 0..n-1.
struct Sequence {
  std::vector<int> keys;
  const Op* op = nullptr;  ///< for messages
  bool required = true;    ///< else a wish, dropped where it does not fit
};

/// The runs that hold all required sequences as contiguous parts, in order of their lowest key. An
/// error names two groups that want a member at two places.
Result<std::vector<std::vector<int>>> mergeRuns(std::vector<Sequence> sequences, int keyCount,
                                                const std::function<std::string(int)>& nameOf);

}  // namespace tg::plan
