// SPDX-License-Identifier: Apache-2.0
// split-reductions: replaces ops that one kernel cannot compute, or that would leave most of the device idle, by several
// ops with tensors between them. A kernel keeps nothing in memory for the next one but its results.
//
//   products     split-K, and rows of several matrices as rows of one (split_products.cpp)
//   vectors      %y = tg.matmul %x, %w : tensor<1x4096xf32>  → the sum of a tg.mul along an axis
//   two stages   %s = tg.sum %x {axes = [0]} : tensor<f32>         // of a million elements
//                → %r = tg.reshape %x {shape = [1, 2048, 512, 1]}   %p = tg.sum %r …   %s = tg.sum %p
//                An argmax of long rows likewise: the maximum of each piece and its first position, then the least
//                position among the pieces that hold the row's maximum.
//   scan blocks  %c = tg.cumsum %x {axis = 0}
//                → the scans of blocks of 16, plus the exclusive scan of the blocks' sums
//   joins        a tg.concat of more tensors than a kernel binds → several, the last of which joins the others
//   scatters     large tg.scatter_add, by blocks of ids or pieces of them (split_scatter.cpp)
//   heads        attention with heads of a slow width: zeros are appended to them (whole_heads.cpp)
//   channels     convolutions of 16 bits by matrix units: images are stored with channels last (channels_last.cpp)
//   tiles        3x3 convolutions of f32 with fewer multiplications, with kernels that transform tiles (winograd.cpp)
//   parts        composites that no single kernel computes well are decomposed (isOneKernel): short attention into matmul,
//                softmax, matmul; a reduced cross entropy into rows and a mean; softmax and the like along another axis
//                than the last; few long rows; pools over large windows, and the gradient of a max pool with
//                overlapping windows
//
// Requires: stage(tensor) with a target, whose `parallel` is the number of invocations that keep the device busy.
// Ensures: each op left fits one kernel of the target. The order in which sums are added changes; only flatten-optimizer
//   changes it before, for the norm.
// Where: before form-regions, whose regions end at these ops; behind flatten-optimizer, which has already split the norm.
//   cse and dce follow: a decomposition may compute something twice, as a short attention's gradient does its scores.
#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "codegen/schedule.h"
#include "ir/access.h"
#include "ir/cross_entropy.h"
#include "ir/divide.h"
#include "ir/infer.h"
#include "ir/op_bytes.h"
#include "ir/op_view.h"
#include "ir/tensor_expr.h"
#include "passes/budget.h"
#include "passes/fuse/bindings.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/pieces.h"
#include "passes/fuse/region_writer.h"
#include "passes/fuse/split_parts.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace tg::fuse {
namespace {

/// Replaces ops one by one, rebuilding the body in order.
class Splitter {
 public:
  Splitter(Module& module, Item& func, const Target& target, WinogradContext& winograd)
      : builder_(&module, &func), func_(func), target_(target), winograd_(winograd) {}

  void run() {
    OpList old = func_.body.ops.takeAll();
    while (!old.empty()) take(old.takeFront());
  }

 private:
  /// Puts an op, or what replaces it, at the end of the body.
  void take(std::unique_ptr<Op> op) {
    builder_.setLoc(op->loc);
    useUnits(*op, target_);
    if (!isOneKernel(*op, target_) || wantsWholeHeads(*op, target_) || wantsFlatRows(*op) ||
        wantsFlatColumns(*op, target_))
      return expand(std::move(op));
    Value* value = replacement(*op);
    if (!value) {
      func_.body.ops.push_back(std::move(op));
      return;
    }
    stand(*op, value);
  }

  /// Decomposes an op and handles its parts one by one.
  void expand(std::unique_ptr<Op> op) {
    OpList parts;
    OpList& body = builder_.ops();
    builder_.setEnd(parts);
    std::vector<Value*> results;
    const StoreView store = [this](Value* source, const Value& view) { return storedChain(source, view); };
    if (wantsWholeHeads(*op, target_))
      results = wholeHeads(builder_, *op, store);
    else if (wantsFlatRows(*op))
      results = {flatRows(builder_, *op)};
    else if (wantsFlatColumns(*op, target_))
      results = {flatColumns(builder_, *op)};
    else if (const TensorExpr made = channelsLast(builder_, *op, target_, store))
      results = {made.value};
    else if (const TensorExpr tiled = winograd(builder_, *op, target_, winograd_))
      results = {tiled.value};
    else
      results = expandOp(*op, builder_);
    builder_.setEnd(body);
    for (size_t i = 0; i < results.size(); ++i) op->results[i]->uses.replaceAll(results[i]);
    const bool places = op->code == Opcode::max_pool2d_grad;
    while (!parts.empty()) {
      std::unique_ptr<Op> part = parts.takeFront();
      places && part->code == Opcode::argmax ? storePlaces(std::move(part)) : take(std::move(part));
    }
  }

  /// Puts the argmax of a pool's windows into a kernel of its own, which stores positions. In one kernel with its readers it
  /// would be computed again for each element of each window.
  void storePlaces(std::unique_ptr<Op> op) {
    auto isPart = [](const Op* def) {
      return def && (def->info().has(table::view) || def->code == Opcode::stop_gradient || isWidening(*def));
    };
    Value* source = op->in(0);
    while (isPart(source->def)) source = source->def->in(0);
    if (Value* value = argExtremum(*op)) return stand(*op, value);
    stand(*op, storedChain(source, *op->result()));
  }

  /// Stores `last`, computed from `source` by a chain of ops with one operand each, by a kernel of its own. Equal chains
  /// share a kernel. Serves as a StoreView.
  Value* storedChain(Value* source, const Value& last) {
    std::vector<const Op*> chain;  // the last op first
    for (const Value* at = &last; at != source; at = at->def->in(0)) chain.push_back(at->def);
    ValueNumbering numbers;
    OpBytes bytes(numbers);
    for (const Op* op : chain) bytes.op(*op);
    Value*& known = stored_[{source, bytes.take()}];
    if (known) return known;
    RegionWriter writer(builder_.loc());
    writer.define(source, writer.bind(source));
    for (auto op = chain.rbegin(); op != chain.rend(); ++op) writer.copy(**op);
    std::vector<std::unique_ptr<Value>> results;
    results.push_back(std::make_unique<Value>(last));
    results[0]->name = builder_.names().unique(last.name);
    auto fused = writer.finish({writer.here(&last)}, std::move(results), target_);
    known = fused->result();
    func_.body.ops.push_back(std::move(fused));
    return known;
  }

  /// Replaces an op's result by a value.
  static void stand(const Op& op, Value* value) {
    value->name = op.result()->name;
    op.result()->uses.replaceAll(value);
  }

  /// Emits the replacement of an op and returns its value, or null to keep the op.
  Value* replacement(const Op& op) {
    if (op.code == Opcode::cross_entropy && as::cross_entropy(op).reduction() != "none")
      return crossEntropy(op);
    if (op.info().fusion == table::Fusion::row && op.info().attr("axis")) return rowsLast(op);
    switch (op.code) {
    case Opcode::sum:
    case Opcode::mean:
    case Opcode::max_reduce:
    case Opcode::min_reduce: return reduction(op);
    case Opcode::argmax:
    case Opcode::argmin: return argExtremum(op);
    case Opcode::cumsum: return cumsum(op);
    case Opcode::matmul:
      if (Value* sums = vectorProduct(op)) return sums;
      return turns(op) ? turnedProduct(op) : splitProduct(builder_, op, target_);
    case Opcode::concat: return concat(op);
    case Opcode::scatter_add:
    case Opcode::take_along_axis_grad: return splitScatter(builder_, op, target_);
    default: return nullptr;
    }
  }

  /// A reduced cross entropy as the losses of rows and their sum or mean.
  Value* crossEntropy(const Op& op) {
    AttrList attrs = op.attrs;
    tg::set(attrs, "reduction", Attr::word("none"));
    Value* rows = builder_.op(Opcode::cross_entropy,
                              {as::cross_entropy(op).logits(), as::cross_entropy(op).targets()}, attrs);
    const std::vector<int64_t> axes = allAxes(rows->type.rank());
    bool mean = as::cross_entropy(op).reduction() == "mean";
    if (mean && ignoredTarget(op)) {
      Value* total = splitReduction(Opcode::sum, rows, axes, false);
      TensorExpr sum{&builder_, total ? total : builder_.reduce(Opcode::sum, rows, axes, false)};
      return (sum / countedRows(op, {{&builder_, as::cross_entropy(op).targets()}}, sum.dtype())).value;
    }
    Value* split = splitReduction(mean ? Opcode::mean : Opcode::sum, rows, axes, false);
    return split ? split : builder_.reduce(mean ? Opcode::mean : Opcode::sum, rows, axes, false);
  }

  /// softmax and the like along another axis than the last: that axis is transposed to the end and back, which are views.
  Value* rowsLast(const Op& op) {
    int rank = op.in(0)->type.rank();
    int axis = normalAxis(as::softmax(op).axis(), rank);
    if (axis == rank - 1) return nullptr;
    std::vector<int64_t> perm = allAxes(rank);
    std::swap(perm[static_cast<size_t>(axis)], perm[static_cast<size_t>(rank - 1)]);
    std::vector<Value*> operands;
    for (int i = 0; i < op.numOperands(); ++i) operands.push_back(builder_.transpose(op.in(i), perm));
    AttrList attrs = op.attrs;
    tg::erase(attrs, "axis");
    return builder_.transpose(builder_.op(op.code, operands, attrs), perm);
  }

  /// How many operands from `first` on one kernel can join.
  size_t joinable(const std::vector<Value*>& parts, size_t first) const {
    Bindings bound(target_);
    bound.write(1);
    size_t end = first;
    for (; end < parts.size(); ++end) {
      bound.read(*parts[end]);
      if (!bound.fitOnce()) break;
    }
    return end - first;
  }

  /// A concatenation of more tensors than a kernel may bind, as several of fewer; null if one kernel can do it.
  Value* concat(const Op& op) {
    std::vector<Value*> parts = as::concat(op).xs();
    if (joinable(parts, 0) == parts.size()) return nullptr;
    AttrList attrs = {{"axis", op.attr("axis")}};
    while (joinable(parts, 0) < parts.size()) {
      std::vector<Value*> joined;
      for (size_t at = 0; at < parts.size();) {
        size_t count = joinable(parts, at);
        if (count < 2 && at == 0) return nullptr;  // the target binds less than two operands and a result
        std::vector<Value*> some(parts.begin() + static_cast<long>(at),
                                 parts.begin() + static_cast<long>(at + count));
        joined.push_back(count == 1 ? some[0] : builder_.op(Opcode::concat, some, attrs));
        at += count;
      }
      parts = std::move(joined);
    }
    return builder_.op(Opcode::concat, parts, attrs);
  }

  Value* reduction(const Op& op) {
    if (Value* split = splitApart(op)) return split;
    return splitReduction(op.code, op.in(0), as::sum(op).axes(), as::sum(op).keepdims());
  }

  /// A reduction over axes that are not all neighbours, such as a bias over N, H and W, in two stages if one leaves the
  /// device idle: first the last run of neighbouring axes.
  Value* splitApart(const Op& op) {
    const Shape& shape = op.in(0)->type.shape;
    std::vector<int64_t> axes = reducedAxes(op);
    size_t run = axes.size();
    while (run > 1 && axes[run - 1] == axes[run - 2] + 1) --run;
    int64_t results = op.result()->type.elements(), count = shape.elements() / results;
    if (run < 2 || results >= target_.parallel || count <= kLongestLoop) return nullptr;
    std::vector<int64_t> last(axes.begin() + static_cast<long>(run) - 1, axes.end());
    axes.resize(run - 1);
    Value* first = builder_.reduce(op.code, op.in(0), last, true);
    return builder_.reshape(builder_.reduce(op.code, first, axes, true), op.result()->type.shape);
  }

  /// Whether a product's weights should be transposed by a kernel of their own. Only weights in memory: views may have
  /// transposed others already.
  bool turns(const Op& product) const {
    const Op* maker = throughReshapes(product.operands[0].value)->def;
    return (!maker || !isInline(*maker)) && wantsTurned(product, target_);
  }
  /// A convolution's product with weights that a kernel of their own has transposed.
  Value* turnedProduct(const Op& op) {
    Value* source = throughReshapes(op.operands[0].value);
    std::vector<int64_t> perm = allAxes(op.in(0)->type.rank());
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    builder_.setHint(source->name + "_turned");
    Value* weights = builder_.reshape(source, op.in(0)->type.shape);
    Value* view = builder_.transpose(weights, perm);
    builder_.setHint("");
    Value* turned = storedChain(source, *view);
    AttrList attrs = op.attrs;
    tg::set(attrs, "transpose_a", Attr::boolean(true));
    return builder_.op(Opcode::matmul, {turned, as::matmul(op).rhs()}, attrs);
  }

  /// An operand of a product, rounded to the product's precision.
  TensorExpr factor(const as::matmul& product, Value* operand) {
    const TensorExpr x{&builder_, operand};
    const std::optional<DType> dtype = dtypeNamed(product.precision());  // none for f32x3
    return !dtype || dtype == DType::f32 || factorOf(*operand) == dtype ? x : x.cast(*dtype).cast(DType::f32);
  }

  /// A product of columns and rows, which is a map.
  Value* outerProduct(const as::matmul& product) {
    TensorExpr a = factor(product, product.lhs()), b = factor(product, product.rhs());
    if (product.transpose_a()) a = a.reshape(turnedShape(a.shape()));
    if (product.transpose_b()) b = b.reshape(turnedShape(b.shape()));
    return (a * b).value;
  }
  /// The shape of matrices with one row as such with one column, or the other way round.
  static Shape turnedShape(Shape shape) {
    std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
    return shape;
  }

  /// A product of a column and a row as a map; one of a matrix and a vector as a sum along the matrix's rows or columns,
  /// computed by workgroups. Null for other products, and where each lane sums by itself.
  Value* vectorProduct(const Op& op) {
    const as::matmul product(op);
    const Shape& out = op.result()->type.shape;
    const Shape& lhs = product.lhs()->type.shape;
    const int64_t inner = lhs[lhs.rank() - (product.transpose_a() ? 2 : 1)];
    // Where each lane sums by itself, a tile of one matrix in registers is as fast as the map.
    if (inner == 1 && (out.rank() > 2 || target_.reduce == "workgroup")) return outerProduct(product);
    if (out.rank() != 2 || product.precision() == "f32x3" || target_.reduce != "workgroup") return nullptr;
    const TensorExpr a = factor(product, product.lhs()), b = factor(product, product.rhs());
    if (std::min(out[0], out[1]) != 1 || inner < kShortestVector) return nullptr;
    const bool ofRows = out[1] == 1;  // whether a is the matrix
    const bool innerFirst = ofRows ? product.transpose_a() : !product.transpose_b();
    const TensorExpr &matrix = ofRows ? a : b, &vector = ofRows ? b : a;
    const TensorExpr terms = matrix * vector.reshape(innerFirst ? Shape{inner, 1} : Shape{1, inner});
    const std::vector<int64_t> axes{innerFirst ? 0 : 1};
    Value* split = splitReduction(Opcode::sum, terms.value, axes, false);
    return builder_.reshape(split ? split : builder_.reduce(Opcode::sum, terms.value, axes, false), out);
  }

  /// Whether a kernel over rows computes the value, maybe through maps, such as the absolute values of a cross entropy's
  /// gradient: the same kernel can then compute the maximum of each row.
  static bool isOfRows(const Value& value) {
    const Value* at = &value;
    while (at->def && keepsElements(*at->def)) {
      const Op& op = *at->def;
      const Value* from = nullptr;
      forEachUse(op, [&](const Value* operand) {
        if (!from && operand->type == value.type) from = operand;
      });
      if (!from) return false;
      at = from;
    }
    return at->def && at->def->info().fusion == table::Fusion::row;
  }

  /// Whether a kernel over these rows reads or computes the value, maybe through maps, as for the gradients of a norm's gain
  /// and bias: that kernel can sum over the rows as it goes (sumsRows).
  static bool meetsRows(Value* x, const RowSpace& rows) {
    constexpr size_t kMostSeen = 16;
    auto isOfThem = [&](const Op& op) {
      return op.info().fusion == table::Fusion::row && rowSpaceOf(op) == rows;
    };
    std::vector<const Value*> work{x};
    for (size_t next = 0; next < work.size() && next < kMostSeen; ++next) {
      const Value* value = work[next];
      for (const Use& use : value->uses)
        if (isOfThem(*use.user())) return true;
      const Op* def = value->def;
      if (!def) continue;
      if (isOfThem(*def)) return true;
      if (keepsElements(*def)) forEachUse(*def, [&](const Value* operand) { work.push_back(operand); });
    }
    return false;
  }

  /// A shape as three axes: neighbouring axes as one, the axes before them as one, and those behind.
  struct Line {
    int64_t before = 1, count = 1, after = 1;
  };
  static Line lineOf(const Shape& shape, int first, int last) {
    Line line;
    for (int axis = 0; axis < shape.rank(); ++axis)
      (axis < first ? line.before : axis <= last ? line.count : line.after) *= shape[axis];
    return line;
  }

  /// The most terms that one stage of a reduction sums well.
  int64_t longestOf(const Line& line) const {
    if (target_.reduce != "workgroup") return std::max(kLeastLaneLoads, kLaneLoads / target_.parallel);
    return line.after == 1 ? kGroupRounds * target_.workgroup : longestColumn(target_, line.after);
  }

  /// The pieces for the first of two stages: enough for the device, but no more than the second stage sums well.
  Pieces piecesOf(const Line& line) const {
    const bool shared = target_.reduce == "workgroup";
    const int64_t most = !shared ? line.count / kLaneShare
                                 : std::min(line.count / (line.after == 1 ? kGroupShare : kColumnShare),
                                            longestOf(line) / kSecondStage);
    const int64_t wanted = std::min(target_.parallel / (line.before * line.after), most);
    return piecesUpTo(line.count, std::max<int64_t>(2, wanted));
  }

  /// argmax and argmin of few long rows in two stages: the extremum of each piece and its first position; then the least
  /// position among the pieces that hold the row's extremum. Null if one stage is better.
  Value* argExtremum(const Op& op) {
    Value* x = op.in(0);
    const DType dtype = x->type.dtype;
    const int axis = normalAxis(as::argmax(op).axis(), x->type.rank());
    const Line line = lineOf(x->type.shape, axis, axis);
    const auto [before, count, after] = line;
    if (before * after >= target_.parallel || count <= longestOf(line)) return nullptr;
    const Pieces pieces = piecesOf(line);
    const int64_t missing = pieces.missing(count);
    if (pieces.count < 2 || (missing && !isFloat(dtype))) return nullptr;
    const bool least = op.code == Opcode::argmin;
    const double worst = (least ? 1 : -1) * std::numeric_limits<double>::infinity();
    auto extremum = [&](const TensorExpr& terms, int64_t of, bool keepdims) {
      const Opcode code = least ? Opcode::min_reduce : Opcode::max_reduce;
      return TensorExpr{&builder_, builder_.reduce(code, terms.value, {of}, keepdims)};
    };
    const TensorExpr rows{&builder_, builder_.reshape(x, {before, count, after})};
    TensorExpr terms = isFloat(dtype) ? select(eq(rows, rows), rows, worst) : rows;  // NaN is skipped
    terms.value = filled(builder_, terms.value, 1, missing, worst);
    terms = terms.reshape({before, pieces.count, pieces.width, after});
    const TensorExpr best = extremum(terms, 2, false);
    const TensorExpr inside = terms.unary(op.code, {{"axis", Attr::of(2)}});
    const TensorExpr place =
        inside + iota(builder_, {pieces.count, 1}, 0) * static_cast<double>(pieces.width);
    const TensorExpr held = select(eq(best, extremum(best, 1, true)), place, static_cast<double>(count - 1));
    TensorExpr first{&builder_, builder_.reduce(Opcode::min_reduce, held.value, {1}, true)};
    if (isFloat(dtype)) {  // but NaN as the first element is the answer
      const TensorExpr start = rows.part(1, 0, 1);
      first = select(eq(start, start), first, 0.0);
    }
    return first.reshape(op.result()->type.shape).value;
  }

  /// A reduction over neighbouring axes in two stages, if one leaves the device idle; otherwise null.
  Value* splitReduction(Opcode code, Value* x, std::vector<int64_t> axes, bool keepdims) {
    const Shape& shape = x->type.shape;
    if (axes.empty()) return nullptr;
    for (int64_t& axis : axes) axis = normalAxis(axis, shape.rank());
    std::ranges::sort(axes);
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != axes[0] + static_cast<int64_t>(i)) return nullptr;
    const Line line = lineOf(shape, static_cast<int>(axes[0]), static_cast<int>(axes.back()));
    const auto [before, count, after] = line;
    if (before * after >= target_.parallel) return nullptr;
    const bool isSum = code == Opcode::sum || code == Opcode::mean;
    const int64_t onTheWay = isSum && before == 1 && after > 1 && meetsRows(x, {count, after})
                                 ? rowsForSums({count, after}, target_)
                                 : 0;
    if (onTheWay == 0 && count <= longestOf(line)) return nullptr;
    if (code == Opcode::max_reduce && after == 1 && isOfRows(*x)) return nullptr;
    const Pieces pieces = onTheWay ? Pieces{count / onTheWay, onTheWay} : piecesOf(line);
    const int64_t missing = pieces.missing(count);
    if (pieces.count < 2 || (missing && !isFloat(x->type.dtype))) return nullptr;
    Opcode stage = code == Opcode::max_reduce || code == Opcode::min_reduce ? code : Opcode::sum;
    Value* terms = x;
    if (missing) {
      constexpr double kInf = std::numeric_limits<double>::infinity();
      const double neutral = code == Opcode::max_reduce ? -kInf : code == Opcode::min_reduce ? kInf : 0.0;
      terms = filled(builder_, builder_.reshape(x, {before, count, after}), 1, missing, neutral);
    }
    Value* first = builder_.reduce(
        stage, builder_.reshape(terms, {before, pieces.count, pieces.width, after}), {2}, false);
    Value* second = builder_.reduce(stage, first, {1}, false);
    if (code == Opcode::mean)
      second = builder_.binary(
          Opcode::mul, second,
          builder_.constant(1.0 / static_cast<double>(count), Type::tensor(x->type.dtype, {})));
    // If the shape is the same, reshape returns the value itself. The caller renames the value in any case.
    return builder_.reshape(second, reducedShape(shape, axes, keepdims));
  }

  Value* cumsum(const Op& op) {
    const as::cumsum scan(op);
    const Type& type = op.in(0)->type;
    const int axis = normalAxis(scan.axis(), type.rank());
    const int64_t blocks = type.elements() > target_.parallel ? 2 : kFewScanBlocks;
    if (type.shape[axis] <= blocks * kScanBlock) return nullptr;
    return runningSum(op.in(0), axis, scan.reverse(), scan.exclusive());
  }

  /// A running sum. Along a long axis: the running sums of blocks plus the running sum of the blocks' totals, so that each
  /// element adds the terms of its block and not of the whole axis.
  Value* runningSum(Value* x, int axis, bool reverse, bool exclusive) {
    const Shape shape = x->type.shape;
    const auto [before, count, after] = lineOf(shape, axis, axis);
    if (count <= 2 * kScanBlock)
      return builder_.op(Opcode::cumsum, {x},
                         {{"axis", Attr::of(axis)},
                          {"reverse", Attr::boolean(reverse)},
                          {"exclusive", Attr::boolean(exclusive)}});
    const int64_t blocks = divideCeil(count, kScanBlock), missing = blocks * kScanBlock - count;
    Value* flat = filled(builder_, builder_.reshape(x, {before, count, after}), 1, missing);
    Value* split = builder_.reshape(flat, {before, blocks, kScanBlock, after});
    Value* inner = runningSum(split, 2, reverse, exclusive);
    Value* offsets = runningSum(builder_.sum(split, {2}, true), 1, reverse, true);
    Value* sums = builder_.reshape(builder_.binary(Opcode::add, inner, offsets), flat->type.shape);
    return builder_.reshape(builder_.part(sums, 1, 0, count), shape);
  }

  Builder builder_;
  Item& func_;
  const Target& target_;
  WinogradContext& winograd_;
  std::map<std::pair<const Value*, std::string>, Value*>
      stored_;  ///< by source value and the ops of the chain
};

}  // namespace
}  // namespace tg::fuse

tg::Result<void> tg::run_split_reductions(Module& module, const SplitReductionsOptions& options,
                                          const PassContext&) {
  TG_TRY(const int64_t budget, budgetOf(module, options.budget));
  fuse::WinogradContext winograd{options.winograd ? budget / fuse::kWinogradShare : 0, {}};
  return fuse::rewriteFunctions(
      module, fuse::targetOn(module, "split-reductions"),
      [&](Item& func, const Target& target) { fuse::Splitter(module, func, target, winograd).run(); });
}
