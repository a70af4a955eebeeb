// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit_region.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace tg {

RegionEmitter::RegionEmitter(KernelBuilder& kernel, IndexSpace& space, const Op& fused,
                             const PlainRegion& region, const std::vector<bool>& mayTexel)
    : kernel_(kernel), space_(space), fused_(fused), region_(region), mayTexel_(mayTexel) {
  for (size_t i = 0; i < region.bindings.size(); ++i) bindingOf_[region.bindings[i]] = static_cast<int>(i);
}

static std::string keyOf(const Value* v, const Indices& at) {
  std::string key;
  key.reserve(sizeof v + at.size() * 64);
  key.append(reinterpret_cast<const char*>(&v), sizeof v);
  for (const Index& index : at) index.appendTo(key);
  return key;
}

int RegionEmitter::levelOf(const Indices& at) const {
  int level = kernel_.guardDepth();
  for (const Index& index : at) level = std::max(level, space_.level(index));
  return level;
}

void RegionEmitter::remember(std::string_view key, const KV& value) {
  const Known now{value, kernel_.scopeId(value.level)};
  if (auto it = known_.find(key); it != known_.end())
    it->second = now;
  else
    known_.emplace(key, now);
}

KV RegionEmitter::emit(const Value* v, const Indices& at) {
  std::string key = keyOf(v, at);
  if (auto it = known_.find(std::string_view(key)); it != known_.end()) {
    int level = it->second.value.level;
    if (level <= kernel_.depth() && kernel_.scopeId(level) == it->second.scope) return it->second.value;
  }
  KV value = compute(v, at);
  remember(key, value);
  return value;
}

KV RegionEmitter::emitLinear(const Value* v, const Index& offset) {
  if (space_.laneDelinearizes(offset, v->type.shape)) return emit(v, space_.delinear(offset, v->type.shape));
  std::vector<KV> lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes.push_back(emitLinear(v, IndexSpace::atLane(offset, lane)));
  return kernel_.vec(lanes);
}

void RegionEmitter::define(const Value* v, const Indices& at, const KV& value) {
  remember(keyOf(v, at), value);
}

KV RegionEmitter::lanewise(const Value* v, const Indices& at) {
  std::vector<KV> lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes.push_back(emit(v, IndexSpace::atLane(at, lane)));
  return kernel_.vec(lanes);
}

/// The element type a tensor's buffer has in a kernel: i1 is stored as u32.
static DType stored(DType dtype) { return dtype == DType::i1 ? DType::u32 : dtype; }

Value* RegionEmitter::parameterFor(bool isResult, int slot, bool vector) {
  const Value* value =
      isResult ? region_.yields[static_cast<size_t>(slot)] : region_.bindings[static_cast<size_t>(slot)];
  bool texel = !isResult && mayTexel_[static_cast<size_t>(slot)];
  int64_t elements = value->type.elements() / (vector ? kLanes : 1);
  Type type = Type::buffer(stored(value->type.dtype), vector ? kLanes : 1, {elements},
                           isResult ? BufMode::out : BufMode::in, texel);
  return parameterAs(isResult, slot, vector ? 'v' : 's', type);
}

Value* RegionEmitter::parameterAs(bool isResult, int slot, char form, const Type& type) {
  std::string key = fmt::format("{}{}{}", isResult ? 'r' : 'b', slot, form);
  if (auto it = buffers_.find(key); it != buffers_.end()) return it->second;
  const auto at = static_cast<size_t>(slot);
  params_.push_back({isResult, slot});
  return buffers_[key] =
             kernel_.parameter(type, (isResult ? region_.yields[at] : region_.bindings[at])->name);
}

KV RegionEmitter::load(int binding, const Index& offset) {
  const Type& type = region_.bindings[static_cast<size_t>(binding)]->type;
  auto finish = [&](KV value) {
    return type.dtype == DType::i1 ? kernel_.op(Opcode::k_ne, {value, KernelBuilder::u32(0)}, DType::i1)
                                   : value;
  };
  if (!IndexSpace::usesLane(offset)) return finish(loadOne(binding, offset));
  Index base = IndexSpace::atLane(offset, 0);
  bool vectors = !byElement_ || mayTexel_[static_cast<size_t>(binding)];
  if (vectors && IndexSpace::factor(offset, kLane) == 1 && space_.align(base) % kLanes == 0 &&
      type.elements() % kLanes == 0)
    return finish(
        kernel_.load(parameterFor(false, binding, true), space_.materialize(space_.div(base, kLanes))));
  ++splitLoads_;
  std::vector<KV> lanes;
  for (int lane = 0; lane < kLanes; ++lane)
    lanes.push_back(finish(loadOne(binding, IndexSpace::atLane(offset, lane))));
  return kernel_.vec(lanes);
}

/// Where an element's place among four neighbours is known and texels are read, which come as four at the
/// price of one, it is taken out of them: neighbours that are read too find the load made.
KV RegionEmitter::loadOne(int binding, const Index& offset) {
  const Type& type = region_.bindings[static_cast<size_t>(binding)]->type;
  Index base = offset;
  int lane = static_cast<int>((offset.c % kLanes + kLanes) % kLanes);
  base.c -= lane;
  if (mayTexel_[static_cast<size_t>(binding)] && !base.isConstant() && type.elements() % kLanes == 0 &&
      space_.align(base) % kLanes == 0)
    return kernel_.extract(
        kernel_.load(parameterFor(false, binding, true), space_.materialize(space_.div(base, kLanes))), lane);
  return kernel_.load(parameterFor(false, binding, false), space_.materialize(offset));
}

void RegionEmitter::store(int slot, const Index& offset) {
  store(slot, offset, emitLinear(region_.yields[static_cast<size_t>(slot)], offset));
}

void RegionEmitter::store(int slot, const Index& offset, KV element) {
  bool vector = IndexSpace::usesLane(offset);
  const DType dtype = region_.yields[static_cast<size_t>(slot)]->type.dtype;
  if (isNarrow(dtype)) element = beforeRounding(element, dtype);
  if (region_.yields[static_cast<size_t>(slot)]->type.dtype == DType::i1)
    element = kernel_.select(element, KernelBuilder::u32(1), KernelBuilder::u32(0));
  Index index = vector ? space_.div(IndexSpace::atLane(offset, 0), kLanes) : offset;
  kernel_.store(element, parameterFor(true, slot, vector), space_.materialize(index));
}

/// The lowering room: a row of ops.def without an entry does not compile. Elementwise rows go by the
/// scalar table and composites by their decomposition without being named here.
struct LoweringRules {
  template <Opcode>
  static constexpr Lowering entry{};
};
#define RULE(id, function) \
  template <>              \
  constexpr Lowering LoweringRules::entry<Opcode::id> = {Lowering::Kind::rule, &RegionEmitter::function, {}}
#define NOT_HERE(id, why) \
  template <>             \
  constexpr Lowering LoweringRules::entry<Opcode::id> = {Lowering::Kind::notHere, nullptr, why}
RULE(constant, constant);
RULE(iota, iota);
RULE(causal_mask, causalMask);
RULE(cast, cast);
RULE(one_minus_pow, oneMinusPow);
RULE(sum, reduction);
RULE(mean, reduction);
RULE(max_reduce, reduction);
RULE(argmax, argExtremum);
RULE(min_reduce, reduction);
RULE(argmin, argExtremum);
RULE(cumsum, cumsum);
RULE(reshape, reshape);
RULE(transpose, transpose);
RULE(slice, slice);
RULE(pad, pad);
RULE(concat, concat);
RULE(broadcast_to, broadcastTo);
RULE(matmul, dotProduct);
RULE(gather, gather);
RULE(scatter_add, scatterAdd);
RULE(one_hot, oneHot);
RULE(flip, flip);
RULE(take_along_axis, takeAlongAxis);
RULE(take_along_axis_grad, takeAlongAxisGrad);
RULE(unfold, unfold);
RULE(fold, fold);
RULE(random_uniform, randomUniform);
RULE(random_normal, randomNormal);
NOT_HERE(param, "a region gets parameters as bindings");
NOT_HERE(state, "a region gets states as bindings");
NOT_HERE(update, "it is a place, or a copy");
NOT_HERE(param_grad, "it names a value");
NOT_HERE(capture, "it names a value");
NOT_HERE(grad, "append-grad expands it");
NOT_HERE(custom, "its kernel is there already");
NOT_HERE(fused, "it is the kernel");
NOT_HERE(yield, "the schedule stores what it yields");
NOT_HERE(return_, "it names values");
NOT_HERE(home, "it names bytes");
NOT_HERE(dispatch, "it is a command");
NOT_HERE(barrier, "it is a command");
NOT_HERE(collective_begin, "it is a command");
NOT_HERE(collective_wait, "it is a command");
NOT_HERE(all_reduce, "ranks meet between kernels");
NOT_HERE(reduce_scatter, "ranks meet between kernels");
NOT_HERE(all_gather, "ranks meet between kernels");
NOT_HERE(fill, "it is a command");
NOT_HERE(copy, "it is a command");
#undef RULE
#undef NOT_HERE

const Lowering& loweringOf(Opcode code) {
  using namespace table;
  static constexpr Lowering byScalar{Lowering::Kind::byScalar, nullptr, {}};
  static constexpr Lowering decomposes{Lowering::Kind::decomposes, nullptr, {}};
  static constexpr Lowering kernelOp{Lowering::Kind::notHere, nullptr, "it is what regions are lowered to"};
  switch (code) {
#define OP(id, name, slots, attrs, results, regions, traits, where, fusion, scalar, ...)              \
  case Opcode::id: {                                                                                  \
    constexpr bool elementwise = Scalar::scalar != Scalar::none, expands = ((traits)&composite) != 0; \
    /* A copy: Clang emits no definition of a specialized static member that is only named here. */   \
    static constexpr Lowering own = LoweringRules::entry<Opcode::id>;                                 \
    constexpr bool given = own.kind == Lowering::Kind::rule || !own.reason.empty();                   \
    static_assert(elementwise + expands + given == 1,                                                 \
                  "an op is lowered by scalar, by decomposition or by one rule: " name);              \
    return elementwise ? byScalar : expands ? decomposes : own;                                       \
  }
#include "ir/ops.def"
#undef OP
  default: return kernelOp;
  }
}

/// One element pulls those it is computed from, so that a long region takes many frames; views that read one
/// value at several places, one of the other, pull it exponentially often. Beyond these a region is refused.
static constexpr int kMostDeep = 2000, kMostPulled = 1 << 14;

KV RegionEmitter::compute(const Value* v, const Indices& at) {
  if (depth_ >= kMostDeep || pulled_ >= kMostPulled) {
    if (problem_.empty())
      problem_ =
          depth_ >= kMostDeep
              ? fmt::format("a chain of more than {} ops in one kernel", kMostDeep)
              : fmt::format("a kernel that computes more than {} elements for one result", kMostPulled);
    return KernelBuilder::literal(v->type.dtype, 0);
  }
  ++pulled_;
  ++depth_;
  KV value = pull(v, at);
  --depth_;
  return value;
}

KV RegionEmitter::pull(const Value* v, const Indices& at) {
  if (auto it = bindingOf_.find(v); it != bindingOf_.end())
    return load(it->second, space_.linear(at, v->type.shape));
  const Op& op = *v->def;
  const Lowering& lowering = loweringOf(op.code);
  if (lowering.kind == Lowering::Kind::byScalar) return elementwise(op, at);
  assert(lowering.kind == Lowering::Kind::rule && "plain regions hold primitives");
  return (this->*lowering.pull)(op, at);
}

}  // namespace tg
