// A module at work: its parameters on a device, its functions ready to be called.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"
#include "runtime/runner.h"
#include "runtime/vulkan/device.h"

namespace tg {

struct SessionOptions {
  /// As vulkan::selectDevice takes it; `interp` is the reference interpreter, which needs no device.
  std::string device = "auto";
  std::shared_ptr<vulkan::Device> shared;  ///< use this open device instead
  bool validation = false;                 ///< run under the validation layer
  std::string cache;                    ///< file of compiled pipelines, read and kept up to date; "" is none
  std::optional<Target> target;         ///< compile for this target instead of the device's own
  uint64_t seed = 0;                    ///< of parameters and of random ops
  bool keepGrads = true;                ///< downloadParamGrads works
  std::string keepCaptures = "*";       ///< by name pattern; others cost a second compilation when asked for
  std::string trainPipeline;            ///< run first, such as append-grad,append-adam{lr=1e-3}
  std::string tuning;                   ///< file of measured schedules
  std::string trainFunction = "train";  ///< what `step` calls
  DiagnosticHandler onDiagnostic;       ///< remarks and what the session says once; may be empty
};

struct SessionInfo {
  std::string device, why, driver;  ///< names for people; driver is empty on the interpreter
  int64_t parameters = 0;           ///< elements of all params
  /// Bytes, 0 on the interpreter before stage planned. The arena bytes of a step are the first three.
  int64_t persistentBytes = 0, ioBytes = 0, arenaBytes = 0;
  int64_t lowerBoundBytes = 0;  ///< no plan of the same order has a smaller arena
  std::vector<std::pair<std::string, double>> milliseconds;  ///< of compilation, by phase
};

struct StepResult {
  double loss = 0;          ///< the first result
  NamedArrays results;      ///< all of them
  int64_t step = 0;         ///< this step, counted from 1
  double learningRate = 0;  ///< what the host filled in; 0 for a function without one
};

/// Calls from several threads are served one after the other.
class Session {
 public:
  /// Verifies and finishes the module, opens the device, makes and initialises params and states.
  static Result<std::unique_ptr<Session>> create(std::unique_ptr<Module> module, SessionOptions options = {});

  /// One call of the train function. Host scalars are filled in: `lr` by its schedule, `rng` with (seed,
  /// steps before this one), `loss_scale` with 1; one given as an input wins.
  Result<StepResult> step(const Inputs& inputs);
  /// One call of any function. `captures` names values kept by tg.capture to return as well; those the
  /// session does not keep make it compile the function once more.
  Result<RunOutputs> run(const std::string& function, const Inputs& inputs,
                         const std::vector<std::string>& captures = {});

  /// Params by name. Without `partial` all must be given. On an error nothing is changed.
  Result<void> uploadParams(const NamedArrays& values, bool partial = false);
  Result<NamedArrays> downloadParams();
  /// The same for states: moments, step counters.
  Result<void> uploadStates(const NamedArrays& values, bool partial = false);
  Result<NamedArrays> downloadStates();
  /// The gradients of the last step; an error when there was none or the session does not keep them.
  Result<NamedArrays> downloadParamGrads();

  /// Params by `init` and the seed, states by `init`, step 0.
  Result<void> reset(uint64_t seed);
  /// States by `init`, step 0; params stay.
  Result<void> resetOptimizerState();
  /// Replaces the schedules; without a value they count again.
  void setLearningRate(std::optional<double> rate);

  int64_t steps() const { return steps_; }
  /// Goes on counting from here, after states were uploaded.
  void setSteps(int64_t steps) { steps_ = steps; }

  const SessionInfo& info() const { return info_; }
  /// The module as it was finished.
  const Module& module() const { return *module_; }
  /// Dispatches, copies and fills recorded for one call; 0 on the interpreter.
  Result<int64_t> kernels(const std::string& function) const;
  /// Null on the interpreter.
  const std::shared_ptr<vulkan::Device>& device() const { return device_; }

 private:
  explicit Session(SessionOptions options) : options_(std::move(options)) {}
  Result<void> openDevice();
  Result<void> finishModule(std::unique_ptr<Module> module);
  Result<void> makeRunner();
  Result<void> fillHostScalars(const Item& func, int64_t step, Inputs& inputs, double* rate) const;
  const Item* current(const std::string& function) const;
  Result<void> keepAlso(const std::string& function, const std::vector<std::string>& captures);
  Result<void> initialise(ItemKind kind);
  Result<void> upload(ItemKind kind, const NamedArrays& values, bool partial);
  Result<NamedArrays> download(ItemKind kind);
  Result<RunOutputs> call(const std::string& function, Inputs inputs, int64_t step, bool captures,
                          double* rate);
  void remark(std::string message) const;
  void measure();

  SessionOptions options_;
  SessionInfo info_;
  std::shared_ptr<vulkan::Device> device_;
  std::shared_ptr<const Module> module_;
  std::unique_ptr<Module> source_;  ///< the module before fuse, for functions compiled later
  std::map<std::string, std::shared_ptr<const Module>> variants_;  ///< functions compiled once more
  std::unique_ptr<Runner> runner_;
  std::mutex mutex_;
  std::optional<double> rate_;
  std::string lastStep_;  ///< the function of the last step
  int64_t steps_ = 0;
};

}  // namespace tg
