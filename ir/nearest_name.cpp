// SPDX-License-Identifier: Apache-2.0
#include "ir/nearest_name.h"

#include <algorithm>

namespace tg {

/// The number of edits (insert, delete, replace, swap of neighbours) between two names.
static int editDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = static_cast<int>(i + j);
        continue;
      }
      cost[i][j] =
          std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string nearestName(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  if (name.empty() || name.size() > 64) return best;
  int limit = std::max(1, static_cast<int>(name.size()) / 3) + 1;
  for (const std::string& candidate : known) {
    int distance = editDistance(name, candidate);
    // A part of a name, such as `adam` for `append-adam`, counts as one edit.
    if (name.size() >= 3 && candidate.find(name) != std::string::npos) distance = std::min(distance, 1);
    if (distance < limit) limit = distance, best = candidate;
  }
  return best;
}

}  // namespace tg
