// SPDX-License-Identifier: Apache-2.0
// What runs the functions of a module and keeps its parameters between calls: a Vulkan device
// (executor.h) or the reference interpreter (interp_runner.h).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/data/array.h"
#include "runtime/data/pieces.h"
#include "runtime/param_buffer.h"

namespace tg {

/// Arrays with their names, in an order that means something.
using NamedArrays = std::vector<std::pair<std::string, HostArray>>;
using Inputs = std::map<std::string, HostArray>;

struct RunOutputs {
  NamedArrays results;   ///< in the function's order
  NamedArrays captures;  ///< those the module kept
  /// A result by name, or null.
  const HostArray* result(std::string_view name) const;
};

/// A call that was begun. Destroyed unread, its outputs are lost and nothing else is; it may outlive its
/// runner.
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  /// Waits for the call and gives its outputs, which is done once.
  virtual Result<RunOutputs> take() = 0;
};

/// One that is done.
class DoneCall : public PendingCall {
 public:
  explicit DoneCall(RunOutputs outputs) : outputs_(std::move(outputs)) {}
  Result<RunOutputs> take() override { return std::move(outputs_); }

 private:
  RunOutputs outputs_;
};

/// Refuses a time to measure for that is infinite or NaN.
Result<void> checkDuration(std::string_view name, double seconds);
/// Refuses bytes from an element on that are not whole rows of a param or state, or not all inside of it.
Result<void> checkRows(const std::string& name, const Type& type, int64_t first, size_t bytes);

/// What params and states held at one moment. It may outlive its runner, and is read by one thread at a time, which
/// need not be the one that makes the calls.
class StorageCopy {
 public:
  virtual ~StorageCopy() = default;
  /// As Runner::readRows.
  virtual Result<void> readRows(const std::string& name, int64_t first, std::span<std::byte> rows) = 0;
};

/// Functions are called by keys: their names, or the ones `addFunction` was given.
class Runner {
 public:
  virtual ~Runner() = default;

  /// Sets params and states by name, in one transfer. Errors: no such name, another type.
  virtual Result<void> setStorages(const NamedArrays& values) = 0;
  /// Params and states in the order of `names`, in one transfer.
  virtual Result<NamedArrays> storages(const std::vector<std::string>& names) = 0;
  /// Writes rows of a param or state, elements along its last axis, from element `first` on: as many bytes of
  /// whole rows as there are (for one axis, any number of elements). The whole of it needs never be on the
  /// host at once. Errors: no such name, rows outside of it.
  virtual Result<void> writeRows(const std::string& name, int64_t first, std::span<const std::byte> rows) = 0;
  virtual Result<void> readRows(const std::string& name, int64_t first, std::span<std::byte> rows) = 0;
  /// All params and states as they are behind the calls so far, in memory of their own where the runner has its
  /// memory. An error where that has no room for as much again.
  virtual Result<std::shared_ptr<StorageCopy>> copyStorages() = 0;
  Result<void> setStorage(const std::string& name, const HostArray& value) {
    return setStorages({{name, value}});
  }
  Result<HostArray> storage(const std::string& name) {
    TG_TRY(NamedArrays values, storages({name}));
    return std::move(values.front().second);
  }
  /// The memory of a param or state, without `turn`.
  virtual Result<ParamBuffer> share(const std::string& name) = 0;

  /// Takes a function of another module over the same params and states, under a key. It takes the place
  /// of one that has the key already.
  virtual Result<void> addFunction(std::shared_ptr<const Module> sibling, const std::string& function,
                                   const std::string& key) = 0;
  /// Forgets a function and what only it needed.
  virtual void dropFunction(const std::string& key) = 0;

  /// Begins a function with all its arguments, host scalars included, by name. What is called later, of any
  /// kind, sees what it did to params and states. Errors: no such function, a missing or unknown input,
  /// another type; then nothing has run.
  virtual Result<std::shared_ptr<PendingCall>> begin(const std::string& key, const Inputs& inputs,
                                                     bool captures) = 0;
  /// The same and waits for it.
  Result<RunOutputs> run(const std::string& key, const Inputs& inputs, bool captures) {
    TG_TRY(std::shared_ptr<PendingCall> call, begin(key, inputs, captures));
    return call->take();
  }
  /// The parameter gradients of the function's last call, by parameter. None when the module did not
  /// keep them.
  virtual Result<NamedArrays> paramGrads(const std::string& key) = 0;
};

/// The error for a key that `functions`, a map by key, lacks.
template <class Map>
Error noFunction(const std::string& key, const Map& functions) {
  std::string known;
  for (const auto& [own, unused] : functions) known += (known.empty() ? "@" : ", @") + own;
  return fail("there is no function @" + key + "; the module has " + (known.empty() ? "none" : known));
}

/// Refuses an input whose bytes are not as many as its shape says.
Result<void> checkBytes(std::string_view function, const std::string& name, const HostArray& input);
/// Refuses inputs that lack one of `arguments` that is not `filledIn` by others, or have one that is none of them.
Result<void> checkNames(std::string_view function, const std::vector<std::pair<std::string, Type>>& arguments,
                        const Inputs& inputs, const std::set<std::string>& filledIn = {});
/// Refuses inputs that are not exactly `arguments` (name and type of each), naming what differs. Looks at no bytes.
Result<void> checkTypes(std::string_view function, const std::vector<std::pair<std::string, Type>>& arguments,
                        const Inputs& inputs);
/// The same, and refuses bytes that are not those of the type.
Result<void> checkInputs(std::string_view function,
                         const std::vector<std::pair<std::string, Type>>& arguments, const Inputs& inputs);

}  // namespace tg
