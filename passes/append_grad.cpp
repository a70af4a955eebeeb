// SPDX-License-Identifier: Apache-2.0
// append-grad: adds gradients as ordinary ops.
//
// What: expands every tg.grad, inner ones first, then differentiates the function's first result (the loss) with respect
// to the parameters, and names each gradient by tg.param_grad.
//
//   %loss = tg.mean %sq {axes = [0]}        %loss = tg.mean %sq {axes = [0]}
//   return %loss                       →    %d_sq = …  %d_w = …
//                                           tg.param_grad @w, %d_w
//                                           return %loss
//
// With accumulate=N the gradient of one step is the mean over N calls. @train adds 1/N of each gradient to a state. @apply,
// which the host runs after every N-th call, has the sums as its gradients and clears them. Optimizer passes add their
// updates to @apply.
//
//   state @g.w                                       func @apply() attributes {every = N} {
//   func @train … {                                    %g_w = tg.state @g.w
//     %g_w_next = tg.add %g_w, %d_w / N                tg.param_grad @w, %g_w
//     tg.update @g.w, %g_w_next                        tg.update @g.w, 0
//
// Requires: stage tensor.
//   c1: the function exists; c2: it has a result; c3: that is a rank-0 f32; c4: it has no tg.param_grad
//   and no seed yet; c5: the pattern names a parameter of floats; c6: every op on a path from a parameter to the loss
//   has a gradient; c7: accumulate is 1 or more, and checkpoint 0 or more; c8: with accumulate > 1, @apply and the states
//   @g.NAME do not exist yet; c9: scratch of a kernel's own VJP has static extents.
// A tg.custom is differentiated as kernel-vjp does it, unless its kernel names its own VJP.
// A remark names an op through which the loss depends on a parameter but that passes no gradient: a tgk.bitcast in a
// kernel, an op that gives integers. tg.stop_gradient states that none is meant. Another remark names the first f16
// product: without a loss scale, small gradients through it are lost.
// Ensures: no tg.grad is left. There is one tg.param_grad for each parameter of floats that the pattern names and that the
//   loss depends on, with zeros in rows that no tg.param reads; others stay as they are in training. Without parameters
//   or @train only tg.grad is expanded.
//   Parameters of integers, function results, captures and updates do not change. The gradients of @train are those of
//   one call, undivided; those of @apply are the means.
// Where: first, so that all later passes see forward and backward pass as one program.

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/access.h"
#include "ir/op_view.h"
#include "ir/unread.h"
#include "passes/grad_engine.h"
#include "passes/lookup.h"
#include "passes/narrow_products.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace tg {
namespace {

/// Replaces each tg.grad of a function by the ops that compute it, in text order, so that an inner gradient is expanded
/// before the one that reads it.
class GradExpansion {
 public:
  GradExpansion(Module& module, Item& func, int64_t checkpoint, DiagnosticHandler onRemark)
      : func_(func), builder_(&module, &func), checkpoint_(checkpoint), onRemark_(std::move(onRemark)) {}

  Result<void> run() {
    auto& ops = func_.body.ops;
    OpList rest = ops.takeAll();  // a gradient is appended to the ops in front of its tg.grad
    Result<void> outcome;
    while (!rest.empty()) {
      std::unique_ptr<Op> op = rest.takeFront();
      const bool request = op->code == Opcode::grad && outcome;
      if (request) outcome = expand(*op);
      // After an error the other ops are kept, so that the module can be printed.
      if (!request || !outcome) ops.push_back(std::move(op));
    }
    return outcome;
  }

 private:
  Result<void> expand(Op& op) {
    std::vector<Value*> wrt;
    for (int i = 1; i < op.numOperands(); ++i) wrt.push_back(op.in(i));
    TG_TRY(std::vector<Value*> gradients,
           GradEngine(builder_, func_, checkpoint_, onRemark_).gradients(op.in(0), wrt));
    for (size_t i = 0; i < gradients.size(); ++i) {
      Value* named = op.result(static_cast<int>(i));
      named->uses.replaceAll(gradients[i]);
      // The gradient takes the name of the result, unless it already has that of another result.
      bool shared = false;
      for (size_t j = 0; j < i; ++j) shared = shared || gradients[j] == gradients[i];
      if (!shared) gradients[i]->name = named->name;
    }
    return {};
  }

  Item& func_;
  Builder builder_;
  int64_t checkpoint_;
  DiagnosticHandler onRemark_;
};

/// The first result of a function, if it can be a loss.
Result<Value*> findLoss(const Item& func) {
  const Op* end = func.body.terminator();
  if (!end || end->operands.empty())
    return passError("append-grad", func.loc, 2, "@{} has no result to differentiate; return the loss first",
                     func.name);
  Value* loss = end->in(0);
  if (loss->type.rank() != 0)
    return passError("append-grad", loss->loc, 3,
                     "the loss %{} has shape {}; reduce it with tg.mean or tg.sum", loss->name,
                     loss->type.shape.str());
  if (loss->type.dtype != DType::f32)
    return passError("append-grad", loss->loc, 3, "the loss %{} has element type {}, not f32", loss->name,
                     name(loss->type.dtype));
  return loss;
}

/// The parameters of floats that the pattern matches.
Result<std::vector<Item*>> chosenParams(const Module& module, const Item& func, const std::string& pattern) {
  std::vector<Item*> params = module.all(ItemKind::param), chosen;
  const Item* integer = nullptr;
  for (Item* param : params) {
    if (!globMatch(pattern, param->name)) continue;
    if (isFloat(param->type.dtype))
      chosen.push_back(param);
    else
      integer = param;
  }
  if (params.empty()) return passError("append-grad", func.loc, 5, "the module declares no parameter");
  if (chosen.empty() && integer)
    return passError("append-grad", integer->loc, 5, "wrt={} names @{}, which is {}; gradients are of floats",
                     pattern, integer->name, integer->type.str());
  if (chosen.empty())
    return passError("append-grad", func.loc, 5, "wrt={} names no parameter; there are {}", pattern,
                     namesOf(params));
  return chosen;
}

/// Adds sums of gradients over several calls as states, and the function @apply that has them as its gradients.
class Accumulation {
 public:
  Accumulation(Module& module, Item& func, int64_t calls)
      : module_(module), train_(func), calls_(calls), builder_(&module, &func) {}

  /// Appends to a function whose terminator was taken out; `gradients` belong to `params`.
  void run(const std::vector<Item*>& params, const std::vector<Value*>& gradients) {
    std::vector<Value*> next;
    for (size_t i = 0; i < params.size(); ++i) {
      declare(*params[i]);
      builder_.setLoc(derivedLoc("grad", params[i]->loc));
      const Type type = sumType(*params[i]);
      builder_.setHint(gradients[i]->name + "_f32");
      Value* wide = builder_.cast(gradients[i], type.dtype);
      Value* share = builder_.binary(Opcode::mul, wide, reciprocal());
      Value* sum = read(builder_, *params[i]);
      builder_.setHint(stateOf(*params[i]) + "_next");
      next.push_back(builder_.binary(Opcode::add, sum, share));
    }
    for (size_t i = 0; i < params.size(); ++i)
      builder_.create(Opcode::update, {Operand::symbol(stateOf(*params[i])), Operand::of(next[i])});
    addApply(params);
  }

  static std::string stateOf(const Item& param) { return "g." + param.name; }
  static constexpr const char* kApply = "apply";

 private:
  Value* reciprocal() {
    builder_.setHint("share");
    if (!reciprocal_) reciprocal_ = builder_.scalar(1.0 / static_cast<double>(calls_));
    return reciprocal_;
  }

  static Value* read(Builder& builder, const Item& param) {
    builder.setHint("g_" + param.name);
    return builder.create(Opcode::state, {Operand::symbol(stateOf(param))}, {}, {sumType(param)})->result();
  }

  /// Sums of f16 and bf16 gradients are f32, so that small shares are not lost.
  static Type sumType(const Item& param) {
    return Type::tensor(computeType(param.type.dtype), param.type.shape);
  }

  void declare(const Item& param) {
    Item* state = module_.addStorage(ItemKind::state, stateOf(param));
    state->type = sumType(param);
    state->loc = derivedLoc("grad", param.loc);
  }

  /// Adds @apply directly behind the function whose calls it counts.
  void addApply(const std::vector<Item*>& params) {
    auto& items = module_.items;
    auto at = std::ranges::find_if(items, [&](const auto& item) { return item.get() == &train_; });
    auto made = std::make_unique<Item>();
    Item& apply = *made;
    apply.kind = ItemKind::func;
    apply.name = kApply;
    apply.loc = derivedLoc("grad", train_.loc);
    apply.attrs.push_back({"every", Attr::of(calls_)});
    items.insert(at + 1, std::move(made));
    Builder builder(&module_, &apply);
    for (const Item* param : params) {
      builder.setLoc(derivedLoc("grad", param->loc));
      Value* sum = read(builder, *param);
      builder.setHint("zero");
      Value* zero = builder.constant(0, sumType(*param));
      builder.setHint("d_" + param->name);
      Value* gradient = builder.cast(sum, param->type.dtype);
      builder.create(Opcode::param_grad, {Operand::symbol(param->name), Operand::of(gradient)});
      builder.create(Opcode::update, {Operand::symbol(stateOf(*param)), Operand::of(zero)});
    }
    builder.setLoc(apply.loc);
    builder.create(Opcode::return_, {});
  }

  Module& module_;
  Item& train_;
  int64_t calls_;
  Builder builder_;
  Value* reciprocal_ = nullptr;
};

Result<void> checkAccumulation(const Module& module, const Item& func, const std::vector<Item*>& params,
                               int64_t calls) {
  if (calls < 1) return passError("append-grad", func.loc, 7, "accumulate={} is not 1 or more", calls);
  if (calls == 1) return {};
  if (const Item* old = module.func(Accumulation::kApply))
    return passError("append-grad", old->loc, 8,
                     "the module has @apply already; accumulation puts its updates there");
  for (const Item* param : params)
    if (const Item* old = module.storage(Accumulation::stateOf(*param)))
      return passError("append-grad", old->loc, 8, "the module has @{} already; accumulation sums there",
                       old->name);
  return {};
}

/// The gradient of the rows that a tg.param reads as a gradient of the whole parameter, with zeros in the other rows. Null
/// if the gradient is zero.
Value* ofWhole(Builder& builder, const Item& param, const Value& read, Value* gradient) {
  if (isNumber(*gradient, 0)) return nullptr;
  const std::vector<int64_t> rows = as::param(*read.def).rows();
  if (rows.empty()) return gradient;
  std::vector<int64_t> low(static_cast<size_t>(param.type.rank()), 0), high = low;
  low[0] = rows[0];
  high[0] = param.type.shape[0] - rows[1];
  return builder.pad(gradient, low, high);
}

/// Differentiates the loss and adds a tg.param_grad for each parameter: the sum over all of its reads.
Result<void> appendParamGrads(Module& module, Item& func, Value* loss, const std::vector<Item*>& params,
                              const AppendGradOptions& options, const DiagnosticHandler& onRemark) {
  auto& ops = func.body.ops;
  std::unique_ptr<Op> end = ops.takeBack();
  const Op* forward = ops.empty() ? nullptr : ops.back();
  std::vector<Value*> reads;
  std::unordered_map<std::string, std::vector<size_t>> readsOf;
  for (Op* op : ops) {
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
  auto gradients = GradEngine(builder, func, options.checkpoint, onRemark).trainingGradients(loss, wrt);
  std::vector<Item*> reached;
  std::vector<Value*> totals;
  if (gradients) {
    for (Item* param : params) {
      builder.setLoc(derivedLoc("grad", param->loc));
      builder.setHint("d_" + param->name);
      Value* total = nullptr;
      for (size_t slot : slots[param->name]) {
        Value* each = ofWhole(builder, *param, *wrt[slot], (*gradients)[slot]);
        if (!each) continue;
        total = total ? builder.binary(Opcode::add, total, each) : each;
      }
      if (!total) continue;
      builder.create(Opcode::param_grad, {Operand::symbol(param->name), Operand::of(total)});
      reached.push_back(param);
      totals.push_back(total);
    }
    eraseUnread(ops, forward);
    if (options.accumulate > 1 && !reached.empty())
      Accumulation(module, func, options.accumulate).run(reached, totals);
  }
  ops.push_back(std::move(end));
  if (!gradients) return gradients.takeError();
  return {};
}

/// Passes each remark on once, even if several calls differentiate the same kernel.
DiagnosticHandler once(const DiagnosticHandler& handler) {
  if (!handler) return {};
  return [handler, told = std::make_shared<std::set<std::string>>()](const Diagnostic& remark) {
    if (told->insert(render(remark)).second) handler(remark);
  };
}

}  // namespace

/// Whether the module asks for gradients only by tg.grad: it has no parameter or no @train, and the options are the
/// defaults.
static bool onlyRequests(const Module& module, const AppendGradOptions& options) {
  const AppendGradOptions none;
  if (options.func != none.func || options.wrt != none.wrt || options.accumulate != none.accumulate)
    return false;
  if (!module.all(ItemKind::param).empty() && module.func(none.func)) return false;
  return std::ranges::any_of(module.all(ItemKind::func), [](const Item* func) { return hasGrad(*func); });
}

/// Whether a function gives gradients itself, such as those of two losses: by tg.grad and tg.param_grad.
static bool asksByHand(const Item& func) { return hasGrad(func) && hasGradients(func); }

/// Checks that such a function gives the gradient of every parameter: nothing is left to this pass but the tg.grad.
static Result<void> checkGivesAll(const Item& func, const std::vector<Item*>& params,
                                  const AppendGradOptions& options) {
  const Op* first = nullptr;
  std::set<std::string> given, read;
  for (const Op* op : func.body.ops) {
    if (op->code == Opcode::param) read.insert(op->operands[0].text);
    if (op->code != Opcode::param_grad) continue;
    if (!first) first = op;
    given.insert(op->operands[0].text);
  }
  for (const Item* param : params)
    if (read.contains(param->name) && !given.contains(param->name))
      return passError("append-grad", first->loc, 4,
                       "@{} gives a gradient of @{} by tg.param_grad, but none of @{}: give that of every "
                       "parameter, or leave all to append-grad",
                       func.name, first->operands[0].text, param->name);
  if (options.accumulate > 1)
    return passError("append-grad", first->loc, 8,
                     "@{} gives gradients by tg.param_grad, and only those that append-grad gives are summed",
                     func.name);
  return {};
}

/// Remarks the first f16 product: small gradients through it become 0 unless a later pass scales the loss.
static void remarkUnscaled(const Item& func, const PassContext& context) {
  for (const Op* op : func.body.ops) {
    if (multipliedAs(*op) != "f16") continue;
    return context.remark(op->loc,
                          "{} is of f16, in which small gradients become 0, unless "
                          "mixed-precision{{precision=f16}} after append-grad scales the loss",
                          op->info().name);
  }
}

static Result<void> expandRequests(Module& module, const AppendGradOptions& options,
                                   const DiagnosticHandler& onRemark) {
  for (Item* each : module.all(ItemKind::func))
    TG_CHECK(GradExpansion(module, *each, options.checkpoint, onRemark).run());
  return {};
}

Result<void> run_append_grad(Module& module, const AppendGradOptions& options, const PassContext& context) {
  const DiagnosticHandler onRemark = once(context.onDiagnostic);
  if (options.checkpoint < 0)
    return passError("append-grad", module.loc, 7, "checkpoint={} is not 0 or more", options.checkpoint);
  if (onlyRequests(module, options)) return expandRequests(module, options, onRemark);
  TG_TRY(Item * func, funcNamed("append-grad", module, options.func));
  TG_CHECK(findLoss(*func));
  TG_TRY(std::vector<Item*> params, chosenParams(module, *func, options.wrt));
  if (asksByHand(*func)) {
    TG_CHECK(checkGivesAll(*func, params, options));
    return expandRequests(module, options, onRemark);
  }
  for (Op* op : func->body.ops) {
    if (op->code == Opcode::param_grad)
      return passError("append-grad", op->loc, 4, "@{} already has a gradient of @{}; append-grad runs once",
                       func->name, op->operands[0].text);
    if (op->code == Opcode::constant && as::constant(*op).seed())
      return passError("append-grad", op->loc, 4,
                       "@{} already has the seed of a gradient; append-grad runs once", func->name);
  }
  TG_CHECK(checkAccumulation(module, *func, params, options.accumulate));
  remarkIdle(context, func->loc, "wrt", options.wrt, module.all(ItemKind::param));
  remarkUnscaled(*func, context);
  TG_CHECK(expandRequests(module, options, onRemark));
  TG_TRY(Value * loss, findLoss(*func));
  return appendParamGrads(module, *func, loss, params, options, onRemark);
}

}  // namespace tg
