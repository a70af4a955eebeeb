// SPDX-License-Identifier: Apache-2.0
// Builds kernel bodies: folds literals, shares equal pure ops, and places every pure op in the
// outermost open scope that has its operands, so that loop-invariant code never lands in a loop.
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

/// What is built wrongly, of too few operands or of other types, of a value whose loop is closed, stands in the kernel as
/// it was asked for: the verifier names the op and the rule.
class KernelBuilder {
 public:
  /// Appends to a kernel's body; names already taken there stay apart from new ones.
  explicit KernelBuilder(Block& body);
  explicit KernelBuilder(Item* kernel) : KernelBuilder(kernel->body) {}
  /// The place that ops built from now on are said to come from.
  void setLoc(Loc loc) { loc_ = std::move(loc); }

  static KV f32(double value) { return literal(DType::f32, value); }
  static KV u32(int64_t value) { return literal(DType::u32, static_cast<double>(value)); }
  static KV literal(DType dtype, double value);

  /// A buffer parameter of the kernel.
  Value* parameter(Type type, std::string_view hint);

  /// A pure op. The result has `dtype` and the widest operand's lanes; an accumulator's op gives an accumulator.
  KV op(Opcode code, std::span<const KV> operands, DType dtype);
  KV op(Opcode code, std::initializer_list<KV> operands, DType dtype) {
    return op(code, std::span(operands.begin(), operands.size()), dtype);
  }
  /// The same with the element type that the row implies: bool of comparisons and tests, else that of the
  /// first operand (of a select, of its first branch).
  KV op(Opcode code, std::span<const KV> operands);
  KV op(Opcode code, std::initializer_list<KV> operands) {
    return op(code, std::span(operands.begin(), operands.size()));
  }
  KV add(const KV& a, const KV& b) { return op(Opcode::k_add, {a, b}, a.type.dtype); }
  KV mul(const KV& a, const KV& b) { return op(Opcode::k_mul, {a, b}, a.type.dtype); }
  KV fma(const KV& a, const KV& b, const KV& c) { return op(Opcode::k_fma, {a, b, c}, DType::f32); }
  KV select(const KV& cond, const KV& a, const KV& b);
  /// x as the nearest value of the type; of a narrow real as the type that kernels compute with.
  KV cast(const KV& x, DType dtype);
  KV bitcast(const KV& x, DType dtype);
  /// x, through which no gradient flows.
  KV stopGradient(const KV& x);
  /// Two or four scalars as a vector.
  KV vec(const std::vector<KV>& lanes);
  KV extract(const KV& vector, int lane);
  /// x in every lane of a vector; a vector stays.
  KV splat(const KV& x, int lanes = 4);
  /// A scalar in every lane that a type has; what is as wide stays.
  KV widened(const KV& value, const Type& wanted);
  /// One of tgk.global_id, local_id, workgroup_id, num_workgroups along an axis.
  KV id(Opcode code, int axis);
  /// One of tgk.subgroup_size, subgroup_id, subgroup_lane.
  KV subgroup(Opcode code) { return op(code, {}, DType::u32); }
  /// The extent of a buffer's axis: a literal unless it is open.
  KV dim(Value* buffer, int axis);
  /// A call of a helper func; the results have the given types.
  std::vector<KV> call(std::string_view function, const std::vector<KV>& inputs,
                       const std::vector<Type>& results);

  // Memory: one index, u32 or i32, for each axis. A scalar stored to a buffer of vectors is repeated.

  /// A load from a buffer nobody writes; placed no further out than the innermost guard.
  KV load(Value* buffer, const std::vector<KV>& index);
  KV load(Value* buffer, const KV& index) { return load(buffer, std::vector<KV>{index}); }
  /// A load that sees earlier stores: placed here.
  KV loadHere(Value* buffer, const std::vector<KV>& index);
  KV loadHere(Value* buffer, const KV& index) { return loadHere(buffer, std::vector<KV>{index}); }
  void store(const KV& value, Value* buffer, const std::vector<KV>& index);
  void store(const KV& value, Value* buffer, const KV& index) {
    store(value, buffer, std::vector<KV>{index});
  }
  /// Adds to an element that no other invocation touches.
  void accumulate(const KV& value, Value* buffer, const std::vector<KV>& index);
  /// One of the atomics with one value; gives the old element when `wantOld`, else an empty literal.
  KV atomic(Opcode code, const KV& value, Value* buffer, const std::vector<KV>& index, bool wantOld = false);
  KV atomicCompareExchange(const KV& expected, const KV& value, Value* buffer, const std::vector<KV>& index,
                           bool wantOld = false);
  // Exact sums: the index leaves out the last axis, of kExactWords words.
  void exactAdd(const KV& value, Value* buffer, const std::vector<KV>& index);
  KV exactLoad(Value* buffer, const std::vector<KV>& index);
  void exactStore(const KV& value, Value* buffer, const std::vector<KV>& index);

  Value* sharedBuffer(Type type, std::string_view hint);
  Value* localBuffer(Type type, std::string_view hint);

  // Cooperation, placed here. Kinds of reductions: add mul max min and or xor.

  void barrier();
  KV workgroupReduce(const KV& x, std::string_view kind);
  KV subgroupReduce(const KV& x, std::string_view kind);
  KV subgroupShuffle(const KV& x, const KV& lane);
  KV subgroupBallot(const KV& cond);

  // Matrices of the subgroup, made and used here.

  KV coopmatSplat(double value, Type type);
  KV coopmatLoad(Value* buffer, const std::vector<KV>& index, Type type, bool columnMajor);
  /// a·b + c.
  KV coopmatMma(const KV& a, const KV& b, const KV& c);
  /// An accumulator of which each element is the number of its row or column.
  KV coopmatIndex(Type type, bool columns);
  /// An accumulator with the same element of a vector, from `index` on, all along each row or column.
  KV coopmatRepeat(Value* buffer, const KV& index, Type type, bool columns);
  /// In each element the sum or maximum of its row, of matrices side by side.
  KV coopmatRowReduce(std::span<const KV> xs, std::string_view kind);
  /// Whether any element of the matrices is above a limit.
  KV coopmatAnyAbove(const KV& limit, std::span<const KV> xs);
  /// An accumulator as an operand A, or the other way round; `bounded` where no element reaches 2^112.
  KV coopmatConvert(const KV& x, Type type, bool bounded = false);
  void coopmatStore(const KV& value, Value* buffer, const std::vector<KV>& index);

  using LoopBody = std::function<std::vector<KV>(const KV& index, const std::vector<KV>& carried)>;
  /// for index = from to `to` step `step`, carrying values; placed in the scope of depth `level`, which must
  /// have the bounds and the first values. A body that is to run here takes depth().
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
  /// A loop of `count` rounds whose carried values are sums, which begin as `zeros`: blocks of about `block`
  /// rounds are summed by themselves and then added, many of them block by block again, so that the error
  /// grows with the logarithm of a long count. Up to two blocks are one loop.
  std::vector<KV> sumLoop(int level, int64_t count, int64_t block, const std::vector<KV>& zeros,
                          const LoopBody& body);
  /// Runs `body` where cond holds, here.
  void guard(const KV& cond, const std::function<void()>& body);
  using BranchBody = std::function<std::vector<KV>()>;
  /// An if with one result for each type, here; scalars that a body gives for vectors are repeated. Without
  /// results `otherwise` may be empty. A literal condition runs one body and makes no if.
  std::vector<KV> branch(const KV& cond, const std::vector<Type>& types, const BranchBody& then,
                         const BranchBody& otherwise = {});
  /// A value computed only where cond holds, else `otherwise`. A literal condition makes no if.
  KV guarded(const KV& cond, const KV& otherwise, const std::function<KV()>& body);

  /// Depth of the innermost open scope.
  int depth() const { return static_cast<int>(scopes_.size()) - 1; }
  /// Depth of the innermost open guard; 0 without one.
  int guardDepth() const;
  /// Runs fn with the scopes deeper than `level` set aside.
  void at(int level, const std::function<void()>& fn);
  /// A number that identifies the open scope of a depth; results remembered under it die with it.
  int scopeId(int level) const { return scopes_[static_cast<size_t>(level)].id; }
  void hint(std::string_view text);
  /// The next loop stays one, whatever the device's compiler would do.
  void rolled() { rolled_ = true; }

 private:
  /// What tells a pure op from others in one scope: its code and its operands, a literal by its bits, which
  /// tell -0 from 0. `detail` is the result's element type, or the axis, lane or width that the op is built
  /// for.
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
    uint16_t literals = 0;  ///< a bit for each operand
    bool whole = true;      ///< not when there are more operands than a pure op has
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
  /// What a scope has under a key; where it has nothing yet, what `make` places there.
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
  std::pmr::monotonic_buffer_resource memory_;  ///< of what scopes know
  std::vector<Scope> scopes_;
  int nextId_ = 0;
  std::string hint_;
  bool rolled_ = false;
  Loc loc_;
};

}  // namespace tg
