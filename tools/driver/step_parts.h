// SPDX-License-Identifier: Apache-2.0
// Steps of @train that run their batch in parts: as --micro-batch says, or as --memory asks for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/driver/run_setup.h"

namespace tg {

inline constexpr const char* kMicroBatchHelp =
    "run N rows of the batch at a time and sum their gradients: the memory of N rows";

/// `--micro-batch`: the train function for some rows of its batch, which a step then runs in parts; 0 is all. Sets
/// the pipeline and the parts of the flags. 0, or an exit code after printing why.
int runInParts(const CLI::App& app, int64_t microBatch, ModelFlags& model, std::unique_ptr<Module>& module,
               std::vector<std::string>& notes);

/// What is compiled where --memory does not do for the whole batch, or only at a high price: the train function for
/// as many rows of it as keep the budget at the least cost. Sets the parts of the flags, and `microBatch` to these
/// rows. What it is given outlives it.
MakeSmaller rowsWithin(ModelFlags& model, const Module& written, const std::vector<std::string>& entries,
                       int64_t& microBatch, std::vector<std::string>& notes);

/// openModel for steps of @train that are measured: in the same parts as `train` runs them, with its notes on standard
/// error. 0, or an exit code after printing why.
int openStep(const CLI::App& app, const ModelFlags& flags, int64_t microBatch, std::unique_ptr<Module> module,
             OpenModel& out);

}  // namespace tg
