// SPDX-License-Identifier: Apache-2.0
// data-parallel: gradients of several devices become their mean.
//
// What: every rank of a job runs the same module on its own rows of the batch. What tg.param_grad names, and the
//   loss, becomes the mean over all ranks, so that each takes the same step. Unless parts are asked for, the module
//   does not say how many ranks there are: it runs on one, and then nothing travels.
//
//   %loss = …                        %loss = …
//   %d_b = …                         %d_b = …
//   %d_w = …                    →    %d_w = …
//   tg.param_grad @w, %d_w           %loss_mean, %b_mean, %w_mean = tg.all_reduce %loss, %d_b, %d_w
//   tg.param_grad @b, %d_b           tg.param_grad @w, %w_mean
//   return %loss                     tg.param_grad @b, %b_mean
//                                    return %loss_mean
//
//   What travels together is a bucket: values in the order in which the text computes them, until `bucket` bytes
//   are full. It stands right behind the last of them, so that it travels while the rest is computed. With
//   append-grad{accumulate=N} gradients travel in @apply, every N-th call, and the loss in each.
//
//   With shard=optimizer and ranks=N each rank gets one part of N of each gradient alone, and the optimizer behind
//   keeps moments for that part, updates that part of the parameter, and puts the parameter together again:
//
//   %w_mean = tg.reduce_scatter %d_w {ranks = N}
//   tg.param_grad @w, %w_mean {ranks = N}
//
//   A parameter whose elements N does not divide stays whole, and a remark says how many bytes these are.
//
// Requires: stage tensor.
//   c1: the function exists; c2: it has gradients; c3: nothing is joined yet; c4: no parameter with a
//   gradient is updated yet; c5: the loss is not scaled yet; c6: bucket is 0 or more; c7: shard is none or
//   optimizer; c8: ranks is 1 or more.
// Ensures: gradients of f16 and bf16 travel as f32. What else reads a gradient or the loss sees this rank's own.
// Where: behind append-grad, whose gradients it joins; before mixed-precision, which must judge on all ranks by the
//   same gradients whether they are finite, and before the optimizer, which takes the step.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/collective.h"
#include "ir/op_view.h"
#include "passes/lookup.h"
#include "passes/pass.h"

namespace tg {
namespace {

Error parallelError(const Loc& loc, int constraint, const std::string& message) {
  return failAt(loc, fmt::format("data-parallel [data-parallel.c{}]: {}", constraint, message));
}

/// Puts the collectives of one function into its text.
class Joining {
 public:
  /// Gradients are given in parts where there are `parts` ranks, more than one.
  Joining(Module& module, Item& func, int64_t bucket, int64_t parts)
      : func_(func), bucket_(bucket), parts_(parts), builder_(&module, &func) {
    builder_.setLoc(derivedLoc("ranks", func.loc));
    int place = 0;
    for (const Op* op : func.body.ops) place_[op] = place++;
  }

  /// The operand of an op is to be the mean over the ranks.
  void add(Op& reader, int operand) {
    Value* value = reader.in(operand);
    if (!isFloat(value->type.dtype) || (value->def && value->def->code == Opcode::constant)) return;
    auto [known, isNew] = slots_.try_emplace(value, values_.size());
    if (isNew) values_.push_back({value, {}});
    values_[known->second].readers.push_back({&reader, operand});
  }

  void run() {
    std::stable_sort(values_.begin(), values_.end(),
                     [&](const Joined& a, const Joined& b) { return placeOf(a) < placeOf(b); });
    std::vector<Joined*> together;
    int64_t bytes = 0;
    for (Joined& joined : values_) {
      together.push_back(&joined);
      bytes += joined.value->type.elements() * byteSize(DType::f32);
      if (bytes < bucket_) continue;
      join(together);
      together.clear();
      bytes = 0;
    }
    if (!together.empty()) join(together);
  }
  /// Bytes of the gradients that stay whole although parts are asked for, and of all.
  std::pair<int64_t, int64_t> wholeBytes() const {
    std::pair<int64_t, int64_t> bytes;
    for (const Joined& joined : values_)
      if (isGradient(joined)) {
        bytes.first += hasParts(joined) ? 0 : joined.value->type.bytes();
        bytes.second += joined.value->type.bytes();
      }
    return bytes;
  }

 private:
  struct Reader {
    Op* op;
    int operand;
  };
  struct Joined {
    Value* value;
    std::vector<Reader> readers;
  };

  static bool isGradient(const Joined& joined) {
    return std::all_of(joined.readers.begin(), joined.readers.end(),
                       [](const Reader& reader) { return reader.op->code == Opcode::param_grad; });
  }
  bool hasParts(const Joined& joined) const {
    return parts_ > 1 && isGradient(joined) && joined.value->type.elements() % parts_ == 0;
  }
  int placeOf(const Joined& joined) const { return joined.value->def ? place_.at(joined.value->def) : -1; }

  /// Collectives behind the last of the values, and behind them what names their results.
  void join(const std::vector<Joined*>& together) {
    const Op* last = together.back()->value->def;
    Op* next = last ? last->next() : func_.body.ops.front();
    builder_.setBefore(next);
    std::unordered_map<const Joined*, Value*> means;
    collect(together, Opcode::all_reduce, means);
    collect(together, Opcode::reduce_scatter, means);
    for (const Joined* joined : together) {
      Value* mean = means.at(joined);
      builder_.setHint(mean->name + "_" + std::string(name(joined->value->type.dtype)));
      mean = builder_.cast(mean, joined->value->type.dtype);
      for (const Reader& reader : joined->readers) {
        reader.op->operands[static_cast<size_t>(reader.operand)] = Operand::of(mean);
        if (reader.op->code != Opcode::param_grad) continue;
        if (hasParts(*joined)) set(reader.op->attrs, "ranks", Attr::of(parts_));
        if (reader.op == next) next = next->next();
        builder_.setBefore(next);
        func_.body.ops.insert(next, func_.body.ops.take(reader.op));
      }
    }
    builder_.setHint("");
  }

  /// One collective of those values that it is for.
  void collect(const std::vector<Joined*>& together, Opcode code,
               std::unordered_map<const Joined*, Value*>& means) {
    const bool scatters = code == Opcode::reduce_scatter;
    std::vector<const Joined*> its;
    std::vector<Value*> sent;
    for (const Joined* joined : together) {
      if (hasParts(*joined) != scatters) continue;
      its.push_back(joined);
      builder_.setHint(joined->value->name + "_f32");
      sent.push_back(builder_.cast(joined->value, DType::f32));
    }
    if (its.empty()) return;
    builder_.setHint("mean");
    AttrList attrs = {{"reduction", Attr::word("mean")}};
    if (scatters) attrs.push_back({"ranks", Attr::of(parts_)});
    const Op* made = builder_.op(code, sent, attrs)->def;
    for (size_t i = 0; i < its.size(); ++i) {
      Value* mean = means[its[i]] = made->result(static_cast<int>(i));
      mean->name = builder_.names().unique(its[i]->value->name + "_mean");
    }
  }

  Item& func_;
  int64_t bucket_, parts_;
  Builder builder_;
  std::unordered_map<const Op*, int> place_;
  std::unordered_map<const Value*, size_t> slots_;  ///< of values_, before they are sorted
  std::vector<Joined> values_;
};

bool hasGradients(const Item& func, std::string_view param = "") {
  return std::any_of(func.body.ops.begin(), func.body.ops.end(), [&](const Op* op) {
    return op->code == Opcode::param_grad && (param.empty() || op->operands[0].text == param);
  });
}

Result<void> checkFunction(const Item& func, const Item& step) {
  for (Op* op : func.body.ops) {
    if (isCollective(*op))
      return parallelError(op->loc, 3,
                           fmt::format("@{} joins ranks already; data-parallel runs once", func.name));
    if (op->code == Opcode::update && hasGradients(step, op->operands[0].text))
      return parallelError(
          op->loc, 4,
          fmt::format("@{} is updated here by a gradient of one rank; run data-parallel before "
                      "the optimizer",
                      op->operands[0].text));
  }
  return {};
}

}  // namespace

Result<void> run_data_parallel(Module& module, const DataParallelOptions& options,
                               const PassContext& context) {
  Item* train = module.func(options.func);
  if (!train)
    return parallelError(module.loc, 1,
                         fmt::format("there is no func @{}; the module has {}", options.func,
                                     namesOf(module.all(ItemKind::func))));
  Item* step = train;
  for (Item* func : module.all(ItemKind::func))
    if (find(func->attrs, "every")) step = func;
  if (!hasGradients(*step))
    return parallelError(step->loc, 2,
                         fmt::format("@{} has no gradients; run append-grad first", step->name));
  TG_CHECK(checkFunction(*train, *step));
  if (step != train) TG_CHECK(checkFunction(*step, *step));
  if (const Item* scale = module.find(ItemKind::state, "loss_scale"))
    return parallelError(scale->loc, 5,
                         "the loss is scaled already; run data-parallel before mixed-precision");
  if (options.bucket < 0)
    return parallelError(train->loc, 6, fmt::format("bucket={} is not 0 or more", options.bucket));
  if (options.shard != "none" && options.shard != "optimizer")
    return parallelError(train->loc, 7,
                         fmt::format("there is no shard '{}'; there are none and optimizer", options.shard));
  if (options.ranks < 1)
    return parallelError(train->loc, 8, fmt::format("ranks={} is not 1 or more", options.ranks));
  const int64_t parts = options.shard == "optimizer" ? options.ranks : 1;
  for (Item* func : {train, step}) {
    Joining joining(module, *func, options.bucket, parts);
    if (func == step)
      for (Op* op : func->body.ops)
        if (op->code == Opcode::param_grad) joining.add(*op, at::param_grad::value);
    if (func == train && func->body.terminator()->numOperands() > 0) joining.add(*func->body.terminator(), 0);
    const auto [whole, all] = joining.wholeBytes();
    if (func == step && parts > 1 && whole > 0)
      context.remark(func->loc,
                     fmt::format("{} of {} bytes of parameters are of tensors that have no {} equal parts: "
                                 "each rank keeps their moments whole",
                                 whole, all, parts));
    joining.run();
    if (train == step) break;
  }
  return {};
}

}  // namespace tg
