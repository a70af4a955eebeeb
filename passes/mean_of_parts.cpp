// SPDX-License-Identifier: Apache-2.0
// Running a batch in parts gives the mean of the parts' losses. That is the loss of the batch if every value is of one of
// three kinds, which each op propagates:
//
//   %x = argument {batch = 0}        rows     along one axis, one row for each row of the batch, which depends on no other
//   %h = tg.matmul %x, %w            rows
//   %n = tg.mean %h {axes = [0]}     mean     over the batch; sums and multiples of means are means too
//   %c = tg.sub %h, %n               refused: each row depends on all others, as in a batch norm
//   %w = tg.param @w                 fixed    depends on no row
//   %z = tg.constant 0.0             rows     if %x is added to it: set-dim gives each part as many of its rows
//
// An axis may hold the batch and axes behind it, such as the tokens of all sequences: the rows are then its equal parts.
#include "passes/mean_of_parts.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "ir/access.h"
#include "ir/cross_entropy.h"
#include "ir/dims.h"
#include "ir/infer.h"
#include "ir/op_view.h"
#include "ir/rows.h"

namespace tg {
namespace {

enum class How : uint8_t { fixed, rows, mean };
struct Share {
  How how = How::fixed;
  int axis = 0;  ///< for rows: the axis that holds the batch as its outermost part
};
constexpr Share kMean{How::mean, 0};

class PartsCheck {
 public:
  explicit PartsCheck(const Item& func) : func_(func), batch_(batchSize(func)) {}

  Result<void> run() {
    for (const auto& arg : func_.body.args)
      if (const int axis = batchAxis(*arg); axis >= 0) rows_[arg.get()] = {How::rows, axis};
    while (true) {
      const size_t before = rows_.size();
      shares_ = rows_;
      Result<void> done = visitAll();
      if (rows_.size() == before) return done;
    }
  }

  /// The values that have a row for each row of the batch. A row may also depend on means over the batch, as in a batch
  /// norm.
  std::unordered_set<const Value*> rows() {
    for (const auto& arg : func_.body.args)
      if (const int axis = batchAxis(*arg); axis >= 0) shares_[arg.get()] = {How::rows, axis};
    for (const Op* op : func_.body.ops) {
      if (op->results.empty() || !anyUse(*op, [&](const Value* value) { return isRows(value); })) continue;
      const std::optional<int> axis = joinsRows(*op) ? std::nullopt : axisOfResult(*op);
      if (axis) (void)keep(*op, {How::rows, *axis});
    }
    std::unordered_set<const Value*> out;
    for (const auto& [value, share] : shares_)
      if (share.how == How::rows) out.insert(value);
    return out;
  }

 private:
  using Shares = std::unordered_map<const Value*, Share>;

  Result<void> visitAll() {
    for (const Op* op : func_.body.ops) TG_CHECK(visit(*op));
    return {};
  }

  Share of(const Value* value) const {
    auto found = shares_.find(value);
    return found == shares_.end() ? Share() : found->second;
  }
  bool isRows(const Value* value) const { return of(value).how == How::rows; }
  bool isMean(const Value* value) const { return of(value).how == How::mean; }
  bool isFixed(const Value* value) const { return of(value).how == How::fixed; }

  static Error refused(const Op& op, std::string_view why) {
    const std::string what = op.results.empty() ? std::string(op.info().name)
                                                : fmt::format("%{} = {}", op.result()->name, op.info().name);
    return failAt(op.loc, "{} {}", what, why);
  }

  /// Finds the kind of an op's results from those of its operands, or fails.
  Result<void> visit(const Op& op) {
    switch (op.code) {
    case Opcode::capture: return {};
    case Opcode::return_: return checkResults(op);
    case Opcode::update: return refused(op, "would update a state once for each part");
    case Opcode::random_uniform:
    case Opcode::random_normal:
    case Opcode::dropout:
    case Opcode::categorical: return refused(op, "would draw other random numbers");
    default: break;
    }
    bool rows = false, mean = false;
    forEachUse(op, [&](const Value* value) {
      rows = rows || isRows(value);
      mean = mean || isMean(value);
    });
    if (!rows && !mean) return {};
    findRepeated(op);
    if (mean) return isLinear(op) ? keep(op, kMean) : refused(op, "computes with a mean over the batch");
    if (joinsRows(op)) return keep(op, kMean);
    const std::optional<int> axis = axisOfResult(op);
    if (!axis) return refused(op, "joins rows of the batch, or is not known to keep them apart");
    return keep(op, {How::rows, *axis});
  }

  /// Finds fixed operands that meet rows along their axis: set-dim gives them as many rows as a part has.
  void findRepeated(const Op& op) {
    const bool joins = op.code == Opcode::concat || op.code == Opcode::stack;
    if (!joins && op.code != Opcode::select && op.info().scalar == Scalar::none) return;
    forEachUse(op, [&](const Value* met) {
      const int axis = of(met).axis, back = met->type.rank() - axis;
      if (!isRows(met) || met->type.shape[axis] == 1) return;
      if (op.code == Opcode::concat && normalAxis(as::concat(op).axis(), met->type.rank()) == axis) return;
      forEachUse(op, [&](const Value* value) {
        const int at = value->type.rank() - back;
        if (isFixed(value) && at >= 0 && value->type.shape[at] == met->type.shape[axis]) repeat(*value, at);
      });
    });
  }

  /// Records the ops that set-dim changes so that a value has more or fewer rows along the axis.
  void repeat(const Value& value, int axis) {
    if (!value.def || !traced_.insert(&value).second) return;
    const Opcode code = value.def->code;
    if (code == Opcode::constant || code == Opcode::broadcast_to || code == Opcode::iota) {
      rows_[&value] = {How::rows, axis};
      return;
    }
    forEachUse(*value.def, [&](const Value* operand) {
      if (operand->type.rank() == value.type.rank() && operand->type.shape[axis] == value.type.shape[axis])
        repeat(*operand, axis);
    });
  }

  /// A step returns the means of numbers of f32, the loss among them, and what the last part returns for the rest.
  Result<void> checkResults(const Op& op) const {
    for (int i = 0; i < op.numOperands(); ++i) {
      const Value& value = *op.in(i);
      const bool isNumber = value.type == Type::tensor(DType::f32, {});
      if (isNumber ? isRows(&value) : !isFixed(&value))
        return failAt(value.loc, "%{} is a result, which would be of the last part alone", value.name);
    }
    return {};
  }

  Result<void> keep(const Op& op, Share share) {
    for (const auto& result : op.results) shares_[result.get()] = share;
    return {};
  }

  /// For an op that reads a mean over the batch: whether its result for the batch is the mean of its results for the parts.
  bool isLinear(const Op& op) const {
    if (anyUse(op, [&](const Value* value) { return isRows(value); })) return false;
    switch (op.code) {
    case Opcode::add:
    case Opcode::sub:
    case Opcode::neg:
    case Opcode::stop_gradient:
    case Opcode::sum:
    case Opcode::mean:
    case Opcode::reshape:
    case Opcode::transpose:
    case Opcode::slice:
    case Opcode::broadcast_to: return true;
    case Opcode::cast: return isFloat(op.result()->type.dtype);
    case Opcode::mul: return isFixed(as::mul(op).lhs()) || isFixed(as::mul(op).rhs());
    case Opcode::div: return isFixed(as::div(op).rhs());
    default: return false;
    }
  }

  /// Whether the op takes the mean over the rows.
  bool joinsRows(const Op& op) const {
    if (op.code == Opcode::mean) return reduces(op, of(op.in(0)).axis);
    if (op.code != Opcode::cross_entropy) return false;
    return as::cross_entropy(op).reduction() == "mean" && !ignoredTarget(op) && commonAxis(op) &&
           commonAxis(op) != op.in(0)->type.rank() - 1;
  }

  static bool reduces(const Op& op, int axis) { return contains(reducedAxes(op), axis); }

  /// The axis of the operands that are rows, counted from the front, if they have the same one.
  std::optional<int> commonAxis(const Op& op) const {
    std::optional<int> axis;
    bool same = true;
    forEachUse(op, [&](const Value* value) {
      if (!isRows(value)) return;
      same = same && (!axis || *axis == of(value).axis);
      axis = of(value).axis;
    });
    return same ? axis : std::nullopt;
  }

  /// The same for operands that broadcast to the first result: the axis in the result.
  std::optional<int> alignedAxis(const Op& op) const {
    const int rank = op.result()->type.rank();
    std::optional<int> axis;
    bool same = true;
    forEachUse(op, [&](const Value* value) {
      if (!isRows(value)) return;
      const int at = rank - value->type.rank() + of(value).axis;
      same =
          same && (!axis || *axis == at) && value->type.shape[of(value).axis] == op.result()->type.shape[at];
      axis = at;
    });
    return same ? axis : std::nullopt;
  }

  /// The axis that holds the rows in the first result; nothing if the op joins rows.
  std::optional<int> axisOfResult(const Op& op) const {
    if (op.code == Opcode::matmul) return axisOfProduct(op);
    // A reshape moves the axis, and where_causal counts along its last two.
    if (keepsElements(op) && op.code != Opcode::reshape && op.code != Opcode::where_causal)
      return alignedAxis(op);
    // All operands of other ops that are rows have the same axis.
    const std::optional<int> axis = commonAxis(op);
    return axis && keepsRows(op, *axis) ? moved(op, *axis) : std::nullopt;
  }

  /// Whether each row of a result depends only on that row of the operands.
  bool keepsRows(const Op& op, int axis) const {
    auto fixedFrom = [&](int first) {
      for (int i = first; i < op.numOperands(); ++i)
        if (!isFixed(op.in(i))) return false;
      return true;
    };
    auto allRows = [&] { return everyUse(op, [&](const Value* value) { return isRows(value); }); };
    switch (op.code) {
    case Opcode::reshape:  // `moved` says where
    case Opcode::transpose:
    case Opcode::swap_axes:
    case Opcode::one_hot: return true;
    case Opcode::stack: return allRows();
    case Opcode::tile: {
      const std::vector<int64_t> repeats = as::tile(op).repeats();
      return repeats[repeats.size() - static_cast<size_t>(op.in(0)->type.rank() - axis)] == 1;
    }
    case Opcode::gather:
    case Opcode::embedding: return isFixed(op.in(0));
    case Opcode::cross_entropy:
      return as::cross_entropy(op).reduction() == "none" && axis < op.in(0)->type.rank() - 1;
    case Opcode::layer_norm:
    case Opcode::rms_norm:
    case Opcode::conv2d:
    case Opcode::conv_transpose2d: return fixedFrom(1) && keepsApart(op, axis);
    default: return allRows() && keepsApart(op, axis);
    }
  }

  /// The axis of the first result to which an axis of the operands moves.
  std::optional<int> moved(const Op& op, int axis) const {
    switch (op.code) {
    case Opcode::sum:
    case Opcode::mean:
    case Opcode::max_reduce:
    case Opcode::min_reduce:
    case Opcode::logsumexp: {
      int before = 0;
      for (int at = 0; at < axis; ++at) before += reduces(op, at);
      return as::sum(op).keepdims() ? axis : axis - before;
    }
    case Opcode::argmax:
    case Opcode::argmin:
      return axis -
             (!as::argmax(op).keepdims() && normalAxis(as::argmax(op).axis(), op.in(0)->type.rank()) < axis);
    case Opcode::transpose: {
      const std::vector<int64_t> perm = as::transpose(op).perm();
      return static_cast<int>(std::ranges::find(perm, axis) - perm.begin());
    }
    case Opcode::swap_axes: {
      const int rank = op.in(0)->type.rank(), a = normalAxis(as::swap_axes(op).axis0(), rank),
                b = normalAxis(as::swap_axes(op).axis1(), rank);
      return axis == a ? b : axis == b ? a : axis;
    }
    case Opcode::stack: return axis + (normalAxis(as::stack(op).axis(), op.result()->type.rank()) <= axis);
    case Opcode::tile: return axis + op.result()->type.rank() - op.in(0)->type.rank();
    case Opcode::reshape: return holderOf(op, axis);
    default: return axis;
    }
  }

  /// The axis of a reshape's result that begins at the same place as the rows of its operand.
  std::optional<int> holderOf(const Op& op, int axis) const {
    const Shape &from = op.in(0)->type.shape, &to = op.result()->type.shape;
    int64_t outer = 1;  // elements in front of the batch axis
    for (int at = 0; at < axis; ++at) outer *= from[at];
    int64_t before = 1;
    for (int at = 0; at < to.rank(); before *= to[at++])
      if (before == outer && (batch_ == 1 ? to[at] == 1 : to[at] % batch_ == 0 && to[at] > 1)) return at;
    return {};
  }

  /// For a product: batch axes of both operands align; rows in the matrix become rows or columns of the product.
  std::optional<int> axisOfProduct(const Op& op) const {
    const int rank = op.result()->type.rank();
    const bool turned[] = {as::matmul(op).transpose_a(), as::matmul(op).transpose_b()};
    std::optional<int> axis;
    for (int i = 0; i < 2; ++i) {
      if (!isRows(op.in(i))) continue;
      const int back = op.in(i)->type.rank() - of(op.in(i)).axis;  // 1 and 2 are the matrix
      const int summed = turned[i] == (i == 0) ? 2 : 1;
      if (back == summed) return {};
      // Matrices of an operand without rows that belong to one row each would need a cut too.
      const Value& other = *op.in(1 - i);
      const int fixed = other.type.rank() - back;
      if (back > 2 && fixed >= 0 && !isRows(&other) && other.type.shape[fixed] != 1) return {};
      const int at = back > 2 ? rank - back : rank - 2 + i;
      if (axis && (*axis != at || back <= 2)) return {};
      axis = at;
    }
    return axis;
  }

  const Item& func_;
  int64_t batch_;
  Shares shares_;
  Shares rows_;  ///< what has rows from the start: arguments, and what set-dim repeats
  std::unordered_set<const Value*> traced_;
};

}  // namespace

Result<void> checkMeanOfParts(const Item& func) { return PartsCheck(func).run(); }

std::unordered_set<const Value*> rowsOfBatch(const Item& func) { return PartsCheck(func).rows(); }

}  // namespace tg
