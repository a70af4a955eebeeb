// SPDX-License-Identifier: Apache-2.0
// The evaluation room: what each op of the tensor dialect computes, in f64, from its definition.
// Plain on purpose: this is what every other executor is compared with.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/interp/kernel_interp.h"
#include "runtime/interp/nd_array.h"

namespace tg {

/// How evaluation goes, and what it counts on its way.
struct EvalContext {
  bool exact = false;              ///< round every op's result to its type; else floats stay f64
  int64_t outOfRange = 0;          ///< ids outside their table, once for each op that meets one
  const Module* module = nullptr;  ///< holds the kernels of tg.custom; null: there is none to run
  KernelRunOptions kernel;         ///< how they are run
};

/// One op being evaluated. `in` holds the value operands in order; `out` is typed and zero-filled.
struct EvalCall {
  const Op& op;
  std::span<const NdArray* const> in;
  std::span<NdArray> out;
  EvalContext& context;
};

/// byScalar: the row's scalar function with NumPy broadcasting. rule: a function of its own.
/// decomposes: the composite's primitives. notInStage: no value of its own to compute (effects,
/// structure) or gone before anything runs; `reason` says which.
enum class EvalKind : uint8_t { byScalar, rule, decomposes, notInStage };

struct EvalEntry {
  EvalKind kind = EvalKind::notInStage;
  void (*rule)(EvalCall&) = nullptr;
  std::string_view reason;
};

/// The room's entry of an op. Every row of ir/ops.def has one, or this does not compile.
const EvalEntry& evalEntry(Opcode code);

/// The results of a verified op for operands of its operands' types. Integers wrap at 32 bits. An
/// error only for an op that has no evaluation.
Result<std::vector<NdArray>> evalOp(const Op& op, std::span<const NdArray* const> operands,
                                    EvalContext& context);

/// For each element of the first result, the sum of |terms| added up for it: ops of the tolerance class
/// `reduction`, and random_normal. Nothing for other ops. It scales their tolerance.
std::optional<NdArray> evalMagnitude(const Op& op, std::span<const NdArray* const> operands);

/// The results of a tg.custom: its kernel on arrays. An access outside of a buffer, a race, or an `out`
/// element written twice or undefined memory that is read is an error here, which names the op.
Result<std::vector<NdArray>> evalCustom(const Op& op, std::span<const NdArray* const> inputs,
                                        EvalContext& context);

/// Values while a block runs, owned here or borrowed from a longer-lived place.
class Environment {
 public:
  void borrow(const Value* value, const NdArray* array) { at_[value] = array; }
  void own(const Value* value, NdArray array) { at_[value] = &owned_.emplace_back(std::move(array)); }
  const NdArray& at(const Value* value) const { return *at_.at(value); }

 private:
  std::unordered_map<const Value*, const NdArray*> at_;
  std::deque<NdArray> owned_;
};

/// Evaluates an op on the environment's values and adds its results.
Result<void> evalInto(const Op& op, Environment& environment, EvalContext& context);

}  // namespace tg
