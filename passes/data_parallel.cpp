// SPDX-License-Identifier: Apache-2.0
// data-parallel: gradients of several devices become their mean.
//
// What: every rank of a job runs the same module on its own rows of the batch. What tg.param_grad names, and the
//   loss, becomes the mean over all ranks, so that each takes the same step. The module does not say how many
//   ranks there are: it runs on one, and then nothing travels.
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
// Requires: stage tensor.
//   c1: the function exists; c2: it has gradients; c3: nothing is joined yet; c4: no parameter with a
//   gradient is updated yet; c5: the loss is not scaled yet; c6: bucket is 0 or more.
// Ensures: gradients of f16 and bf16 travel as f32. What else reads a gradient or the loss sees this rank's own.
// Where: behind append-grad, whose gradients it joins; before mixed-precision, which must judge on all ranks by the
//   same gradients whether they are finite, and before the optimizer, which takes the step.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
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
  Joining(Module& module, Item& func, int64_t bucket)
      : func_(func), bucket_(bucket), builder_(&module, &func) {
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

 private:
  struct Reader {
    Op* op;
    int operand;
  };
  struct Joined {
    Value* value;
    std::vector<Reader> readers;
  };

  int placeOf(const Joined& joined) const { return joined.value->def ? place_.at(joined.value->def) : -1; }

  /// One collective behind the last of the values, and behind it what names its results.
  void join(const std::vector<Joined*>& together) {
    const Op* last = together.back()->value->def;
    Op* next = last ? last->next() : func_.body.ops.front();
    builder_.setBefore(next);
    std::vector<Value*> sent;
    for (const Joined* joined : together) {
      builder_.setHint(joined->value->name + "_f32");
      sent.push_back(builder_.cast(joined->value, DType::f32));
    }
    builder_.setHint("mean");
    const Op* made = builder_.op(Opcode::all_reduce, sent, {{"reduction", Attr::word("mean")}})->def;
    for (size_t i = 0; i < together.size(); ++i) {
      Value* mean = made->result(static_cast<int>(i));
      mean->name = builder_.names().unique(together[i]->value->name + "_mean");
      builder_.setHint(mean->name + "_" + std::string(name(together[i]->value->type.dtype)));
      mean = builder_.cast(mean, together[i]->value->type.dtype);
      for (const Reader& reader : together[i]->readers) {
        reader.op->operands[static_cast<size_t>(reader.operand)] = Operand::of(mean);
        if (reader.op->code != Opcode::param_grad) continue;
        if (reader.op == next) next = next->next();
        builder_.setBefore(next);
        func_.body.ops.insert(next, func_.body.ops.take(reader.op));
      }
    }
    builder_.setHint("");
  }

  Item& func_;
  int64_t bucket_;
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
    if (op->code == Opcode::all_reduce)
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

Result<void> run_data_parallel(Module& module, const DataParallelOptions& options, const PassContext&) {
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
  for (Item* func : {train, step}) {
    Joining joining(module, *func, options.bucket);
    if (func == step)
      for (Op* op : func->body.ops)
        if (op->code == Opcode::param_grad) joining.add(*op, at::param_grad::value);
    if (func == train && func->body.terminator()->numOperands() > 0) joining.add(*func->body.terminator(), 0);
    joining.run();
    if (train == step) break;
  }
  return {};
}

}  // namespace tg
