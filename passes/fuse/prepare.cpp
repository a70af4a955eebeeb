#include <algorithm>

#include "ir/cross_entropy.h"
#include "ir/infer.h"
#include "passes/fuse/fuse.h"

namespace tg::fuse {
namespace {

/// Replaces ops one by one: the body is rebuilt in order, values of replaced ops mapped on the way.
class Preparer {
 public:
  Preparer(Module& module, Item& func, const Target& target)
      : builder_(&module, &func), func_(func), target_(target) {}

  void run() {
    std::vector<std::unique_ptr<Op>> old = std::move(func_.body.ops);
    func_.body.ops.clear();
    for (auto& op : old) {
      forEachUse(*op, [&](Value*& value) {
        if (auto it = replaced_.find(value); it != replaced_.end()) value = it->second;
      });
      builder_.setLoc(op->loc);
      // A draw over rows is a map and a reduction, which find their schedules by themselves.
      if (bindsTooMuch(*op) || op->code == Opcode::categorical) {
        expand(std::move(op));
        continue;
      }
      Value* value = replacement(*op);
      if (!value) {
        func_.body.ops.push_back(std::move(op));
        continue;
      }
      value->name = op->result()->name;
      replaced_[op->result()] = value;
      dropped_.push_back(std::move(op));
    }
  }

 private:
  /// A composite that alone has more operands and results than a kernel may bind: its primitives spread over
  /// several regions.
  bool bindsTooMuch(const Op& op) const {
    if (!op.info().has(table::composite)) return false;
    int64_t bound = static_cast<int64_t>(op.results.size());
    if (target_.reads != "texel") bound += op.numOperands();
    return bound > target_.bindings;
  }
  void expand(std::unique_ptr<Op> op) {
    std::vector<Value*> operands;
    for (const Operand& operand : op->operands) operands.push_back(operand.value);
    std::vector<Value*> results = decompose(*op, operands, builder_);
    for (size_t i = 0; i < results.size(); ++i) {
      results[i]->name = op->results[i]->name;
      replaced_[op->results[i].get()] = results[i];
    }
    dropped_.push_back(std::move(op));
  }

  /// Emits what stands for an op and returns its value, or null to keep the op.
  Value* replacement(const Op& op) {
    if (op.code == Opcode::cross_entropy && op.word("reduction") != "none") return crossEntropy(op);
    if (op.info().fusion == table::Fusion::row && op.info().attr("axis")) return rowsLast(op);
    switch (op.code) {
    case Opcode::sum:
    case Opcode::mean:
    case Opcode::max_reduce:
    case Opcode::min_reduce: return reduction(op);
    case Opcode::cumsum: return cumsum(op);
    default: return nullptr;
    }
  }

  Value* crossEntropy(const Op& op) {
    AttrList attrs = op.attrs;
    tg::set(attrs, "reduction", Attr::word("none"));
    Value* rows = builder_.op(Opcode::cross_entropy, {op.in(0), op.in(1)}, attrs);
    std::vector<int64_t> axes;
    for (int axis = 0; axis < rows->type.rank(); ++axis) axes.push_back(axis);
    bool mean = op.word("reduction") == "mean";
    if (mean && ignoredTarget(op)) {
      Value* total = splitReduction(Opcode::sum, rows, axes, false);
      TensorExpr sum{&builder_, total ? total : builder_.reduce(Opcode::sum, rows, axes, false)};
      return (sum / countedRows(op, {&builder_, op.in(1)}, sum.dtype())).value;
    }
    Value* split = splitReduction(mean ? Opcode::mean : Opcode::sum, rows, axes, false);
    return split ? split : builder_.reduce(mean ? Opcode::mean : Opcode::sum, rows, axes, false);
  }

  /// softmax and friends along another axis: transposed to the last one and back, which are views.
  Value* rowsLast(const Op& op) {
    int rank = op.in(0)->type.rank();
    int axis = normalAxis(op.intAttr("axis"), rank);
    if (axis == rank - 1) return nullptr;
    std::vector<int64_t> perm;
    for (int i = 0; i < rank; ++i) perm.push_back(i);
    std::swap(perm[static_cast<size_t>(axis)], perm[static_cast<size_t>(rank - 1)]);
    std::vector<Value*> operands;
    for (int i = 0; i < op.numOperands(); ++i) operands.push_back(builder_.transpose(op.in(i), perm));
    AttrList attrs = op.attrs;
    tg::erase(attrs, "axis");
    return builder_.transpose(builder_.op(op.code, operands, attrs), perm);
  }

  Value* reduction(const Op& op) {
    return splitReduction(op.code, op.in(0), op.ints("axes"), op.flag("keepdims"));
  }

  /// A reduction of neighbouring axes in two stages when one stage leaves the device idle; null when
  /// it does not, or when the count has no useful divisor.
  Value* splitReduction(Opcode code, Value* x, std::vector<int64_t> axes, bool keepdims) {
    const Shape& shape = x->type.shape;
    if (axes.empty()) return nullptr;
    for (int64_t& axis : axes) axis = normalAxis(axis, shape.rank());
    std::sort(axes.begin(), axes.end());
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != axes[0] + static_cast<int64_t>(i)) return nullptr;
    int64_t before = 1, count = 1, after = 1;
    for (int axis = 0; axis < shape.rank(); ++axis)
      (axis < axes[0] ? before : axis <= axes.back() ? count : after) *= shape[axis];
    bool shared = target_.reduce == "workgroup" && after == 1;
    int64_t longest = shared ? 64 * target_.workgroup : std::max<int64_t>(128, (1 << 18) / target_.parallel);
    if (before * after >= target_.parallel || count <= longest) return nullptr;
    int64_t pieces =
        divisorUpTo(count, std::max<int64_t>(2, std::min(target_.parallel / (before * after), count / 16)));
    if (pieces < 2) return nullptr;
    Opcode stage = code == Opcode::max_reduce || code == Opcode::min_reduce ? code : Opcode::sum;
    Value* first =
        builder_.reduce(stage, builder_.reshape(x, {before, pieces, count / pieces, after}), {2}, false);
    Value* second = builder_.reduce(stage, first, {1}, false);
    if (code == Opcode::mean)
      second = builder_.binary(
          Opcode::mul, second,
          builder_.constant(1.0 / static_cast<double>(count), Type::tensor(x->type.dtype, {})));
    // A reshape of equal shape would be the value itself; the caller renames what it gets either way.
    return builder_.reshape(second, reducedShape(shape, axes, keepdims));
  }

  static constexpr int64_t kSumBlock = 64;

  Value* cumsum(const Op& op) {
    const Shape& shape = op.in(0)->type.shape;
    int axis = normalAxis(op.intAttr("axis"), shape.rank());
    if (shape[axis] <= 2 * kSumBlock) return nullptr;
    return runningSum(op.in(0), axis, op.flag("reverse"), op.flag("exclusive"));
  }

  /// A running sum. Along a long axis it is those of blocks plus the running sum of the blocks' totals, so
  /// that an element adds up a block and not the whole axis.
  Value* runningSum(Value* x, int axis, bool reverse, bool exclusive) {
    const Shape shape = x->type.shape;
    int64_t before = 1, count = shape[axis], after = 1;
    if (count <= 2 * kSumBlock)
      return builder_.op(Opcode::cumsum, {x},
                         {{"axis", Attr::of(int64_t{axis})},
                          {"reverse", Attr::boolean(reverse)},
                          {"exclusive", Attr::boolean(exclusive)}});
    for (int at = 0; at < shape.rank(); ++at)
      if (at != axis) (at < axis ? before : after) *= shape[at];
    int64_t blocks = (count + kSumBlock - 1) / kSumBlock, missing = blocks * kSumBlock - count;
    Value* flat = builder_.reshape(x, {before, count, after});
    if (missing)
      flat = builder_.op(Opcode::pad, {flat},
                         {{"low", Attr::ints({0, 0, 0})}, {"high", Attr::ints({0, missing, 0})}});
    Value* split = builder_.reshape(flat, {before, blocks, kSumBlock, after});
    Value* inner = runningSum(split, 2, reverse, exclusive);
    Value* offsets = runningSum(builder_.sum(split, {2}, true), 1, reverse, true);
    Value* sums = builder_.reshape(builder_.binary(Opcode::add, inner, offsets), flat->type.shape);
    if (missing)
      sums = builder_.op(Opcode::slice, {sums},
                         {{"starts", Attr::ints({0, 0, 0})}, {"limits", Attr::ints({before, count, after})}});
    return builder_.reshape(sums, shape);
  }

  Builder builder_;
  Item& func_;
  const Target& target_;
  std::unordered_map<const Value*, Value*> replaced_;
  std::vector<std::unique_ptr<Op>> dropped_;
};

}  // namespace

bool isInline(const Op& op) {
  return op.info().has(table::view) || op.code == Opcode::constant || op.code == Opcode::iota ||
         op.code == Opcode::stop_gradient;
}

Value* throughReshapes(Value* value) {
  while (value->def && (value->def->code == Opcode::reshape || value->def->code == Opcode::stop_gradient))
    value = value->def->in(0);
  return value;
}

int64_t divisorUpTo(int64_t n, int64_t limit) {
  for (int64_t candidate = std::min(n, limit); candidate > 1; --candidate)
    if (n % candidate == 0) return candidate;
  return 1;
}

void prepare(Module& module, Item& func, const Target& target) { Preparer(module, func, target).run(); }

}  // namespace tg::fuse
