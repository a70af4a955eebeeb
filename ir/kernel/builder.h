// Builds kernel bodies: folds literals, shares equal pure ops, and places every pure op in the
// outermost open scope that has its operands, so that loop-invariant code never lands in a loop.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
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

class KernelBuilder {
 public:
  explicit KernelBuilder(Item* kernel);

  static KV f32(double value) { return literal(DType::f32, value); }
  static KV u32(int64_t value) { return literal(DType::u32, static_cast<double>(value)); }
  static KV literal(DType dtype, double value);

  /// A buffer parameter of the kernel.
  Value* parameter(Type type, std::string_view hint);

  /// A pure op. The result has `dtype` and the widest operand's lanes.
  KV op(Opcode code, std::vector<KV> operands, DType dtype);
  KV add(const KV& a, const KV& b) { return op(Opcode::k_add, {a, b}, a.type.dtype); }
  KV mul(const KV& a, const KV& b) { return op(Opcode::k_mul, {a, b}, a.type.dtype); }
  KV fma(const KV& a, const KV& b, const KV& c) { return op(Opcode::k_fma, {a, b, c}, DType::f32); }
  KV select(const KV& cond, const KV& a, const KV& b);
  KV cast(const KV& x, DType dtype);
  /// Four scalars as a vector.
  KV vec(const std::vector<KV>& lanes);
  KV extract(const KV& vector, int lane);
  /// x in every lane of a vector; a vector stays.
  KV splat(const KV& x);
  /// One of tgk.global_id, local_id, workgroup_id along an axis.
  KV id(Opcode code, int axis);
  /// A load from a buffer nobody writes; placed no further out than the innermost guard.
  KV load(Value* buffer, const KV& index);
  /// A load that sees earlier stores (shared memory): placed here.
  KV loadHere(Value* buffer, const KV& index);
  void store(const KV& value, Value* buffer, const KV& index);
  void barrier();
  Value* sharedBuffer(Type type, std::string_view hint);
  KV workgroupReduce(const KV& x, std::string_view kind);

  using LoopBody = std::function<std::vector<KV>(const KV& index, const std::vector<KV>& carried)>;
  /// for index = from to `to` step `step`, carrying values; placed in the scope of depth `level`.
  std::vector<KV> loop(int level, const KV& from, const KV& to, int64_t step, const std::vector<KV>& init,
                       const LoopBody& body);
  std::vector<KV> loop(int level, const KV& from, int64_t to, int64_t step, const std::vector<KV>& init,
                       const LoopBody& body) {
    return loop(level, from, u32(to), step, init, body);
  }
  /// Runs `body` where cond holds, here.
  void guard(const KV& cond, const std::function<void()>& body);
  /// A value computed only where cond holds, else `otherwise`.
  KV guarded(const KV& cond, const KV& otherwise, const std::function<KV()>& body);

  /// Depth of the innermost open scope.
  int depth() const { return static_cast<int>(scopes_.size()) - 1; }
  /// Depth of the innermost open guard; 0 without one.
  int guardDepth() const;
  /// Runs fn with the scopes deeper than `level` set aside.
  void at(int level, const std::function<void()>& fn);
  /// A number that identifies the open scope of a depth; results remembered under it die with it.
  int scopeId(int level) const { return scopes_[static_cast<size_t>(level)].id; }
  void hint(std::string_view text) { hint_ = text; }

 private:
  struct Scope {
    Block* block;
    bool guard;
    int id;
    std::unordered_map<std::string, KV> known;
  };
  Op* place(int level, Opcode code, std::vector<Operand> operands, std::vector<Type> results,
            AttrList attrs = {});
  KV result(Op* op, int level, int index = 0);
  Operand operand(const KV& value) const;
  std::vector<KV> bodyOf(Block* block, bool guard, const std::function<std::vector<KV>()>& body);

  Item* kernel_;
  NameTable names_;
  std::vector<Scope> scopes_;
  int nextId_ = 0;
  std::string hint_;
};

}  // namespace tg
