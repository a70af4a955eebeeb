// SPDX-License-Identifier: Apache-2.0
#include "passes/resize_functions.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ir/access.h"
#include "ir/dims.h"
#include "ir/infer.h"
#include "ir/kernel/custom.h"
#include "ir/op_view.h"
#include "ir/text.h"

namespace tg {

Result<std::vector<int>> resizeDeclared(const NewDim& dim, std::string_view holder, const Loc& loc,
                                        const AttrList& attrs, Type& type) {
  std::vector<int> axes = axesNamed(attrs, type.rank(), dim.name);
  for (int axis : axes) type.shape[axis] = dim.n;
  if (!axes.empty() && !hasValidExtents(type.shape))
    return dim.error(loc, 1, "{} would be {}", holder, type.str());
  return axes;
}

namespace {

/// Resizes one function.
class Resizing {
 public:
  using Storage = std::unordered_map<std::string, Type>;
  Resizing(const Module& module, Item& func, const NewDim& dim, const Storage& before)
      : module_(module), func_(func), dim_(dim), n_(dim.n), storage_(before) {}

  Result<void> run() {
    TG_CHECK(resizeArguments());
    if (old_ == 0 || old_ == n_) return {};
    for (Op* op = func_.body.ops.front(); op; op = op->next()) {
      const auto done = [&](const auto& result) { return resizedOf(result.get()) != nullptr; };
      if (std::ranges::any_of(op->results, done)) continue;  // visited before going back
      if (Op* leaf = grownForAxis(*op))
        op = leaf;
      else
        TG_CHECK(visit(*op));
      remember(*op);
    }
    const Op* end = func_.body.terminator();
    for (size_t i = 0; end && i < func_.results.size() && i < end->operands.size(); ++i)
      func_.results[i].type = end->in(static_cast<int>(i))->type;
    return {};
  }

  /// Remarks random numbers that have the old extent and were not resized.
  void remarkKept(const PassContext& context) const {
    if (old_ == n_) return;
    for (const Op* op : func_.body.ops)
      if (isRandom(*op) && !resizedOf(op->result()) && mentions(op->result()->type))
        context.remark(
            op->loc,
            "%{} of @{} stays {}: these random numbers meet no value with the {}, element by element",
            op->result()->name, func_.name, op->result()->type.str(), dim_.name);
  }

 private:
  /// An axis of a value whose extent is a multiple of the named one's.
  struct Axis {
    int at = 0;
    int64_t inner = 1;  ///< its elements for each index of the named axis; 0 if unknown
  };
  /// The old type of a value that was resized, and its resized axes.
  struct Resized {
    Type before;
    std::vector<Axis> axes;
  };

  Result<void> resizeArguments() {
    for (const auto& arg : func_.body.args) {
      const Type before = arg->type;
      TG_TRY(const std::vector<int> axes,
             resizeDeclared(dim_, "%" + arg->name, arg->loc, arg->attrs, arg->type));
      record(*arg, before, axes);
    }
    if (old_ != 0) return {};
    for (const auto& [name, type] : storage_) old_ = type.shape[namedAxes(name).front()];
    return {};
  }

  std::vector<int> namedAxes(const std::string& storage) const {
    const Item& item = *module_.storage(storage);
    return axesNamed(item.attrs, item.type.rank(), dim_.name);
  }

  /// Records an argument or a read of a parameter as resized. The verifier has checked that all axes have one extent.
  void record(const Value& value, const Type& before, const std::vector<int>& axes) {
    if (axes.empty()) return;
    old_ = before.shape[axes.front()];
    Resized resized{before, {}};
    for (int axis : axes) resized.axes.push_back({axis, 1});
    resized_[&value] = std::move(resized);
  }

  const Resized* resizedOf(const Value* value) const { return valueIn(resized_, value); }

  /// Resizes one op, if an operand was resized; otherwise records whether its result is suspect.
  Result<void> visit(Op& op) {
    // A gradient that tg.grad asks for is made for the new extents.
    const auto asks = [](const Op& each) { return each.code == Opcode::grad; };
    if (op.code == Opcode::param_grad && !anyOp(func_.body, asks))
      return dim_.error(op.loc, 4, "@{} has gradients; run {} before they are made", func_.name, dim_.pass);
    if (readsSymbol(op)) return readStorage(op);
    const Resized* source = nullptr;
    const Value* suspect = nullptr;
    forEachUse(static_cast<const Op&>(op), [&](Value* value) {
      if (!source) source = resizedOf(value);
      if (auto it = suspects_.find(value); it != suspects_.end()) suspect = it->second;
    });
    if (!source && op.code == Opcode::custom && isBatch() && !as::custom(op).batch().empty()) {
      TG_CHECK(resizeResults(op));
      return retype(op, suspect);
    }
    if (!source) return leaveAlone(op, suspect);
    if (suspect && op.results.empty()) return guess(op, suspect);
    TG_CHECK(rewriteAttributes(op, *source));
    TG_CHECK(retype(op, suspect));
    if (!suspect && (writesRows(op) || repeatsSame(op))) suspects_[op.result()] = op.result();
    return {};
  }

  Result<void> readStorage(Op& op) {
    const std::string& name = op.operands.front().text;
    const auto* before = valueIn(storage_, name);
    if (!before) return {};
    if (find(op.attrs, "rows"))
      return dim_.error(op.loc, 5, "a part of @{}, which has the {}, is read", name, dim_.name);
    op.result()->type = module_.storage(name)->type;
    record(*op.result(), *before, namedAxes(name));
    return {};
  }

  /// Whether an op keeps the place of elements and of axes.
  static bool isElementwise(const Op& op) { return keepsElements(op) && !op.info().has(table::view); }

  static bool isRandom(const Op& op) {
    return op.code == Opcode::random_uniform || op.code == Opcode::random_normal;
  }

  /// Whether an op can make more rows along an axis of its result: it draws them, or all are the same.
  static bool canGrow(const Op& op, int axis) {
    if (op.code == Opcode::broadcast_to) {
      const Shape& from = op.in(0)->type.shape;
      const int at = axis - (op.result()->type.rank() - from.rank());
      return at < 0 || from[at] == 1;
    }
    if (op.code == Opcode::iota) return axis != normalAxis(as::iota(op).axis(), op.result()->type.rank());
    return isRandom(op) || (op.code == Opcode::constant && op.operands[0].text != "dense");
  }

  /// Records which values come from ops that can grow, through ops that keep the place of axes.
  void remember(Op& op) {
    if (op.results.empty() || resizedOf(op.result())) return;
    if (isRandom(op) || op.code == Opcode::constant || op.code == Opcode::broadcast_to ||
        op.code == Opcode::iota)
      growing_[op.result()] = &op;
    const bool product = op.code == Opcode::matmul && !as::matmul(op).transpose_a();
    if (!isElementwise(op) && !product && op.code != Opcode::slice) return;
    forEachUse(op, [&](Value* value) {
      auto it = growing_.find(value);
      const bool keeps = isElementwise(op)
                             ? value->type.shape == op.result()->type.shape
                             : value == op.in(0) && value->type.rank() == op.result()->type.rank();
      if (it != growing_.end() && keeps) growing_.emplace(op.result(), it->second);
    });
  }

  /// Gives an op that can grow, and whose result meets the axis in this op, the axis' new extent. Returns the op that grew,
  /// to continue behind it; null if there is none.
  Op* grownForAxis(const Op& op) {
    const bool joins = op.code == Opcode::concat;
    if (!isElementwise(op) && !joins) return nullptr;
    const Value* met = nullptr;
    forEachUse(op, [&](Value* value) {
      if (const Resized* resized = resizedOf(value); resized && !resized->axes.empty() && !met) met = value;
    });
    if (!met) return nullptr;
    const Resized source = *resizedOf(met);
    const int joined = joins ? normalAxis(as::concat(op).axis(), source.before.rank()) : -1;
    Op* leaf = nullptr;
    forEachUse(op, [&](Value* value) {
      auto it = growing_.find(value);
      if (leaf || it == growing_.end()) return;
      // One row is as good as several that are the same.
      if (old_ == 1 && !joins && !isRandom(*it->second)) return;
      Resized grown{it->second->result()->type, {}};
      for (const Axis& axis : source.axes) {
        const int at = grown.before.rank() - source.before.rank() + axis.at;
        if (at >= 0 && at != joined && grown.before.shape[at] == source.before.shape[axis.at] &&
            value->type.shape[at] == grown.before.shape[at] && canGrow(*it->second, at))
          grown.axes.push_back({at, axis.inner});
      }
      if (grown.axes.empty()) return;
      leaf = it->second;
      Shape& shape = leaf->result()->type.shape;
      for (const Axis& axis : grown.axes)
        shape[axis.at] = met->type.shape[axis.at + source.before.rank() - grown.before.rank()];
      if (leaf->code == Opcode::broadcast_to)
        leaf->setAttr("shape", Attr::ints({shape.begin(), shape.end()}));
      resized_[leaf->result()] = std::move(grown);
      std::erase_if(growing_, [&](const auto& each) { return each.second == leaf; });
      std::erase_if(suspects_, [&](const auto& each) { return each.second == leaf->result(); });
      if (repeatsSame(*leaf)) suspects_[leaf->result()] = leaf->result();
    });
    return leaf;
  }

  /// Handles an op whose operands do not change. Its result is suspect if some text spelled out the old extent.
  Result<void> leaveAlone(const Op& op, const Value* suspect) {
    if (suspect && (op.code == Opcode::return_ || op.code == Opcode::capture)) return guess(op, suspect);
    for (const auto& result : op.results) {
      if (suspect) suspects_[result.get()] = suspect;
      if (writesRows(op) || (writesShape(op) && mentions(result->type)))
        suspects_[result.get()] = result.get();
    }
    return {};
  }

  /// Whether the extents of an op's result are spelled out: leaves, and ops with an attribute `shape` or `depth`.
  static bool writesShape(const Op& op) {
    bool declares = op.code == Opcode::broadcast_to || op.code == Opcode::custom;
    return op.info().has(table::leaf) || find(op.attrs, "shape") || find(op.attrs, "depth") || declares;
  }
  /// Whether an op sums by ids into as many rows as the old extent, by an attribute.
  bool writesRows(const Op& op) const {
    return (op.code == Opcode::scatter_add && as::scatter_add(op).rows() == old_) ||
           (op.code == Opcode::take_along_axis_grad && as::take_along_axis_grad(op).extent() == old_);
  }

  /// Whether an op repeats the same along an axis as often as the old extent.
  bool repeatsSame(const Op& op) const {
    if (op.code != Opcode::broadcast_to && op.code != Opcode::constant) return false;
    const Type& type = op.result()->type;
    for (int axis = 0; axis < type.rank(); ++axis)
      if (type.shape[axis] == old_ && canGrow(op, axis)) return true;
    return false;
  }

  bool mentions(const Type& type) const {
    return std::ranges::any_of(type.shape, [&](int64_t extent) { return extent == old_; });
  }

  Error guess(const Op& op, const Value* suspect) const {
    return dim_
        .error(suspect->loc, 5,
               "%{} is {}: its {} may be the {} or not; make it from a value that has the {}, such as by "
               "broadcasting against one",
               suspect->name, suspect->type.str(), old_, dim_.name, dim_.name)
        .note(op.loc, "it matters here");
  }

  Result<void> rewriteAttributes(Op& op, const Resized& source) {
    if (op.code == Opcode::reshape) return rewriteReshape(op, source);
    if (op.code == Opcode::slice) return rewriteSlice(op, source);
    if (op.code == Opcode::broadcast_to) return rewriteBroadcast(op, source);
    if (op.code == Opcode::custom)
      return isBatch() && !as::custom(op).batch().empty() ? resizeResults(op) : resizeByNames(op);
    return find(op.attrs, "shape") ? Result<void>(writtenShape(op)) : Result<void>();
  }

  Error writtenShape(const Op& op) const {
    return dim_.error(op.loc, 5, "{} writes the shape {} of a value that has the {}", op.info().name,
                      op.attr("shape").str(), dim_.name);
  }

  /// Updates the axes of a broadcast_to's shape that its operand has. An axis of 1 that it repeats would not be 1.
  Result<void> rewriteBroadcast(Op& op, const Resized& source) {
    std::vector<int64_t> extents = as::broadcast_to(op).shape();
    const size_t added = extents.size() - static_cast<size_t>(source.before.rank());
    for (const Axis& axis : source.axes) {
      int64_t& extent = extents[added + static_cast<size_t>(axis.at)];
      if (extent != source.before.shape[axis.at]) return writtenShape(op);
      extent = op.in(0)->type.shape[axis.at];
    }
    op.setAttr("shape", Attr::ints(extents));
    return {};
  }

  bool isBatch() const { return dim_.name == kBatchDim; }

  /// Updates the shape of a reshape: the axes that hold the named one. A spelled-out extent may hold it only once.
  Result<void> rewriteReshape(Op& op, const Resized& source) {
    std::vector<int64_t> extents = as::reshape(op).shape();
    const std::vector<int64_t> written = extents;
    reshaped_.clear();
    for (const Axis& axis : source.axes) {
      TG_TRY(const Axis holder, holderOf(op, source, axis));
      const auto at = static_cast<size_t>(holder.at);
      const bool twice =
          std::ranges::any_of(reshaped_, [&](const Axis& other) { return other.at == holder.at; });
      if (twice && written[at] != -1) return notHeld(op);
      reshaped_.push_back({holder.at, twice ? 0 : holder.inner});
      if (written[at] != -1) extents[at] = op.result()->type.shape[holder.at] / old_ * n_;
    }
    if (source.axes.empty()) return notHeld(op);
    if (extents != written) op.setAttr("shape", Attr::ints(extents));
    return {};
  }

  /// The axes of a shape that have this extent and so many elements behind each index.
  static std::vector<int> axesLike(const Shape& shape, int64_t extent, int64_t behind) {
    std::vector<int> out;
    int64_t after = shape.elements();
    for (int at = 0; at < shape.rank(); ++at) {
      after /= shape[at];
      if (shape[at] == extent && after == behind) out.push_back(at);
    }
    return out;
  }

  /// The axis of a reshape's result that holds `axis` of its operand: the one with the same number of elements behind each
  /// index of the named axis. With an extent of 1 several may fit: [1, 8, 16] as [1, 8, 2, 8] may have its rows in axis 0 or
  /// 1. Then a -1 decides for the batch. Else `axis` stays as it is, if there are as many axes like it as before. If it also
  /// holds another axis, it is an error: [8, 16] as [1, 8, 16] may split off the batch, or add an axis of 1.
  Result<Axis> holderOf(const Op& op, const Resized& source, const Axis& axis) const {
    const std::vector<int64_t> extents = as::reshape(op).shape();
    const Shape &from = source.before.shape, &to = op.result()->type.shape;
    int64_t behind = 1;
    for (int at = axis.at + 1; at < from.rank(); ++at) behind *= from[at];
    const int64_t step = axis.inner * behind;
    std::vector<Axis> holders;
    int64_t after = 1;
    for (int at = to.rank() - 1; at >= 0 && step > 0; after *= to[at--]) {
      if (step % after != 0 || to[at] % (old_ * (step / after)) != 0) continue;
      const Axis holder{at, step / after};
      if (isBatch() && extents[static_cast<size_t>(at)] == -1) return holder;
      holders.push_back(holder);
    }
    if (holders.empty())
      return dim_.error(op.loc, 5, "no extent of the shape {} holds the {} {} by itself",
                        op.attr("shape").str(), dim_.name, old_);
    if (holders.size() == 1) return holders[0];
    const std::vector<int> before = axesLike(from, from[axis.at], behind),
                           now = axesLike(to, from[axis.at], behind);
    if (before.size() != now.size() || axis.inner > 1) return notHeld(op);
    return Axis{now[static_cast<size_t>(std::ranges::find(before, axis.at) - before.begin())], axis.inner};
  }

  Error notHeld(const Op& op) const {
    if (old_ == 1 && !isBatch())
      return dim_.error(op.loc, 5,
                        "several extents of the shape {} may hold the {}, which is 1; begin with a module "
                        "whose {} is 2 or more",
                        op.attr("shape").str(), dim_.name, dim_.name);
    return dim_.error(op.loc, 5, "the shape {} has the {} {} in it; write -1 for the extent that holds it",
                      op.attr("shape").str(), dim_.name, old_);
  }

  /// A slice of the whole axis stays one of the whole axis; slices of a part of it are errors.
  Result<void> rewriteSlice(Op& op, const Resized& source) {
    std::vector<int64_t> starts = as::slice(op).starts(), limits = as::slice(op).limits(),
                         strides = as::slice(op).strides();
    for (size_t axis = 0; axis < limits.size(); ++axis) {
      int64_t before = source.before.shape[static_cast<int>(axis)];
      int64_t now = op.in(0)->type.shape[static_cast<int>(axis)];
      if (before == now) continue;
      bool whole = starts[axis] == 0 && limits[axis] == before && (strides.empty() || strides[axis] == 1);
      if (!whole)
        return dim_.error(op.loc, 5, "{} to {} on axis {} is a part of the {} {}", starts[axis], limits[axis],
                          axis, dim_.name, old_);
      limits[axis] = now;
    }
    op.setAttr("limits", Attr::ints(limits));
    return {};
  }

  /// Gives a result of a custom kernel another shape.
  void resize(Value& result, const Shape& shape) {
    Resized resized{result.type, {}};
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (const int64_t before = result.type.shape[axis]; shape[axis] != before)
        resized.axes.push_back({axis, before / old_});
    result.type.shape = shape;
    if (!resized.axes.empty()) resized_[&result] = std::move(resized);
  }

  /// Resizes the results of a custom kernel whose open axes have the names of axes of its inputs.
  Result<void> resizeByNames(Op& op) {
    const Item& kernel = *customKernel(op, module_);
    const std::vector<std::optional<Shape>> shapes = namedResults(op, kernel);
    const std::string why =
        isBatch() ? "; write batch = [0, …], the axis of each that holds the batch, -1 for none, or"
                  : fmt::format(", which may be the {} or not;", dim_.name);
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (!shapes[i])
        return dim_.error(op.loc, 5,
                          "the results of @{} have open extents{} give their axes names of axes of inputs",
                          kernel.name, why);
      resize(*op.results[i], *shapes[i]);
    }
    return {};
  }

  /// Resizes the results of a custom kernel along their batch axes; other extents stay as declared.
  Result<void> resizeResults(Op& op) {
    std::vector<int64_t> axes = as::custom(op).batch();
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] < 0) continue;
      Value& result = *op.results[i];
      Shape shape = result.type.shape;
      int64_t& extent = shape[static_cast<int>(axes[i])];
      if (extent % old_ != 0)
        return dim_.error(op.loc, 5, "axis {} of %{} is {}, no multiple of the batch {}", axes[i],
                          result.name, extent, old_);
      extent = extent / old_ * n_;
      resize(result, shape);
    }
    return {};
  }

  /// Infers the types of an op's results again, and records those that changed as resized.
  Result<void> retype(Op& op, const Value* suspect) {
    // The shape of a cast is inferred from its operand; its type is not.
    const std::optional<Type> cast =
        op.code == Opcode::cast ? std::optional(op.result()->type) : std::nullopt;
    if (cast) op.result()->type.shape = op.in(0)->type.shape;
    auto types = infer(op, &module_);
    if (cast) op.result()->type = *cast;
    if (!types && suspect) return guess(op, suspect);
    if (!types) return dim_.error(op.loc, 6, "{}", types.takeError().message());
    for (size_t i = 0; i < types->size(); ++i) {
      Value& result = *op.results[i];
      const Type now = (*types)[i];
      TG_CHECK(checkBroadcast(op, result, now, suspect));
      if (now == result.type) continue;
      Resized resized{result.type, {}};
      for (int axis = 0; axis < now.rank() && now.rank() == result.type.rank(); ++axis)
        if (now.shape[axis] != result.type.shape[axis])
          resized.axes.push_back({axis, innerOf(op, axis, result.type.shape[axis])});
      result.type = now;
      resized_[&result] = std::move(resized);
    }
    return {};
  }

  /// `inner` of an axis of the op's result that had extent `before`, if all operand axes that it may come from agree.
  int64_t innerOf(const Op& op, int axis, int64_t before) const {
    if (op.code == Opcode::reshape) {
      for (const Axis& each : reshaped_)
        if (each.at == axis) return each.inner;
      return 0;
    }
    std::vector<int64_t> alike, any;
    forEachUse(op, [&](const Value* value) {
      const Resized* resized = resizedOf(value);
      if (!resized) return;
      for (const Axis& each : resized->axes) {
        any.push_back(each.inner);
        if (resized->before.shape[each.at] == before) alike.push_back(each.inner);
      }
    });
    const std::vector<int64_t>& from = alike.empty() ? any : alike;
    const bool one = std::ranges::all_of(from, [&](int64_t inner) { return inner == from[0]; });
    return !from.empty() && one ? from[0] : 0;
  }

  /// Fails where an axis keeps its old extent because another operand still has it: the new extent, 1, would broadcast.
  /// Products broadcast the axes in front of the matrices.
  Result<void> checkBroadcast(const Op& op, const Value& result, const Type& now,
                              const Value* suspect) const {
    const bool byPlace = op.code == Opcode::reshape || op.code == Opcode::broadcast_to;
    const int matrix = op.code == Opcode::matmul ? 2 : 0;
    if (!matrix && (!keepsElements(op) || byPlace)) return {};
    for (int i = 0; i < op.numOperands(); ++i) {
      const Resized* resized = resizedOf(op.in(i));
      for (const Axis& each : resized ? resized->axes : std::vector<Axis>()) {
        const int rank = resized->before.rank(), axis = now.rank() - rank + each.at;
        if (each.at >= rank - matrix || axis < 0 || now.shape[axis] != result.type.shape[axis]) continue;
        if (suspect) return guess(op, suspect);
        return dim_.error(op.loc, 6, "axis {} of %{} keeps its extent {}: another operand has it too", axis,
                          result.name, result.type.shape[axis]);
      }
    }
    return {};
  }

  const Module& module_;
  Item& func_;
  const NewDim& dim_;
  int64_t n_;
  int64_t old_ = 0;
  const Storage& storage_;      ///< parameters and states with the axis: their old types
  std::vector<Axis> reshaped_;  ///< axes of the result of the current reshape
  std::unordered_map<const Value*, Resized> resized_;
  std::unordered_map<const Value*, const Value*> suspects_;  ///< to the value whose text has the old extent
  std::unordered_map<const Value*, Op*> growing_;            ///< to the op that can grow
};

}  // namespace

Result<void> resizeFunctions(const Module& module, const std::vector<Item*>& functions, const NewDim& dim,
                             const std::unordered_map<std::string, Type>& before,
                             const PassContext& context) {
  std::vector<Resizing> all;
  for (Item* func : functions) all.emplace_back(module, *func, dim, before);
  for (Resizing& each : all) TG_CHECK(each.run());
  for (const Resizing& each : all) each.remarkKept(context);
  return {};
}

}  // namespace tg
