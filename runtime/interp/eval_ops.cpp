// SPDX-License-Identifier: Apache-2.0
#include "runtime/interp/eval_ops.h"
#include "ir/op_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/builder.h"
#include "runtime/interp/eval_elementwise.h"
#include "runtime/interp/eval_index.h"
#include "runtime/interp/eval_random.h"
#include "runtime/interp/eval_reduce.h"
#include "runtime/interp/eval_shape.h"
#include "runtime/interp/eval_window.h"
#include "runtime/interp/tolerance.h"

namespace tg {

namespace {

constexpr EvalEntry rule(void (*function)(EvalCall&)) { return {EvalKind::rule, function, {}}; }
constexpr EvalEntry notInStage(std::string_view reason) { return {EvalKind::notInStage, nullptr, reason}; }

template <Opcode code>
constexpr EvalEntry missing() {
  static_assert(code == Opcode::param && code == Opcode::state,
                "an op of ir/ops.def has no evaluation entry");
  return {};
}

// The room. Rows with a scalar and composites have their entry by their row.
template <Opcode code>
constexpr EvalEntry kEntry = missing<code>();

#define RULE(id, function) \
  template <>              \
  constexpr EvalEntry kEntry<Opcode::id> = rule(function)
RULE(constant, evalConstant);
RULE(iota, evalIota);
RULE(causal_mask, evalCausalMask);
RULE(one_minus_pow, evalOneMinusPow);
RULE(cast, evalCast);
RULE(sum, evalSum);
RULE(mean, evalMean);
RULE(max_reduce, evalMaxReduce);
RULE(argmax, evalArgExtremum);
RULE(min_reduce, evalMinReduce);
RULE(argmin, evalArgExtremum);
RULE(cumsum, evalCumsum);
RULE(reshape, evalReshape);
RULE(transpose, evalTranspose);
RULE(slice, evalSlice);
RULE(pad, evalPad);
RULE(concat, evalConcat);
RULE(broadcast_to, evalBroadcastTo);
RULE(matmul, evalMatmul);
RULE(gather, evalGather);
RULE(scatter_add, evalScatterAdd);
RULE(one_hot, evalOneHot);
RULE(flip, evalFlip);
RULE(take_along_axis, evalTakeAlongAxis);
RULE(take_along_axis_grad, evalTakeAlongAxisGrad);
RULE(unfold, evalUnfold);
RULE(fold, evalFold);
RULE(random_uniform, evalRandomUniform);
RULE(random_normal, evalRandomNormal);

constexpr EvalEntry kWalked = notInStage("the interpreter's walk over the function does this itself");
#define WALKED(id) \
  template <>      \
  constexpr EvalEntry kEntry<Opcode::id> = kWalked
WALKED(param);
WALKED(state);
WALKED(update);
WALKED(param_grad);
WALKED(capture);
WALKED(all_reduce);
WALKED(reduce_scatter);
WALKED(all_gather);
WALKED(fused);
WALKED(yield);
WALKED(return_);
WALKED(home);
WALKED(dispatch);
WALKED(barrier);
WALKED(fill);
WALKED(copy);
WALKED(collective_begin);
WALKED(collective_wait);
#undef RULE
#undef WALKED
template <>
constexpr EvalEntry kEntry<Opcode::custom> = notInStage("evalOp runs its kernel");
template <>
constexpr EvalEntry kEntry<Opcode::grad> = notInStage("run append-grad first: it expands tg.grad into ops");

template <Opcode code, Scalar scalar, unsigned traits>
constexpr EvalEntry entryOf() {
  if constexpr (scalar != Scalar::none)
    return {EvalKind::byScalar, evalByScalar, {}};
  else if constexpr ((traits & table::composite) != 0)
    return {EvalKind::decomposes, nullptr, {}};
  else
    return kEntry<code>;
}

using namespace table;
constexpr EvalEntry kEntries[] = {
#define OP(id, name, slots, attrs, res, regions, traits, where, fusion, scalarId, ...) \
  entryOf<Opcode::id, Scalar::scalarId, (traits)>(),
#include "ir/ops.def"
#undef OP
};
constexpr EvalEntry kKernelCode = notInStage("kernel code: the kernel interpreter runs it");

/// Result arrays of an op, zero-filled.
std::vector<NdArray> resultsOf(const Op& op) {
  std::vector<NdArray> out;
  out.reserve(op.results.size());
  for (const auto& result : op.results) out.push_back(NdArray::zeros(result->type));
  return out;
}

Result<std::vector<NdArray>> evalDecomposed(EvalCall& call) {
  countTargets(call);
  Block scratch;
  Environment environment;
  std::vector<Value*> arguments;
  for (const NdArray* operand : call.in) {
    arguments.push_back(scratch.addArg(operand->type, fmt::format("x{}", arguments.size())));
    environment.borrow(arguments.back(), operand);
  }
  Builder builder(scratch);
  builder.setLoc(call.op.loc);
  const std::vector<Value*> results = decompose(call.op, arguments, builder);
  for (Op* op : scratch.ops) TG_CHECK(evalInto(*op, environment, call.context));
  std::vector<NdArray> out;
  for (const Value* result : results) out.push_back(environment.at(result));
  return out;
}

/// |mean| + |std·z|, the terms of a normal value.
NdArray normalMagnitude(const Op& op, std::span<const NdArray* const> operands) {
  std::vector<NdArray> out = resultsOf(op);
  EvalContext context;
  EvalCall call{op, operands, out, context};
  evalRandomNormal(call);
  const double mean = as::random_normal(op).mean();
  for (double& value : out[0].data) value = std::fabs(mean) + std::fabs(value - mean);
  return std::move(out[0]);
}

}  // namespace

const EvalEntry& evalEntry(Opcode code) {
  const auto index = static_cast<size_t>(code);
  return index < std::size(kEntries) ? kEntries[index] : kKernelCode;
}

Result<std::vector<NdArray>> evalOp(const Op& op, std::span<const NdArray* const> operands,
                                    EvalContext& context) {
  if (op.code == Opcode::custom) return evalCustom(op, operands, context);
  const EvalEntry& entry = evalEntry(op.code);
  if (entry.kind == EvalKind::notInStage)
    return failAt(op.loc, fmt::format("{} cannot be evaluated: {}", op.info().name, entry.reason));
  if (entry.kind == EvalKind::decomposes) {
    EvalCall call{op, operands, {}, context};
    return evalDecomposed(call);
  }
  std::vector<NdArray> out = resultsOf(op);
  EvalCall call{op, operands, out, context};
  entry.rule(call);
  for (NdArray& array : out)
    if (context.exact || !isFloat(array.type.dtype)) roundAll(array);
  return out;
}

std::optional<NdArray> evalMagnitude(const Op& op, std::span<const NdArray* const> operands) {
  if (op.code == Opcode::random_normal) return normalMagnitude(op, operands);
  if (toleranceClass(op.info()) != ToleranceClass::reduction) return std::nullopt;
  // Each is a sum of products of its float operands, so their absolute values give the sum of |terms|; the x
  // of max_pool2d_grad only selects terms.
  std::vector<NdArray> absolute;
  for (const NdArray* operand : operands) {
    const bool selects = op.code == Opcode::max_pool2d_grad && absolute.empty();
    absolute.push_back(*operand);
    if (isFloat(operand->type.dtype) && !selects)
      for (double& value : absolute.back().data) value = std::fabs(value);
  }
  std::vector<const NdArray*> pointers;
  for (const NdArray& operand : absolute) pointers.push_back(&operand);
  EvalContext context;
  auto out = evalOp(op, pointers, context);
  if (!out) return std::nullopt;
  return std::move((*out)[0]);
}

Result<void> evalInto(const Op& op, Environment& environment, EvalContext& context) {
  std::vector<const NdArray*> operands;
  for (const Operand& operand : op.operands)
    if (operand.kind == Operand::Kind::value) operands.push_back(&environment.at(operand.value));
  TG_TRY(std::vector<NdArray> results, evalOp(op, operands, context));
  for (size_t i = 0; i < results.size(); ++i) environment.own(op.results[i].get(), std::move(results[i]));
  return {};
}

}  // namespace tg
