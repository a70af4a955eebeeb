// SPDX-License-Identifier: Apache-2.0
// The kernel builder's ops on memory and between invocations.
#include <algorithm>

#include "ir/kernel/builder.h"
#include "ir/kernel/kernel.h"

namespace tg {

/// The type of a buffer; any type for null, which the verifier reports.
static Type typeOf(const Value* buffer) { return buffer ? buffer->type : Type::scalar(DType::f32); }

Operand KernelBuilder::element(Value* buffer, const std::vector<KV>& index) const {
  return Operand::element(buffer, slotsOf(index));
}

KV KernelBuilder::widened(const KV& value, const Type& wanted) {
  return value.lanes() < wanted.lanes ? splat(value, wanted.lanes) : value;
}

KV KernelBuilder::dim(Value* buffer, int axis) {
  const Type type = typeOf(buffer);
  const bool has = axis >= 0 && axis < type.rank();
  if (has && type.shape[axis] != Shape::kDynamic) return u32(type.shape[axis]);
  OpKey key(Opcode::k_dim, axis);
  key.add(buffer);
  return once(0, key, [&] {
    return place(0, Opcode::k_dim, {Operand::of(buffer), Operand::literal(static_cast<int64_t>(axis))},
                 {Type::scalar(DType::u32)});
  });
}

std::vector<KV> KernelBuilder::call(std::string_view function, const std::vector<KV>& inputs,
                                    const std::vector<Type>& results) {
  OperandList slots{Operand::symbol(std::string(function))};
  int level = 0;
  for (const KV& input : inputs) {
    slots.push_back(operand(input));
    level = std::max(level, input.level);
  }
  Op* op = place(level, Opcode::k_call, std::move(slots), results);
  std::vector<KV> out;
  for (size_t i = 0; i < results.size(); ++i) out.push_back(result(op, level, static_cast<int>(i)));
  return out;
}

KV KernelBuilder::load(Value* buffer, const std::vector<KV>& index) {
  int level = guardDepth();
  for (const KV& at : index) level = std::max(level, at.level);
  OpKey key(Opcode::k_load, 0);
  key.add(buffer);
  key.add(index);
  return once(level, key, [&] {
    return place(level, Opcode::k_load, {element(buffer, index)}, {elementType(typeOf(buffer))});
  });
}

KV KernelBuilder::loadHere(Value* buffer, const std::vector<KV>& index) {
  return result(place(depth(), Opcode::k_load, {element(buffer, index)}, {elementType(typeOf(buffer))}),
                depth());
}

void KernelBuilder::store(const KV& value, Value* buffer, const std::vector<KV>& index) {
  KV stored = widened(value, typeOf(buffer));
  place(depth(), Opcode::k_store, {operand(stored), element(buffer, index)}, {});
}

void KernelBuilder::accumulate(const KV& value, Value* buffer, const std::vector<KV>& index) {
  KV added = widened(value, typeOf(buffer));
  place(depth(), Opcode::k_accumulate, {operand(added), element(buffer, index)}, {});
}

KV KernelBuilder::atomic(Opcode code, const KV& value, Value* buffer, const std::vector<KV>& index,
                         bool wantOld) {
  std::vector<Type> results;
  if (wantOld) results.push_back(elementType(typeOf(buffer)));
  Op* op = place(depth(), code, {operand(value), element(buffer, index)}, std::move(results));
  return wantOld ? result(op, depth()) : KV{};
}

KV KernelBuilder::atomicCompareExchange(const KV& expected, const KV& value, Value* buffer,
                                        const std::vector<KV>& index, bool wantOld) {
  std::vector<Type> results;
  if (wantOld) results.push_back(elementType(typeOf(buffer)));
  Op* op = place(depth(), Opcode::k_atomic_compare_exchange,
                 {operand(expected), operand(value), element(buffer, index)}, std::move(results));
  return wantOld ? result(op, depth()) : KV{};
}

void KernelBuilder::exactAdd(const KV& value, Value* buffer, const std::vector<KV>& index) {
  place(depth(), Opcode::k_exact_add, {operand(value), element(buffer, index)}, {});
}

KV KernelBuilder::exactLoad(Value* buffer, const std::vector<KV>& index) {
  return result(place(depth(), Opcode::k_exact_load, {element(buffer, index)}, {Type::scalar(DType::f32)}),
                depth());
}

void KernelBuilder::exactStore(const KV& value, Value* buffer, const std::vector<KV>& index) {
  place(depth(), Opcode::k_exact_store, {operand(value), element(buffer, index)}, {});
}

Value* KernelBuilder::sharedBuffer(Type type, std::string_view hint) {
  hint_ = hint;
  return place(0, Opcode::k_shared, {}, {type})->result();
}

Value* KernelBuilder::localBuffer(Type type, std::string_view hint) {
  hint_ = hint;
  return place(0, Opcode::k_local, {}, {type})->result();
}

void KernelBuilder::barrier() { place(depth(), Opcode::k_barrier, {}, {}); }

KV KernelBuilder::reduce(Opcode code, std::span<const KV> xs, std::string_view kind) {
  AttrList attrs;
  if (kind != "add") attrs.push_back({"kind", Attr::word(std::string(kind))});
  return result(place(depth(), code, slotsOf(xs), {xs.empty() ? Type::scalar(DType::f32) : xs.front().type},
                      std::move(attrs)),
                depth());
}

KV KernelBuilder::workgroupReduce(const KV& x, std::string_view kind) {
  return reduce(Opcode::k_workgroup_reduce, {&x, 1}, kind);
}

KV KernelBuilder::subgroupReduce(const KV& x, std::string_view kind) {
  return reduce(Opcode::k_subgroup_reduce, {&x, 1}, kind);
}

KV KernelBuilder::subgroupShuffle(const KV& x, const KV& lane) {
  return result(place(depth(), Opcode::k_subgroup_shuffle, {operand(x), operand(lane)}, {x.type}), depth());
}

KV KernelBuilder::subgroupBallot(const KV& cond) {
  return result(place(depth(), Opcode::k_subgroup_ballot, {operand(cond)}, {Type::scalar(DType::u32, 4)}),
                depth());
}

static AttrList flagOf(const char* name, bool set) {
  return set ? AttrList{{name, Attr::boolean(true)}} : AttrList{};
}

KV KernelBuilder::coopmatSplat(double value, Type type) {
  return result(place(depth(), Opcode::k_coopmat_splat, {Operand::literal(value)}, {type}), depth());
}

KV KernelBuilder::coopmatLoad(Value* buffer, const std::vector<KV>& index, Type type, bool columnMajor) {
  return result(place(depth(), Opcode::k_coopmat_load, {element(buffer, index)}, {type},
                      flagOf("column_major", columnMajor)),
                depth());
}

KV KernelBuilder::coopmatMma(const KV& a, const KV& b, const KV& c) {
  return result(place(depth(), Opcode::k_coopmat_mma, {operand(a), operand(b), operand(c)}, {c.type}),
                depth());
}

KV KernelBuilder::coopmatIndex(Type type, bool columns) {
  return result(place(depth(), Opcode::k_coopmat_index, {}, {type}, flagOf("columns", columns)), depth());
}

KV KernelBuilder::coopmatRepeat(Value* buffer, const KV& index, Type type, bool columns) {
  return result(place(depth(), Opcode::k_coopmat_repeat, {element(buffer, {index})}, {type},
                      flagOf("columns", columns)),
                depth());
}

KV KernelBuilder::coopmatRowReduce(std::span<const KV> xs, std::string_view kind) {
  return reduce(Opcode::k_coopmat_row_reduce, xs, kind);
}

KV KernelBuilder::coopmatAnyAbove(const KV& limit, std::span<const KV> xs) {
  OperandList operands{operand(limit)};
  for (const KV& x : xs) operands.push_back(operand(x));
  return result(place(depth(), Opcode::k_coopmat_any_above, std::move(operands), {Type::scalar(DType::i1)}),
                depth());
}

KV KernelBuilder::coopmatConvert(const KV& x, Type type, bool truncate) {
  return result(place(depth(), Opcode::k_coopmat_convert, {operand(x)}, {type}, flagOf("truncate", truncate)),
                depth());
}

void KernelBuilder::coopmatStore(const KV& value, Value* buffer, const std::vector<KV>& index) {
  place(depth(), Opcode::k_coopmat_store, {operand(value), element(buffer, index)}, {});
}

}  // namespace tg
