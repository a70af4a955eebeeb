// SPDX-License-Identifier: Apache-2.0
#include "codegen/fragment_epilogue.h"

#include <algorithm>

#include "codegen/schedule_coopmat.h"
#include "ir/kernel/expr.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/rewrites.h"
#include "ir/needs.h"

namespace tg {

void FragmentEpilogue::begin(const KV& sums, const Index& row, const Index& column) {
  sums_ = sums;
  row_ = row;
  column_ = column;
  known_.clear();
}

KV FragmentEpilogue::emit(const Value* v) {
  if (auto it = known_.find(v); it != known_.end()) return it->second;
  KV value = compute(v);
  known_[v] = value;
  return value;
}

/// A broadcast operand is accepted if its extents are the last ones of the result and it has as many elements as
/// the product has columns: element c then belongs to column c of every row.
bool FragmentEpilogue::liesAlong(const Value* v, const Shape& shape) const {
  const int64_t elements = v->type.elements();
  if (elements == shape.elements() || elements == 1) return true;
  int64_t tail = 1;
  for (int axis = 1; axis <= std::min(v->type.rank(), shape.rank()) && tail < elements; ++axis) {
    const int64_t own = v->type.shape[v->type.rank() - axis];
    if (own != shape[shape.rank() - axis]) return false;
    tail *= own;
  }
  return tail == elements && elements == p_.n;
}

KV FragmentEpilogue::load(const Value* operand, const Index& row, const Index& column) {
  const DType dtype = operand->type.dtype;
  Value* rows = emitter_.bindingRows(operand, p_.batch * p_.m, p_.n);
  if (!rows) return fail();
  IndexSpace& space = emitter_.space();
  const bool whole = dtype == DType::f32;
  return kernel_.coopmatLoad(
      rows, {space.materialize(row), space.materialize(whole ? column : space.div(column, kEight))},
      Type::coopmat(dtype, kSide, kSide, whole ? MatrixUse::acc : MatrixUse::a), false);
}

/// A binding with the product's extents is loaded as a matrix, a vector is repeated in every row, a scalar is
/// loaded once.
KV FragmentEpilogue::binding(const Value* v) {
  const DType dtype = v->type.dtype;
  if (dtype != DType::f32 && dtype != narrow_) return fail();
  if (isWhole(v)) {
    operands_.push_back(v);
    return load(v, row_, column_);
  }
  if (dtype != DType::f32) return fail();
  if (v->type.elements() == 1)
    return emitter_.emit(v, Indices(static_cast<size_t>(v->type.rank()), IndexSpace::constant(0)));
  Value* elements = v->type.elements() == p_.n ? emitter_.bindingElements(v) : nullptr;
  if (!elements) return fail();
  return kernel_.coopmatRepeat(elements, emitter_.space().materialize(column_),
                               Type::coopmat(DType::f32, kSide, kSide, MatrixUse::acc), true);
}

/// An elementwise op is applied to the matrices of its operands. Everything that matrices have no op for fails.
KV FragmentEpilogue::compute(const Value* v) {
  if (v == p_.op->result()) return sums_;
  if (!v->def) return binding(v);
  const Op& op = *v->def;
  if (op.code == Opcode::constant) {
    const bool one = op.operands[0].isLiteral() && v->type.dtype == DType::f32;
    return one ? KernelBuilder::f32(op.operands[0].number()) : fail();
  }
  for (int i = 0; i < op.numOperands(); ++i)
    if (!liesAlong(op.in(i), v->type.shape)) return fail();
  if (op.code == Opcode::reshape || op.code == Opcode::broadcast_to) return emit(op.in(0));
  if (op.code == Opcode::cast) {
    const KV x = emit(op.in(0));
    const DType from = op.in(0)->type.dtype, to = v->type.dtype;
    if (from == to) return x;
    if (!x.type.isCoopmat() || (to != narrow_ && to != DType::f32)) return fail();
    return kernel_.coopmatConvert(
        x, Type::coopmat(to, kSide, kSide, to == DType::f32 ? MatrixUse::acc : MatrixUse::a));
  }
  auto has = [](const Value* value) {
    return value->type.dtype == DType::f32 || value->type.dtype == DType::i1;
  };
  if (op.info().scalar == Scalar::none || !has(v)) return fail();
  std::vector<KV> operands;
  for (int i = 0; i < op.numOperands(); ++i) {
    if (!has(op.in(i))) return fail();
    operands.push_back(emit(op.in(i)));
  }
  kernel_.hint(v->name);
  KV value = lowerScalar(kernel_, op.info().scalar, operands);
  kernel_.hint("");
  return value;
}

/// Found by emitting one matrix into a kernel that is thrown away. Ops that matrices do not support fail there.
std::optional<FragmentEpilogue::Operands> FragmentEpilogue::operandsOf(const Op& fused,
                                                                       const PlainRegion& region,
                                                                       const Product& p,
                                                                       const Target& target) {
  const DType narrow = factorType(*p.op);
  if (p.m % kSide != 0 || p.n % kSide != 0 || target.reads != "storage") return {};
  Block scratch;
  KernelBuilder kernel(scratch);
  IndexSpace space(kernel);
  const std::vector<bool> storage(region.bindings.size());
  RegionEmitter emitter(kernel, space, fused, region, storage);
  FragmentEpilogue epilogue(emitter, p, narrow);
  const Index row = space.variable(kernel.id(Opcode::k_workgroup_id, 0), p.batch * p.m, kSide),
              column = space.variable(kernel.id(Opcode::k_workgroup_id, 1), p.n, kSide);
  epilogue.begin(kernel.coopmatSplat(0, Type::coopmat(DType::f32, kSide, kSide, MatrixUse::acc)), row,
                 column);
  for (const Value* yield : region.yields) {
    const KV result = epilogue.emit(yield);
    if (epilogue.failed() || !epilogue.isWhole(yield) || !result.type.isCoopmat() ||
        result.type.dtype == DType::i1)
      return {};
  }
  Limits limits = limitsOf(target);
  limits.lacks[static_cast<size_t>(FeatureId::quads)] = !target.knowsFragments(narrow);
  for (const Op* op : scratch.ops) {
    KernelNeeds needs;
    addOp(needs, *op);
    if (!unmet(needs, limits).empty() || !isLegal(*op) || !inferKernelOp(*op)) return {};
  }
  return epilogue.operands_;
}

}  // namespace tg
