// SPDX-License-Identifier: Apache-2.0
// data-parallel: averages gradients over the ranks of a job.
//
// What: every rank runs the same module on its own rows of the batch. The gradients that tg.param_grad names, and the
//   loss, become means over all ranks, so that each rank takes the same step. Without sharding the module does not
//   depend on the number of ranks; on a single rank the collectives are the identity.
//
//   %loss = …                        %loss = …
//   %d_b = …                         %d_b = …
//   %d_w = …                    →    %d_w = …
//   tg.param_grad @w, %d_w           %loss_mean, %b_mean, %w_mean = tg.all_reduce %loss, %d_b, %d_w
//   tg.param_grad @b, %d_b           tg.param_grad @w, %w_mean
//   return %loss                     tg.param_grad @b, %b_mean
//                                    return %loss_mean
//
//   Values are put into buckets in the order in which the text computes them; a bucket is full at `bucket` bytes. Its
//   collective comes directly behind its last value, so that it overlaps with the rest of the backward pass. With
//   append-grad{accumulate=N} gradients are reduced in @apply, every N-th call, and the loss in each call.
//
//   What @train assigns to a state or a parameter, and further results of one element, become means too if they depend on
//   the rank's rows or random numbers, such as the running mean of a batch norm. Integers, and values with a row for each
//   row of the batch, stay each rank's own, which a remark says.
//
//   With shard=optimizer and ranks=N (ZeRO stage 1) each rank gets one of N shards of each gradient, and the optimizer
//   keeps moments for that shard, updates that shard of the parameter, and gathers the parameter:
//
//   %w_mean = tg.reduce_scatter %d_w {ranks = N}
//   tg.param_grad @w, %w_mean {ranks = N}
//
//   A parameter whose number of elements N does not divide is not sharded; a remark tells the bytes of all of these.
//
// Requires: stage tensor.
//   c1: the function exists; c2: it has gradients; c3: it has no collectives yet; c4: no parameter with a
//   gradient is updated yet; c5: the loss is not scaled yet; c6: bucket is 0 or more; c7: shard is none or
//   optimizer; c8: ranks is 1 or more.
// Ensures: gradients of f16 and bf16 are reduced as f32. Other readers of a gradient or the loss read this rank's own.
// Where: behind append-grad; before mixed-precision, so that all ranks test the same gradients for being finite, and
//   before the optimizer.

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/collective.h"
#include "ir/op_view.h"
#include "passes/lookup.h"
#include "passes/mean_of_parts.h"
#include "passes/pass.h"

namespace tg {
namespace {

/// Inserts the collectives of one function.
class Bucketing {
 public:
  /// Gradients are sharded if `shards` is more than 1.
  Bucketing(Module& module, Item& func, int64_t bucket, int64_t shards)
      : func_(func), bucket_(bucket), shards_(shards), builder_(&module, &func) {
    builder_.setLoc(derivedLoc("ranks", func.loc));
    int place = 0;
    for (const Op* op : func.body.ops) place_[op] = place++;
  }

  /// Makes the operand of an op its mean over the ranks.
  void add(Op& reader, int operand) {
    Value* value = reader.in(operand);
    if (!isFloat(value->type.dtype) || (value->def && value->def->code == Opcode::constant)) return;
    auto [known, isNew] = slots_.try_emplace(value, values_.size());
    if (isNew) values_.push_back({value, {}});
    values_[known->second].readers.push_back({&reader, operand});
  }

  void run() {
    std::ranges::stable_sort(values_, {}, [&](const Reduced& each) { return placeOf(each); });
    std::vector<Reduced*> bucket;
    int64_t bytes = 0;
    for (Reduced& each : values_) {
      bucket.push_back(&each);
      bytes += each.value->type.elements() * byteSize(DType::f32);
      if (bytes < bucket_) continue;
      reduce(bucket);
      bucket.clear();
      bytes = 0;
    }
    if (!bucket.empty()) reduce(bucket);
  }
  /// The bytes of gradients that cannot be sharded, and of all gradients.
  std::pair<int64_t, int64_t> wholeBytes() const {
    std::pair<int64_t, int64_t> bytes;
    for (const Reduced& each : values_)
      if (isGradient(each)) {
        bytes.first += isSharded(each) ? 0 : each.value->type.bytes();
        bytes.second += each.value->type.bytes();
      }
    return bytes;
  }

 private:
  struct Reader {
    Op* op;
    int operand;
  };
  struct Reduced {
    Value* value;
    std::vector<Reader> readers;
  };

  static bool isGradient(const Reduced& each) {
    return std::ranges::all_of(each.readers,
                               [](const Reader& reader) { return reader.op->code == Opcode::param_grad; });
  }
  bool isSharded(const Reduced& each) const {
    return shards_ > 1 && isGradient(each) && each.value->type.elements() % shards_ == 0;
  }
  int placeOf(const Reduced& each) const { return each.value->def ? place_.at(each.value->def) : -1; }

  /// Inserts the collectives of a bucket behind its last value, and moves the readers behind them.
  void reduce(const std::vector<Reduced*>& bucket) {
    const Op* last = bucket.back()->value->def;
    Op* next = last ? last->next() : func_.body.ops.front();
    builder_.setBefore(next);
    std::unordered_map<const Reduced*, Value*> means;
    addCollective(bucket, Opcode::all_reduce, means);
    addCollective(bucket, Opcode::reduce_scatter, means);
    for (const Reduced* each : bucket) {
      Value* mean = means.at(each);
      builder_.setHint(mean->name + "_" + std::string(name(each->value->type.dtype)));
      mean = builder_.cast(mean, each->value->type.dtype);
      for (const Reader& reader : each->readers) {
        reader.op->operands[static_cast<size_t>(reader.operand)] = Operand::of(mean);
        if (reader.op->code == Opcode::return_) continue;
        if (isSharded(*each)) set(reader.op->attrs, "ranks", Attr::of(shards_));
        if (reader.op == next) next = next->next();
        builder_.setBefore(next);
        func_.body.ops.insert(next, func_.body.ops.take(reader.op));
      }
    }
    builder_.setHint("");
  }

  /// Inserts one collective for the values of a bucket that are sharded (reduce_scatter) or are not (all_reduce).
  void addCollective(const std::vector<Reduced*>& bucket, Opcode code,
                     std::unordered_map<const Reduced*, Value*>& means) {
    const bool scatters = code == Opcode::reduce_scatter;
    std::vector<const Reduced*> its;
    std::vector<Value*> sent;
    for (const Reduced* each : bucket) {
      if (isSharded(*each) != scatters) continue;
      its.push_back(each);
      builder_.setHint(each->value->name + "_f32");
      sent.push_back(builder_.cast(each->value, DType::f32));
    }
    if (its.empty()) return;
    builder_.setHint("mean");
    AttrList attrs = {{"reduction", Attr::word("mean")}};
    if (scatters) attrs.push_back({"ranks", Attr::of(shards_)});
    const Op* made = builder_.op(code, sent, attrs)->def;
    for (size_t i = 0; i < its.size(); ++i) {
      Value* mean = means[its[i]] = made->result(static_cast<int>(i));
      mean->name = builder_.names().unique(its[i]->value->name + "_mean");
    }
  }

  Item& func_;
  int64_t bucket_, shards_;
  Builder builder_;
  std::unordered_map<const Op*, int> place_;
  std::unordered_map<const Value*, size_t> slots_;  ///< index into values_, before that is sorted
  std::vector<Reduced> values_;
};

/// The values of a function that differ between ranks: what depends on its inputs, on random numbers, and on states of
/// integers that do.
class OfRank {
 public:
  explicit OfRank(const Item& func) {
    for (const auto& arg : func.body.args)
      if (hostRole(*arg).empty() || hostRole(*arg) == "rng") values_.insert(arg.get());
    auto known = [&] { return values_.size() + own_.size(); };
    for (size_t before = 0; std::exchange(before, known()) != known();)
      for (const Op* op : func.body.ops) visit(*op);
  }
  bool contains(const Value* value) const { return values_.contains(value); }

 private:
  void visit(const Op& op) {
    const bool reads = op.code == Opcode::state && own_.contains(op.operands[0].text);
    if (!reads && !anyUse(op, [&](const Value* value) { return contains(value); })) return;
    for (const auto& result : op.results) values_.insert(result.get());
    if (op.code == Opcode::update && !isFloat(op.in(at::update::value)->type.dtype))
      own_.insert(op.operands[0].text);
  }

  std::unordered_set<const Value*> values_;
  std::unordered_set<std::string> own_;  ///< states of integers that differ between ranks
};

/// Makes what @train assigns and returns beside the loss the mean over the ranks. Left as they are: sums of gradients,
/// which the optimizer's step in another function averages, and, with a remark, integers and values with a row for each
/// row of the batch.
void addStates(Item& train, const Item& step, Bucketing& buckets, const PassContext& context) {
  const OfRank ofRank(train);
  const std::unordered_set<const Value*> rows = rowsOfBatch(train);
  std::unordered_set<std::string> sums;
  for (const Op* op : step.body.ops)
    if (&step != &train && op->code == Opcode::state) sums.insert(op->operands[0].text);
  auto add = [&](Op& reader, int operand, const std::string& what) {
    const Value* value = reader.in(operand);
    if (!ofRank.contains(value)) return;
    const bool isReal = isFloat(value->type.dtype);
    if (isReal && !rows.contains(value)) return buckets.add(reader, operand);
    context.remark(
        reader.loc ? reader.loc : train.loc, "{} is each rank's own, since it {}; rank 0's is kept", what,
        isReal ? "has a row for each row of the batch" : "has integers that depend on the rank's rows");
  };
  for (Op* op : train.body.ops)
    if (op->code == Opcode::update && !sums.contains(op->operands[0].text))
      add(*op, at::update::value, "@" + op->operands[0].text);
  Op& end = *train.body.terminator();
  for (int i = 1; i < end.numOperands(); ++i)
    if (end.in(i)->type.elements() == 1) add(end, i, "result %" + end.in(i)->name);
}

Result<void> checkFunction(const Item& func, const Item& step) {
  for (Op* op : func.body.ops) {
    if (isCollective(*op))
      return passError("data-parallel", op->loc, 3, "@{} has collectives already; data-parallel runs once",
                       func.name);
    if (op->code == Opcode::update && hasGradients(step, op->operands[0].text))
      return passError(
          "data-parallel", op->loc, 4,
          "@{} is updated here by a gradient of one rank; run data-parallel before the optimizer",
          op->operands[0].text);
  }
  return {};
}

}  // namespace

Result<void> run_data_parallel(Module& module, const DataParallelOptions& options,
                               const PassContext& context) {
  TG_TRY(Item * train, funcNamed("data-parallel", module, options.func));
  Item* step = &stepFunction(module, *train);
  if (!hasGradients(*step)) return noGradients("data-parallel", *step);
  TG_CHECK(checkFunction(*train, *step));
  if (step != train) TG_CHECK(checkFunction(*step, *step));
  if (const Item* scale = module.find(ItemKind::state, "loss_scale"))
    return passError("data-parallel", scale->loc, 5,
                     "the loss is scaled already; run data-parallel before mixed-precision");
  if (options.bucket < 0)
    return passError("data-parallel", train->loc, 6, "bucket={} is not 0 or more", options.bucket);
  if (options.shard != "none" && options.shard != "optimizer")
    return passError("data-parallel", train->loc, 7, "unknown shard '{}'; known: none, optimizer",
                     options.shard);
  if (options.ranks < 1)
    return passError("data-parallel", train->loc, 8, "ranks={} is not 1 or more", options.ranks);
  const int64_t shards = options.shard == "optimizer" ? options.ranks : 1;
  for (Item* func : {train, step}) {
    Bucketing buckets(module, *func, options.bucket, shards);
    if (func == step)
      for (Op* op : func->body.ops)
        if (op->code == Opcode::param_grad) buckets.add(*op, at::param_grad::value);
    if (func == train && func->body.terminator()->numOperands() > 0) buckets.add(*func->body.terminator(), 0);
    const auto [whole, all] = buckets.wholeBytes();
    if (func == step && shards > 1 && whole > 0)
      context.remark(func->loc,
                     "{} of {} bytes of parameters are of tensors that cannot be divided into {} equal "
                     "shards: each rank keeps their moments whole",
                     whole, all, shards);
    buckets.run();
    if (func == train) {
      // States have collectives of their own: mixed-precision takes all results of one that reduces scaled gradients for
      // scaled.
      Bucketing states(module, *func, options.bucket, 1);
      addStates(*func, *step, states, context);
      states.run();
    }
    if (train == step) break;
  }
  return {};
}

}  // namespace tg
