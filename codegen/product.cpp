// SPDX-License-Identifier: Apache-2.0
// Finds the product of a region, which way to load its operands, and emits its epilogue.
#include "codegen/product.h"
#include "ir/access.h"
#include "ir/divide.h"
#include "ir/op_view.h"

#include <algorithm>

namespace tg {

Product productIn(const PlainRegion& region) {
  Product p;
  for (Op* op : region.body.ops)
    if (op->code == Opcode::matmul) p.op = op;
  if (!p.op) return p;
  const Shape &a = p.op->in(0)->type.shape, &out = p.op->result()->type.shape;
  p.ta = as::matmul(*p.op).transpose_a();
  p.tb = as::matmul(*p.op).transpose_b();
  p.m = out[out.rank() - 2];
  p.n = out.back();
  p.k = a[a.rank() - (p.ta ? 2 : 1)];
  p.lead = out;
  p.lead.resize(out.rank() - 2);
  p.batch = p.lead.elements();
  return p;
}

Result<Product> findProduct(const LowerContext& c) {
  Product p = productIn(c.region);
  bool fits = p.op != nullptr;
  for (const Value* value : c.yields)
    fits = fits && value->type.elements() == p.op->result()->type.elements();
  if (!fits)
    return failAt(c.fused.loc, "schedule {} needs one product, and results of its size", c.schedule.str());
  return p;
}

Indices operandIndices(const Product& p, int which, const Indices& lead, const Index& row,
                       const Index& column) {
  bool transposed = which == 0 ? p.ta : p.tb;
  const Shape& shape = p.op->in(which)->type.shape;
  int own = shape.rank() - 2, added = static_cast<int>(lead.size()) - own;
  Indices at;
  for (int axis = 0; axis < own; ++axis)
    at.push_back(shape[axis] == 1 ? Index{} : lead[static_cast<size_t>(axis + added)]);
  at.push_back(transposed ? column : row);
  at.push_back(transposed ? row : column);
  return at;
}

KV plainElement(RegionEmitter& emitter, const Product& p, int which, const Indices& lead, const Index& row,
                const Index& column) {
  return emitter.emit(p.op->in(which), operandIndices(p, which, lead, row, column));
}

KV rounded(KernelBuilder& kernel, const Op& product, const KV& x) {
  const std::optional<DType> precision = dtypeNamed(as::matmul(product).precision());
  return precision && isNarrow(*precision) ? kernel.op(roundOp(*precision), {x}, DType::f32) : x;
}

KV element(RegionEmitter& emitter, const Product& p, int which, const Indices& lead, const Index& row,
           const Index& column) {
  return rounded(emitter.kernel(), *p.op, plainElement(emitter, p, which, lead, row, column));
}

int64_t readableExtent(const Product& p, int which) {
  const int64_t own = which == 0 ? p.m : p.n, most = alignTo(own, kEight);
  const Value* value = throughCasts(p.op->in(which));
  if (!value->def || value->def->code != Opcode::slice || own == most) return own;
  const as::slice slice(*value->def);
  const auto axis = static_cast<size_t>(value->type.rank() - ((which == 0) == p.ta ? 1 : 2));
  const std::vector<int64_t> starts = slice.starts(), strides = slice.strides();
  const bool begins = starts[axis] == 0 && (strides.empty() || strides[axis] == 1);
  return begins && value->def->in(0)->type.shape[static_cast<int>(axis)] >= most ? most : own;
}

bool liesAlongK(const Product& p, int which, int64_t depth) {
  const bool own = (which == 0) != (which == 0 ? p.ta : p.tb);
  auto hasFours = [&](bool alongK) { return (alongK ? depth : readableExtent(p, which)) % kLanes == 0; };
  if (hasFours(own)) return own;
  return !hasFours(!own) || !own;
}

/// The number of scalar loads where vectors of four of an operand are asked for, along k or not. Found by emitting
/// one vector into a kernel that is thrown away.
static int splitLoads(const Op& fused, const PlainRegion& region, const Product& p, int which, bool alongK) {
  Block scratch;
  KernelBuilder kernel(scratch);
  IndexSpace space(kernel);
  const std::vector<bool> storage(region.bindings.size());
  RegionEmitter emitter(kernel, space, fused, region, storage);
  const int64_t other = which == 0 ? p.m : p.n;
  // The start is a multiple of four, so that the four lanes stay below an extent that four divides.
  auto place = [&](int axis, int64_t extent, int64_t step) {
    return space.scale(
        space.variable(kernel.id(Opcode::k_workgroup_id, axis), std::max<int64_t>(1, extent / step)), step);
  };
  Index batch = place(2, p.batch, 1);
  Index outer = place(0, other, alongK ? 1 : kLanes), inner = place(1, p.k, alongK ? kLanes : 1);
  (alongK ? inner : outer) = space.add(alongK ? inner : outer, IndexSpace::lane());
  Indices lead = space.delinear(batch, p.lead);
  element(emitter, p, which, lead, which == 0 ? outer : inner, which == 0 ? inner : outer);
  return emitter.splitLoads();
}

int64_t innermostWindow(const Value* factor) {
  for (const Op* op = factor->def; op && op->info().fusion == table::Fusion::view; op = op->in(0)->def)
    if (op->code == Opcode::unfold) return as::unfold(*op).size();
  return 0;
}

std::array<bool, 2> turnedOperands(const Op& fused, const PlainRegion& region, const Product& p,
                                   int64_t depth) {
  std::array<bool, 2> turned{};
  for (int which = 0; which < 2; ++which) {
    // A binding lies in memory as the product reads it; without fours both ways there is no choice.
    if (!p.op->in(which)->def || depth % kLanes != 0 || (which == 0 ? p.m : p.n) % kLanes != 0) continue;
    const bool along =
        splitLoads(fused, region, p, which, true) <= splitLoads(fused, region, p, which, false);
    turned[static_cast<size_t>(which)] = along != liesAlongK(p, which, depth);
  }
  return turned;
}

/// The row-major offset of an element in every result, or of four neighbouring columns.
static Index resultOffset(LowerContext& c, const Product& p, const Index& batch, const Index& row,
                          Index column, bool vector) {
  if (vector) column = c.space.add(column, IndexSpace::lane());
  return c.space.add(c.space.scale(batch, p.m * p.n), c.space.add(c.space.scale(row, p.n), column));
}

void storeZero(LowerContext& c, const Product& p, const Index& batch, const Index& row, const Index& column,
               bool vector) {
  const Index offset = resultOffset(c, p, batch, row, column, vector);
  const KV zero = KernelBuilder::f32(0);
  for (size_t slot = 0; slot < c.region.yields.size(); ++slot)
    c.emitter.store(static_cast<int>(slot), offset, vector ? c.kernel.splat(zero) : zero);
}

void epilogue(LowerContext& c, const Product& p, const Index& batch, const Index& m0, const Index& n0,
              int64_t tileM, int64_t tileN, bool vector, const std::vector<KV>& acc) {
  Indices lead = c.space.delinear(batch, p.lead);
  int64_t step = vector ? kLanes : 1, next = 0;
  const bool eights = vector && tileN == 2 * kLanes;
  const auto& yields = c.region.yields;
  for (int64_t i = 0; i < tileM; ++i)
    for (int64_t j = 0; j < tileN; j += step, ++next) {
      Index row = c.space.add(m0, IndexSpace::constant(i)), column = c.space.add(n0, IndexSpace::constant(j));
      const Index offset = resultOffset(c, p, batch, row, column, vector);
      const Shape& shape = p.op->result()->type.shape;
      const KV& sum = acc[static_cast<size_t>(next)];
      c.emitter.define(p.op->result(), c.space.delinear(offset, shape), sum);
      // If four does not divide a row, a vector may straddle two rows, and the store asks for its lanes one by one.
      for (int lane = 0; vector && lane < kLanes; ++lane)
        c.emitter.define(p.op->result(), c.space.delinear(IndexSpace::atLane(offset, lane), shape),
                         c.kernel.extract(sum, lane));
      for (size_t slot = 0; slot < yields.size(); ++slot) {
        const bool words = eights && isNarrow(yields[slot]->type.dtype);
        if (!words) c.emitter.store(static_cast<int>(slot), offset);
        if (words && j > 0)
          c.emitter.storeWords(static_cast<int>(slot), c.space.add(offset, IndexSpace::constant(-j)));
      }
    }
}

}  // namespace tg
