// SPDX-License-Identifier: Apache-2.0
// set-batch: another batch size for a function that says where its batch is.
//
//   func @train(%x: tensor<256x1xf32> {batch = 0})    →    func @train(%x: tensor<32x1xf32> {batch = 0})
//     %h = tg.matmul %x, %w : tensor<256x64xf32>      →      %h = tg.matmul %x, %w : tensor<32x64xf32>
//     %r = tg.reshape %h {shape = [256, 8, 8]}        →      shape = [32, 8, 8]; a -1 stays and takes what is left
//     %s = tg.slice %h {…, limits = [256, 8]}         →      limits = [32, 8], for it takes the whole axis
//
// Extents that no attribute writes follow from the operands. One that an attribute or a leaf writes may be
// the batch or a number that happens to equal it; where the result depends on the answer, that is an error.
// Random numbers that meet a value with the batch, element by element, have it on the same axis: each row of
// the batch draws its own.
// Elements keep their order in a reshape, so the extent of its result that holds the batch is the one behind which
// as many elements lie as before.
// Requires: stage tensor.
//   c1: n is 1 or more; c2: some argument has a batch axis; c3: the batch arguments of a function agree on
//   the batch; c4: no gradient is appended yet (a mean's holds 1/N); c5: what an attribute or a leaf writes
//   is not the batch; c6: the ops hold for the new extents.
// Ensures: every batch axis has extent n; other arguments, parameters and states keep their types. Functions
//   without a batch axis stay as they are. On an error nothing is changed. Random numbers that have the old extent
//   and meet no batch keep it, and a remark names them.
// Where: before append-grad.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/infer.h"
#include "ir/kernel/custom.h"
#include "ir/op_view.h"
#include "passes/pass.h"

namespace tg {
namespace {

Error batchError(const Loc& loc, int constraint, std::string message) {
  return failAt(loc, fmt::format("set-batch [set-batch.c{}]: {}", constraint, message));
}

class Batch {
 public:
  Batch(const Module& module, Item& func, int64_t n) : module_(module), func_(func), n_(n) {}

  Result<void> run() {
    TG_CHECK(resizeArguments());
    if (old_ == 0 || old_ == n_) return {};
    for (Op* op = func_.body.ops.front(); op; op = op->next()) {
      const auto done = [&](const auto& result) { return resizedOf(result.get()) != nullptr; };
      if (std::any_of(op->results.begin(), op->results.end(), done)) continue;  // seen before `op` went back
      if (Op* leaf = drawnForBatch(*op))
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

  /// Names the random numbers that may have been meant for the batch and have not met it.
  void remarkKept(const PassContext& context) const {
    if (old_ == n_) return;
    for (const Op* op : func_.body.ops)
      if ((op->code == Opcode::random_uniform || op->code == Opcode::random_normal) &&
          !resizedOf(op->result()) && mentions(op->result()->type))
        context.remark(op->loc,
                       fmt::format("%{} of @{} stays {}: these random numbers meet no value with the batch, "
                                   "element by element",
                                   op->result()->name, func_.name, op->result()->type.str()));
  }

 private:
  /// What became of a value whose type depends on the batch.
  struct Resized {
    Type before;
    int axis = -1;      ///< the only one that holds the batch, or -1
    int64_t inner = 1;  ///< elements of that axis for each index of the batch
  };

  Result<void> resizeArguments() {
    const Value* first = nullptr;
    for (const auto& arg : func_.body.args) {
      const Attr* batch = find(arg->attrs, "batch");
      if (!batch) continue;
      auto axis = static_cast<int>(batch->integer);
      int64_t extent = arg->type.shape[axis];
      if (first && extent != old_)
        return batchError(arg->loc, 3,
                          fmt::format("the batch of %{} is {}, that of %{} is {}", arg->name, extent,
                                      first->name, old_))
            .note(first->loc, fmt::format("%{} is here", first->name));
      if (!first) old_ = extent, first = arg.get();
      resized_[arg.get()] = {arg->type, axis, 1};
      arg->type.shape[axis] = n_;
      if (!hasValidExtents(arg->type.shape))
        return batchError(arg->loc, 1, fmt::format("%{} would be {}", arg->name, arg->type.str()));
    }
    return {};
  }

  const Resized* resizedOf(const Value* value) const {
    auto it = resized_.find(value);
    return it == resized_.end() ? nullptr : &it->second;
  }

  Result<void> visit(Op& op) {
    if (op.code == Opcode::param_grad)
      return batchError(op.loc, 4,
                        fmt::format("@{} has gradients; run set-batch before append-grad", func_.name));
    const Resized* source = nullptr;
    const Value* suspect = nullptr;
    forEachUse(static_cast<const Op&>(op), [&](Value* value) {
      if (!source) source = resizedOf(value);
      if (auto it = suspects_.find(value); it != suspects_.end()) suspect = it->second;
    });
    if (!source && op.code == Opcode::custom && !as::custom(op).batch().empty()) return resizeResults(op);
    if (!source) return leaveAlone(op, suspect);
    if (suspect && op.results.empty()) return guess(op, suspect);
    TG_CHECK(rewriteAttributes(op, *source));
    return retype(op, *source, suspect);
  }

  static bool isElementwise(const Op& op) {
    return op.info().scalar != Scalar::none || op.code == Opcode::select || op.code == Opcode::cast;
  }

  /// Keeps which values are random numbers and what is computed of them element by element.
  void remember(Op& op) {
    if (op.results.empty() || resizedOf(op.result())) return;
    if (op.code == Opcode::random_uniform || op.code == Opcode::random_normal) drawn_[op.result()] = &op;
    if (!isElementwise(op)) return;
    forEachUse(op, [&](Value* value) {
      if (auto it = drawn_.find(value); it != drawn_.end() && value->type.shape == op.result()->type.shape)
        drawn_.emplace(op.result(), it->second);
    });
  }

  /// Gives random numbers that meet the batch in this op its extent; their op, to go on behind it.
  Op* drawnForBatch(const Op& op) {
    if (!isElementwise(op)) return nullptr;
    const Value* batch = nullptr;
    forEachUse(op, [&](Value* value) {
      if (const Resized* resized = resizedOf(value); resized && resized->axis >= 0 && !batch) batch = value;
    });
    if (!batch) return nullptr;
    const Resized source = *resizedOf(batch);
    const int64_t before = source.before.shape[source.axis], now = batch->type.shape[source.axis];
    Op* leaf = nullptr;
    forEachUse(op, [&](Value* value) {
      const int axis = value->type.rank() - source.before.rank() + source.axis;
      auto it = drawn_.find(value);
      if (leaf || it == drawn_.end() || axis < 0 || value->type.shape[axis] != before) return;
      leaf = it->second;
      Value& drawn = *leaf->result();
      resized_[&drawn] = {drawn.type, axis, source.inner};
      drawn.type.shape[axis] = now;
      std::erase_if(drawn_, [&](const auto& each) { return each.second == leaf; });
    });
    return leaf;
  }

  /// An op of values that do not change. Its result is suspect where something wrote the old extent.
  Result<void> leaveAlone(const Op& op, const Value* suspect) {
    if (suspect && (op.code == Opcode::return_ || op.code == Opcode::capture)) return guess(op, suspect);
    for (const auto& result : op.results) {
      if (suspect) suspects_[result.get()] = suspect;
      if (writesShape(op) && mentions(result->type)) suspects_[result.get()] = result.get();
    }
    return {};
  }

  /// Ops whose result's extents stand in their text: leaves that are no parameter or state, and ops with an
  /// attribute `shape`.
  static bool writesShape(const Op& op) {
    if (op.code == Opcode::param || op.code == Opcode::state) return false;
    bool declares = op.code == Opcode::broadcast_to || op.code == Opcode::custom;
    return op.info().has(table::leaf) || find(op.attrs, "shape") || declares;
  }

  bool mentions(const Type& type) const {
    for (int64_t extent : type.shape)
      if (extent == old_) return true;
    return false;
  }

  Error guess(const Op& op, const Value* suspect) const {
    return batchError(
               suspect->loc, 5,
               fmt::format("%{} is {}: its {} may be the batch or not; make it from a value that has the "
                           "batch, such as by broadcasting against one",
                           suspect->name, suspect->type.str(), old_))
        .note(op.loc, "it matters here");
  }

  Result<void> rewriteAttributes(Op& op, const Resized& source) {
    if (op.code == Opcode::reshape) return rewriteReshape(op, source);
    if (op.code == Opcode::slice) return rewriteSlice(op, source);
    if (op.code == Opcode::custom) return resizeResults(op);
    if (find(op.attrs, "shape"))
      return batchError(op.loc, 5,
                        fmt::format("{} writes the shape {} of a value that has the batch", op.info().name,
                                    op.attr("shape").str()));
    // The shape of a cast is its operand's.
    if (op.code == Opcode::cast) op.result()->type.shape = op.in(0)->type.shape;
    return {};
  }

  /// Gives the axis that holds the batch its extent: seen from the end, the batch steps by the same number of
  /// elements before and after. A batch of 1 may be held by several; then -1 says which.
  Result<void> rewriteReshape(Op& op, const Resized& source) {
    std::vector<int64_t> extents = as::reshape(op).shape();
    const Shape& before = op.result()->type.shape;
    int64_t step = source.inner;
    for (int axis = source.axis + 1; axis < source.before.rank(); ++axis) step *= source.before.shape[axis];
    int holder = -1, holders = 0;
    int64_t after = 1;
    for (int axis = before.rank() - 1; axis >= 0 && source.axis >= 0; after *= before[axis--]) {
      if (step % after != 0 || before[axis] % (old_ * (step / after)) != 0) continue;
      const bool said = extents[axis] == -1;
      if (holders == 0 || said) {
        holder = axis;
        reshaped_ = step / after;
      }
      holders = said ? 1 : holders + 1;
      if (said) break;
    }
    if (holders != 1)
      return batchError(
          op.loc, 5,
          fmt::format("the shape {} has the batch {} in it; write -1 for the extent that holds it",
                      op.attr("shape").str(), old_));
    if (extents[holder] == -1) return {};
    extents[holder] = before[holder] / old_ * n_;
    op.setAttr("shape", Attr::ints(extents));
    return {};
  }

  /// A slice of the whole batch stays one of the whole batch.
  Result<void> rewriteSlice(Op& op, const Resized& source) {
    std::vector<int64_t> starts = as::slice(op).starts(), limits = as::slice(op).limits(),
                         strides = as::slice(op).strides();
    for (size_t axis = 0; axis < limits.size(); ++axis) {
      int64_t before = source.before.shape[static_cast<int>(axis)];
      int64_t now = op.in(0)->type.shape[static_cast<int>(axis)];
      if (before == now) continue;
      bool whole = starts[axis] == 0 && limits[axis] == before && (strides.empty() || strides[axis] == 1);
      if (!whole)
        return batchError(op.loc, 5,
                          fmt::format("{} to {} on axis {} is a part of the batch {}", starts[axis],
                                      limits[axis], axis, old_));
      limits[axis] = now;
    }
    op.setAttr("limits", Attr::ints(limits));
    return {};
  }

  /// The results of a custom kernel have the extents they are declared with, except where it says their
  /// batch.
  Result<void> resizeResults(Op& op) {
    std::vector<int64_t> axes = as::custom(op).batch();
    const Item* kernel = customKernel(op, module_);
    bool open = false;
    for (const auto& arg : kernel->body.args)
      for (int64_t extent : arg->type.shape)
        open = open || (arg->type.mode != BufMode::in && extent == Shape::kDynamic);
    if (axes.empty() && open)
      return batchError(
          op.loc, 5,
          fmt::format("the results of @{} have open extents; write batch = [0, …], the axis of each "
                      "that holds the batch, -1 for none",
                      kernel->name));
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] < 0) continue;
      Value& result = *op.results[i];
      int64_t& extent = result.type.shape[static_cast<int>(axes[i])];
      if (extent % old_ != 0)
        return batchError(op.loc, 5,
                          fmt::format("axis {} of %{} is {}, no multiple of the batch {}", axes[i],
                                      result.name, extent, old_));
      resized_[&result] = {result.type, static_cast<int>(axes[i]), extent / old_};
      extent = extent / old_ * n_;
    }
    return {};
  }

  Result<void> retype(Op& op, const Resized& source, const Value* suspect) {
    auto types = infer(op, &module_);
    if (!types && suspect) return guess(op, suspect);
    if (!types) return batchError(op.loc, 6, types.takeError().message());
    for (size_t i = 0; i < types->size(); ++i) {
      Value& result = *op.results[i];
      const Type now = (*types)[i];
      TG_CHECK(checkBroadcast(op, source, result, now, suspect));
      if (now == result.type) continue;
      Resized resized{result.type, -1, op.code == Opcode::reshape ? reshaped_ : source.inner};
      int changed = 0;
      for (int axis = 0; axis < now.rank() && now.rank() == result.type.rank(); ++axis)
        if (now.shape[axis] != result.type.shape[axis]) resized.axis = axis, ++changed;
      if (changed != 1) resized.axis = -1;
      result.type = now;
      resized_[&result] = resized;
    }
    return {};
  }

  /// A batch of 1 broadcasts against what still has the old extent.
  Result<void> checkBroadcast(const Op& op, const Resized& source, const Value& result, const Type& now,
                              const Value* suspect) const {
    if (op.info().scalar == Scalar::none || source.axis < 0) return {};
    int axis = now.rank() - source.before.rank() + source.axis;
    if (axis < 0 || now.shape[axis] != result.type.shape[axis]) return {};
    if (suspect) return guess(op, suspect);
    return batchError(op.loc, 6,
                      fmt::format("axis {} of %{} keeps its extent {}: another operand has it too", axis,
                                  result.name, old_));
  }

  const Module& module_;
  Item& func_;
  int64_t n_;
  int64_t old_ = 0;
  int64_t reshaped_ = 1;  ///< `inner` of the reshape being looked at
  std::unordered_map<const Value*, Resized> resized_;
  std::unordered_map<const Value*, const Value*> suspects_;  ///< to the value that wrote the extent
  std::unordered_map<const Value*, Op*> drawn_;  ///< random numbers: to the index of the op that draws them
};

}  // namespace

Result<void> run_set_batch(Module& module, const SetBatchOptions& options, const PassContext& context) {
  if (options.n < 1) return batchError(module.loc, 1, fmt::format("n={} is not 1 or more", options.n));
  bool any = false;
  for (const Item* func : module.all(ItemKind::func))
    for (const auto& arg : func->body.args)
      any = any || (globMatch(options.func, func->name) && find(arg->attrs, "batch"));
  if (!any)
    return batchError(module.loc, 2,
                      "no argument says which axis is its batch; write %x: tensor<…> {batch = 0}");
  std::unique_ptr<Module> work = clone(module);
  std::vector<Batch> batches;
  for (Item* func : work->all(ItemKind::func))
    if (globMatch(options.func, func->name)) TG_CHECK(batches.emplace_back(*work, *func, options.n).run());
  for (const Batch& batch : batches) batch.remarkKept(context);
  module.items = std::move(work->items);
  return {};
}

}  // namespace tg
