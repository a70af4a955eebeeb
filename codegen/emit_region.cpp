// SPDX-License-Identifier: Apache-2.0
// The core of the emitter: the cache of emitted elements, loads and stores of bindings and results, and the
// dispatch to each op's rule. The rules are in emit_map.cpp (elementwise, views, indexing), emit_loops.cpp
// (reductions, contractions, scatters), emit_window.cpp, emit_random.cpp and emit_words.cpp (16-bit accesses).
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

/// Key of an element in the cache: the value and its indices, as bytes.
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
  // A cached element is valid only in the scope that defined it, or in one nested in that.
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
  for (int lane = 0; lane < kLanes; ++lane) {
    isFirstLane_ = lane == 0;
    lanes.push_back(emit(v, IndexSpace::atLane(at, lane)));
    isFirstLane_ = false;
  }
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

/// A vector is one load if its four elements are an aligned four in memory; else four loads of scalars.
KV RegionEmitter::load(int binding, const Index& offset) {
  const Type& type = region_.bindings[static_cast<size_t>(binding)]->type;
  auto finish = [&](KV value) {
    return type.dtype == DType::i1 ? kernel_.op(Opcode::k_ne, {value, KernelBuilder::u32(0)}, DType::i1)
                                   : value;
  };
  if (!IndexSpace::usesLane(offset)) {
    splitLoads_ += isFirstLane_;
    return finish(loadOne(binding, offset));
  }
  Index base = IndexSpace::atLane(offset, 0);
  bool vectors = !byElement_ || mayTexel_[static_cast<size_t>(binding)];
  if (vectors && IndexSpace::factor(offset, kLane) == 1 && space_.align(base) % kLanes == 0 &&
      type.elements() % kLanes == 0)
    return finish(loadWhere(parameterFor(false, binding, true), space_.div(base, kLanes), offset));
  ++splitLoads_;
  std::vector<KV> lanes;
  for (int lane = 0; lane < kLanes; ++lane)
    lanes.push_back(finish(loadOne(binding, IndexSpace::atLane(offset, lane))));
  return kernel_.vec(lanes);
}

/// Loads one scalar. From a texel buffer, where a fetch of four costs as much as of one, it fetches the aligned
/// four and extracts the scalar if its lane is known at compile time; neighbouring loads then reuse the fetch.
KV RegionEmitter::loadOne(int binding, const Index& offset) {
  const Type& type = region_.bindings[static_cast<size_t>(binding)]->type;
  Index base = offset;
  int lane = static_cast<int>((offset.c % kLanes + kLanes) % kLanes);
  base.c -= lane;
  if (mayTexel_[static_cast<size_t>(binding)] && !base.isConstant() && type.elements() % kLanes == 0 &&
      space_.align(base) % kLanes == 0)
    return kernel_.extract(loadWhere(parameterFor(false, binding, true), space_.div(base, kLanes), offset),
                           lane);
  return loadWhere(parameterFor(false, binding, false), offset, offset);
}

KV RegionEmitter::loadWhere(Value* buffer, const Index& index, const Index& offset) {
  auto load = [&] { return kernel_.load(buffer, space_.materialize(index)); };
  const DType type = buffer->type.dtype;
  for (const auto& [variable, busy] : busy_)
    if (IndexSpace::factor(offset, variable) != 0)
      return kernel_.guarded(busy, KernelBuilder::literal(computeType(type), 0), load);
  return load();
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

/// Limits beyond which a region is refused. Pulling recurses into the operands, so a long chain of ops needs a deep
/// stack. A chain of views that each read one value at several places needs exponentially many elements.
static constexpr int kMostDeep = 2000, kMostPulled = 1 << 14;

KV RegionEmitter::compute(const Value* v, const Indices& at) {
  if (depth_ >= kMostDeep || pulled_ >= kMostPulled) {
    if (problem_.empty())
      problem_ =
          depth_ >= kMostDeep
              ? failAt(v->loc, "a chain of more than {} ops in one kernel", kMostDeep)
              : failAt(v->loc, "a kernel that computes more than {} elements for one result", kMostPulled);
    return KernelBuilder::literal(v->type.dtype, 0);
  }
  ++pulled_;
  ++depth_;
  KV value = pull(v, at);
  --depth_;
  return value;
}

template <class Row, Scalar scalar, table::Fusion fusion, unsigned traits, unsigned where>
KV RegionEmitter::pullRow(const Op& op, const Indices& at) {
  using namespace table;
  constexpr bool isPrimitive =
      bool(where & inRegion) && !(traits & (composite | terminator)) && fusion != Fusion::custom;
  if constexpr (scalar != Scalar::none) {
    return elementwise(op, at);
  } else if constexpr (isPrimitive) {
    return element(Row{}, op, at);
  } else {
    assert(false && "plain regions hold primitives");
    return {};
  }
}

KV RegionEmitter::pull(const Value* v, const Indices& at) {
  if (auto it = bindingOf_.find(v); it != bindingOf_.end())
    return load(it->second, space_.linear(at, v->type.shape));
  const Op& op = *v->def;
  using namespace table;
  switch (op.code) {
#define OP(id, name, slots, attrs, results, regions, traits, where, fusion, scalar, ...) \
  case Opcode::id:                                                                       \
    return pullRow<at::id, Scalar::scalar, Fusion::fusion, (traits), (where)>(op, at);
#include "ir/ops.def"
#undef OP
  default: break;
  }
  assert(false && "plain regions hold primitives");
  return {};
}

}  // namespace tg
