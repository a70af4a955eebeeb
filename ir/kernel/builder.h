// SPDX-License-Identifier: Apache-2.0
// Builds the bodies of kernels. Folds literals, shares equal pure ops (common subexpressions), and places every pure
// op in the outermost open scope that has its operands, so that loop-invariant code never lands in a loop.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace tg {

/// A kernel scalar or short vector: an SSA value, or a literal when `value` is null.
struct KV {
  Value* value = nullptr;
  Type type = Type::scalar(DType::f32);
  double number = 0;
  int level = 0;  ///< depth of the scope it lives in; 0 is the kernel's body

  bool isLiteral() const { return value == nullptr; }
  bool is(double literal) const { return isLiteral() && number == literal; }
  int lanes() const { return type.lanes; }
};

/// The op that rounds an f32 to the nearest value of a 16-bit real.
constexpr Opcode roundOp(DType narrow) {
  return narrow == DType::f16 ? Opcode::k_round_f16 : Opcode::k_round_bf16;
}

/// The builder does not check. An op with too few operands, with operands of the wrong types, or with a value of a
/// loop that is already closed is built as asked for, and the verifier reports it with the op's rule.
class KernelBuilder {
 public:
  /// Appends to a kernel's body; new names differ from those already in it.
  explicit KernelBuilder(Block& body);
  explicit KernelBuilder(Item* kernel) : KernelBuilder(kernel->body) {}
  /// The location of the ops built from now on.
  void setLoc(Loc loc) { loc_ = std::move(loc); }

  static KV f32(double value) { return literal(DType::f32, value); }
  static KV u32(int64_t value) { return literal(DType::u32, static_cast<double>(value)); }
  static KV literal(DType dtype, double value);

  /// Adds a buffer parameter to the kernel.
  Value* parameter(Type type, std::string_view hint);

  /// A pure op. The result has the element type `dtype` and as many lanes as the widest operand; if an operand is a
  /// matrix accumulator, so is the result.
  KV op(Opcode code, std::span<const KV> operands, DType dtype);
  KV op(Opcode code, std::initializer_list<KV> operands, DType dtype) {
    return op(code, std::span(operands.begin(), operands.size()), dtype);
  }
  /// The same with the element type that the op's row implies: bool for comparisons and tests, else that of the first
  /// operand (for a select, of the value taken if true).
  KV op(Opcode code, std::span<const KV> operands);
  KV op(Opcode code, std::initializer_list<KV> operands) {
    return op(code, std::span(operands.begin(), operands.size()));
  }
  KV add(const KV& a, const KV& b) { return op(Opcode::k_add, {a, b}, a.type.dtype); }
  KV mul(const KV& a, const KV& b) { return op(Opcode::k_mul, {a, b}, a.type.dtype); }
  KV fma(const KV& a, const KV& b, const KV& c) { return op(Opcode::k_fma, {a, b, c}, DType::f32); }
  KV select(const KV& cond, const KV& a, const KV& b);
  /// x converted to the nearest value of the type; for a 16-bit real, to the type that kernels compute with.
  KV cast(const KV& x, DType dtype);
  KV bitcast(const KV& x, DType dtype);
  /// x, marked so that no gradient flows through it.
  KV stopGradient(const KV& x);
  /// Two or four scalars as a vector.
  KV vec(const std::vector<KV>& lanes);
  KV extract(const KV& vector, int lane);
  /// x in every lane of a vector; a vector is returned unchanged.
  KV splat(const KV& x, int lanes = 4);
  /// A scalar repeated to the lanes of `wanted`; a value of that width is returned unchanged.
  KV widened(const KV& value, const Type& wanted);
  /// One of tgk.global_id, local_id, workgroup_id, num_workgroups along an axis.
  KV id(Opcode code, int axis);
  /// One of tgk.subgroup_size, subgroup_id, subgroup_lane.
  KV subgroup(Opcode code) { return op(code, {}, DType::u32); }
  /// The extent of a buffer's axis: a literal where it is static.
  KV dim(Value* buffer, int axis);
  /// A call of a helper func; the results have the given types.
  std::vector<KV> call(std::string_view function, const std::vector<KV>& inputs,
                       const std::vector<Type>& results);

  // Memory: one index, u32 or i32, for each axis. A scalar stored to a buffer of vectors is repeated in every lane.

  /// A load from a read-only buffer. It may be moved outwards, but not out of the innermost guard.
  KV load(Value* buffer, const std::vector<KV>& index);
  KV load(Value* buffer, const KV& index) { return load(buffer, std::vector<KV>{index}); }
  /// A load that sees earlier stores: it stays in this place.
  KV loadHere(Value* buffer, const std::vector<KV>& index);
  KV loadHere(Value* buffer, const KV& index) { return loadHere(buffer, std::vector<KV>{index}); }
  void store(const KV& value, Value* buffer, const std::vector<KV>& index);
  void store(const KV& value, Value* buffer, const KV& index) {
    store(value, buffer, std::vector<KV>{index});
  }
  /// Adds to an element that no other invocation accesses.
  void accumulate(const KV& value, Value* buffer, const std::vector<KV>& index);
  /// An atomic op with one value operand; gives the old element if `wantOld`, else an empty literal.
  KV atomic(Opcode code, const KV& value, Value* buffer, const std::vector<KV>& index, bool wantOld = false);
  KV atomicCompareExchange(const KV& expected, const KV& value, Value* buffer, const std::vector<KV>& index,
                           bool wantOld = false);
  // Exact sums: the index omits the last axis, which has kExactWords words.
  void exactAdd(const KV& value, Value* buffer, const std::vector<KV>& index);
  KV exactLoad(Value* buffer, const std::vector<KV>& index);
  void exactStore(const KV& value, Value* buffer, const std::vector<KV>& index);

  Value* sharedBuffer(Type type, std::string_view hint);
  Value* localBuffer(Type type, std::string_view hint);

  // Cooperation between invocations; these ops stay in this place. Kinds of reductions: add mul max min and or xor.

  void barrier();
  KV workgroupReduce(const KV& x, std::string_view kind);
  KV subgroupReduce(const KV& x, std::string_view kind);
  KV subgroupShuffle(const KV& x, const KV& lane);
  KV subgroupBallot(const KV& cond);

  // Matrices of the subgroup; these ops stay in this place.

  KV coopmatSplat(double value, Type type);
  KV coopmatLoad(Value* buffer, const std::vector<KV>& index, Type type, bool columnMajor);
  /// a·b + c.
  KV coopmatMma(const KV& a, const KV& b, const KV& c);
  /// An accumulator whose elements hold their row number, or their column number.
  KV coopmatIndex(Type type, bool columns);
  /// An accumulator filled from a vector that starts at `index`: element i fills row i, or column i with `columns`.
  KV coopmatRepeat(Value* buffer, const KV& index, Type type, bool columns);
  /// An accumulator in which each element holds the sum or maximum of its row, over matrices side by side.
  KV coopmatRowReduce(std::span<const KV> xs, std::string_view kind);
  /// Whether any element of the matrices is above a limit.
  KV coopmatAnyAbove(const KV& limit, std::span<const KV> xs);
  /// An accumulator as an operand A, or an operand A as an accumulator; `truncate`: towards zero, for bf16.
  KV coopmatConvert(const KV& x, Type type, bool truncate = false);
  void coopmatStore(const KV& value, Value* buffer, const std::vector<KV>& index);

  using LoopBody = std::function<std::vector<KV>(const KV& index, const std::vector<KV>& carried)>;
  /// for index = from to `to` step `step` with carried values. The loop is placed in the scope of depth `level`, in
  /// which the bounds and initial values must be available. For a body that must stay here pass depth().
  std::vector<KV> loop(int level, const KV& from, const KV& to, const KV& step, const std::vector<KV>& init,
                       const LoopBody& body);
  std::vector<KV> loop(int level, const KV& from, const KV& to, int64_t step, const std::vector<KV>& init,
                       const LoopBody& body) {
    return loop(level, from, to, u32(step), init, body);
  }
  std::vector<KV> loop(int level, const KV& from, int64_t to, int64_t step, const std::vector<KV>& init,
                       const LoopBody& body) {
    return loop(level, from, u32(to), u32(step), init, body);
  }
  /// A loop of `count` iterations whose carried values are sums, which start as `zeros`. Blocks of about `block`
  /// iterations are summed separately and then added, and many blocks again in blocks, so that the rounding error
  /// grows with the logarithm of a long count. Up to two blocks are one loop.
  std::vector<KV> sumLoop(int level, int64_t count, int64_t block, const std::vector<KV>& zeros,
                          const LoopBody& body);
  /// Runs `body` under a tgk.if of cond, here.
  void guard(const KV& cond, const std::function<void()>& body);
  using BranchBody = std::function<std::vector<KV>()>;
  /// A tgk.if with one result for each type, here; a scalar that a body gives for a vector type is repeated. Without
  /// results `otherwise` may be empty. A literal condition runs one body and makes no tgk.if.
  std::vector<KV> branch(const KV& cond, const std::vector<Type>& types, const BranchBody& then,
                         const BranchBody& otherwise = {});
  /// A value computed only if cond holds, else `otherwise`. A literal condition makes no tgk.if.
  KV guarded(const KV& cond, const KV& otherwise, const std::function<KV()>& body);

  /// Depth of the innermost open scope.
  int depth() const { return static_cast<int>(scopes_.size()) - 1; }
  /// Depth of the innermost open guard; 0 without one.
  int guardDepth() const;
  /// Runs fn as if the scopes deeper than `level` were closed.
  void at(int level, const std::function<void()>& fn);
  /// A number that identifies the open scope at a depth. Values cached under it are invalid once the scope is closed.
  int scopeId(int level) const { return scopes_[static_cast<size_t>(level)].id; }
  void hint(std::string_view text);
  /// The next loop is marked `rolled`: the device's compiler must not unroll it.
  void rolled() { rolled_ = true; }

 private:
  /// Identifies a pure op within one scope: its opcode and operands, with literals compared by their bits, so that -0
  /// differs from 0. `detail` is the result's element type, or the axis, lane or width of the op.
  struct OpKey {
    OpKey(Opcode code, int detail) : code(code), detail(static_cast<uint16_t>(detail)) {}
    void add(const Value* value);
    void add(const KV& operand);
    void add(std::span<const KV> all) {
      for (const KV& operand : all) add(operand);
    }
    bool operator==(const OpKey& other) const = default;

    Opcode code;
    uint16_t detail;
    uint16_t count = 0;
    uint16_t literals = 0;  ///< one bit for each operand
    bool whole = true;      ///< false when there are more operands than the key can hold
    std::array<uint64_t, kMaxRank + 1> operands{};
  };
  struct OpKeyHash {
    size_t operator()(const OpKey& key) const;
  };
  using KnownOps = std::pmr::unordered_map<OpKey, Value*, OpKeyHash>;
  struct Scope {
    Block* block;
    bool guard;
    int id;
    KnownOps known;
  };
  /// The value that a scope has under a key; if none, places what `make` gives there and remembers it.
  template <class Make>
  KV once(int level, const OpKey& key, Make make) {
    level = std::min(level, depth());
    if (!key.whole) return valueAt(make()->result(), level);
    auto [entry, fresh] = scopes_[static_cast<size_t>(level)].known.try_emplace(key, nullptr);
    if (fresh) entry->second = make()->result();
    return valueAt(entry->second, level);
  }
  Op* place(int level, Opcode code, OperandList operands, std::span<const Type> results, AttrList attrs = {});
  Op* place(int level, Opcode code, OperandList operands, std::initializer_list<Type> results,
            AttrList attrs = {}) {
    return place(level, code, std::move(operands), std::span(results.begin(), results.size()),
                 std::move(attrs));
  }
  static KV valueAt(Value* value, int level);
  static KV result(Op* op, int level, int index = 0) { return valueAt(op->result(index), level); }
  static Operand operand(const KV& value);
  static OperandList slotsOf(std::span<const KV> values);
  Operand element(Value* buffer, const std::vector<KV>& index) const;
  KV reduce(Opcode code, std::span<const KV> xs, std::string_view kind);
  std::vector<KV> bodyOf(Block* block, bool guard, const std::function<std::vector<KV>()>& body);

  NameTable names_;
  std::pmr::monotonic_buffer_resource memory_;  ///< holds the scopes' tables of known values
  std::vector<Scope> scopes_;
  int nextId_ = 0;
  std::string hint_;
  bool rolled_ = false;
  Loc loc_;
};

}  // namespace tg
