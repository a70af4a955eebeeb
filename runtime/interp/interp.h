// SPDX-License-Identifier: Apache-2.0
// The reference interpreter: runs a function of a module of any stage by simple, direct code. The compiler's passes and
// the devices are compared with it (`tolerance.h` says how closely).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/collective/engine.h"
#include "runtime/interp/kernel_interp.h"
#include "runtime/interp/nd_array.h"

namespace tg {

/// wide: floats stay f64 from op to op (but a value in a planned buffer is rounded). exact: the results of every op are
/// rounded to their types. automatic: wide for stages tensor and fused, exact from planned on. Kernels of tg.custom
/// follow the mode; dispatched kernels always round.
enum class InterpMode : uint8_t { automatic, wide, exact };

struct InterpOptions {
  InterpMode mode = InterpMode::automatic;
  KernelRunOptions kernel;  ///< schedule of a kernel's lanes, bounds and race checks; `wide` is not used
  /// If not 0, the seed of errors of f32, or of 16 bits, in the results of ops over tensors: another way to round them.
  uint32_t noise = 0;
  /// Gradients by parameter that stand for the computed ones: the ops after them, such as an optimizer's, read these. Before
  /// stage planned.
  std::map<std::string, NdArray> paramGrads = {};
  /// Connects this rank with others; null for a single rank.
  std::shared_ptr<collective::Engine> ranks = nullptr;
};

struct RunCounters {
  int64_t outOfRange = 0;             ///< ids outside of their table, accesses of kernels outside of a buffer
  int64_t races = 0;                  ///< data races of kernels
  int64_t rewrites = 0;               ///< kernels' second stores to an element of an `out` buffer
  int64_t uninitialised = 0;          ///< kernels' reads of shared, local or tape elements before a write
  std::vector<std::string> findings;  ///< a line for each of the kernels' findings
};

struct RunResult {
  std::vector<std::pair<std::string, NdArray>> results;  ///< in the function's order
  std::map<std::string, NdArray> captures;               ///< by capture name
  std::map<std::string, NdArray> paramGrads;             ///< by parameter
  RunCounters counters;

  /// The result with this name, or null.
  const NdArray* result(std::string_view name) const;
};

/// The params and states that are kept between calls.
class InterpState;

class Interpreter {
 public:
  /// `module` must be verified and outlive the interpreter. Params and states are zero at first. An error if a planned
  /// module has a param or state without a home.
  static Result<Interpreter> create(const Module& module, const InterpOptions& options = {});
  Interpreter(Interpreter&&) noexcept;
  Interpreter& operator=(Interpreter&&) noexcept;
  ~Interpreter();

  /// Sets a param or state. Errors: an unknown name (the error lists the known ones), another type, a wrong number of
  /// elements.
  Result<void> setStorage(const std::string& name, const NdArray& value);
  Result<NdArray> storage(const std::string& name) const;
  /// Writes elements of a param or state from `first` on, which must be whole rows of its last axis and lie inside it.
  /// Errors: no such name.
  Result<void> writeRows(const std::string& name, int64_t first, std::span<const double> elements);
  Result<void> readRows(const std::string& name, int64_t first, std::span<double> elements) const;
  /// `sharedStorage` returns the array that holds a param or state; `shareStorage` replaces it by an array of another
  /// interpreter, so that both see each other's updates. Errors: as for setStorage, and stage planned or later.
  Result<std::shared_ptr<NdArray>> sharedStorage(const std::string& name) const;
  Result<void> shareStorage(const std::string& name, std::shared_ptr<NdArray> array);

  /// Runs a function. `inputs` has all its arguments by name, host scalars included. Errors: no such function, a
  /// missing or unknown input, a wrong shape or element type, an op that cannot be evaluated. Before stage planned,
  /// reads of params and states see their values at entry, and updates are committed at the end; after an error nothing
  /// is updated. From planned on, the arena starts as NaN patterns.
  Result<RunResult> run(const std::string& function, const std::map<std::string, NdArray>& inputs);

 private:
  explicit Interpreter(std::unique_ptr<InterpState> state);
  std::unique_ptr<InterpState> state_;
};

}  // namespace tg
