// SPDX-License-Identifier: Apache-2.0
#include "ir/infer.h"
#include "ir/op_view.h"

#include <algorithm>
#include <cmath>

#include "ir/access.h"
#include "ir/infer_context.h"
#include "ir/kernel/kernel.h"
#include "ir/text.h"

namespace tg {

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape out;
  int rank = std::max(a.rank(), b.rank());
  for (int axis = 0; axis < rank; ++axis) {
    int64_t left = axis < rank - a.rank() ? 1 : a[axis - (rank - a.rank())];
    int64_t right = axis < rank - b.rank() ? 1 : b[axis - (rank - b.rank())];
    if (left != right && left != 1 && right != 1) return std::nullopt;
    out.push(std::max(left, right));
  }
  return out;
}

bool hasValidExtents(const Shape& shape) {
  int64_t left = kMaxElements;
  for (int64_t extent : shape) {
    if (extent < 1 || extent > left) return false;
    left /= extent;
  }
  return true;
}

bool represents(const Operand& literal, DType dtype) {
  if (isFloat(dtype)) return true;
  const auto [least, most] = integerRange(dtype);
  return literal.isInteger && literal.integer >= least && literal.integer <= most;
}

bool represents(double number, DType dtype) {
  if (isFloat(dtype)) return true;
  const auto [least, most] = integerRange(dtype);
  return number >= static_cast<double>(least) && number <= static_cast<double>(most) &&
         number == std::trunc(number);
}

bool isOfType(const Operand& operand, const Type& type) {
  if (operand.isLiteral()) return type.isScalar() && represents(operand, type.dtype);
  return operand.kind == Operand::Kind::value && operand.value->type == type;
}

std::string literalText(const Operand& literal) {
  return literal.isInteger ? std::to_string(literal.integer) : formatReal(literal.real);
}

int normalAxis(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? static_cast<int>(axis) : -1;
}

std::vector<int64_t> reducedAxes(const Op& op) {
  std::vector<int64_t> axes = as::sum(op).axes();
  for (int64_t& axis : axes) axis = normalAxis(axis, op.in(0)->type.rank());
  std::ranges::sort(axes);
  return axes;
}

Shape reducedShape(const Shape& shape, const std::vector<int64_t>& axes, bool keepdims) {
  std::array<bool, kMaxRank> reduced{};
  for (int64_t axis : axes) reduced[normalAxis(axis, shape.rank())] = true;
  Shape out;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!reduced[axis])
      out.push(shape[axis]);
    else if (keepdims)
      out.push(1);
  }
  return out;
}

}  // namespace tg

namespace tg::inference {

static Result<Types> elementwise(const Context& c) {
  const Op& op = c.op;
  bool select = op.code == Opcode::select;
  int first = select ? 1 : 0;
  int count = op.numOperands();
  // Logic ops have no constraint on element types, so that their first constraint is the shapes'.
  int shapes = admits(op.info().slots[first].type, DType::f32) ? 2 : 1;
  for (int i = first + 1; i < count; ++i) TG_CHECK(c.haveOneElement(first, i, 1));
  Shape shape = c.shape(0);
  for (int i = 1; i < count; ++i) {
    auto joined = broadcast(shape, c.shape(i));
    if (!joined)
      return c.errorAt(i, shapes, "shapes do not broadcast: {} and {}", c.in(i - 1).str(), c.in(i).str());
    shape = *joined;
  }
  DType dtype = givesCondition(op.info().scalar) ? DType::i1 : c.in(first).dtype;
  return Types{Type::tensor(dtype, shape)};
}

static Result<Types> reduction(const Context& c) {
  std::vector<int64_t> axes = as::sum(c.op).axes();
  TG_CHECK(checkAxes(c, axes, c.in(0).rank(), 1));
  return Types{Type::tensor(c.in(0).dtype, reducedShape(c.shape(0), axes, as::sum(c.op).keepdims()))};
}
Result<Types> types(at::sum, const Context& c) { return reduction(c); }
Result<Types> types(at::mean, const Context& c) { return reduction(c); }
Result<Types> types(at::max_reduce, const Context& c) { return reduction(c); }
Result<Types> types(at::min_reduce, const Context& c) { return reduction(c); }
Result<Types> types(at::logsumexp, const Context& c) { return reduction(c); }

static Result<Types> argReduction(const Context& c) {
  std::vector<int64_t> axes{as::argmax(c.op).axis()};
  TG_CHECK(checkAxes(c, axes, c.in(0).rank(), 1));
  return Types{Type::tensor(DType::i32, reducedShape(c.shape(0), axes, as::argmax(c.op).keepdims()))};
}
Result<Types> types(at::argmax, const Context& c) { return argReduction(c); }
Result<Types> types(at::argmin, const Context& c) { return argReduction(c); }

Result<Types> types(at::cumsum, const Context& c) {
  TG_CHECK(checkAxes(c, {as::cumsum(c.op).axis()}, c.in(0).rank(), 1));
  return Types{c.in(0)};
}

Result<Types> types(at::clamp, const Context& c) {
  double lo = as::clamp(c.op).lo(), hi = as::clamp(c.op).hi();
  if (!(lo <= hi)) return c.error(1, "lo = {} is above hi = {}", lo, hi);
  for (double bound : {lo, hi}) TG_CHECK(c.mayHold(c.in(0).dtype, bound, 2, "bound"));
  return Types{c.in(0)};
}

Result<Types> types(at::reshape, const Context& c) {
  std::vector<int64_t> extents = as::reshape(c.op).shape();
  if (extents.size() > kMaxRank) return c.error(1, "rank {} is over {}", extents.size(), kMaxRank);
  int wild = -1;
  Shape shape;
  for (int64_t extent : extents) {
    if (extent == -1 && wild >= 0)
      return c.error(2, "two extents are -1; at most one can follow from the others");
    if (extent == -1)
      wild = shape.rank();
    else if (extent < 1)
      return c.error(2, "extent {} is not positive", extent);
    shape.push(std::max<int64_t>(extent, 1));
  }
  const int64_t total = c.in(0).elements();
  if (wild >= 0) shape[wild] = std::max<int64_t>(total / shape.elements(), 1);
  if (shape.elements() != total)
    return c.errorAt(0, 1, "{} to {}",
                     countText(total, "element does not reshape", "elements do not reshape"),
                     c.op.attr("shape").str());
  return Types{Type::tensor(c.in(0).dtype, shape)};
}

Result<Types> types(at::transpose, const Context& c) {
  std::vector<int64_t> perm = as::transpose(c.op).perm();
  int rank = c.in(0).rank();
  std::array<bool, kMaxRank> seen{};
  Shape shape;
  bool good = static_cast<int>(perm.size()) == rank;
  for (int64_t axis : perm) {
    good = good && axis >= 0 && axis < rank && !std::exchange(seen[axis], true);
    if (good) shape.push(c.shape(0)[static_cast<int>(axis)]);
  }
  if (!good)
    return c.errorAt(0, 1, "{} is not a permutation of {}", c.op.attr("perm").str(),
                     countText(rank, "axis", "axes"));
  return Types{Type::tensor(c.in(0).dtype, shape)};
}

Result<Types> types(at::slice, const Context& c) {
  std::vector<int64_t> starts = as::slice(c.op).starts(), limits = as::slice(c.op).limits(),
                       strides = as::slice(c.op).strides();
  size_t rank = static_cast<size_t>(c.in(0).rank());
  if (strides.empty()) strides.assign(rank, 1);
  if (starts.size() != rank || limits.size() != rank || strides.size() != rank)
    return c.errorAt(0, 1, "starts, limits and strides need {}", countText(rank, "entry", "entries"));
  Shape shape;
  for (size_t i = 0; i < rank; ++i) {
    int64_t extent = c.shape(0)[static_cast<int>(i)];
    if (starts[i] < 0 || starts[i] >= limits[i] || limits[i] > extent)
      return c.errorAt(0, 2, "[{}, {}) is not a range of axis {} with extent {}", starts[i], limits[i], i,
                       extent);
    if (strides[i] < 1 || strides[i] > kMaxElements)
      return c.error(3, "stride {} is not in 1..{}", strides[i], kMaxElements);
    shape.push(1 + (limits[i] - starts[i] - 1) / strides[i]);
  }
  return Types{Type::tensor(c.in(0).dtype, shape)};
}

Result<Types> types(at::pad, const Context& c) {
  std::vector<int64_t> low = as::pad(c.op).low(), high = as::pad(c.op).high(),
                       interior = as::pad(c.op).interior();
  size_t rank = static_cast<size_t>(c.in(0).rank());
  if (interior.empty()) interior.assign(rank, 0);
  if (low.size() != rank || high.size() != rank)
    return c.errorAt(0, 1, "low and high need {}", countText(rank, "entry", "entries"));
  if (interior.size() != rank)
    return c.errorAt(0, 1, "interior needs {}, or none", countText(rank, "entry", "entries"));
  TG_CHECK(c.mayHold(c.in(0).dtype, as::pad(c.op).value(), 3, "value"));
  Shape shape;
  for (size_t i = 0; i < rank; ++i) {
    int64_t extent = c.shape(0)[static_cast<int>(i)];
    if (low[i] < 0 || high[i] < 0) return c.error(2, "entries of low and high must not be negative");
    if (interior[i] < 0) return c.error(2, "entries of interior must not be negative");
    if (std::max(low[i], high[i]) > kMaxElements) return c.error(2, "an entry is over {}", kMaxElements);
    if (interior[i] > kMaxElements / extent)
      return c.error(2, "interior {} is over {}", interior[i], kMaxElements / extent);
    shape.push(low[i] + (extent - 1) * (interior[i] + 1) + 1 + high[i]);
  }
  return Types{Type::tensor(c.in(0).dtype, shape)};
}

Result<Types> types(at::concat, const Context& c) {
  if (c.op.operands.empty()) return c.error(1, "there is no operand to join");
  Shape shape = c.shape(0);
  TG_TRY(int axis, c.axisOf("axis", shape.rank(), 3));
  for (int i = 1; i < c.op.numOperands(); ++i) {
    const Type& other = c.in(i);
    if (other.dtype != c.in(0).dtype || other.rank() != shape.rank())
      return c.errorAt(i, 1, "element types or ranks differ: {} and {}", c.in(0).str(), other.str());
    for (int d = 0; d < shape.rank(); ++d)
      if (d != axis && other.shape[d] != shape[d])
        return c.errorAt(i, 2, "extents differ: {} and {}", c.in(0).str(), other.str());
    shape[axis] += other.shape[axis];
  }
  return Types{Type::tensor(c.in(0).dtype, shape)};
}

Result<Types> types(at::broadcast_to, const Context& c) {
  Shape target;
  std::vector<int64_t> extents = as::broadcast_to(c.op).shape();
  if (extents.size() > kMaxRank) return c.error(1, "rank {} is over {}", extents.size(), kMaxRank);
  for (int64_t extent : extents) target.push(extent);
  auto joined = broadcast(c.shape(0), target);
  if (!joined || !(*joined == target))
    return c.errorAt(0, 1, "{} does not broadcast to {}", c.in(0).str(), c.op.attr("shape").str());
  return Types{Type::tensor(c.in(0).dtype, target)};
}

Result<Types> types(at::matmul, const Context& c) {
  const Type &a = c.in(at::matmul::lhs), &b = c.in(at::matmul::rhs);
  TG_CHECK(c.haveOneElement(0, 1, 1));
  if (a.rank() < 2 || b.rank() < 2)
    return c.errorAt(a.rank() < 2 ? 0 : 1, 3, "operands need rank 2 or more: {} and {}", a.str(), b.str());
  bool ta = as::matmul(c.op).transpose_a(), tb = as::matmul(c.op).transpose_b();
  int64_t m = a.shape[a.rank() - (ta ? 1 : 2)], ka = a.shape[a.rank() - (ta ? 2 : 1)];
  int64_t kb = b.shape[b.rank() - (tb ? 1 : 2)], n = b.shape[b.rank() - (tb ? 2 : 1)];
  if (ka != kb) return c.errorAt(1, 2, "inner dimensions differ: {} and {}", ka, kb);
  Shape batchA = a.shape, batchB = b.shape;
  batchA.resize(a.rank() - 2);
  batchB.resize(b.rank() - 2);
  auto batch = broadcast(batchA, batchB);
  if (!batch) return c.errorAt(1, 4, "leading axes do not broadcast: {} and {}", a.str(), b.str());
  if (as::matmul(c.op).precision() != "f32" && a.dtype != DType::f32)
    return c.errorAt(0, 5, "precision = {} of {}, which is not f32", as::matmul(c.op).precision(), a.str());
  Shape shape = *batch;
  shape.push(m);
  shape.push(n);
  return Types{Type::tensor(a.dtype, shape)};
}

static Result<Types> gather(const Context& c) {
  if (c.in(0).rank() < 1) return c.errorAt(0, 1, "the table has rank 0");
  if (c.op.code == Opcode::embedding && c.in(0).rank() != 2)
    return c.errorAt(0, 1, "the table is {}, not of rank 2", c.in(0).str());
  Shape shape = c.shape(at::gather::ids);
  if (shape.rank() + c.in(0).rank() - 1 > kMaxRank) return c.errorAt(0, 1, "the result's rank is too high");
  for (int axis = 1; axis < c.in(0).rank(); ++axis) shape.push(c.shape(0)[axis]);
  return Types{Type::tensor(c.in(0).dtype, shape)};
}
Result<Types> types(at::gather, const Context& c) { return gather(c); }
Result<Types> types(at::embedding, const Context& c) { return gather(c); }

Result<Types> types(at::scatter_add, const Context& c) {
  int lead = c.in(0).rank();
  bool prefix = c.in(at::scatter_add::updates).rank() >= lead;
  for (int axis = 0; prefix && axis < lead; ++axis)
    prefix = c.shape(at::scatter_add::ids)[axis] == c.shape(at::scatter_add::updates)[axis];
  if (!prefix)
    return c.errorAt(1, 1, "updates {} do not start with the ids' axes {}",
                     c.in(at::scatter_add::updates).str(), c.in(at::scatter_add::ids).str());
  if (c.in(at::scatter_add::updates).rank() - lead == kMaxRank)
    return c.errorAt(1, 1, "the result's rank is too high");
  if (as::scatter_add(c.op).rows() < 1)
    return c.error(2, "rows = {} is not positive", as::scatter_add(c.op).rows());
  const int64_t rows = as::scatter_add(c.op).rows(), pieces = as::scatter_add(c.op).pieces();
  if (c.op.numOperands() > 2) {
    const bool hasOffsets = c.op.numOperands() == 4;
    const Type &order = c.in(at::scatter_add::order),
               &offsets = hasOffsets ? c.in(at::scatter_add::offsets) : order;
    if (!hasOffsets || order.rank() != 1 || order.elements() < c.in(0).elements() ||
        offsets.shape != Shape{rows + 1})
      return c.errorAt(2, 3, "order is {}{} for {} and ids {}", order.str(),
                       hasOffsets ? fmt::format(", offsets are {}", offsets.str()) : ", without offsets,",
                       countText(rows, "row"), c.in(0).str());
  }
  if (pieces < 1 || rows % pieces != 0 || c.in(0).elements() % pieces != 0)
    return c.error(4, "pieces = {} for {} and ids {}", pieces, countText(rows, "row"), c.in(0).str());
  Shape shape{rows};
  for (int axis = lead; axis < c.in(at::scatter_add::updates).rank(); ++axis)
    shape.push(c.shape(at::scatter_add::updates)[axis]);
  return Types{Type::tensor(c.in(at::scatter_add::updates).dtype, shape)};
}

Result<Types> types(at::one_hot, const Context& c) {
  if (as::one_hot(c.op).depth() < 1)
    return c.error(1, "depth = {} is not positive", as::one_hot(c.op).depth());
  Shape shape = c.shape(0);
  if (shape.rank() == kMaxRank) return c.errorAt(0, 1, "the result's rank is too high");
  shape.push(as::one_hot(c.op).depth());
  return Types{Type::tensor(DType::f32, shape)};
}

/// softmax, log_softmax and their gradients: the result has the type of the first operand.
static Result<Types> alongAxis(const Context& c) {
  int rank = c.in(0).rank();
  bool gradient = c.op.numOperands() == 2;
  if (gradient) TG_CHECK(c.isLikeFirst(at::softmax_grad::dy, 1));
  TG_TRY(int axis, c.axisOf("axis", rank, gradient ? 2 : 1, 0));
  if (c.op.info().attr("causal") && as::softmax(c.op).causal() && !gradient && (rank < 2 || axis != rank - 1))
    return c.errorAt(0, 2, "causal needs the last axis of a tensor of rank 2 or more");
  return Types{c.in(0)};
}
Result<Types> types(at::softmax, const Context& c) { return alongAxis(c); }
Result<Types> types(at::softmax_grad, const Context& c) { return alongAxis(c); }
Result<Types> types(at::log_softmax, const Context& c) { return alongAxis(c); }
Result<Types> types(at::log_softmax_grad, const Context& c) { return alongAxis(c); }

static Result<Types> layerNorm(const Context& c) {
  bool gradient = c.op.code == Opcode::layer_norm_grad;
  const Type& x = c.in(0);
  int vectors = gradient ? 1 : 2;
  for (int i = 1; i <= vectors; ++i)
    if (x.rank() < 1 || !(c.shape(i) == Shape{x.shape.back()}))
      return c.errorAt(i, 1, "{} is {}, not a vector of the last extent of {}", c.op.info().slots[i].name,
                       c.in(i).str(), x.str());
  TG_CHECK(c.mayBeEps(c.op.attr("eps").number(), gradient ? 3 : 2));
  if (!gradient) return Types{x};
  TG_CHECK(c.isLikeFirst(at::layer_norm_grad::dy, 2));
  Shape rows = x.shape;
  rows[x.rank() - 1] = 1;
  return Types{x, Type::tensor(x.dtype, rows), Type::tensor(x.dtype, rows)};
}
Result<Types> types(at::layer_norm, const Context& c) { return layerNorm(c); }
Result<Types> types(at::layer_norm_grad, const Context& c) { return layerNorm(c); }

Result<Types> types(at::constant, const Context& c) {
  TG_TRY(Type type, c.declared());
  const Operand& value = c.op.operands[0];
  if (value.kind == Operand::Kind::keyword && static_cast<int64_t>(value.items.size()) != type.elements())
    return c.error(1, "dense has {} for {}", countText(value.items.size(), "value"), type.str());
  auto check = [&](const Operand& literal) -> Result<void> {
    if (!literal.isLiteral()) return failAt(c.op.loc, "tg.constant: dense takes only numbers");
    if (represents(literal, type.dtype)) return {};
    return failAt(c.op.loc, "tg.constant: {} is not a value of type {}", literalText(literal),
                  name(type.dtype));
  };
  if (value.isLiteral()) TG_CHECK(check(value));
  for (const Operand& item : value.items) TG_CHECK(check(item));
  const bool one = value.isLiteral() && value.number() == 1 && type.rank() == 0 && isFloat(type.dtype);
  if (as::constant(c.op).seed() && !one) return c.error(2, "a seed is 1.0 of rank 0, not {}", type.str());
  return Types{type};
}

Result<Types> types(at::grad, const Context& c) {
  if (c.in(0).rank() != 0 || c.in(0).dtype != DType::f32)
    return c.errorAt(0, 1, "the loss has type {}; {}", c.in(0).str(),
                     c.in(0).rank() != 0 ? "reduce it with tg.mean or tg.sum" : "cast it to f32");
  Types out;
  for (int i = 1; i < c.op.numOperands(); ++i) out.push_back(c.in(i));
  if (out.empty()) return c.error(2, "there is no value to differentiate with respect to");
  return out;
}

/// Checks that the members of a group have one element type, of four bytes: they are one flat tensor.
template <class Values>
static Result<void> oneElementType(const Context& c, const Values& values, size_t first, int count) {
  const DType dtype = values[first]->type.dtype;
  for (size_t index = first; index < first + static_cast<size_t>(count); ++index)
    if (values[index]->type.dtype != dtype)
      return c.error(2, "the group of %{} has %{}, which is {}", values[first]->name, values[index]->name,
                     values[index]->type.str());
  return {};
}

/// Result types of tg.fused: the declared ones, which the yielded values must have.
Result<Types> types(at::fused, const Context& c) {
  Types types;
  for (const auto& result : c.op.results) types.push_back(result->type);
  const Op* yield = c.op.regions.empty() ? nullptr : c.op.regions[0]->terminator();
  if (!yield || yield->code != Opcode::yield) return c.error(1, "the region does not end with tg.yield");
  for (int binding = 0; binding < c.op.numOperands(); ++binding)
    if (c.op.operands[binding].bindsGroup()) {
      const std::vector<Value*> members = bindingSources(c.op, binding);
      TG_CHECK(oneElementType(c, members, 0, static_cast<int>(members.size())));
    }
  size_t slots = c.op.groups.empty() ? types.size() : c.op.groups.size();
  if (yield->operands.size() != slots)
    return c.error(1, "{} result slots but {} yielded values", slots, yield->operands.size());
  size_t next = 0;
  for (size_t slot = 0; slot < slots; ++slot) {
    int members = c.op.groups.empty() ? 0 : c.op.groups[slot];
    Type wanted = types[next];
    if (members) {
      TG_CHECK(oneElementType(c, c.op.results, next, members));
      std::vector<Type> memberTypes(types.begin() + static_cast<long>(next),
                                    types.begin() + static_cast<long>(next) + members);
      wanted = Type::tensor(wanted.dtype, {groupBytes(memberTypes) / byteSize(wanted.dtype)});
    }
    const Value* value = yield->in(static_cast<int>(slot));
    if (!value) return c.error(2, "result {} is {}, the region yields a literal", slot, wanted.str());
    const Type& yielded = value->type;
    if (!(yielded == wanted))
      return c.error(2, "result {} is {}, the region yields {}", slot, wanted.str(), yielded.str());
    next += members ? static_cast<size_t>(members) : 1;
  }
  TG_CHECK(inference::customRegion(c));
  return types;
}

Result<Types> types(at::iota, const Context& c) {
  TG_TRY(Type type, c.declared());
  if (normalAxis(as::iota(c.op).axis(), type.rank()) < 0)
    return c.error(1, "axis {} is out of range for {}", as::iota(c.op).axis(), type.str());
  return Types{type};
}

Result<Types> types(at::one_minus_pow, const Context& c) {
  if (double base = as::one_minus_pow(c.op).base(); !(base > 0 && base < 1))
    return c.error(1, "base {} is not between 0 and 1", base);
  return Types{Type::tensor(DType::f32, c.shape(0))};
}

Result<Types> types(at::cast, const Context& c) {
  TG_TRY(Type type, c.declared());
  if (!(type.shape == c.shape(0)))
    return c.errorAt(0, 1, "{} does not cast to {}", c.in(0).str(), type.str());
  return Types{type};
}

Result<Types> types(at::elu, const Context& c) { return Types{c.in(0)}; }
Result<Types> types(at::leaky_relu, const Context& c) { return Types{c.in(0)}; }
Result<Types> types(at::gelu, const Context& c) { return Types{c.in(0)}; }

Result<Types> types(at::gelu_grad, const Context& c) {
  TG_CHECK(c.isLikeFirst(at::gelu_grad::dy, 1));
  return Types{c.in(0)};
}

Result<Types> types(at::home, const Context& c) {
  TG_TRY(Type type, c.declared());
  if (!c.op.result()->place) return c.error(1, "the result has no place");
  return Types{type};
}

// Ops without results.
Result<Types> types(at::capture, const Context&) { return Types{}; }
Result<Types> types(at::yield, const Context&) { return Types{}; }
Result<Types> types(at::return_, const Context&) { return Types{}; }
Result<Types> types(at::dispatch, const Context&) { return Types{}; }
Result<Types> types(at::barrier, const Context&) { return Types{}; }
Result<Types> types(at::fill, const Context&) { return Types{}; }
Result<Types> types(at::copy, const Context&) { return Types{}; }
Result<Types> types(at::collective_begin, const Context&) { return Types{}; }
Result<Types> types(at::collective_wait, const Context&) { return Types{}; }
template <class Row, Scalar scalar>
static Result<Types> typesOfRow(const Context& c) {
  if constexpr (scalar != Scalar::none)
    return elementwise(c);
  else
    return types(Row{}, c);
}

static Result<Types> inferTensorOp(const Context& c) {
  switch (c.op.code) {
#define OP(id, name, slots, attrs, results, regions, traits, where, fusion, scalar, ...) \
  case Opcode::id:                                                                       \
    return typesOfRow<at::id, Scalar::scalar>(c);
#include "ir/ops.def"
#undef OP
  default: return inferKernelOp(c.op);
  }
}

/// Checks that the op has its required operands: inference reads them by number, and a pass may have built the op
/// without them.
static Result<void> hasOperands(const Op& op) {
  size_t count = 0;
  for (const table::Slot& slot : op.info().slots) {
    using table::SlotKind;
    if (slot.kind != SlotKind::value && slot.kind != SlotKind::symbol) break;
    if (count++ == op.operands.size())
      return failAt(op.loc, "{} [op.operand]: operand '{}' is missing", op.info().name, slot.name);
  }
  return {};
}

}  // namespace tg::inference

namespace tg {

Result<std::vector<Type>> inferAnySize(const Op& op, const Module* module) {
  TG_CHECK(inference::hasOperands(op));
  return inference::inferTensorOp({op, module});
}

Result<std::vector<Type>> infer(const Op& op, const Module* module) {
  TG_TRY(inference::Types types, inferAnySize(op, module));
  for (const Type& type : types)
    if (type.isTensor() && !hasValidExtents(type.shape))
      return failAt(op.loc, "{} [op.type]: the result {} has too many elements; the most are {}",
                    op.info().name, type.str(), kMaxElements);
  return types;
}

}  // namespace tg
