// SPDX-License-Identifier: Apache-2.0
// What the verbs of tg-run share: flags about the model and the device, and the way from a file to a
// session.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "runtime/compile.h"
#include "runtime/session.h"
#include "tools/driver/driver.h"
#include "tools/driver/run.h"

namespace tg {

/// The functions that training and evaluation run.
inline constexpr const char *kTrain = "train", *kEval = "eval";

/// An error with a place in the text is the input's; any other one of something that runs is the device's.
int codeOf(const Error& error);

/// Prints an error after the verb's name and returns the code.
int report(const CLI::App& app, int code, const Error& error);
int report(const CLI::App& app, int code, const std::string& message);
/// From now on reports are added to this text instead of being printed; null: printed again.
void holdReports(std::string* into);

/// A word as a shell takes it, in quotes where that needs them.
std::string shellWord(const std::string& word);
/// `mayWrite`, and an error where the output would take the place of a file that is no such output: one that
/// is there and does not begin as `begins` tells, or one of `read`, the files that the command reads, or one of a
/// checkpoint.
Result<void> mayReplace(const std::string& flag, const std::string& path, bool (*begins)(std::string_view),
                        const std::vector<std::string>& read);
/// Whether these bytes begin a safetensors file, a module or a page.
bool beginsSafetensors(std::string_view bytes);
bool beginsModule(std::string_view bytes);
bool beginsPage(std::string_view bytes);

/// Checks of an option's number, whose errors say which numbers it takes: `--steps: expected a number of at
/// least 1, not 0`. The bounds are written as in the source.
CLI::Validator atLeast(double least);
CLI::Validator above(double bound);
CLI::Validator between(double least, double most);

/// Parses a verb's arguments; an exit code when that answered (help) or failed (the reason is printed).
std::optional<int> parseVerb(CLI::App& app, const Arguments& args);

/// A module of stage tensor that takes less than another, and in how many parts its step runs its batch; no
/// module where the batch stays whole.
struct SmallerStep {
  std::unique_ptr<Module> module;
  int64_t parts = 1;
};
/// Makes one for a budget that plan has refused, or kept by kernels that run again at a high price. `why` is
/// plan's error, and that of this where no parts keep the budget either.
using MakeSmaller =
    std::function<Result<SmallerStep>(const Target&, const CompileOptions&, std::optional<Error> why)>;

struct ModelFlags {
  std::string file = "-";
  std::string device = "auto";
  std::string target;                 ///< "" is the device's
  std::string pipeline;               ///< passes to run first
  std::vector<std::string> dims;      ///< NAME=N: extents of named axes, set before these
  std::string weights;                ///< params: a safetensors file, a checkpoint or a run
  std::string emitModule;             ///< write the finished module here
  std::string tuning;                 ///< a file, or auto
  std::string memory;                 ///< bytes that buffers may take, or auto; "" is no bound
  std::vector<std::string> captures;  ///< that calls will ask for; no others are kept, unless emitted
  uint64_t seed = 0;
  bool validation = false, noCache = false;
  bool statistics = false;  ///< ask the driver about kernels
  bool notes = true;    ///< tell on standard error what a user may want to know; warnings come in any case
  int64_t parts = 1;    ///< of the batch, which a step runs one after the other
  MakeSmaller smaller;  ///< null: what takes more than --memory is an error
  int localRank = 0;    ///< among the ranks of this host
  std::shared_ptr<collective::Engine> ranks;  ///< null: a single rank
  std::shared_ptr<vulkan::Device> opened;     ///< by initGpuCollectives, or null
  std::string openedAs;                       ///< its --device
  std::vector<std::string> plugins;           ///< shared objects whose passes `pipeline` may name
};
void addModelFlags(CLI::App& app, ModelFlags& flags);
/// Files that the flags name or, where they name a run or a checkpoint, its module and options.
std::vector<std::string> filesRead(const ModelFlags& flags);
/// --quiet: no notes, and what else the help says.
void addQuietFlag(CLI::App& app, ModelFlags& flags, const char* help);
/// --set-dim, beside each --pipeline: other extents of named axes, set as the module is loaded.
CLI::Option* addSetDimFlag(CLI::App& app, std::vector<std::string>& into);
/// Sets the extents that the flags name. 0, or an exit code after printing why.
int setDims(const CLI::App& app, const ModelFlags& flags, std::unique_ptr<Module>& module);
/// --load-pass-plugin, beside each --pipeline: loads what it names as it is read.
CLI::Option* addPluginFlag(CLI::App& app, std::vector<std::string>& into);

/// Reports that a verb wants parameters and is given none: FILE is no run, or is not there.
int reportNoParameters(const CLI::App& app, const std::string& file);

/// The device of the flags, as Device::open takes it: of `auto` each rank of a host has one of its own.
std::string deviceName(const ModelFlags& flags);
/// Opens the device of the flags, if it is one, and says what a user should know of it. 0, or an exit code
/// after printing why.
int openDevice(const CLI::App& app, const ModelFlags& flags, const Module& module, SessionOptions& options);

/// The file that --tuning means: `auto` is what tune measured on the device, which is null where no device or
/// another target than its own was asked for. An error where the module has its schedules. 0, or an exit code after
/// printing why.
int tuningOf(const CLI::App& app, const std::string& flag, const Module& module,
             const vulkan::DeviceInfo* device, std::string& file);

/// Prints what passes and sessions tell: warnings, and where the flags want notes, these and remarks.
DiagnosticHandler toldOn(const ModelFlags& flags);

/// Runs passes over the module, with what they tell going to `told`, adding what each took where that is asked for.
/// 0, or an exit code after printing why.
int runFirst(const CLI::App& app, const std::string& pipeline, std::unique_ptr<Module>& module,
             const DiagnosticHandler& told,
             std::vector<std::pair<std::string, double>>* milliseconds = nullptr);

/// The passes with data-parallel knowing how many ranks there are, unless the caller has said so.
Result<std::string> forRanks(const ModelFlags& flags, const std::string& pipeline);

/// Gives the batch axes of a function's arguments another extent. 0, or an exit code after printing why.
int setBatch(const CLI::App& app, const std::string& function, int64_t size, std::unique_ptr<Module>& module);

/// A session and what making it took.
struct OpenModel {
  std::unique_ptr<Session> session;
  std::shared_ptr<const Module> source;  ///< as it was before fuse
  int64_t parts = 1;                     ///< of the batch, which a step runs one after the other
  std::vector<std::pair<std::string, double>> milliseconds;  ///< of compilation, by phase
  double compileMs() const;
};

/// Runs the pipeline of the flags, opens the device, finishes and loads the module. Only the functions in
/// `entries` are compiled, unless the module is to be written. 0, or an exit code after printing why.
int openModel(const CLI::App& app, const ModelFlags& flags, std::unique_ptr<Module> module,
              const std::vector<std::string>& entries, OpenModel& out);

/// Reads and verifies the module of the flags, a file or the name of a workload that speed is reported for, and sets
/// the extents they name.
/// 0, or an exit code after printing why.
int loadModule(const CLI::App& app, const ModelFlags& flags, std::unique_ptr<Module>& out);
/// Where FILE is a run or one of its checkpoints, takes its parameters unless others are given, and writes the run's
/// folder to `run`, which stays "" otherwise. 0, or an exit code after reporting why.
int takeRun(const CLI::App& app, ModelFlags& flags, std::string& run);

/// The same for a module that must have `function`. When that has no updates yet and no passes were asked
/// for, the module's own train_pipeline is.
int loadModel(const CLI::App& app, ModelFlags& flags, const std::string& function,
              std::unique_ptr<Module>& out);

/// Where no passes were asked for and `function` learns nothing yet: the module's train_pipeline, if it has
/// one.
void takeOwnPipeline(const Module& module, ModelFlags& flags, const std::string& function);

/// The target that --target means for this module. An error where the module is compiled for another one already. 0, or
/// an exit code after printing why.
int takeTarget(const CLI::App& app, const std::string& text, const Module& module, Target& out);
/// The target that a module is compiled for on an open device; a note on standard error where that has matrix units that
/// do not pay.
Target targetOn(const Module& module, const std::shared_ptr<vulkan::Device>& device, const std::string& cache,
                bool notes = true);
/// What is known of a device's matrix units, on one line: their extension and shapes, what was measured. "" without.
std::string matrixLine(const vulkan::DeviceInfo& device);

}  // namespace tg
