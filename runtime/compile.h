// SPDX-License-Identifier: Apache-2.0
// Compiles a module of any stage until it can run: first the caller's passes, then the rest of the pipeline for one
// target. Sessions and all verbs of tg-run compile through this function.
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
  /// The last stage to reach. If it is `tensor`, or a stage that the module already has, only `pipeline` runs and the
  /// target is not used.
  Stage until = Stage::spirv;
  DiagnosticHandler onDiagnostic;  ///< receives the passes' remarks; may be empty
};

/// A compiled module and the time that each part of the compilation took.
struct Compiled {
  std::unique_ptr<Module> module;
  std::vector<std::pair<std::string, double>> milliseconds;  ///< by pass or part of a pass, in order
};

/// Runs `pipeline`, then the remaining passes of `fuse{target=…},plan,spirv-emit`. `target` is for a module that has
/// none yet; a module of stage fused or later keeps its own. The result is byte for byte what the same passes give as
/// separate tools for an equal target. Errors are those of the passes.
Result<Compiled> compile(std::unique_ptr<Module> module, const Target& target,
                         const CompileOptions& options = {});

/// An error if `module` is null. `call` names the function that needs it.
Result<void> checkGiven(const Module* module, std::string_view call);

/// Checks the options `tuning` and `budget`, which otherwise only the later passes would check.
Result<void> checkLaterOptions(const CompileOptions& options);

/// Whether a function updates a parameter or state. Such a function learns or counts.
bool hasUpdate(const Module& module, const std::string& function);
/// The function that applies gradients accumulated over several steps of `train`, null if each step updates: the first with
/// the attribute `every` that names its optimizer; if no function of the module does, that takes a rate; else the first.
/// Null if `train` itself names its optimizer, or takes the rate.
const Item* updateFunction(const Module& module, const std::string& train);
/// Whether a function already learns: it leaves no tg.grad to passes, and names a parameter's gradient or updates a
/// parameter that its loss depends on. Other updates, such as those of running moments, are part of the model itself.
bool holdsGradients(const Module& module, const Item& func);
/// The passes that expand the tg.grad ops of a function, in a module without @train; "" if it has none.
std::string gradPass(const Item& func);
/// The module's attribute train_pipeline: the passes that make `function` learn. "" if there is none, or if the
/// function already learns.
std::string ownPipeline(const Module& module, const std::string& function);

/// The folder for spirv-emit's shaders inside a session's cache folder; "" if `cache` is "".
std::string shaderFolder(const std::string& cache);

}  // namespace tg
