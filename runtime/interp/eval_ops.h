// SPDX-License-Identifier: Apache-2.0
// Defines what each op of the tensor dialect computes, in f64. The code is deliberately simple, as every other executor
// is compared with it.
#pragma once

#include <deque>
#include <random>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/interp/kernel_interp.h"
#include "runtime/interp/nd_array.h"

namespace tg {

/// Options of an evaluation, and what it counts.
struct EvalContext {
  bool exact = false;      ///< round the results of every op to their types; otherwise floats stay f64
  int64_t outOfRange = 0;  ///< ids outside their table, once for each op that meets one
  const Module* module = nullptr;  ///< has the kernels of tg.custom; null if there are none to run
  KernelRunOptions kernel;         ///< options for running these
  /// Changes the real results of ops that round, each by at most the unit roundoff of its type; null: none.
  std::minstd_rand* noise = nullptr;
};

/// The evaluation of one op. `in` has the value operands in order; `out` has the right types and is zero-filled.
struct EvalCall {
  const Op& op;
  std::span<const NdArray* const> in;
  std::span<NdArray> out;
  EvalContext& context;
};

/// How an op is evaluated. byScalar: by the row's scalar function, with NumPy broadcasting. rule: by a function of its
/// own. decomposes: as the composite's decomposition into primitives. notInStage: it computes no value of its own
/// (effects, structure), or does not exist any more when anything runs; `reason` says which.
enum class EvalKind : uint8_t { byScalar, rule, decomposes, notInStage };

struct EvalEntry {
  EvalKind kind = EvalKind::notInStage;
  void (*rule)(EvalCall&) = nullptr;
  std::string_view reason;
};

/// The entry of an op. If a row of ir/ops.def has none, this does not compile.
const EvalEntry& evalEntry(Opcode code);

/// The results of a verified op for operands of the right types. Integers wrap at 32 bits. The only error is an op that
/// has no evaluation.
Result<std::vector<NdArray>> evalOp(const Op& op, std::span<const NdArray* const> operands,
                                    EvalContext& context);

/// Runs the kernel of a tg.custom on arrays. Errors, which name the op: an access outside of a buffer, a race, an `out`
/// element that is written twice, a read of undefined memory.
Result<std::vector<NdArray>> evalCustom(const Op& op, std::span<const NdArray* const> inputs,
                                        EvalContext& context);

/// The values of a running block, owned here or borrowed from something that lives longer.
class Environment {
 public:
  void borrow(const Value* value, const NdArray* array) { at_[value] = array; }
  void own(const Value* value, NdArray array) { at_[value] = &owned_.emplace_back(std::move(array)); }
  const NdArray& at(const Value* value) const { return *at_.at(value); }

 private:
  std::unordered_map<const Value*, const NdArray*> at_;
  std::deque<NdArray> owned_;
};

/// Evaluates an op on values of the environment and adds its results to it.
Result<void> evalInto(const Op& op, Environment& environment, EvalContext& context);

}  // namespace tg
