// SPDX-License-Identifier: Apache-2.0
// A batch that a step runs in parts: what that takes, and how many parts keep a budget.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"
#include "runtime/compile.h"

namespace tg {

/// The passes with append-grad summing the gradients of `calls(n)` calls, where it was n; "" without append-grad.
Result<std::string> accumulating(const std::string& pipeline, const std::function<int64_t(int64_t)>& calls);

/// The passes that make a module learn with its batch of `rows` rows in parts: set-batch and those, summing gradients.
Result<std::string> inParts(const std::string& pipeline, const std::string& function, int64_t rows,
                            int64_t parts);

/// Bytes of a plan, and the work of a step by the cost model.
struct PlanCost {
  int64_t bytes = 0;
  double work = 0;
  double addedWork = 0;  ///< by kernels that run again, as a part of a call's
};

/// What a step is worth that keeps the batch whole, whose losses are the same to the last bit: so many times the
/// work of one in parts. Chosen.
constexpr double kWholeBatch = 1.25;

/// Whether kernels that run again add so much work to a planned module that its batch may be better off in parts.
bool wantsParts(const Module& module);

/// Plans of one module of stage tensor, its batch whole or in parts, within budgets.
class PlansInParts {
 public:
  /// `options` are those of the run, whose `pipeline` makes the module learn; functions but `entries` are left out, the
  /// first of which runs in parts.
  PlansInParts(const Module& source, std::vector<std::string> entries, Target target, CompileOptions options)
      : source_(source), entries_(std::move(entries)), target_(std::move(target)),
        options_(std::move(options)) {}

  /// Why the batch cannot be run in parts to the same result; no error where it can.
  Result<void> checkParts() const;
  int64_t rows() const;
  /// Parts that the batch has, from 2 up: its divisors.
  std::vector<int64_t> divisors() const;
  /// Errors: those of the passes, one of plan where the budget does not do.
  Result<PlanCost> plan(int64_t parts, const std::string& budget);
  /// The parts whose step costs least within the budget, 1 where the whole batch is worth its price. The error is `why`,
  /// plan's for the whole batch, where none keeps it, with the least budget of all of them and what speaks against
  /// parts; there is none where the whole batch keeps the budget.
  struct Choice {
    int64_t parts = 1;
    double time = 1;   ///< of a step, 1 being that of the whole batch without a budget
    double whole = 0;  ///< of the whole batch within the budget, 0 where that cannot be
  };
  Result<Choice> choose(const std::string& budget, std::optional<Error> why);

 private:
  Result<const Module*> fused(int64_t parts);
  Error noneFits(Error why);

  const Module& source_;
  std::vector<std::string> entries_;
  Target target_;
  CompileOptions options_;
  std::map<int64_t, std::unique_ptr<Module>> fused_;  ///< by parts
};

}  // namespace tg
