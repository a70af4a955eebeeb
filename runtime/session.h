// SPDX-License-Identifier: Apache-2.0
// A session: a module compiled for a device, with its params and states in memory and its functions ready to be called.
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
#include "runtime/learning_rate.h"
#include "runtime/param_buffer.h"
#include "runtime/runner.h"
#include "runtime/vulkan/device.h"

namespace tg {

/// A device, either by a name that vulkan::selectDevice takes (`interp` is the reference interpreter, which needs no
/// device) or as an open device, which sessions then share.
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
  bool validation = false;  ///< enable the validation layer, if the device is opened here
  /// Folder for compiled shaders and pipelines (tools/driver/cache_folder.h), which is read and added to; "" for none.
  /// Sessions and processes may share it. A warning says if it cannot be written.
  std::string cache = {};
  std::optional<Target> target = {};  ///< compile for this target instead of the device's own
  std::optional<uint64_t> seed = {};  ///< for parameters and random ops; drawn at random if nobody gives one
  bool keepGrads = true;              ///< keep gradients for downloadParamGrads
  /// Name pattern of the captures to keep from the start; "*" means all. They cost memory in every call. A capture
  /// outside of the pattern costs a second compilation when a call first asks for it.
  std::string keepCaptures = {};
  /// Passes to run first, such as append-grad,append-adam{lr=1e-3}; "" runs none. If it is not set, the module's own
  /// train_pipeline makes `trainFunction` learn, unless that function holds gradients or updates already.
  std::optional<std::string> trainPipeline = std::nullopt;
  std::string tuning = {};  ///< file of measured schedules
  /// The most bytes that all buffers of a function may take together, such as "8GiB"; "" sets no limit. Values are then
  /// rematerialised to stay below it, with the same results; an error if that is not enough.
  std::string memory = {};
  /// The function that `step` calls; a name given here must exist in the module.
  std::string trainFunction = "train";
  /// The number of calls of trainFunction that make up a step, each on an equal part of the batch. Gradients are summed
  /// by append-grad{accumulate}, whose count must be a multiple of `parts`. So a step updates as one call on the whole
  /// batch would, with the memory of one part. The loss is the mean over the parts; other results are those of the last
  /// part.
  int64_t parts = 1;
  /// Parameters to use instead of the session's own ones of these names: `params()` of another session on the same
  /// device. They are not initialised. Names that the module lacks are ignored.
  ParamBuffers sharedParams = {};
  /// Connects the sessions of a job's ranks, which must all make the same calls; null for a single rank. Random ops
  /// draw different numbers on each rank: those of its rows of the global batch.
  std::shared_ptr<collective::Engine> ranks = nullptr;
  int cachedBatches = 8;  ///< how many batch sizes stay compiled for each function
  /// Receives remarks and one-time notes; may be empty. Must not call the session.
  DiagnosticHandler onDiagnostic = {};
};

struct SessionInfo {
  std::string device, why, driver;  ///< for messages; driver is empty on the interpreter
  int64_t parameters = 0;           ///< elements of all params
  /// In bytes; 0 on the interpreter before stage planned. A function's memory is the sum of the three.
  int64_t persistentBytes = 0, ioBytes = 0, arenaBytes = 0;
  int64_t lowerBoundBytes = 0;  ///< no plan with the same order of ops has a smaller arena
  int64_t stepsPerUpdate = 1;   ///< more than 1 if gradients are accumulated over several steps
  std::vector<std::pair<std::string, double>> milliseconds;  ///< of compilation, by phase
  /// The text of the schedule that setLearningRate was given; "" if the module's own applies.
  std::string schedule;
};

struct CallOutputs {
  NamedArrays results;  ///< in the function's order
  Captures captures;
  /// The result with this name, or null.
  const HostArray* result(std::string_view name) const { return named(results, name); }
};

struct StepResult : CallOutputs {
  double loss = 0;      ///< the first result
  int64_t step = 0;     ///< the number of this step, from 1
  bool applied = true;  ///< false if nothing was updated: gradients were only accumulated, or nothing learns
  double learningRate = 0;  ///< the first rate that the host filled in; 0 if no function has one
};

struct UploadOptions {
  bool partial = false;  ///< not every name has to be given
  bool others = false;   ///< writeTensors ignores names that the module lacks
};
struct ResetOptions {
  bool params = true;     ///< set by `init` and the seed; borrowed ones stay
  bool optimizer = true;  ///< set states by `init`, and the step to 0
  /// If none is given and parameters are set again, a new seed is drawn; see Session::seed().
  std::optional<uint64_t> seed;
};
struct ReplaceOptions {
  std::optional<uint64_t> seed;          ///< the session's if not given
  std::optional<std::string> optimizer;  ///< a train pipeline instead of the session's
};

/// The contents of params and states at one moment.
struct TensorsCopy {
  TensorSource params, states;
};

class SessionProgram;
struct Profile;
struct ProfileOptions;

/// Calls from several threads are served one at a time, in the order in which they were made. Each returns a
/// CallResult: completed; failed, in which case the session goes on as if the call had not been made; or aborted,
/// because the session was closed or given another module before the call's turn. Code that runs inside a call, such as
/// a learning rate's function or a source of tensors, must not call the session: such a call fails.
class Session {
 public:
  /// Verifies and compiles the module, opens the device, and makes and initialises params and states.
  static Result<std::unique_ptr<Session>> create(std::unique_ptr<Module> module, SessionOptions options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Calls the train function once. Its first result must be the loss, a rank-0 f32. If it updates nothing, parameters
  /// stay as they are. If the module has `func @apply {every = N}`, every N-th step calls that too. Host scalars that
  /// are not given as inputs are filled in: `lr` from its schedule, `rng` with (seed, steps before this one),
  /// `loss_scale` with 1. Inputs of arguments with `{batch = AXIS}` choose the batch size; each new size compiles the
  /// function once more. `captures` names values of tg.capture to return too ("*" means all); those that the session
  /// does not keep cost one compilation.
  CallResult<StepResult> step(const Inputs& inputs, const std::vector<std::string>& captures = {});
  /// Begins a step without waiting for the device, and returns the step's number. It waits only if a few earlier steps
  /// are not finished. Later calls of any kind run after it.
  CallResult<int64_t> beginStep(const Inputs& inputs);
  /// Waits for the oldest step that was begun and not ended, and returns its outputs. An error if there is none.
  CallResult<StepResult> endStep();
  /// The number of steps begun and not ended. replaceModule and close drop them.
  size_t stepsInFlight() const { return inFlight_; }
  /// Calls any function once. A call of the train function counts as a step. Calls of other functions between two steps
  /// get different `rng` values: the first call gets the next step's, and each further one a value of its own, which
  /// depends only on seed, step and the number of the call.
  CallResult<CallOutputs> run(const std::string& function, const Inputs& inputs,
                              const std::vector<std::string>& captures = {});

  /// Times calls of a function (runtime/profile.h). These are ordinary calls: a train function learns, and its calls
  /// count as steps. An error on the interpreter and on a device without timestamps.
  CallResult<Profile> profile(const std::string& function, const Inputs& inputs,
                              const ProfileOptions& options);
  /// The cost of each collective of the module on a device; empty on the interpreter.
  CallResult<std::vector<CollectiveTimes>> collectiveTimes();

  /// Adds the functions of another module, of a stage before planned. Its params and states must match this session's
  /// by name and type.
  CallResult<void> attach(std::unique_ptr<Module> forward);
  /// Aborts the waiting calls and starts again with another module: new params, states and schedules, step 0. Attached
  /// functions stay. Errors, which change nothing: those of `create`, an attached function that does not fit, another
  /// kind of optimizer. Sessions that borrow params keep the old ones.
  CallResult<void> replaceModule(std::unique_ptr<Module> module, ReplaceOptions options = {});
  /// Aborts the waiting calls and all later ones, waits for the running one, and frees everything except what other
  /// sessions borrow. If it is called from inside a call, for example by a learning rate's function, it does not wait;
  /// memory is then freed when the session is closed again or destroyed.
  void close();

  /// Sets params by name. Unless `partial`, all must be given. On an error nothing is changed.
  CallResult<void> uploadParams(const NamedArrays& values, UploadOptions options = {});
  CallResult<NamedArrays> downloadParams();
  /// The same for states, such as moments and step counters. A sharded state takes this rank's shard.
  CallResult<void> uploadStates(const NamedArrays& values, UploadOptions options = {});
  CallResult<NamedArrays> downloadStates();
  /// Writes params or states from a source, piece by piece: all of them unless `partial`; sharded states from the whole
  /// value. Reports progress if it takes long. After an error of the source, some are already written. The source is
  /// read inside this call. It may be another session's `tensors(kind)`, even one that is writing from this session at
  /// the same time or shares its memory: while a piece is read, other threads may read this session's tensors and use
  /// memory that it shares.
  CallResult<void> writeTensors(ItemKind kind, const TensorSource& source, UploadOptions options = {});
  /// Params or states, read from the device on demand by one call for each piece. Sharded states are given whole: all
  /// ranks must read them together, in the same order. The source must not outlive the session.
  TensorSource tensors(ItemKind kind);
  /// Copies params and states to new device memory. One thread may read the copy while other calls go on, and also
  /// after the session's end. Errors: not enough memory, sharded states.
  CallResult<TensorsCopy> copyTensors();
  /// The gradients of the last step, in the order of the params. An error if there was no step, or if the session does
  /// not keep gradients.
  CallResult<NamedArrays> downloadParamGrads();
  /// The memory of the params, for `sharedParams` of other sessions.
  CallResult<ParamBuffers> params();

  CallResult<void> reset(ResetOptions options = {});
  CallResult<void> resetOptimizerState() { return reset({.params = false, .optimizer = true, .seed = {}}); }
  /// Replaces the module's schedules from the next step on. The new one counts from `afterStep` finished updates: by
  /// default those made so far, so that the next is its step 1; 0 counts from the first step of training. An error if
  /// no function has an argument `{host = "lr"}`, or if `afterStep` is negative or not reached yet.
  CallResult<void> setLearningRate(double rate, std::optional<int64_t> afterStep = {});
  /// The text of a `schedule` attribute, such as `warmup(100, cosine(1e-3, 0, 900))`.
  CallResult<void> setLearningRate(std::string_view schedule, std::optional<int64_t> afterStep = {});
  CallResult<void> setLearningRate(LearningRate::Function function, std::optional<int64_t> afterStep = {});
  /// Restores the module's schedules.
  CallResult<void> resetLearningRate();

  /// The seed of parameters and random ops: the last one that was given, or that was drawn since.
  uint64_t seed() const { return seed_; }
  /// The number of steps so far, including those that only accumulate gradients.
  int64_t steps() const { return steps_; }
  /// Calls again the functions that are due behind the last step, such as @apply behind every N-th one, after params and
  /// states were restored to undo the last `undone` steps. An update is left out if all of its steps were undone. Gives
  /// whether a function was called.
  CallResult<bool> repeatDue(int64_t undone);
  /// Sets the step count, 0 to 2^53, for example after states were uploaded.
  CallResult<void> setSteps(int64_t steps);

  SessionInfo info() const;
  /// The compiled module; null once the session is closed.
  std::shared_ptr<const Module> module() const;
  /// The module at a stage from tensor to spirv, not earlier than the stage at which it was given.
  CallResult<std::unique_ptr<Module>> module(Stage stage);
  /// The compiled module that a call of `function` with inputs of these shapes runs.
  CallResult<std::shared_ptr<const Module>> moduleFor(const std::string& function,
                                                      const std::map<std::string, Shape>& shapes);
  /// The number of dispatches, copies and fills recorded for one call; 0 on the interpreter.
  CallResult<int64_t> kernelCount(const std::string& function);
  /// The shape of a result; by default, of the first.
  CallResult<Shape> outputShape(const std::string& function, std::string_view result = "");
  std::vector<std::string> paramNames() const;
  /// Null on the interpreter.
  const std::shared_ptr<vulkan::Device>& device() const { return device_; }
  /// The number of calls that wait for their turn.
  size_t waitingCalls() const { return queue_.waiting(); }

 private:
  explicit Session(SessionOptions options);
  template <class T, class Body>
  CallResult<T> serve(Body body, CallKind kind = CallKind::any);
  Result<void> checkOutside() const;
  Result<void> openDevice();
  Result<void> fillHostScalars(const Item& func, int64_t step, uint32_t drawn, const InputViews& given,
                               Inputs& filled, double* rate, int64_t part = 0) const;
  Result<double> rateAt(const Value& argument, int64_t step) const;
  struct Begun;
  struct DueCall;
  Result<Begun> begin(const std::string& function, const InputViews& inputs,
                      const std::vector<std::string>& captures);
  Result<void> checkParts(const std::string& function, const InputViews& whole,
                          const std::vector<std::string>& captures);
  Result<std::shared_ptr<PendingCall>> beginCall(Begun& begun, InputViews inputs,
                                                 const std::vector<std::string>& captures, int64_t part);
  static Result<StepResult> end(Begun begun);
  static Result<StepResult> endOfStep(Begun begun);
  void forgetSteps();
  void countFrom(int64_t step);
  Result<std::vector<DueCall>> dueBehind(int64_t step) const;
  Result<void> beginDue(Begun& begun, const std::vector<DueCall>& due);
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

  // Accessed only by the call that has the turn.
  std::unique_ptr<SessionProgram> program_;
  std::vector<std::unique_ptr<Module>> attached_;  ///< the modules as they were given
  LearningRate rate_;
  std::string lastStep_;      ///< the runner's key of the last step
  std::vector<Begun> begun_;  ///< oldest first
  std::atomic<int64_t> steps_ = 0;
  /// By function: calls since the last step for which the session filled in `rng`.
  std::map<std::string, uint32_t> draws_;
  std::atomic<uint64_t> seed_ = 0;
  std::atomic<size_t> inFlight_ = 0;  ///< size of begun_

  mutable std::mutex viewMutex_;  ///< guards the two below
  SessionInfo info_;
  std::shared_ptr<const Module> module_;
};

}  // namespace tg
