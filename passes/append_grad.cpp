// append-grad: gradients as ordinary ops.
//
// What: expands every tg.grad, innermost first, then differentiates the function's first result (the
// loss) with respect to the parameters and names each gradient by tg.param_grad.
//
//   %loss = tg.mean %sq {axes = [0]}        %loss = tg.mean %sq {axes = [0]}
//   return %loss                       →    %d_sq = …  %d_w = …
//                                           tg.param_grad @w, %d_w
//                                           return %loss
//
// Requires: stage tensor.
//   c1: the function exists; c2: it has a result; c3: that is a rank-0 f32; c4: it has no tg.param_grad
//   yet; c5: the pattern names a parameter; c6: every op on a path from a parameter to the loss has a
//   gradient.
// Ensures: no tg.grad is left; one tg.param_grad for each parameter the pattern names, zeros where the
//   loss does not depend on it. Function results, captures and updates stay as they are.
// Where: first of all, so that every later pass sees forward and backward as one program.
#include <fmt/format.h>

#include <unordered_map>

#include "passes/grad_engine.h"
#include "passes/lookup.h"
#include "passes/pass.h"

namespace tg {
namespace {

Error failure(const Loc& loc, int constraint, std::string message) {
  return failAt(loc, fmt::format("append-grad [append-grad.c{}]: {}", constraint, message));
}

/// Replaces each tg.grad of a function by the ops that compute it. In text order an inner gradient
/// comes before the one that reads it.
class GradExpansion {
 public:
  GradExpansion(Module& module, Item& func) : func_(func), builder_(&module, &func) {}

  Result<void> run() {
    auto& ops = func_.body.ops;
    std::vector<std::unique_ptr<Op>> old = std::move(ops);
    ops.clear();
    Result<void> outcome;
    for (auto& op : old) {
      forEachUse(*op, [&](Value*& value) {
        if (auto it = replaced_.find(value); it != replaced_.end()) value = it->second;
      });
      // After an error the rest is kept as it was, so that the module stays printable.
      if (op->code != Opcode::grad || !outcome) {
        ops.push_back(std::move(op));
      } else if (outcome = expand(*op); outcome) {
        done_.push_back(std::move(op));
      } else {
        ops.push_back(std::move(op));
      }
    }
    return outcome;
  }

 private:
  Result<void> expand(Op& op) {
    std::vector<Value*> wrt;
    for (int i = 1; i < op.numOperands(); ++i) wrt.push_back(op.in(i));
    TG_TRY(std::vector<Value*> gradients, GradEngine(builder_, func_).gradients(op.in(0), wrt));
    for (size_t i = 0; i < gradients.size(); ++i) {
      Value* named = op.result(static_cast<int>(i));
      replaced_[named] = gradients[i];
      // The author's name goes to the gradient, unless another result already gave it one.
      bool shared = false;
      for (size_t j = 0; j < i; ++j) shared = shared || gradients[j] == gradients[i];
      if (!shared) gradients[i]->name = named->name;
    }
    return {};
  }

  Item& func_;
  Builder builder_;
  std::unordered_map<const Value*, Value*> replaced_;
  std::vector<std::unique_ptr<Op>> done_;  ///< expanded ops, alive as long as they are keys
};

Result<Value*> findLoss(const Item& func) {
  const Op* end = func.body.terminator();
  if (!end || end->operands.empty())
    return failure(func.loc, 2,
                   fmt::format("@{} has no result to differentiate; return the loss first", func.name));
  Value* loss = end->in(0);
  if (loss->type.rank() != 0)
    return failure(loss->loc, 3,
                   fmt::format("the loss %{} has shape {}; reduce it with tg.mean or tg.sum", loss->name,
                               loss->type.shape.str()));
  if (loss->type.dtype != DType::f32)
    return failure(
        loss->loc, 3,
        fmt::format("the loss %{} has element type {}, not f32", loss->name, name(loss->type.dtype)));
  return loss;
}

Result<std::vector<Item*>> chosenParams(const Module& module, const Item& func, const std::string& pattern) {
  std::vector<Item*> params = module.all(ItemKind::param), chosen;
  for (Item* param : params)
    if (globMatch(pattern, param->name)) chosen.push_back(param);
  if (params.empty()) return failure(func.loc, 5, "the module declares no param");
  if (chosen.empty())
    return failure(func.loc, 5,
                   fmt::format("wrt={} names no parameter; there are {}", pattern, namesOf(params)));
  return chosen;
}

Result<void> appendParamGrads(Module& module, Item& func, Value* loss, const std::vector<Item*>& params) {
  auto& ops = func.body.ops;
  std::unique_ptr<Op> end = std::move(ops.back());
  ops.pop_back();
  std::vector<Value*> reads;
  std::unordered_map<std::string, std::vector<size_t>> readsOf;
  for (const auto& op : ops) {
    if (op->code != Opcode::param) continue;
    readsOf[op->operands[0].text].push_back(reads.size());
    reads.push_back(op->result());
  }
  std::vector<Value*> wrt;
  std::unordered_map<std::string, std::vector<size_t>> slots;
  for (const Item* param : params)
    for (size_t read : readsOf[param->name]) {
      slots[param->name].push_back(wrt.size());
      wrt.push_back(reads[read]);
    }
  Builder builder(&module, &func);
  auto gradients = GradEngine(builder, func).gradients(loss, wrt);
  if (gradients) {
    for (const Item* param : params) {
      builder.setLoc(derivedLoc("grad", param->loc));
      builder.setHint("d_" + param->name);
      Value* total = nullptr;
      for (size_t slot : slots[param->name])
        total = total ? builder.binary(Opcode::add, total, (*gradients)[slot]) : (*gradients)[slot];
      if (!total) total = builder.constant(0, param->type);
      builder.create(Opcode::param_grad, {Operand::symbol(param->name), Operand::of(total)});
    }
  }
  ops.push_back(std::move(end));
  if (!gradients) return gradients.takeError();
  return {};
}

}  // namespace

Result<void> run_append_grad(Module& module, const AppendGradOptions& options, const PassContext&) {
  Item* func = module.func(options.func);
  if (!func)
    return failure(module.loc, 1,
                   fmt::format("there is no func @{}; the module has {}", options.func,
                               namesOf(module.all(ItemKind::func))));
  TG_CHECK(findLoss(*func));
  for (const auto& op : func->body.ops)
    if (op->code == Opcode::param_grad)
      return failure(op->loc, 4,
                     fmt::format("@{} already has a gradient of @{}; append-grad runs once", func->name,
                                 op->operands[0].text));
  TG_TRY(std::vector<Item*> params, chosenParams(module, *func, options.wrt));
  for (Item* each : module.all(ItemKind::func)) TG_CHECK(GradExpansion(module, *each).run());
  TG_TRY(Value * loss, findLoss(*func));
  return appendParamGrads(module, *func, loss, params);
}

}  // namespace tg
