// SPDX-License-Identifier: Apache-2.0
// Shared by the verbs of tg-run: the flags for the model and the device, and the steps from a file to a session.
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

struct Weights;

/// The names of the functions that training and evaluation run.
inline constexpr const char *kTrain = "train", *kEval = "eval";

/// An error that has no place in the text is one of the device.
template <class T>
Result<T> fromDevice(Result<T> result) {
  const bool placed = result || placeOf(result.error().diagnostics().front().loc);
  return placed ? std::move(result) : withCode(exitDevice, std::move(result));
}

/// An error after the verb's name, as it is printed.
std::string reportText(const CLI::App& app, const Error& error);
/// Prints it and returns the error's exit code.
int report(const CLI::App& app, const Error& error);

/// A word as a shell takes it, in quotes if it needs them.
std::string shellWord(const std::string& word);
/// The checks of `mayWrite`, and an error if the output is standard output, or would overwrite a file that is not an
/// earlier output of this kind: one that `begins` does not accept, one of `read` (the files that the command reads), or
/// a file of a checkpoint.
Result<void> mayReplace(const std::string& flag, const std::string& path, bool (*begins)(std::string_view),
                        const std::vector<std::string>& read);
/// Whether these bytes are the beginning of a safetensors file, a module or a page.
bool beginsSafetensors(std::string_view bytes);
bool beginsModule(std::string_view bytes);
bool beginsPage(std::string_view bytes);

/// Validators of numeric options. Their errors state the allowed numbers: `--steps: expected a number of at least 1,
/// not 0`. Bounds are printed as written in the source.
CLI::Validator atLeast(double least);
CLI::Validator between(double least, double most);
/// Adds an option whose value the help calls `value`.
template <class T>
CLI::Option* addValue(CLI::App& app, const std::string& name, const char* value, T& into,
                      const std::string& help) {
  return app.add_option(name, into, help)->option_text(value);
}
/// Adds an option for a number. The help shows its default.
template <class T>
void addNumber(CLI::App& app, const char* name, T& into, const std::string& help,
               const CLI::Validator& check) {
  app.add_option(name, into, help)->capture_default_str()->check(check);
}

/// Parses a verb's arguments. Returns an exit code if --help, or an error with a hint at it, has been printed.
Result<std::optional<int>> parseVerb(CLI::App& app, const Arguments& args);

/// A module of stage tensor that needs less memory than another, and the number of parts in which its step runs the
/// batch. Without a module, the batch stays whole.
struct SmallerStep {
  std::unique_ptr<Module> module;
  int64_t parts = 1;
};
/// Makes one for a budget that plan has refused, or that only costly rematerialisation keeps. `why` is plan's error; it
/// is returned if no number of parts keeps the budget either.
using MakeSmaller =
    std::function<Result<SmallerStep>(const Target&, const CompileOptions&, std::optional<Error> why)>;

struct ModelFlags {
  std::string file = "-";
  std::string device = "auto";
  std::string target;             ///< "" means the device's
  std::string pipeline;           ///< passes to run first
  bool ran = false;               ///< openModel is given what these passes have made
  std::vector<std::string> dims;  ///< NAME=N: extents of named axes, set before these passes
  std::string weights;            ///< of params: a safetensors file, a checkpoint or a run
  std::string except;             ///< the params that it does not set, as a glob
  bool states = false;            ///< also load the states and the step that it has
  std::string emitModule;         ///< where to write the compiled module
  std::string tuning;             ///< a file, or auto
  std::string memory;             ///< most bytes that buffers may take, or auto; "" means no limit
  /// Captures that calls will request; only these are kept, unless the module is written.
  std::vector<std::string> captures;
  uint64_t seed = 0;
  bool validation = false, noCache = false;
  bool statistics = false;                    ///< ask the driver for statistics on kernels
  bool notes = true;                          ///< print notes on standard error; warnings are always printed
  int64_t parts = 1;                          ///< of the batch, which a step runs in sequence
  MakeSmaller smaller;                        ///< null: exceeding --memory is an error
  int localRank = 0;                          ///< index among the ranks of this host
  std::shared_ptr<collective::Engine> ranks;  ///< null for a single rank
  std::shared_ptr<vulkan::Device> opened;     ///< the device that initGpuCollectives opened, or null
  std::string openedAs;                       ///< the value of --device for it
  std::shared_ptr<const Weights> given;       ///< what `weights` names, if it is open already
  std::vector<std::string> plugins;           ///< shared objects whose passes `pipeline` may name

  /// Whether this is the rank that prints and writes for all.
  bool firstRank() const { return !ranks || ranks->rank() == 0; }
};
void addModelFlags(CLI::App& app, ModelFlags& flags);
/// The files that the flags name. For a run or a checkpoint: its module and its options.
std::vector<std::string> filesRead(const ModelFlags& flags);
/// Adds --quiet: no notes, and what else the help says.
void addQuietFlag(CLI::App& app, ModelFlags& flags, const char* help);
/// Adds --pipeline and what goes with it: --set-dim, which sets extents of named axes when the module is loaded, and
/// --load-pass-plugin, which loads plug-ins when it is parsed.
void addPassFlags(CLI::App& app, ModelFlags& flags,
                  const char* help = "run these passes first: 'append-grad,append-adam{lr=1e-3}'",
                  const std::string& group = "Options");
/// Adds --set-dim alone.
CLI::Option* addSetDimFlag(CLI::App& app, std::vector<std::string>& into);
/// Sets the extents that the flags give.
Result<void> setDims(const ModelFlags& flags, std::unique_ptr<Module>& module);

/// The error of a verb that needs parameters and got none: FILE is not a run, or does not exist.
Error noParameters(const CLI::App& app, const std::string& file);

/// The device of the flags, as Device::open takes it. With `auto` each rank of a host gets a device of its own.
std::string deviceName(const ModelFlags& flags);
/// Opens the device of the flags, unless it is the interpreter, and prints notes on it.
Result<SessionOptions> openDevice(const ModelFlags& flags, const Module& module);

/// The file that --tuning stands for. `auto` is the file that tune wrote for the device, which is null if none was
/// requested, or a target other than the device's own. An error if the module already has its schedules.
Result<std::string> tuningOf(const std::string& flag, const Module& module, const vulkan::DeviceInfo* device);

/// Prints diagnostics of passes and sessions on the first rank: warnings, and, if the flags allow notes, also notes and
/// remarks.
DiagnosticHandler toldOn(const ModelFlags& flags);

/// Warns, at each tg.custom of a function, of loops that are so long that the interpreter takes minutes for a call.
void warnOfLongLoops(const Module& module, const Item& func, const DiagnosticHandler& told);

/// Runs passes on the module. Sends their diagnostics to `told`, and adds the time of each pass if requested.
Result<void> runFirst(const std::string& pipeline, std::unique_ptr<Module>& module,
                      const DiagnosticHandler& told,
                      std::vector<std::pair<std::string, double>>* milliseconds = nullptr);

/// The passes, with the number of ranks filled in for data-parallel, unless the user has given it.
Result<std::string> forRanks(const ModelFlags& flags, const std::string& pipeline);

/// Changes the extent of the batch axes of a function's arguments.
Result<void> setBatch(const std::string& function, int64_t size, std::unique_ptr<Module>& module);
/// Sets the batch of @predict to 1, because sampling continues a single text. Returns whether it was another one.
Result<bool> forOneText(std::unique_ptr<Module>& module);

/// A session, and the time of making it.
struct OpenModel {
  std::unique_ptr<Session> session;
  std::shared_ptr<const Module> source;                      ///< the module before fuse
  int64_t parts = 1;                                         ///< of the batch, which a step runs in sequence
  std::vector<std::pair<std::string, double>> milliseconds;  ///< of compilation, by phase
  double compileMs() const;
};

/// Runs the pipeline of the flags unless it ran, opens the device, compiles and loads the module. Compiles only the
/// functions in `entries`, unless the module is to be written.
Result<OpenModel> openModel(const ModelFlags& flags, std::unique_ptr<Module> module,
                            const std::vector<std::string>& entries);

/// What --weights names: `given`, or opened here, with warnings of newer checkpoints that cannot be used.
Result<std::shared_ptr<const Weights>> givenWeights(const ModelFlags& flags);

/// Writes the states that the model uses, from a checkpoint or a file, and sets the step of a checkpoint: functions then
/// compute what they would during training.
Result<void> restoreStates(const OpenModel& model, const Weights& weights);

/// Reads and verifies the module of the flags, which is a file or the name of a workload of tg-run bench, and sets the
/// extents of named axes.
Result<std::unique_ptr<Module>> loadModule(const CLI::App& app, const ModelFlags& flags);
/// If FILE is a run or one of its checkpoints, uses its parameters unless others are given, and returns the run's
/// folder; otherwise "".
Result<std::string> takeRun(ModelFlags& flags);

/// The same for a module that must have `function`, or whose passes make it. If that has no updates yet and no passes
/// were given, the module's own train_pipeline is used.
Result<std::unique_ptr<Module>> loadModel(const CLI::App& app, ModelFlags& flags,
                                          const std::string& function);

/// Uses the module's train_pipeline, if it has one, when no passes were given and `function` does not learn yet.
void takeOwnPipeline(const Module& module, ModelFlags& flags, const std::string& function);

/// The target that --target means for this module. An error if the module is already compiled for another.
Result<Target> takeTarget(const std::string& text, const Module& module);
/// The target to compile a module for on an open device. A note on standard error says if the device's matrix units are
/// too slow to be used.
Target targetOn(const Module& module, const std::shared_ptr<vulkan::Device>& device, const std::string& cache,
                bool notes = true);
/// The device that a word such as auto, gpu or 0 chooses. It is not opened.
Result<vulkan::DeviceInfo> chosenDevice(const std::string& select);
/// One line on a device's matrix units: their extension and shapes, and the measured rates. "" if it has none.
std::string matrixLine(const vulkan::DeviceInfo& device);

/// Shown instead of a column or of lines with the driver's statistics on kernels.
inline constexpr const char* kNoStatistics = "the driver tells no statistics of kernels";

/// At most `width` characters; a `~` at the end marks text that was cut.
inline std::string cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "~";
}

}  // namespace tg
