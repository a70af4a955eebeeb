// SPDX-License-Identifier: Apache-2.0
// Everything that a session has compiled: its module, the functions attached later, and variants of each function for
// other batch sizes or captures, all over one set of params and states. Internal to the session.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/compile.h"
#include "runtime/executor.h"
#include "runtime/session.h"

namespace tg {

class SessionProgram {
 public:
  /// A function ready to be called by `key` of the runner.
  struct Callable {
    std::string key;
    const Item* func = nullptr;
    std::map<std::string, Type, std::less<>> captures;  ///< all captures of the function
    std::vector<std::string> read;                      ///< the captures that the call asks for
  };

  /// Compiles the module. Params and states are zero, or those of `options.sharedParams`. `device` is null for the
  /// interpreter.
  static Result<std::unique_ptr<SessionProgram>> create(std::unique_ptr<Module> module,
                                                        const SessionOptions& options,
                                                        std::shared_ptr<vulkan::Device> device);
  /// Adds the functions of another module that uses this program's params and states.
  Result<void> attach(std::unique_ptr<Module> forward);

  /// The function for the inputs' batch size and these captures ("*" means all). Compiles it if that has not been done.
  /// Flat batch inputs get their full shape.
  Result<Callable> callable(const std::string& function, InputViews& inputs,
                            const std::vector<std::string>& captures);
  /// A function as it was first compiled, or an error that lists the existing ones.
  Result<const Item*> function(const std::string& name) const;
  /// The module that contains the function's variant.
  Result<std::shared_ptr<const Module>> moduleOf(const Callable& callable) const;
  /// The module at its own stage or an earlier one.
  Result<std::unique_ptr<Module>> moduleAt(Stage stage) const;
  /// Whether any function has a host scalar of this role.
  bool hasHostScalar(std::string_view role) const;
  /// The function that applies accumulated gradients (updateFunction), or null.
  const Item* update() const { return update_; }
  /// The functions with the attribute `every` that are due behind this step: first the update, then others in text order.
  std::vector<const Item*> due(int64_t step) const;
  int64_t stepsPerUpdate() const;
  /// From one call of this function to the next, in steps.
  int64_t stepsPerCall(const Item& func) const;
  /// Whether a call of the train function itself updates anything.
  bool learns() const { return hasUpdate(trained_ ? *trained_ : *module_, options_.trainFunction); }
  /// The optimizer that updates the parameters: "adam", "sgd" or "".
  std::string optimizer() const;
  /// Protects the function with this key from being dropped for newer batch sizes.
  void pin(const std::string& key) { pinned_ = key; }

  Runner& runner() { return *runner_; }
  const std::shared_ptr<const Module>& module() const { return module_; }
  const SessionInfo& info() const { return info_; }
  bool isBorrowed(const std::string& param) const { return borrowed_.contains(param); }
  Result<ParamBuffers> params();
  /// Locks this session's memory and that of the sessions from which it borrows.
  std::vector<std::unique_lock<std::recursive_mutex>> lockMemory();
  Result<int64_t> kernelCount(const std::string& key) const;

 private:
  /// The modules from which a function can be compiled again.
  struct Source {
    std::shared_ptr<const Module> written;   ///< before the train pipeline; null if given at a later stage
    std::shared_ptr<const Module> trained;   ///< after the train pipeline; null if given at a later stage
    std::shared_ptr<const Module> compiled;  ///< as compiled first
  };
  struct Variant {
    std::string key;
    std::shared_ptr<const Module> module;
    std::map<std::string, Type, std::less<>> captures;
    uint64_t used = 0;  ///< the clock at its last use, to find the oldest
  };
  using VariantId = std::pair<std::string, int64_t>;  ///< function, batch size; 0 means the size as written

  explicit SessionProgram(const SessionOptions& options) : options_(options) {}
  void describeDevice();
  Result<void> borrow(Module& module);
  Result<void> checkOptions(const Module& module) const;
  Result<void> checkParts() const;
  Result<void> checkBorrowed(const Item& param, const ParamBuffer& shared) const;
  Result<void> compile(std::unique_ptr<Module> module);
  Result<std::unique_ptr<Module>> compileSibling(std::unique_ptr<Module> module, const std::string& captures);
  Result<std::unique_ptr<Module>> resized(const Source& source, const std::string& function, int64_t size);
  Result<void> makeVariant(const Source& source, const VariantId& id,
                           const std::vector<std::string>& captures);
  Result<std::vector<std::string>> wantedCaptures(const std::string& function, const Variant* variant,
                                                  const Source& source,
                                                  const std::vector<std::string>& captures) const;
  void addSource(const std::string& function, Source source);
  void dropOldSizes(const std::string& function);
  Result<void> savePipelines(const std::string& file) const;
  Result<void> makeRunner();
  void measure();
  void tell(Severity severity, std::string message) const;
  Target target() const;
  /// The target for a module, perhaps without matrix units (runtime/matrix_units.h).
  Target target(const Module& module) const;
  /// Options that run only these passes.
  CompileOptions passes(const std::string& pipeline) const;
  CompileOptions compileOptions(int64_t reserve) const;

  SessionOptions options_;
  std::string pipeline_;  ///< the passes that made the train function learn; "" if none ran
  SessionInfo info_;
  std::shared_ptr<vulkan::Device> device_;
  BorrowedBuffers windows_;
  ParamBuffers borrowed_;
  std::shared_ptr<const Module> written_, trained_, module_;
  const Item* update_ = nullptr;
  std::vector<const Item*> repeated_;  ///< functions with `every`, the update first
  std::map<std::string, Source> sources_;
  std::map<VariantId, Variant> variants_;
  std::unique_ptr<Runner> runner_;
  /// Locks of this session and of those it borrows from, ordered by address: all sessions lock in the same order.
  std::vector<std::shared_ptr<std::recursive_mutex>> turns_;
  std::shared_ptr<std::recursive_mutex> turn_ = std::make_shared<std::recursive_mutex>();
  std::string pinned_;
  uint64_t clock_ = 0;
};

/// A call whose outputs nobody has taken yet.
struct Session::Begun {
  std::string function;
  SessionProgram::Callable callable;
  StepResult out;                                   ///< the outputs known before the device is done
  std::vector<std::shared_ptr<PendingCall>> parts;  ///< all parts of the batch but the last
  std::shared_ptr<PendingCall> call;
  std::vector<std::shared_ptr<PendingCall>> due;  ///< functions called behind the step (SessionProgram::due)
};

/// A call of a function that is due behind a step.
struct Session::DueCall {
  const Item* func = nullptr;
  Inputs scalars;
  double rate = 0;  ///< the first one among the scalars
};

/// Waits for the turn, locks the memory that the call may access, and runs the call's body.
template <class T, class Body>
CallResult<T> Session::serve(Body body, CallKind kind) {
  TG_CHECK(checkOutside());
  auto turn = queue_.enter(kind);
  if (!turn) return CallResult<T>::aborted(turn.takeError());
  auto memory = program_->lockMemory();
  return CallResult<T>(body());
}

}  // namespace tg
