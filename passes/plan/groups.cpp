// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/groups.h"

#include <algorithm>
#include <set>

#include "ir/text.h"

namespace tg::plan {

namespace {

struct Run {
  std::vector<int> keys;
  const Op* op;
};

std::string list(const std::vector<int>& keys, const std::function<std::string(int)>& nameOf) {
  return "[" + listText(keys, nameOf) + "]";
}

bool holdsRun(const std::vector<int>& run, const std::vector<int>& part) {
  return std::search(run.begin(), run.end(), part.begin(), part.end()) != run.end();
}

}  // namespace

Result<std::vector<std::vector<int>>> mergeRuns(std::vector<Sequence> sequences, int keyCount,
                                                const std::function<std::string(int)>& nameOf) {
  // Longest first, so that a part of a longer group finds it in place; needs before wishes.
  std::ranges::stable_sort(sequences, [](const Sequence& a, const Sequence& b) {
    return a.required != b.required ? a.required : a.keys.size() > b.keys.size();
  });
  std::vector<Run> runs;
  std::vector<int> runOf(keyCount, -1);
  for (const Sequence& sequence : sequences) {
    std::set<int> distinct(sequence.keys.begin(), sequence.keys.end());
    if (distinct.size() != sequence.keys.size()) {
      if (!sequence.required) continue;
      return failAt(sequence.op->loc, "{} [plan.group]: a member stands twice in the group {}",
                    sequence.op->info().name, list(sequence.keys, nameOf));
    }
    auto taken = std::ranges::find_if(sequence.keys, [&](int key) { return runOf[key] >= 0; });
    if (taken == sequence.keys.end()) {
      for (int key : sequence.keys) runOf[key] = static_cast<int>(runs.size());
      runs.push_back({sequence.keys, sequence.op});
      continue;
    }
    const Run& run = runs[runOf[*taken]];
    if (holdsRun(run.keys, sequence.keys) || !sequence.required) continue;
    return failAt(sequence.op->loc,
                  "{} [plan.group]: no layout holds the group {}: {} already has its place in {}",
                  sequence.op->info().name, list(sequence.keys, nameOf), nameOf(*taken),
                  list(run.keys, nameOf))
        .note(run.op->loc, "the other group is here");
  }
  std::ranges::sort(runs, {}, [](const Run& run) { return std::ranges::min(run.keys); });
  std::vector<std::vector<int>> out;
  for (Run& run : runs) out.push_back(std::move(run.keys));
  return out;
}

}  // namespace tg::plan
