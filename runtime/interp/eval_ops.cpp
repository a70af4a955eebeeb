// SPDX-License-Identifier: Apache-2.0
#include "runtime/interp/eval_ops.h"
#include "ir/op_view.h"

#include <fmt/format.h>

#include "ir/builder.h"
#include "runtime/interp/eval_elementwise.h"
#include "runtime/interp/eval_index.h"
#include "runtime/interp/eval_reduce.h"
#include "runtime/interp/eval_shape.h"
#include "runtime/interp/tolerance.h"

namespace tg {

namespace {

constexpr EvalEntry notInStage(std::string_view reason) { return {EvalKind::notInStage, nullptr, reason}; }

/// The reason why a row has no value of its own to compute; empty for other rows.
template <Opcode>
constexpr EvalEntry kNotHere{};

constexpr EvalEntry kWalked = notInStage("the interpreter's walk over the function does this itself");
#define WALKED(id) \
  template <>      \
  constexpr EvalEntry kNotHere<Opcode::id> = kWalked
WALKED(param);
WALKED(state);
WALKED(update);
WALKED(param_grad);
WALKED(capture);
WALKED(all_reduce);
WALKED(reduce_scatter);
WALKED(all_gather);
WALKED(adjoin);
WALKED(disjoin);
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
#undef WALKED
template <>
constexpr EvalEntry kNotHere<Opcode::custom> = notInStage("evalOp runs its kernel");
template <>
constexpr EvalEntry kNotHere<Opcode::grad> = notInStage("run append-grad first: it expands tg.grad into ops");

/// A row without an `evaluate` function in the header of its family does not compile.
template <class Row>
void evaluateRow(EvalCall& call) {
  evaluate(Row{}, call);
}

// Scalar ops and composites get their entries from their rows.
template <Opcode code, class Row, Scalar scalar, unsigned traits>
constexpr EvalEntry entryOf() {
  if constexpr (scalar != Scalar::none)
    return {EvalKind::byScalar, evalByScalar, {}};
  else if constexpr ((traits & table::composite) != 0)
    return {EvalKind::decomposes, nullptr, {}};
  else if constexpr (!kNotHere<code>.reason.empty())
    return kNotHere<code>;
  else
    return {EvalKind::rule, evaluateRow<Row>, {}};
}

using namespace table;
constexpr EvalEntry kEntries[] = {
#define OP(id, name, slots, attrs, res, regions, traits, where, fusion, scalarId, ...) \
  entryOf<Opcode::id, at::id, Scalar::scalarId, (traits)>(),
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

/// Whether an op rounds reals: by a function that is not exact, or by adding up terms.
bool rounds(const OpInfo& op) {
  if (op.scalar != Scalar::none) return info(op.scalar).ulps > 0;
  return op.code == Opcode::sum || op.code == Opcode::mean || op.fusion == table::Fusion::contraction ||
         op.fusion == table::Fusion::scatter || op.fusion == table::Fusion::window;
}

/// Another rounding of every real.
void disturb(NdArray& array, std::minstd_rand& noise) {
  if (!isFloat(array.type.dtype)) return;
  std::uniform_real_distribution<double> error(-epsilonOf(array.type.dtype) / 2,
                                               epsilonOf(array.type.dtype) / 2);
  for (double& value : array.data) value *= 1 + error(noise);
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
    return failAt(op.loc, "{} cannot be evaluated: {}", op.info().name, entry.reason);
  if (entry.kind == EvalKind::decomposes) {
    EvalCall call{op, operands, {}, context};
    return evalDecomposed(call);
  }
  std::vector<NdArray> out = resultsOf(op);
  EvalCall call{op, operands, out, context};
  entry.rule(call);
  if (context.noise && rounds(op.info()))
    for (NdArray& array : out) disturb(array, *context.noise);
  for (NdArray& array : out)
    if (context.exact || !isFloat(array.type.dtype)) roundAll(array);
  return out;
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
