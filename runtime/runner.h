// SPDX-License-Identifier: Apache-2.0
// The interface that runs the functions of a module and keeps its params and states between calls. There are two
// implementations: on a Vulkan device (executor.h) and on the reference interpreter (interp_runner.h).
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
#include "ir/text.h"
#include "runtime/data/array.h"
#include "runtime/data/pieces.h"
#include "runtime/param_buffer.h"

namespace tg {

/// Arrays with names, in a meaningful order such as that of a function's results.
using NamedArrays = std::vector<std::pair<std::string, HostArray>>;
using Inputs = std::map<std::string, HostArray>;
/// Inputs by name, as views of arrays that must outlive them.
struct InputViews : std::map<std::string, HostView> {
  InputViews() = default;
  InputViews(const Inputs& inputs) { add(inputs); }
  void add(const Inputs& inputs) { insert(inputs.begin(), inputs.end()); }
};
/// The array with this name, or null.
const HostArray* named(const NamedArrays& arrays, std::string_view name);

struct RunOutputs {
  NamedArrays results;   ///< in the order of the function's results
  NamedArrays captures;  ///< those that the module kept
  /// The result with this name, or null.
  const HostArray* result(std::string_view name) const { return named(results, name); }
};

/// A call that has begun. If it is destroyed before `take`, only its outputs are lost. It may outlive its runner.
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  /// Waits for the call and returns its outputs. May be called once.
  virtual Result<RunOutputs> take() = 0;
};

/// A call that is already done.
class DoneCall : public PendingCall {
 public:
  explicit DoneCall(RunOutputs outputs) : outputs_(std::move(outputs)) {}
  Result<RunOutputs> take() override { return std::move(outputs_); }

 private:
  RunOutputs outputs_;
};

/// An error if `seconds`, a time to measure for, is infinite or NaN.
Result<void> checkDuration(std::string_view name, double seconds);
/// An error if `bytes` bytes from element `first` on are not whole rows of a param or state, or lie partly outside of
/// it.
Result<void> checkRows(const std::string& name, const Type& type, int64_t first, size_t bytes);

/// The contents of params and states at one moment. It may outlive its runner. One thread at a time may read it, not
/// necessarily the one that makes the calls.
class StorageCopy {
 public:
  virtual ~StorageCopy() = default;
  /// The same as Runner::readRows.
  virtual Result<void> readRows(const std::string& name, int64_t first, std::span<std::byte> rows) = 0;
};

/// Runs functions by key. A key is a function's name, or what `addFunction` was given.
class Runner {
 public:
  virtual ~Runner() = default;

  /// Sets params and states by name, in one transfer. Errors: an unknown name, another type.
  virtual Result<void> setStorages(const NamedArrays& values) = 0;
  /// The values of params and states in the order of `names`, in one transfer.
  virtual Result<NamedArrays> storages(const std::vector<std::string>& names) = 0;
  /// Writes rows of a param or state from element `first` on. A row is the elements along the last axis, and the span
  /// holds whole rows; with a single axis, any number of elements. So the host never needs to hold the whole value.
  /// Errors: an unknown name, rows outside of the value.
  virtual Result<void> writeRows(const std::string& name, int64_t first, std::span<const std::byte> rows) = 0;
  virtual Result<void> readRows(const std::string& name, int64_t first, std::span<std::byte> rows) = 0;
  /// A copy of all params and states as of the calls so far, in the same kind of memory as the runner's own. An error
  /// if that memory has no room for a copy.
  virtual Result<std::shared_ptr<StorageCopy>> copyStorages() = 0;
  Result<void> setStorage(const std::string& name, const HostArray& value) {
    return setStorages({{name, value}});
  }
  Result<HostArray> storage(const std::string& name) {
    TG_TRY(NamedArrays values, storages({name}));
    return std::move(values.front().second);
  }
  /// The memory of a param or state; the caller fills in `turn`.
  virtual Result<ParamBuffer> share(const std::string& name) = 0;

  /// Adds a function of another module over the same params and states, under a key. Replaces the function that has
  /// this key, if any.
  virtual Result<void> addFunction(std::shared_ptr<const Module> sibling, const std::string& function,
                                   const std::string& key) = 0;
  /// Removes a function and what only it needed.
  virtual void dropFunction(const std::string& key) = 0;

  /// Begins a call of a function. `inputs` has all arguments by name, host scalars included. Later calls of any kind
  /// see its changes to params and states. The inputs have been read when this returns. Errors: no such function, a
  /// missing or unknown input, another type; nothing has then run.
  virtual Result<std::shared_ptr<PendingCall>> begin(const std::string& key, const InputViews& inputs,
                                                     bool captures) = 0;
  /// The same, and waits for the call.
  Result<RunOutputs> run(const std::string& key, const InputViews& inputs, bool captures) {
    TG_TRY(std::shared_ptr<PendingCall> call, begin(key, inputs, captures));
    return call->take();
  }
  /// The parameter gradients of the function's last call, by parameter. Empty if the module did not keep them.
  virtual Result<NamedArrays> paramGrads(const std::string& key) = 0;
};

/// The error for a key that is not in `functions`, a map by key.
template <class Map>
Error noFunction(const std::string& key, const Map& functions) {
  const std::string known = functions.empty() ? "none" : "@" + keysText(functions, ", @");
  return fail("there is no function @" + key + "; the module has " + known);
}

/// An error if an input has not as many bytes as its shape says.
Result<void> checkBytes(std::string_view function, const std::string& name, const HostView& input);
/// An error if an input is missing that is in `arguments` but not in `filledIn`, or if there is an input that is not in
/// `arguments`.
Result<void> checkNames(std::string_view function, const std::vector<std::pair<std::string, Type>>& arguments,
                        const InputViews& inputs, const std::set<std::string>& filledIn = {});
/// An error unless the inputs are exactly `arguments` (name and type); it names what differs. Does not check bytes.
Result<void> checkTypes(std::string_view function, const std::vector<std::pair<std::string, Type>>& arguments,
                        const InputViews& inputs);
/// The same, and also checks the bytes of each input against its type.
Result<void> checkInputs(std::string_view function,
                         const std::vector<std::pair<std::string, Type>>& arguments,
                         const InputViews& inputs);

}  // namespace tg
