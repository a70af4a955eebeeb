// SPDX-License-Identifier: Apache-2.0
// Steps of @train that run their batch in parts, because of --micro-batch or --memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/driver/run_setup.h"

namespace tg {

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
