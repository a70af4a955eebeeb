#include "codegen/emit_region.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/kernel_expr.h"
#include "codegen/schedule.h"
#include "ir/infer.h"

namespace tg {

// ---- expansion ---------------------------------------------------------------------------------

/// Emits an op's primitives for given operands, expanding what a decomposition itself leaves composite.
static std::vector<Value*> expand(const Op& op, const std::vector<Value*>& operands, Builder& builder) {
  if (!op.info().has(table::composite)) {
    std::unordered_map<const Value*, Value*> map;
    for (int i = 0, next = 0; i < op.numOperands(); ++i)
      if (op.operands[i].kind == Operand::Kind::value) map[op.in(i)] = operands[static_cast<size_t>(next++)];
    Op* copy = builder.append(cloneOp(op, map));
    std::vector<Value*> out;
    for (auto& result : copy->results) out.push_back(result.get());
    return out;
  }
  // Decompose aside, then expand what came out.
  Block* target = builder.block();
  Block aside;
  builder.setBlock(&aside);
  std::vector<Value*> results = decompose(op, operands, builder);
  builder.setBlock(target);
  std::unordered_map<const Value*, Value*> map;
  auto mapped = [&](Value* value) {
    auto it = map.find(value);
    return it == map.end() ? value : it->second;
  };
  for (const auto& part : aside.ops) {
    std::vector<Value*> inputs;
    forEachUse(static_cast<const Op&>(*part), [&](Value* value) { inputs.push_back(mapped(value)); });
    std::vector<Value*> made = expand(*part, inputs, builder);
    for (size_t i = 0; i < made.size(); ++i) map[part->result(static_cast<int>(i))] = made[i];
  }
  for (Value*& result : results) result = mapped(result);
  return results;
}

Result<std::unique_ptr<PlainRegion>> plainRegion(const Op& fused) {
  auto region = std::make_unique<PlainRegion>();
  Item* item = region->scratch.add(ItemKind::func, "region");
  Builder builder(nullptr, item);
  std::unordered_map<const Value*, Value*> map;
  for (const auto& arg : fused.regions[0]->args) {
    Value* copy = item->body.addArg(arg->type, builder.names().unique(arg->name));
    region->bindings.push_back(copy);
    map[arg.get()] = copy;
  }
  for (const auto& op : fused.regions[0]->ops) {
    std::vector<Value*> operands;
    forEachUse(static_cast<const Op&>(*op), [&](Value* value) { operands.push_back(map.at(value)); });
    if (op->code == Opcode::yield) {
      region->yields = operands;
      break;
    }
    builder.setLoc(op->loc);
    std::vector<Value*> made = expand(*op, operands, builder);
    for (size_t i = 0; i < made.size(); ++i) map[op->result(static_cast<int>(i))] = made[i];
  }
  region->body = &item->body;
  return region;
}

// ---- bookkeeping -------------------------------------------------------------------------------

RegionEmitter::RegionEmitter(KernelBuilder& kernel, IndexSpace& space, const Op& fused, const PlainRegion& region, const std::vector<bool>& mayTexel)
    : kernel_(kernel), space_(space), fused_(fused), region_(region), mayTexel_(mayTexel) {
  for (size_t i = 0; i < region.bindings.size(); ++i) bindingOf_[region.bindings[i]] = static_cast<int>(i);
}

static std::string keyOf(const Value* v, const Indices& at) {
  std::string key = fmt::format("{}", static_cast<const void*>(v));
  for (const Index& index : at) key += '|' + index.key();
  return key;
}

int RegionEmitter::levelOf(const Indices& at) const {
  int level = kernel_.guardDepth();
  for (const Index& index : at) level = std::max(level, space_.level(index));
  return level;
}

KV RegionEmitter::emit(const Value* v, const Indices& at) {
  std::string key = keyOf(v, at);
  if (auto it = known_.find(key); it != known_.end()) {
    int level = it->second.value.level;
    if (level <= kernel_.depth() && kernel_.scopeId(level) == it->second.scope) return it->second.value;
  }
  KV value = compute(v, at);
  known_[key] = {value, kernel_.scopeId(value.level)};
  return value;
}

KV RegionEmitter::emitLinear(const Value* v, const Index& offset) {
  return emit(v, space_.delinear(offset, v->type.shape));
}

void RegionEmitter::define(const Value* v, const Indices& at, const KV& value) {
  known_[keyOf(v, at)] = {value, kernel_.scopeId(value.level)};
}

KV RegionEmitter::lanewise(const Value* v, const Indices& at) {
  std::vector<KV> lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes.push_back(emit(v, IndexSpace::atLane(at, lane)));
  return kernel_.vec(lanes);
}

/// The element type a tensor's buffer has in a kernel: i1 is stored as u32.
static DType stored(DType dtype) { return dtype == DType::i1 ? DType::u32 : dtype; }

Value* RegionEmitter::parameterFor(bool isResult, int slot, bool vector) {
  std::string key = fmt::format("{}{}{}", isResult ? 'r' : 'b', slot, vector ? 'v' : 's');
  if (auto it = buffers_.find(key); it != buffers_.end()) return it->second;
  const Value* value = isResult ? region_.yields[static_cast<size_t>(slot)] : region_.bindings[static_cast<size_t>(slot)];
  bool texel = !isResult && mayTexel_[static_cast<size_t>(slot)];
  int64_t elements = value->type.elements() / (vector ? kLanes : 1);
  Type type = Type::buffer(stored(value->type.dtype), vector ? kLanes : 1, {elements}, isResult ? BufMode::out : BufMode::in, texel);
  params_.push_back({isResult, slot});
  std::string hint = value->name;
  return buffers_[key] = kernel_.parameter(type, hint);
}

KV RegionEmitter::load(int binding, const Indices& at) {
  const Type& type = region_.bindings[static_cast<size_t>(binding)]->type;
  Index offset = space_.linear(at, type.shape);
  auto finish = [&](KV value) { return type.dtype == DType::i1 ? kernel_.op(Opcode::k_ne, {value, KernelBuilder::u32(0)}, DType::i1) : value; };
  if (!IndexSpace::usesLane(offset)) return finish(kernel_.load(parameterFor(false, binding, false), space_.materialize(offset)));
  Index base = IndexSpace::atLane(offset, 0);
  if (IndexSpace::factor(offset, kLane) == 1 && space_.align(base) % kLanes == 0 && type.elements() % kLanes == 0)
    return finish(kernel_.load(parameterFor(false, binding, true), space_.materialize(space_.div(base, kLanes))));
  ++splitLoads_;
  std::vector<KV> lanes;
  for (int lane = 0; lane < kLanes; ++lane)
    lanes.push_back(finish(kernel_.load(parameterFor(false, binding, false), space_.materialize(IndexSpace::atLane(offset, lane)))));
  return kernel_.vec(lanes);
}

void RegionEmitter::store(int slot, const Index& offset) {
  const Value* value = region_.yields[static_cast<size_t>(slot)];
  bool vector = IndexSpace::usesLane(offset);
  KV element = emitLinear(value, offset);
  if (value->type.dtype == DType::i1) element = kernel_.select(element, KernelBuilder::u32(1), KernelBuilder::u32(0));
  Index index = vector ? space_.div(IndexSpace::atLane(offset, 0), kLanes) : offset;
  kernel_.store(element, parameterFor(true, slot, vector), space_.materialize(index));
}

// ---- one op ------------------------------------------------------------------------------------

KV RegionEmitter::compute(const Value* v, const Indices& at) {
  if (auto it = bindingOf_.find(v); it != bindingOf_.end()) return load(it->second, at);
  const Op& op = *v->def;
  if (op.info().scalar != Scalar::none) return elementwise(op, at);
  switch (op.code) {
    case Opcode::constant: return constant(op, at);
    case Opcode::iota: return iota(op, at);
    case Opcode::cast: return kernel_.cast(emit(op.in(0), at), v->type.dtype);
    case Opcode::one_minus_pow: return lowerOneMinusPow(kernel_, emit(op.in(0), at), op.realAttr("base"));
    case Opcode::broadcast_to: return broadcastOperand(op.in(0), v->type.shape, at);
    case Opcode::reshape: return reshape(op, at);
    case Opcode::transpose: {
      std::vector<int64_t> perm = op.ints("perm");
      Indices in(at.size());
      for (size_t i = 0; i < perm.size(); ++i) in[static_cast<size_t>(perm[i])] = at[i];
      return emit(op.in(0), in);
    }
    case Opcode::slice: return slice(op, at);
    case Opcode::pad: return pad(op, at);
    case Opcode::concat: return concat(op, at);
    case Opcode::gather: return gather(op, at);
    case Opcode::one_hot: return oneHot(op, at);
    case Opcode::scatter_add: return scatterAdd(op, at);
    case Opcode::sum:
    case Opcode::mean:
    case Opcode::max_reduce: return reduction(op, at);
    case Opcode::argmax: return argmax(op, at);
    case Opcode::matmul: return dotProduct(op, at);
    default: break;
  }
  if (problem_.empty()) problem_ = fmt::format("{} has no lowering", op.info().name);
  return KernelBuilder::literal(v->type.dtype, 0);
}

KV RegionEmitter::broadcastOperand(const Value* v, const Shape& to, const Indices& at) {
  int added = to.rank() - v->type.rank();
  Indices in;
  for (int axis = 0; axis < v->type.rank(); ++axis)
    in.push_back(v->type.shape[axis] == 1 ? IndexSpace::constant(0) : at[static_cast<size_t>(axis + added)]);
  return emit(v, in);
}

KV RegionEmitter::elementwise(const Op& op, const Indices& at) {
  std::vector<KV> operands;
  for (int i = 0; i < op.numOperands(); ++i) operands.push_back(broadcastOperand(op.in(i), op.result()->type.shape, at));
  kernel_.hint(op.result()->name);
  KV value = lowerScalar(kernel_, op.info().scalar, operands);
  kernel_.hint("");
  return value;
}

KV RegionEmitter::constant(const Op& op, const Indices& at) {
  DType dtype = op.result()->type.dtype;
  const Operand& value = op.operands[0];
  if (value.isLiteral()) return KernelBuilder::literal(dtype, value.number());
  constexpr size_t kLargestTable = 256;   // beyond this a parameter with init = dense<…> is the right form
  if (value.items.size() > kLargestTable && problem_.empty())
    problem_ = fmt::format("a constant of {} different values; make it a param with init = dense<…>", value.items.size());
  KV index = space_.materialize(space_.linear(at, op.result()->type.shape));
  KV out = KernelBuilder::literal(dtype, value.items[0].number());
  for (size_t i = 1; i < std::min(value.items.size(), kLargestTable); ++i) {
    KV here = kernel_.op(Opcode::k_eq, {index, KernelBuilder::u32(static_cast<int64_t>(i))}, DType::i1);
    out = kernel_.select(here, KernelBuilder::literal(dtype, value.items[i].number()), out);
  }
  return out;
}

KV RegionEmitter::iota(const Op& op, const Indices& at) {
  int axis = normalAxis(op.intAttr("axis"), op.result()->type.rank());
  return kernel_.cast(space_.materialize(at[static_cast<size_t>(axis)]), op.result()->type.dtype);
}

KV RegionEmitter::reshape(const Op& op, const Indices& at) {
  const Shape& to = op.in(0)->type.shape;
  Index offset = space_.linear(at, op.result()->type.shape);
  Index left = offset;
  for (int axis = to.rank() - 1; axis > 0 && IndexSpace::usesLane(left); --axis) {
    if (!space_.laneSplits(left, to[axis])) return lanewise(op.result(), at);
    left = space_.div(left, to[axis]);
  }
  return emit(op.in(0), space_.delinear(offset, to));
}

KV RegionEmitter::slice(const Op& op, const Indices& at) {
  std::vector<int64_t> starts = op.ints("starts"), strides = op.ints("strides");
  Indices in;
  for (size_t i = 0; i < at.size(); ++i)
    in.push_back(space_.add(space_.scale(at[i], strides.empty() ? 1 : strides[i]), IndexSpace::constant(starts[i])));
  return emit(op.in(0), in);
}

RegionEmitter::Hit RegionEmitter::hit(const Index& at, int64_t low, int64_t extent) {
  Hit out{KernelBuilder::literal(DType::i1, 1), space_.add(at, IndexSpace::constant(-low)), false};
  bool needLow = low > 0, needHigh = space_.max(at) >= low + extent;
  if (!needLow && !needHigh) return out;
  Index base = IndexSpace::atLane(at, 0);
  bool lanes = IndexSpace::usesLane(at);
  if (lanes && (IndexSpace::factor(at, kLane) != 1 || low % kLanes || extent % kLanes || space_.align(base) % kLanes)) {
    out.split = true;
    return out;
  }
  if (base.isConstant()) {
    bool inside = base.c >= low && base.c < low + extent;
    out.cond = KernelBuilder::literal(DType::i1, inside);
    out.inside = space_.add(IndexSpace::constant(inside ? base.c - low : 0), lanes ? IndexSpace::lane() : Index{});
    return out;
  }
  KV value = space_.materialize(base);
  KV above = kernel_.op(Opcode::k_ge, {value, KernelBuilder::u32(low)}, DType::i1);
  KV below = kernel_.op(Opcode::k_lt, {value, KernelBuilder::u32(low + extent)}, DType::i1);
  out.cond = needLow && needHigh ? kernel_.op(Opcode::k_and, {above, below}, DType::i1) : needLow ? above : below;
  KV shifted = low ? kernel_.op(Opcode::k_sub, {value, KernelBuilder::u32(low)}, DType::u32) : value;
  KV safe = kernel_.select(out.cond, shifted, KernelBuilder::u32(0));
  out.inside = space_.add(space_.variable(safe, extent, lanes ? kLanes : 1), lanes ? IndexSpace::lane() : Index{});
  return out;
}

KV RegionEmitter::within(const Index& a, int64_t countA, const Index& b, int64_t countB, const AtTwo& body) {
  Hit first = hit(a, 0, countA), second = hit(b, 0, countB);
  KV value = kernel_.select(second.cond, body(first.inside, second.inside), KernelBuilder::f32(0));
  return kernel_.select(first.cond, value, KernelBuilder::f32(0));
}

void RegionEmitter::whereInside(const Index& a, int64_t countA, const Index& b, int64_t countB, const std::function<void(const Index&, const Index&)>& body) {
  auto bound = [&](const Index& index, int64_t count, const std::function<void(const Index&)>& inside) {
    if (space_.max(index) < count) return inside(index);
    KV value = space_.materialize(index);
    kernel_.guard(kernel_.op(Opcode::k_lt, {value, KernelBuilder::u32(count)}, DType::i1), [&] { inside(space_.variable(value, count)); });
  };
  bound(a, countA, [&](const Index& insideA) { bound(b, countB, [&](const Index& insideB) { body(insideA, insideB); }); });
}

void RegionEmitter::pullRowReductions(const Index& row, int64_t length) {
  for (const auto& op : region_.body->ops) {
    auto space = rowSpaceOf(*op);
    if (op->info().fusion == table::Fusion::reduce && space && space->length == length && op->result()->type.elements() == space->rows)
      emitLinear(op->result(), row);
  }
}

KV RegionEmitter::pad(const Op& op, const Indices& at) {
  std::vector<int64_t> low = op.ints("low"), high = op.ints("high");
  const Shape& inner = op.in(0)->type.shape;
  KV cond = KernelBuilder::literal(DType::i1, 1);
  Indices in;
  for (size_t i = 0; i < at.size(); ++i) {
    Hit part = hit(at[i], low[i], inner[static_cast<int>(i)]);
    if (part.split) return lanewise(op.result(), at);
    if (part.cond.is(0)) cond = part.cond;
    else if (!part.cond.isLiteral() && !cond.is(0)) cond = cond.is(1) ? part.cond : kernel_.op(Opcode::k_and, {cond, part.cond}, DType::i1);
    in.push_back(part.inside);
  }
  KV fill = KernelBuilder::literal(op.result()->type.dtype, op.realAttr("value"));
  return cond.is(0) ? fill : kernel_.select(cond, emit(op.in(0), in), fill);
}

KV RegionEmitter::concat(const Op& op, const Indices& at) {
  size_t axis = static_cast<size_t>(normalAxis(op.intAttr("axis"), op.result()->type.rank()));
  KV out;
  bool any = false;
  int64_t low = op.result()->type.shape[static_cast<int>(axis)];
  for (int i = op.numOperands() - 1; i >= 0; --i) {
    int64_t extent = op.in(i)->type.shape[static_cast<int>(axis)];
    low -= extent;
    Hit part = hit(at[axis], low, extent);
    if (part.split) return lanewise(op.result(), at);
    if (part.cond.is(0)) continue;
    Indices in = at;
    in[axis] = part.inside;
    KV piece = emit(op.in(i), in);
    out = any ? kernel_.select(part.cond, piece, out) : piece;
    any = true;
  }
  return out;
}

KV RegionEmitter::gather(const Op& op, const Indices& at) {
  const Type &table = op.in(0)->type, &ids = op.in(1)->type;
  Indices idAt(at.begin(), at.begin() + ids.rank());
  if (IndexSpace::usesLane(idAt)) return lanewise(op.result(), at);
  KV id = emit(op.in(1), idAt);
  KV zero = KernelBuilder::literal(DType::i32, 0), rows = KernelBuilder::literal(DType::i32, static_cast<double>(table.shape[0]));
  KV cond = kernel_.op(Opcode::k_and, {kernel_.op(Opcode::k_ge, {id, zero}, DType::i1), kernel_.op(Opcode::k_lt, {id, rows}, DType::i1)}, DType::i1);
  KV safe = kernel_.cast(kernel_.select(cond, id, zero), DType::u32);
  Indices in{space_.variable(safe, table.shape[0])};
  in.insert(in.end(), at.begin() + ids.rank(), at.end());
  return kernel_.select(cond, emit(op.in(0), in), KernelBuilder::literal(table.dtype, 0));
}

KV RegionEmitter::oneHot(const Op& op, const Indices& at) {
  KV id = emit(op.in(0), Indices(at.begin(), at.end() - 1));
  KV column = kernel_.cast(space_.materialize(at.back()), DType::i32);
  return kernel_.select(kernel_.op(Opcode::k_eq, {id, column}, DType::i1), KernelBuilder::f32(1), KernelBuilder::f32(0));
}

// ---- loops -------------------------------------------------------------------------------------

std::vector<KV> RegionEmitter::over(int level, int64_t extent, int64_t step, const std::vector<KV>& init,
                                    const std::function<std::vector<KV>(const Index&, const std::vector<KV>&)>& body) {
  int64_t trips = extent / step;
  constexpr int64_t kInline = 4;   // so few trips cost less as straight code than a loop's bookkeeping
  std::vector<KV> carried = init;
  if (trips <= kInline) {
    kernel_.at(level, [&] {
      for (int64_t trip = 0; trip < trips; ++trip) carried = body(IndexSpace::constant(trip * step), carried);
    });
    return carried;
  }
  int64_t unroll = trips % 4 == 0 ? 4 : trips % 2 == 0 ? 2 : 1;
  // The loop counts rounds, so that multiples of the step stay visible to the index algebra.
  return kernel_.loop(level, KernelBuilder::u32(0), trips / unroll, 1, init, [&](const KV& k, const std::vector<KV>& inside) {
    Index base = space_.scale(space_.variable(k, trips / unroll), step * unroll);
    std::vector<KV> values = inside;
    for (int64_t part = 0; part < unroll; ++part) values = body(space_.add(base, IndexSpace::constant(part * step)), values);
    return values;
  });
}

KV RegionEmitter::horizontal(const KV& vector, Opcode combine) {
  DType dtype = vector.type.dtype;
  std::array<KV, kLanes> lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes[static_cast<size_t>(lane)] = kernel_.extract(vector, lane);
  KV low = kernel_.op(combine, {lanes[0], lanes[1]}, dtype), high = kernel_.op(combine, {lanes[2], lanes[3]}, dtype);
  return kernel_.op(combine, {low, high}, dtype);
}

/// The start value of a reduction.
static KV neutral(Opcode code, DType dtype) {
  if (code != Opcode::max_reduce) return KernelBuilder::literal(dtype, 0);
  return KernelBuilder::literal(dtype, isFloat(dtype) ? -std::numeric_limits<double>::infinity() : -2147483648.0);
}

KV RegionEmitter::reduction(const Op& op, const Indices& at) {
  const Shape& shape = op.in(0)->type.shape;
  std::vector<int> axes;
  for (int64_t axis : op.ints("axes")) axes.push_back(normalAxis(axis, shape.rank()));
  std::sort(axes.begin(), axes.end());
  std::erase_if(axes, [&](int axis) { return shape[axis] == 1; });
  int level = levelOf(at);
  if (rows_.width > 1 && level <= rows_.level && !IndexSpace::usesLane(at)) return sharedReduction(op, at, axes, level);

  // Indices of the operand: kept axes from `at`, reduced ones from the loops.
  Indices in(static_cast<size_t>(shape.rank()));
  bool keepdims = op.flag("keepdims");
  std::vector<int64_t> all = op.ints("axes");
  std::array<bool, kMaxRank> reduced{};
  for (int64_t axis : all) reduced[static_cast<size_t>(normalAxis(axis, shape.rank()))] = true;
  for (size_t axis = 0, next = 0; axis < in.size(); ++axis) {
    if (!reduced[axis]) in[axis] = at[next++];
    else if (keepdims) ++next;
  }
  Opcode combine = op.code == Opcode::max_reduce ? Opcode::k_max : Opcode::k_add;
  DType dtype = op.result()->type.dtype;
  bool vector = !axes.empty() && shape[axes.back()] % kLanes == 0 && !IndexSpace::usesLane(at);
  bool lanes = vector || IndexSpace::usesLane(at);
  KV start = neutral(op.code, dtype);
  kernel_.at(level, [&] { start = lanes ? kernel_.splat(start) : start; });
  std::function<KV(size_t, const KV&, int)> nest = [&](size_t depth, const KV& acc, int loopLevel) -> KV {
    if (depth == axes.size()) {
      KV element = emit(op.in(0), in);
      return kernel_.op(combine, {acc, element}, dtype);
    }
    bool inner = depth + 1 == axes.size();
    int axis = axes[depth];
    return over(loopLevel, shape[axis], inner && vector ? kLanes : 1, {acc}, [&](const Index& index, const std::vector<KV>& carried) {
      in[static_cast<size_t>(axis)] = inner && vector ? space_.add(index, IndexSpace::lane()) : index;
      return std::vector<KV>{nest(depth + 1, carried[0], kernel_.depth())};
    })[0];
  };
  KV out;
  kernel_.at(level, [&] {
    out = nest(0, start, level);
    if (vector) out = horizontal(out, combine);
    if (op.code == Opcode::mean) {
      int64_t count = 1;
      for (int axis : axes) count *= shape[axis];
      out = kernel_.mul(out, KernelBuilder::f32(1.0 / static_cast<double>(count)));
    }
  });
  return out;
}

/// A reduction the row's invocations share: each takes every width-th element, then they combine.
KV RegionEmitter::sharedReduction(const Op& op, const Indices& at, const std::vector<int>& axes, int level) {
  const Shape& shape = op.in(0)->type.shape;
  Indices in(static_cast<size_t>(shape.rank()));
  bool keepdims = op.flag("keepdims");
  std::array<bool, kMaxRank> reduced{};
  for (int64_t axis : op.ints("axes")) reduced[static_cast<size_t>(normalAxis(axis, shape.rank()))] = true;
  for (size_t axis = 0, next = 0; axis < in.size(); ++axis) {
    if (!reduced[axis]) in[axis] = at[next++];
    else if (keepdims) ++next;
  }
  Shape inner;
  for (int axis : axes) inner.push(shape[axis]);
  int64_t count = inner.elements();
  Opcode combine = op.code == Opcode::max_reduce ? Opcode::k_max : Opcode::k_add;
  DType dtype = op.result()->type.dtype;
  KV out;
  kernel_.at(level, [&] {
    KV start = neutral(op.code, dtype);
    int64_t rounds = (count + rows_.width - 1) / rows_.width;
    KV partial = over(level, rounds, 1, {start}, [&](const Index& round, const std::vector<KV>& carried) {
      Index offset = space_.add(space_.scale(round, rows_.width), rows_.lane);
      auto take = [&](const Index& element) {
        Indices parts = space_.delinear(element, inner);
        for (size_t i = 0; i < axes.size(); ++i) in[static_cast<size_t>(axes[i])] = parts[i];
        return emit(op.in(0), in);
      };
      KV element;
      if (space_.max(offset) < count) element = take(offset);
      else {
        Hit part = hit(offset, 0, count);
        element = kernel_.select(part.cond, take(part.inside), start);
      }
      return std::vector<KV>{kernel_.op(combine, {carried[0], element}, dtype)};
    })[0];
    out = kernel_.workgroupReduce(partial, combine == Opcode::k_max ? "max" : "add");
    if (op.code == Opcode::mean) out = kernel_.mul(out, KernelBuilder::f32(1.0 / static_cast<double>(count)));
  });
  return out;
}

KV RegionEmitter::argmax(const Op& op, const Indices& at) {
  if (IndexSpace::usesLane(at)) return lanewise(op.result(), at);
  const Shape& shape = op.in(0)->type.shape;
  int axis = normalAxis(op.intAttr("axis"), shape.rank());
  Indices in = at;
  if (op.flag("keepdims")) in[static_cast<size_t>(axis)] = {};
  else in.insert(in.begin() + axis, Index{});
  DType dtype = op.in(0)->type.dtype;
  int level = levelOf(at);
  // The first element starts, so that rows of -inf or NaN still give an index in range.
  KV first = emit(op.in(0), in);
  std::vector<KV> best = over(level, shape[axis], 1, {first, KernelBuilder::literal(DType::i32, 0)}, [&](const Index& index, const std::vector<KV>& carried) {
    in[static_cast<size_t>(axis)] = index;
    KV element = emit(op.in(0), in);
    KV better = kernel_.op(Opcode::k_gt, {element, carried[0]}, DType::i1);
    KV here = kernel_.cast(space_.materialize(index), DType::i32);
    return std::vector<KV>{kernel_.op(Opcode::k_select, {better, element, carried[0]}, dtype), kernel_.select(better, here, carried[1])};
  });
  return best[1];
}

KV RegionEmitter::scatterAdd(const Op& op, const Indices& at) {
  if (IndexSpace::usesLane(at[0])) return lanewise(op.result(), at);
  const Type &ids = op.in(0)->type, &updates = op.in(1)->type;
  KV row = kernel_.cast(space_.materialize(at[0]), DType::i32);
  int level = levelOf(at);
  KV start = KernelBuilder::literal(updates.dtype, 0);
  if (IndexSpace::usesLane(at)) kernel_.at(level, [&] { start = kernel_.splat(start); });
  return over(level, ids.elements(), 1, {start}, [&](const Index& n, const std::vector<KV>& carried) {
    Indices in = space_.delinear(n, ids.shape);
    KV id = emit(op.in(0), in);
    in.insert(in.end(), at.begin() + 1, at.end());
    KV same = kernel_.op(Opcode::k_eq, {id, row}, DType::i1);
    return std::vector<KV>{kernel_.guarded(same, carried[0], [&] { return kernel_.add(carried[0], emit(op.in(1), in)); })};
  })[0];
}

KV RegionEmitter::dotProduct(const Op& op, const Indices& at) {
  const Shape& a = op.in(0)->type.shape;
  bool ta = op.flag("transpose_a"), tb = op.flag("transpose_b");
  int64_t inner = a[a.rank() - (ta ? 2 : 1)];
  auto operand = [&](int which, const Index& row, const Index& column) {
    const Shape& shape = op.in(which)->type.shape;
    Indices in;
    int lead = shape.rank() - 2, added = static_cast<int>(at.size()) - shape.rank();
    for (int axis = 0; axis < lead; ++axis) in.push_back(shape[axis] == 1 ? Index{} : at[static_cast<size_t>(axis + added)]);
    in.push_back(row);
    in.push_back(column);
    return emit(op.in(which), in);
  };
  bool outer = IndexSpace::usesLane(at);
  bool vector = !outer && inner % kLanes == 0;
  int level = levelOf(at);
  KV start = KernelBuilder::f32(0);
  kernel_.at(level, [&] { start = outer || vector ? kernel_.splat(start) : start; });
  const Index &m = at[at.size() - 2], &n = at[at.size() - 1];
  KV sum = over(level, inner, vector ? kLanes : 1, {start}, [&](const Index& index, const std::vector<KV>& carried) {
    Index k = vector ? space_.add(index, IndexSpace::lane()) : index;
    KV x = ta ? operand(0, k, m) : operand(0, m, k);
    KV y = tb ? operand(1, n, k) : operand(1, k, n);
    return std::vector<KV>{kernel_.fma(x, y, carried[0])};
  })[0];
  if (vector) kernel_.at(level, [&] { sum = horizontal(sum, Opcode::k_add); });
  return sum;
}

}  // namespace tg
