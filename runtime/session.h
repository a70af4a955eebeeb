// SPDX-License-Identifier: Apache-2.0
// A module at work: its parameters on a device, its functions ready to be called.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"
#include "runtime/call_queue.h"
#include "runtime/captures.h"
#include "runtime/collective/engine.h"
#include "runtime/device_collective.h"
#include "runtime/param_buffer.h"
#include "runtime/runner.h"
#include "runtime/schedule.h"
#include "runtime/vulkan/device.h"

namespace tg {

/// A device by name, as vulkan::selectDevice takes it (`interp` is the reference interpreter, which needs
/// none), or one that is open, which sessions then share.
struct DeviceChoice {
  std::string name = "auto";
  std::shared_ptr<vulkan::Device> open;
  DeviceChoice() = default;
  DeviceChoice(const char* byName) : name(byName) {}
  DeviceChoice(std::string byName) : name(std::move(byName)) {}
  DeviceChoice(std::shared_ptr<vulkan::Device> device) : open(std::move(device)) {}
};

struct SessionOptions {
  DeviceChoice device = {};
  bool validation = false;  ///< run under the validation layer, when the device is opened here
  /// Folder of compiled shaders and pipelines (runtime/cache_folder.h), read and added to; "" is none.
  /// Sessions and processes may share it. Where it cannot be added to, a warning says so.
  std::string cache = {};
  std::optional<Target> target = {};  ///< compile for this target instead of the device's own
  std::optional<uint64_t> seed = {};  ///< of parameters and of random ops; drawn when nobody gives one
  bool keepGrads = true;              ///< downloadParamGrads works
  /// Captures to keep from the start, by name pattern, "*" being all. They cost memory in every call; others
  /// cost a second compilation when a call first asks for them.
  std::string keepCaptures = {};
  /// Passes to run first, such as append-grad,append-adam{lr=1e-3}; "" runs none. When not said, the module's
  /// own train_pipeline makes `trainFunction` learn, if nothing in that holds gradients or updates yet.
  std::optional<std::string> trainPipeline = std::nullopt;
  std::string tuning = {};  ///< file of measured schedules
  /// Bytes that all buffers of a function may take together, such as "8GiB"; "" sets no bound. Kernels run again
  /// where values would take more, with the same results; where that is not enough it is an error.
  std::string memory = {};
  std::string trainFunction = "train";  ///< what `step` calls, of the module; any but this name must be there
  /// Calls of it that make a step, each on an equal part of the batch's rows. Their gradients are summed by
  /// append-grad{accumulate}, of which this is a divisor: a step then updates as one call on the whole batch would,
  /// in the memory of a part. The loss is the mean over the parts, other results are the last one's.
  int64_t parts = 1;
  /// Parameters to use in place of own ones of these names: `params()` of other sessions on the device. They
  /// are not initialised. Names the module lacks are passed over.
  ParamBuffers sharedParams = {};
  /// Connects the sessions of a job's ranks, which must all make the same calls; null: a single rank. Random ops draw
  /// other numbers on each rank, those of its rows of the global batch.
  std::shared_ptr<collective::Engine> ranks = nullptr;
  int cachedBatches = 8;  ///< batch sizes kept compiled for each function
  DiagnosticHandler onDiagnostic =
      {};  ///< remarks and what the session says once; may be empty. Calls nothing here
};

struct SessionInfo {
  std::string device, why, driver;  ///< names for people; driver is empty on the interpreter
  int64_t parameters = 0;           ///< elements of all params
  /// Bytes, 0 on the interpreter before stage planned. The arena bytes of a step are the first three.
  int64_t persistentBytes = 0, ioBytes = 0, arenaBytes = 0;
  int64_t lowerBoundBytes = 0;  ///< no plan of the same order has a smaller arena
  std::vector<std::pair<std::string, double>> milliseconds;  ///< of compilation, by phase
  /// What setLearningRate was given, as a schedule is written; "" where the module's own holds.
  std::string schedule;
};

struct CallOutputs {
  NamedArrays results;  ///< in the function's order
  Captures captures;
  /// A result by name, or null.
  const HostArray* result(std::string_view name) const;
};

struct StepResult : CallOutputs {
  double loss = 0;          ///< the first result
  int64_t step = 0;         ///< this step, counted from 1
  bool applied = true;      ///< false when nothing was updated: gradients only accumulated, or nobody learns
  double learningRate = 0;  ///< what the host filled in; 0 where nothing asked for one
};

struct UploadOptions {
  bool partial = false;  ///< names may be missing
  bool others = false;   ///< names that the module lacks are passed over, by writeTensors
};
struct ResetOptions {
  bool params = true;     ///< by `init` and the seed; borrowed ones stay
  bool optimizer = true;  ///< states by `init`, step 0
  /// Another one is drawn when nobody gives it and parameters start over; Session::seed() tells it.
  std::optional<uint64_t> seed;
};
struct ReplaceOptions {
  std::optional<uint64_t> seed;          ///< else the session's
  std::optional<std::string> optimizer;  ///< a train pipeline in place of the session's
};

/// Params and states at one moment.
struct TensorsCopy {
  TensorSource params, states;
};

class SessionProgram;
struct Profile;
struct ProfileOptions;

/// Calls from several threads are served one after the other, in the order they were made. Every one gives a
/// CallResult: completed, failed (the session goes on as if the call had not been made) or aborted (the
/// session was closed or given another module before the call's turn). What runs inside a call, such as a
/// learning rate's function or a source of tensors, must not call the session: such a call fails.
class Session {
 public:
  /// Verifies and finishes the module, opens the device, makes and initialises params and states.
  static Result<std::unique_ptr<Session>> create(std::unique_ptr<Module> module, SessionOptions options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// One call of the train function, whose first result is the loss, a rank-0 f32. Without updates in it,
  /// parameters stay as they are. Where the module has `func @apply {every = N}`, each N-th step calls that
  /// too. Host scalars are filled in: `lr` by its schedule, `rng` with (seed, steps before this one),
  /// `loss_scale` with 1; one given as an input wins. Inputs of arguments with `{batch = AXIS}` choose the
  /// batch size, and each new one compiles the function once more. `captures` names values kept by tg.capture
  /// to return as well, "*" being all; those the session does not keep cost one compilation too.
  CallResult<StepResult> step(const Inputs& inputs, const std::vector<std::string>& captures = {});
  /// Begins what `step` does without waiting for the device, and gives the step's number. The host waits only
  /// where a few steps that nobody has ended are not finished. What is called later, of any kind, comes after
  /// it.
  CallResult<int64_t> beginStep(const Inputs& inputs);
  /// The outputs of the oldest step that was begun and not ended, waiting for it; an error when there is
  /// none.
  CallResult<StepResult> endStep();
  /// Steps begun and not ended; replaceModule and close forget them.
  size_t stepsInFlight() const { return inFlight_; }
  /// One call of any function. One of the train function counts as a step. Of the calls of another function
  /// between two steps, each is filled in another `rng`: the first that of the next step, the n-th one of its
  /// own, which is the same whenever seed, step and n are.
  CallResult<CallOutputs> run(const std::string& function, const Inputs& inputs,
                              const std::vector<std::string>& captures = {});

  /// Times calls of a function (runtime/profile.h). They are calls like others: a train function learns, and
  /// its calls count as steps. An error on the interpreter and on a device without timestamps.
  CallResult<Profile> profile(const std::string& function, const Inputs& inputs,
                              const ProfileOptions& options);
  /// What each collective of the module has cost on a device; empty on the interpreter.
  CallResult<std::vector<CollectiveTimes>> collectiveTimes();

  /// Adds the functions of a module of any stage before planned. Its params and states are ones of this
  /// session, by name and type.
  CallResult<void> attach(std::unique_ptr<Module> forward);
  /// Aborts the waiting calls and starts over with another module: new params, states and schedules, step 0.
  /// Attached functions stay. Errors, which leave all as it was: those of `create`, an attached function that
  /// does not fit, another kind of optimizer. Sessions that borrow params keep the old ones.
  CallResult<void> replaceModule(std::unique_ptr<Module> module, ReplaceOptions options = {});
  /// Aborts the waiting calls and all later ones, waits for the running one and frees everything but what
  /// other sessions borrow. Called from inside a call, as by a learning rate, it does not wait; memory is freed when the
  /// session is closed again or destroyed.
  void close();

  /// Params by name. Unless `partial`, all must be given. On an error nothing is changed.
  CallResult<void> uploadParams(const NamedArrays& values, UploadOptions options = {});
  CallResult<NamedArrays> downloadParams();
  /// The same for states: moments, step counters. Of sharded states, this rank's shard.
  CallResult<void> uploadStates(const NamedArrays& values, UploadOptions options = {});
  CallResult<NamedArrays> downloadStates();
  /// Writes params or states from a source, piece by piece: all of them unless `partial`, sharded states from the whole.
  /// Reports progress if it takes long. After an error of the source some are written. The source is read inside this
  /// call. It may be another session, `other.tensors(kind)`, also one that writes from this one meanwhile or shares its
  /// memory: while a piece is read, other threads may read this session's tensors and use memory that it shares.
  CallResult<void> writeTensors(ItemKind kind, const TensorSource& source, UploadOptions options = {});
  /// Params or states, read from the device on demand by one call of the session for each piece. Sharded states are
  /// whole: reading them is collective, in the same order on all ranks. It must not outlive the session.
  TensorSource tensors(ItemKind kind);
  /// A copy of params and states in further device memory. One thread may read it while other calls go on, also after
  /// the session's end. Errors: not enough memory, sharded states.
  CallResult<TensorsCopy> copyTensors();
  /// The gradients of the last step, in the order of the params; an error when there was none or the session does not keep them.
  CallResult<NamedArrays> downloadParamGrads();
  /// Where the params live, for `sharedParams` of other sessions.
  CallResult<ParamBuffers> params();

  CallResult<void> reset(ResetOptions options = {});
  CallResult<void> resetOptimizerState() { return reset({.params = false, .optimizer = true, .seed = {}}); }
  /// Replaces the schedules of the module from the next step on. The new one counts from `afterStep`
  /// finished updates, by default those made so far, so that the next is its step 1; 0 counts from the first
  /// step of the training. An error when no function has an argument `{host = "lr"}`, or when `afterStep` is
  /// negative or not reached yet.
  CallResult<void> setLearningRate(double rate, std::optional<int64_t> afterStep = {});
  /// As an attribute spells it: `warmup(100, cosine(1e-3, 0, 900))`.
  CallResult<void> setLearningRate(std::string_view schedule, std::optional<int64_t> afterStep = {});
  CallResult<void> setLearningRate(LearningRate::Function function, std::optional<int64_t> afterStep = {});
  /// Goes back to the module's schedules.
  CallResult<void> resetLearningRate();

  /// What parameters and random ops are drawn by: the seed that was given last, or was drawn since.
  uint64_t seed() const { return seed_; }
  /// Steps so far, the merely accumulating ones included.
  int64_t steps() const { return steps_; }
  /// Goes on counting from here, 0 to 2^53, after states were uploaded.
  CallResult<void> setSteps(int64_t steps);

  SessionInfo info() const;
  /// The module as it was finished; null once the session is closed.
  std::shared_ptr<const Module> module() const;
  /// The module at a stage from tensor to spirv; not before the one it was given at.
  CallResult<std::unique_ptr<Module>> module(Stage stage);
  /// The finished module that a call of `function` with inputs of these shapes runs.
  CallResult<std::shared_ptr<const Module>> moduleFor(const std::string& function,
                                                      const std::map<std::string, Shape>& shapes);
  /// Dispatches, copies and fills recorded for one call; 0 on the interpreter.
  CallResult<int64_t> kernelCount(const std::string& function);
  /// The shape of a result, by default the first.
  CallResult<Shape> outputShape(const std::string& function, std::string_view result = "");
  std::vector<std::string> paramNames() const;
  /// Null on the interpreter.
  const std::shared_ptr<vulkan::Device>& device() const { return device_; }
  /// Calls that wait for their turn.
  size_t waitingCalls() const { return queue_.waiting(); }

 private:
  explicit Session(SessionOptions options);
  template <class T, class Body>
  CallResult<T> serve(Body body, CallKind kind = CallKind::any);
  Result<void> checkOutside() const;
  Result<void> openDevice();
  Result<void> fillHostScalars(const Item& func, int64_t step, Inputs& inputs, double* rate,
                               int64_t part = 0) const;
  Result<double> rateAt(const Value& argument, int64_t step) const;
  struct Begun;
  Result<Begun> begin(const std::string& function, Inputs inputs, const std::vector<std::string>& captures);
  Result<void> beginParts(Begun& begun, Inputs& inputs);
  static Result<StepResult> end(Begun begun);
  static Result<StepResult> endOfStep(Begun begun);
  void forgetSteps();
  void countFrom(int64_t step);
  Result<void> beginUpdate(Begun& begun);
  Result<void> checkLoss() const;
  Result<void> replace(std::unique_ptr<Module> module, const ReplaceOptions& options);
  Result<void> initialise(SessionProgram& program, ItemKind kind, uint64_t seed, bool isNew);
  Result<void> resetTo(const ResetOptions& options, bool isNew);
  Result<void> upload(ItemKind kind, const NamedArrays& values, bool partial);
  Result<NamedArrays> download(ItemKind kind);
  Result<void> writePiece(const Item& item, int64_t first, std::span<const std::byte> piece);
  Result<void> readPiece(const Item& item, int64_t first, std::span<std::byte> piece);
  int rank() const;
  template <class Schedule>
  CallResult<void> replaceRate(Schedule schedule, std::optional<int64_t> afterStep);
  void publish();

  SessionOptions options_;
  std::shared_ptr<vulkan::Device> device_;
  CallQueue queue_;

  // In turn only.
  std::unique_ptr<SessionProgram> program_;
  std::vector<std::unique_ptr<Module>> attached_;  ///< as they were given
  LearningRate rate_;
  std::string lastStep_;      ///< the runner's key of the last step
  std::vector<Begun> begun_;  ///< the oldest first
  std::atomic<int64_t> steps_ = 0;
  std::map<std::string, uint32_t>
      draws_;  ///< by function: calls since the last step that were given no `rng`
  std::atomic<uint64_t> seed_ = 0;
  std::atomic<size_t> inFlight_ = 0;  ///< size of begun_

  mutable std::mutex viewMutex_;  ///< guards the two below
  SessionInfo info_;
  std::shared_ptr<const Module> module_;
};

}  // namespace tg
