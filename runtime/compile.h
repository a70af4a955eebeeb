// SPDX-License-Identifier: Apache-2.0
// The one road from a module of any stage to one that runs: passes of the caller, then the rest of the pipeline
// for one target. Sessions and every verb of tg-run take it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg {

struct CompileOptions {
  std::string pipeline;            ///< passes to run first, as text: `append-grad,append-adam{lr=1e-3}`
  std::string keepCaptures = "*";  ///< fuse's option keep-captures
  bool keepGrads = false;          ///< fuse's option keep-grads
  std::string tuning;              ///< fuse's option tuning: a file
  std::string shaders;             ///< spirv-emit's option cache: a folder
  std::string budget;              ///< plan's option budget: bytes, as 8GiB
  int64_t reserve = 0;             ///< plan's option reserve, for params that come with homes
  bool textOrder = false;          ///< plan's option order=text
  /// Where to stop. With `tensor`, or a stage that the module has, `pipeline` runs and nothing else, and the
  /// target is not asked.
  Stage until = Stage::spirv;
  DiagnosticHandler onDiagnostic;  ///< remarks of the passes; may be empty
};

/// A compiled module and what making it took.
struct Compiled {
  std::unique_ptr<Module> module;
  std::vector<std::pair<std::string, double>> milliseconds;  ///< by pass or part of one, in order
};

/// Runs `pipeline`, then what is left of exactly `fuse{target=…},plan,spirv-emit`. The target is for a module
/// that has none yet; one of stage fused or later keeps its own. The result is, byte for byte, what the same
/// passes give as separate tools for an equal target. Errors are those of the passes.
Result<Compiled> compile(std::unique_ptr<Module> module, const Target& target,
                         const CompileOptions& options = {});

/// An error for a null pointer where a call wants a module.
Result<void> checkGiven(const Module* module, std::string_view call);

/// What is wrong with `tuning` and `budget`, which only a module that is compiled that far would tell.
Result<void> checkLaterOptions(const CompileOptions& options);

/// Whether a function commits anything: one that does learns or counts.
bool hasUpdate(const Module& module, const std::string& function);
/// Whether a function has its gradients already: it names one, or updates a parameter. Updates of states alone, such as
/// running moments, are the model's own.
bool holdsGradients(const Module& module, const Item& func);
/// The passes by which the module says that `function` learns, its attribute train_pipeline; "" when it has
/// none or the function holds gradients already.
std::string ownPipeline(const Module& module, const std::string& function);

/// Where spirv-emit keeps shaders in a session's cache folder; "" in none.
std::string shaderFolder(const std::string& cache);

/// The target as one line of JSON, which fuse's option `target` takes.
std::string targetOption(const Target& target);

}  // namespace tg
