// SPDX-License-Identifier: Apache-2.0
// The gradient rules of kernel ops. Ops of the scalar table have their derivative there; the rules of all others are here.
#include <algorithm>
#include <array>

#include "ir/kernel/expr.h"
#include "ir/kernel/semantics.h"
#include "ir/scalar_expr.h"
#include "passes/kernel/adjoint.h"
#include "passes/kernel/effects.h"

namespace tg {

namespace {

/// Ops of floats that have a case in `distribute`, or through which nothing passes.
constexpr bool hasOwnRule(Opcode code) {
  return code == Opcode::k_fma || code == Opcode::k_round_f16 || code == Opcode::k_round_bf16 ||
         code == Opcode::k_stop_gradient;
}

/// Whether an op computes floats from floats.
constexpr bool isOfFloats(LaneTypes types, LaneGives gives) {
  return (types == LaneTypes::number || types == LaneTypes::real) &&
         (gives == LaneGives::same || gives == LaneGives::real);
}

#define OP(id, name, operands, attributes, results, regions, traits, where, fusion, scalar, ...) \
  [[maybe_unused]] constexpr Scalar scalarOf_##id = Scalar::scalar;
#include "ir/kernel/ops.def"
#undef OP

#define OTHER(...)
#define LANES(id, types, gives, ...)                                                                         \
  static_assert(!isOfFloats(LaneTypes::types, LaneGives::gives) || scalarOf_##id != Scalar::none ||          \
                    hasOwnRule(Opcode::id),                                                                  \
                #id ": name its row of ir/scalar.def in ir/kernel/ops.def, or give `distribute` a case and " \
                    "list it in `hasOwnRule`");
#include "ir/kernel/semantics.def"

}  // namespace

/// Whether the derivative of an op needs no values of the forward pass.
static bool isLinear(const Op& op) {
  return op.code == Opcode::k_add || op.code == Opcode::k_sub || op.code == Opcode::k_neg;
}

/// Whether the factor of operand `index`'s adjoint may be infinite or NaN.
bool AdjointSweep::hasPole(const Op& op, size_t index) const {
  auto singular = [&](const Operand& operand) {
    return operand.kind == Operand::Kind::value && activity_.singular(operand.value);
  };
  switch (op.code) {
  case Opcode::k_add:
  case Opcode::k_sub:
  case Opcode::k_neg:
  case Opcode::k_select:
  case Opcode::k_min:
  case Opcode::k_max: return false;
  case Opcode::k_mul:
  case Opcode::k_fma: return index < 2 && singular(op.operands[1 - index]);
  default: return activity_.singular(op.result()) || std::ranges::any_of(op.operands, singular);
  }
}

KV AdjointSweep::settled(const Op& op, size_t index, const KV& g, const KV& term) {
  if (!hasPole(op, index) || term.isLiteral()) return term;
  // With a finite factor the term is 0 already. The select changes it only where the factor is not finite, so derivatives
  // of the VJP stay right everywhere else.
  KV zero = KernelBuilder::f32(0);
  KV lost = builder_.op(Opcode::k_and,
                        {builder_.op(Opcode::k_eq, {g, zero}), builder_.op(Opcode::k_ne, {term, zero})});
  return builder_.select(lost, zero, term);
}

static KV sumOfLanes(KernelBuilder& builder, const KV& vector) {
  KV sum = builder.extract(vector, 0);
  for (int lane = 1; lane < vector.lanes(); ++lane) sum = builder.add(sum, builder.extract(vector, lane));
  return sum;
}

/// Adds to the adjoints of an op's operands, given the adjoint of its result.
void AdjointSweep::distribute(const Op& op, const KV& narrow) {
  KV g = builder_.widened(narrow, op.result()->type);
  switch (op.code) {
  case Opcode::k_fma: {
    KV a = replay_.operand(op, 0), b = replay_.operand(op, 1);
    std::array<KV, 3> terms{settled(op, 0, g, builder_.mul(g, b)), settled(op, 1, g, builder_.mul(g, a)), g};
    for (size_t i = 0; i < 3; ++i) {
      bool scalar = op.operands[i].value && op.operands[i].value->type.lanes < g.lanes();
      if (activity_.active(op.operands[i]))
        add(op.operands[i], scalar ? sumOfLanes(builder_, terms[i]) : terms[i]);
    }
    return;
  }
  case Opcode::k_cast:
  case Opcode::k_round_f16:
  case Opcode::k_round_bf16: return add(op.operands[0], g);
  case Opcode::k_vec:
    if (op.operands.size() == 1) return add(op.operands[0], sumOfLanes(builder_, g));
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (activity_.active(op.operands[i])) add(op.operands[i], builder_.extract(g, static_cast<int>(i)));
    return;
  case Opcode::k_extract: {
    std::vector<KV> lanes(op.in(0)->type.lanes, KernelBuilder::f32(0));
    lanes[static_cast<size_t>(op.operands[1].integer)] = g;
    return add(op.operands[0], op.in(0)->type.lanes == 1 ? g : builder_.vec(lanes));
  }
  case Opcode::k_workgroup_reduce:
  case Opcode::k_subgroup_reduce: return distributeReduce(op, g);
  case Opcode::k_subgroup_shuffle: return distributeShuffle(op, g);
  default: return distributeScalar(op, g);
  }
}

void AdjointSweep::distributeScalar(const Op& op, const KV& g) {
  std::vector<KExpr> operands;
  bool needsValues = !isLinear(op);
  for (int i = 0; i < op.numOperands(); ++i) {
    bool value = needsValues || op.operands[static_cast<size_t>(i)].isLiteral();
    operands.push_back({&builder_, value ? replay_.operand(op, i) : g});
  }
  KExpr result{&builder_, needsValues ? replay_.primal(op.result()) : g};
  builder_.setLoc(derivedLoc("vjp", op.loc));
  std::vector<KExpr> grads = scalarGrads<KExpr>(op.info().scalar, operands, result, {&builder_, g});
  for (size_t i = 0; i < grads.size(); ++i) {
    const Operand& operand = op.operands[i];
    if (!grads[i].kernel || !activity_.active(operand)) continue;
    KV term = settled(op, i, g, grads[i].v);
    add(operand, operand.value->type.lanes < term.lanes() ? sumOfLanes(builder_, term) : term);
  }
}

// ----------------------------------------------------------------------------------- cooperation

KV AdjointSweep::reduced(const Op& op, const KV& x, std::string_view kind) {
  return op.code == Opcode::k_workgroup_reduce ? builder_.workgroupReduce(x, kind)
                                               : builder_.subgroupReduce(x, kind);
}

/// An invocation's index among those that an op combines.
KV AdjointSweep::place(const Op& op) {
  return op.code == Opcode::k_workgroup_reduce ? memory_.localIndex()
                                               : builder_.subgroup(Opcode::k_subgroup_lane);
}

/// ∂(Πx)/∂x without division by zero: if exactly one factor is 0, only its own derivative is not 0.
KV AdjointSweep::productOfOthers(const Op& op, const KV& x, const KV& r) {
  KV zero = KernelBuilder::f32(0), one = KernelBuilder::f32(1);
  KV isZero = builder_.op(Opcode::k_eq, {x, zero});
  KV zeros = reduced(op, builder_.select(isZero, one, builder_.mul(zero, x)), "add");
  KV rest = reduced(op, builder_.select(isZero, one, x), "mul");
  KV others = builder_.op(Opcode::k_div, {r, builder_.select(isZero, one, x)});
  KV alone = builder_.select(builder_.op(Opcode::k_eq, {zeros, one}), rest, builder_.mul(zero, x));
  return builder_.select(isZero, alone, others);
}

void AdjointSweep::distributeReduce(const Op& op, const KV& g) {
  KV total = reduced(op, g, "add");
  std::string kind = op.word("kind");
  if (kind == "add") return add(op.operands[0], total);
  KV x = replay_.operand(op, 0), r = replay_.primal(op.result());
  if (kind == "mul")
    return add(op.operands[0], settled(op, 0, total, builder_.mul(total, productOfOthers(op, x, r))));
  // The first invocation that holds the extremum gets the adjoint.
  KV here = place(op);
  KV none = KernelBuilder::u32(UINT32_MAX);
  KV at = builder_.op(Opcode::k_select, {builder_.op(Opcode::k_eq, {x, r}), here, none}, DType::u32);
  KV first = reduced(op, at, "min");
  add(op.operands[0],
      builder_.op(Opcode::k_select, {builder_.op(Opcode::k_eq, {first, here}), total, KernelBuilder::f32(0)},
                  DType::f32));
}

/// y[i] = x[lane i], so x[j] gets the sum of the adjoints of all i whose lane is j. A loop over the subgroup reads, from
/// each active invocation, its adjoint and the lane that it read.
void AdjointSweep::distributeShuffle(const Op& op, const KV& g) {
  KV lane = replay_.operand(op, 1), here = builder_.subgroup(Opcode::k_subgroup_lane);
  KV ballot = builder_.subgroupBallot(KernelBuilder::literal(DType::i1, 1));
  std::array<KV, 4> words;
  for (int i = 0; i < 4; ++i) words[static_cast<size_t>(i)] = builder_.extract(ballot, i);
  const Type& type = op.in(0)->type;
  KV zero = builder_.widened(KernelBuilder::f32(0), type);
  KV dy = builder_.widened(g, type);
  std::vector<KV> sums = builder_.loop(
      builder_.depth(), KernelBuilder::u32(0), builder_.subgroup(Opcode::k_subgroup_size),
      KernelBuilder::u32(1), {zero}, [&](const KV& source, const std::vector<KV>& sum) {
        KV word = words[3];
        for (int i = 2; i >= 0; --i)
          word = builder_.select(builder_.op(Opcode::k_lt, {source, KernelBuilder::u32(32 * (i + 1))}),
                                 words[static_cast<size_t>(i)], word);
        KV bit =
            builder_.op(Opcode::k_and, {builder_.op(Opcode::k_shr, {word, source}), KernelBuilder::u32(1)});
        KV arrived = builder_.op(Opcode::k_ne, {bit, KernelBuilder::u32(0)});
        KV from = builder_.select(arrived, source, here);
        KV theirs = builder_.subgroupShuffle(dy, from);
        KV read = lane.isLiteral() ? lane : builder_.subgroupShuffle(lane, from);
        KV mine = builder_.op(Opcode::k_and, {arrived, builder_.op(Opcode::k_eq, {read, here})});
        KV term = builder_.op(Opcode::k_select, {mine, theirs, KernelBuilder::f32(0)}, DType::f32);
        return std::vector<KV>{builder_.add(sum[0], term)};
      });
  add(op.operands[0], sums[0]);
}

/// Calls the VJP that the func names: with its arguments and the adjoints of its float results.
void AdjointSweep::distributeCall(const Op& op) {
  std::vector<KV> inputs, gs;
  bool any = false;
  for (const auto& result : op.results) {
    KV g = take(result.get());
    any = any || !g.is(0);
    if (isFloat(result->type.dtype)) gs.push_back(builder_.widened(g, result->type));
  }
  const Item* callee = module_.kernelFunc(op.operands[0].text);
  const Attr* own = callee ? find(callee->attrs, "vjp") : nullptr;
  if (!any || !own) return;
  std::vector<Type> types;
  std::vector<int> wanted;
  for (int i = 1; i < op.numOperands(); ++i) {
    inputs.push_back(replay_.operand(op, i));
    const Type& type = callee->body.args[static_cast<size_t>(i) - 1]->type;
    if (!isFloat(type.dtype)) continue;
    types.push_back(type);
    wanted.push_back(i);
  }
  inputs.insert(inputs.end(), gs.begin(), gs.end());
  builder_.setLoc(derivedLoc("vjp", op.loc));
  std::vector<KV> grads = builder_.call(own->text, inputs, types);
  for (size_t i = 0; i < wanted.size(); ++i) add(op.operands[static_cast<size_t>(wanted[i])], grads[i]);
}

// ---------------------------------------------------------------------------------------- memory

void AdjointSweep::distributeMemory(const Op& op) {
  const Operand& element = *elementOf(op);
  if (isLoad(op)) {
    KV g = take(op.result());
    if (!g.is(0)) memory_.add(element, g, replay_.uniformFlow());
    return;
  }
  if (!activity_.active(element.value)) return;
  // A store replaces the element, so its adjoint ends here; an addition keeps it.
  KV g = memory_.load(element);
  if (op.code == Opcode::k_store) memory_.clear(element);
  add(op.operands[0], g);
}

}  // namespace tg
