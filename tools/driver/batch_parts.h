// SPDX-License-Identifier: Apache-2.0
// Runs a step's batch in parts, because of --micro-batch or --memory: the passes for that, and the number of parts that
// keeps a memory budget.
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
#include "tools/driver/run_setup.h"

namespace tg {

/// The passes, in which append-grad sums the gradients of `calls(n)` calls instead of n; "" if there is no append-grad.
Result<std::string> accumulating(const std::string& pipeline, const std::function<int64_t(int64_t)>& calls);

/// The passes that make a module with a batch of `rows` rows learn in parts: set-batch, and then the given ones,
/// summing gradients.
Result<std::string> inParts(const std::string& pipeline, const std::string& function, int64_t rows,
                            int64_t parts);

/// An error if @train updates a parameter itself: in parts it would do so once for each.
Result<void> checkOwnUpdates(const Module& module, const Item& train);

/// Removes functions that nobody will call, before they are compiled. Functions with `every` are called by the steps.
void keepEntries(Module& module, const std::vector<std::string>& entries);

/// The memory of a plan, and the work of a step by the cost model.
struct PlanCost {
  int64_t bytes = 0;
  double work = 0;
};

/// A step on the whole batch may cost this many times the work of one in parts, because its losses are the same to the
/// last bit. The value was chosen, not measured.
constexpr double kWholeBatch = 1.25;

/// Whether rematerialisation adds so much work to a planned module that its batch may run faster in parts.
bool wantsParts(const Module& module);

/// Plans a module of stage tensor within budgets, with its batch whole or in parts.
class PlansInParts {
 public:
  /// `options` are those of the run, whose `pipeline` makes the module learn. Only the functions in `entries` are kept;
  /// the first of them runs in parts.
  PlansInParts(const Module& source, std::vector<std::string> entries, Target target, CompileOptions options)
      : source_(source), entries_(std::move(entries)), target_(std::move(target)),
        options_(std::move(options)) {}

  /// An error if running the batch in parts would change the result; it says why.
  Result<void> checkParts() const;
  int64_t rows() const;
  /// The possible numbers of parts: the divisors of the batch, from 2 up.
  std::vector<int64_t> divisors() const;
  /// Errors: those of the passes, among them plan's if the budget is too small.
  Result<PlanCost> plan(int64_t parts, const std::string& budget);
  /// Chooses the number of parts whose step costs least within the budget, or 1 if the whole batch is worth its price.
  /// If no number of parts keeps the budget, the error is `why` (plan's error for the whole batch), with the least
  /// budget of all of them, and the reason against parts if there is one. There is no error if the whole batch keeps
  /// the budget.
  struct Choice {
    int64_t parts = 1;
    double time = 1;   ///< of a step, relative to the whole batch without a budget
    double whole = 0;  ///< of the whole batch within the budget; 0 if impossible
  };
  Result<Choice> choose(const std::string& budget, std::optional<Error> why);

 private:
  Result<const Module*> fused(int64_t parts);
  Error noneFits(Error why);

  const Module& source_;
  std::vector<std::string> entries_;
  Target target_;
  CompileOptions options_;
  std::map<int64_t, std::unique_ptr<Module>> fused_;  ///< by number of parts
};

inline constexpr const char* kMicroBatchHelp =
    "run N rows of the batch at a time and sum their gradients: the memory of N rows";

/// Implements --micro-batch: changes the train function to `microBatch` rows of its batch (0 means all), so that a step
/// runs it in parts. Sets the pipeline and the parts of the flags.
Result<void> runInParts(int64_t microBatch, ModelFlags& model, std::unique_ptr<Module>& module,
                        std::vector<std::string>& notes);

/// The fallback if the whole batch does not fit in --memory, or only at a high price: compiles the train function for
/// the number of rows that keeps the budget at the least cost. Sets the parts of the flags, and `microBatch` to these
/// rows. All arguments must outlive the result.
MakeSmaller rowsWithin(ModelFlags& model, const Module& written, const std::vector<std::string>& entries,
                       int64_t& microBatch, std::vector<std::string>& notes);

/// openModel for measured steps of @train: runs them in the same parts as `train` does, and prints its notes on
/// standard error.
Result<OpenModel> openStep(const ModelFlags& flags, int64_t microBatch, std::unique_ptr<Module> module);

}  // namespace tg
