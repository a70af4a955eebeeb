#include <algorithm>
#include <array>

#include "ir/infer.h"
#include "ir/tensor_expr.h"
#include "passes/fuse/fuse.h"

namespace tg::fuse {
namespace {

constexpr int64_t kLongestLoop = 1024;  ///< terms that one invocation may sum while others are idle

/// Replaces ops one by one: the body is rebuilt in order, values of replaced ops mapped on the way.
class Preparer {
 public:
  Preparer(Module& module, Item& func, const Target& target)
      : builder_(&module, &func), func_(func), target_(target) {}

  void run() {
    std::vector<std::unique_ptr<Op>> old = std::move(func_.body.ops);
    func_.body.ops.clear();
    for (auto& op : old) take(std::move(op));
  }

 private:
  void take(std::unique_ptr<Op> op) {
    forEachUse(*op, [&](Value*& value) {
      for (auto it = replaced_.find(value); it != replaced_.end(); it = replaced_.find(value))
        value = it->second;
    });
    builder_.setLoc(op->loc);
    if (bindsTooMuch(*op) || opensUp(*op)) return expand(std::move(op));
    Value* value = replacement(*op);
    if (!value) {
      func_.body.ops.push_back(std::move(op));
      return;
    }
    value->name = op->result()->name;
    replaced_[op->result()] = value;
    dropped_.push_back(std::move(op));
  }
  /// A composite that alone has more operands and results than a kernel may bind: its primitives spread over
  /// several regions.
  bool bindsTooMuch(const Op& op) const {
    if (!op.info().has(table::composite)) return false;
    int64_t bound = static_cast<int64_t>(op.results.size());
    if (target_.reads != "texel") bound += op.numOperands();
    return bound > target_.bindings;
  }
  /// A composite of views alone, or of views around a product: views go to whatever reads them, and the
  /// product gets a schedule of its own.
  static bool opensUp(const Op& op) {
    table::Fusion fusion = op.info().fusion;
    return op.info().has(table::composite) &&
           (fusion == table::Fusion::view || fusion == table::Fusion::contraction);
  }
  void expand(std::unique_ptr<Op> op) {
    std::vector<Value*> operands;
    for (const Operand& operand : op->operands) operands.push_back(operand.value);
    size_t before = func_.body.ops.size();
    std::vector<Value*> results = decompose(*op, operands, builder_);
    for (size_t i = 0; i < results.size(); ++i) {
      results[i]->name = op->results[i]->name;
      replaced_[op->results[i].get()] = results[i];
    }
    dropped_.push_back(std::move(op));
    std::vector<std::unique_ptr<Op>> parts;
    for (size_t i = before; i < func_.body.ops.size(); ++i) parts.push_back(std::move(func_.body.ops[i]));
    func_.body.ops.resize(before);
    for (auto& part : parts) take(std::move(part));
  }

  /// Emits what stands for an op and returns its value, or null to keep the op.
  Value* replacement(const Op& op) {
    if (op.code == Opcode::cross_entropy && op.word("reduction") != "none") return crossEntropy(op);
    if (op.info().fusion == table::Fusion::row && op.info().attr("axis")) return rowsLast(op);
    if (op.code == Opcode::sum || op.code == Opcode::mean || op.code == Opcode::max_reduce)
      return reduction(op);
    if (op.code == Opcode::matmul) return splitProduct(op);
    return nullptr;
  }

  Value* crossEntropy(const Op& op) {
    Value* rows =
        builder_.op(Opcode::cross_entropy, {op.in(0), op.in(1)}, {{"reduction", Attr::word("none")}});
    std::vector<int64_t> axes;
    for (int axis = 0; axis < rows->type.rank(); ++axis) axes.push_back(axis);
    bool mean = op.word("reduction") == "mean";
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
    if (Value* split = splitApart(op)) return split;
    return splitReduction(op.code, op.in(0), op.ints("axes"), op.flag("keepdims"));
  }

  /// A sum over axes that are no neighbours, as of a bias over N, H and W, in two stages when one leaves the
  /// device idle: the last run of neighbouring axes first.
  Value* splitApart(const Op& op) {
    const Shape& shape = op.in(0)->type.shape;
    std::vector<int64_t> axes = op.ints("axes");
    for (int64_t& axis : axes) axis = normalAxis(axis, shape.rank());
    std::sort(axes.begin(), axes.end());
    size_t run = axes.size();
    while (run > 1 && axes[run - 1] == axes[run - 2] + 1) --run;
    int64_t results = op.result()->type.elements(), count = shape.elements() / results;
    if (op.code != Opcode::sum || run < 2 || results >= target_.parallel || count <= kLongestLoop)
      return nullptr;
    std::vector<int64_t> last(axes.begin() + static_cast<long>(run) - 1, axes.end());
    axes.resize(run - 1);
    Value* first = builder_.reduce(op.code, op.in(0), last, true);
    return builder_.reshape(builder_.reduce(op.code, first, axes, true), op.result()->type.shape);
  }

  /// A product of few elements over a long inner axis, as a convolution's weight gradient is, leaves the
  /// device idle: products of pieces of the axis, then their sum. Null when one product is right.
  Value* splitProduct(const Op& op) {
    const Shape &a = op.in(0)->type.shape, &out = op.result()->type.shape;
    bool ta = op.flag("transpose_a"), tb = op.flag("transpose_b");
    int64_t inner = a[a.rank() - (ta ? 2 : 1)];
    constexpr int64_t kTile = 16;  // elements an invocation computes at once
    if (inner <= kLongestLoop || out.rank() == kMaxRank) return nullptr;
    int64_t wanted = target_.parallel * kTile / out.elements();
    int64_t pieces = divisorUpTo(inner, std::min(wanted, inner / 64));
    if (pieces < 2) return nullptr;
    Value* parts = builder_.op(Opcode::matmul, {pieced(op.in(0), pieces, ta), pieced(op.in(1), pieces, !tb)},
                               {{"transpose_a", Attr::boolean(ta)}, {"transpose_b", Attr::boolean(tb)}});
    return builder_.reduce(Opcode::sum, parts, {out.rank() - 2}, false);
  }

  /// A factor whose inner axis, the last but one or the last, is cut into pieces on an axis of their own
  /// before the matrix: a view.
  Value* pieced(Value* x, int64_t pieces, bool innerFirst) {
    const Shape& from = x->type.shape;
    int lead = from.rank() - 2;
    Shape shape = from;
    shape.resize(lead);
    std::vector<int64_t> perm = allAxes(from.rank() + 1);
    int64_t rows = from[lead], columns = from[lead + 1];
    for (int64_t extent : innerFirst ? std::array<int64_t, 3>{pieces, rows / pieces, columns}
                                     : std::array<int64_t, 3>{rows, pieces, columns / pieces})
      shape.push(extent);
    Value* cut = builder_.reshape(x, shape);
    if (innerFirst) return cut;
    std::swap(perm[static_cast<size_t>(lead)], perm[static_cast<size_t>(lead) + 1]);
    return builder_.transpose(cut, perm);
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
    Opcode stage = code == Opcode::max_reduce ? code : Opcode::sum;
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
