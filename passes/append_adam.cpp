// SPDX-License-Identifier: Apache-2.0
// append-adam: Adam, or AdamW with a weight decay.
//
// What: adds moments and a step counter as states, and one tg.adam_update for each gradient.
//
//   tg.param_grad @w, %d_w      →    state @adam.m.w, @adam.v.w, @adam.t
//                                    %w_next, %m, %v = tg.adam_update %w, %d_w, …
//                                    tg.update @w, %w_next  …
//
//   lr_t = lr·√(1-β₂ᵗ)/(1-β₁ᵗ), where t is counted on the device, from 1 on, and lr is an argument that the host fills.
//   This is the paper's efficient order, in which ε is added to √v. With corrected-eps it is added to the corrected root
//   √(v/(1-β₂ᵗ)), as in PyTorch: the same ratio with ε·√(1-β₂ᵗ) added to √v. With normalize-grads the gradients that it
//   names are first divided by their own norm, g/(‖g‖₂ + 1e-8). With clip-norm c every gradient is scaled by
//   min(1, c/(‖g‖₂ + 1e-6)), with one norm over all of them; the result grad_norm is that norm before scaling. Decay
//   multiplies p by 1 - lr·wd (AdamW) and does not enter the moments. Whether a parameter decays is decided by its `decay`
//   attribute, then by no-decay, then by its init: constants do not decay.
// Requires: stage tensor, after append-grad.
//   c1 to c7, c10: optimizer/optimizer.h; c8: kind is known; c9: adamw has a weight decay.
// Ensures: one tg.update for each of these parameters and states; the param_grads stay. A parameter without a gradient is
//   not changed, not even by decay, and a remark names it. After append-grad{accumulate=N} all of it is added to the
//   function that has the summed gradients.
// Where: after append-grad, whose gradients it reads; before fuse, so that the updates fuse too.
#include <algorithm>
#include <cmath>

#include "passes/optimizer/optimizer.h"

namespace tg {
namespace {

using optimizer::Site;
using optimizer::StepBuilder;
using optimizer::TrainedParam;

class Adam {
 public:
  Adam(Module& module, const Site& site, const AppendAdamOptions& options)
      : step_(module, site, options), options_(options) {}

  void run() {
    for (const TrainedParam& trained : step_.params()) {
      step_.addState("m", trained);
      step_.addState("v", trained);
    }
    step_.addState("t", Type::tensor(DType::i32, {}), true);
    rates();
    for (const TrainedParam& trained : step_.params()) step(trained);
    for (const Next& next : next_) {
      step_.update(next.param, next.values[0]);
      step_.update(step_.stateName("m." + next.param), next.values[1]);
      step_.update(step_.stateName("v." + next.param), next.values[2]);
    }
    step_.update(step_.stateName("t"), time_.value);
    step_.finish();
  }

 private:
  /// The values of p, m and v of a parameter after the step.
  struct Next {
    std::string param;
    Value* values[3];
  };

  /// 1 - βᵗ; β = 0 needs no correction.
  TensorExpr correction(double beta) {
    if (beta == 0) return step_.expr(step_.builder().scalar(1));
    return step_.expr(step_.builder().op(Opcode::one_minus_pow, {time_.value}, {{"base", Attr::of(beta)}}));
  }

  /// Computes t, lr_t and the decay of this step.
  void rates() {
    TensorExpr lr = step_.learningRate();
    TensorExpr before = step_.expr(step_.readState("t", step_.stateName("t")));
    time_ = step_.named(step_.stateName("t") + "_next", before + 1.0);
    TensorExpr second = correction(options_.beta2);
    TensorExpr first = correction(options_.beta1);
    TensorExpr root = options_.correctedEps ? step_.named("eps_scale", sqrt(second)) : sqrt(second);
    rate_ = step_.named("lr_t", lr * root / first);
    if (options_.correctedEps) epsScale_ = root;
    for (const TrainedParam& trained : step_.params())
      if (!shrink_ && trained.decays) shrink_ = step_.named("shrink", lr * options_.weightDecay);
    const auto stays = [](const TrainedParam& trained) { return !trained.decays; };
    if (epsScale_ && std::ranges::any_of(step_.params(), stays))
      noShrink_ = step_.named("no_shrink", step_.expr(step_.builder().scalar(0)));
  }

  void step(const TrainedParam& trained) {
    const std::string& name = trained.param->name;
    Value* m = step_.readState("m." + name, "m_" + name);
    Value* v = step_.readState("v." + name, "v_" + name);
    OperandList operands;
    for (Value* value : {trained.value, trained.grad.value, m, v, rate_.value})
      operands.push_back(Operand::of(value));
    if (trained.decays || epsScale_)
      operands.push_back(Operand::of(trained.decays ? shrink_.value : noShrink_.value));
    if (epsScale_) operands.push_back(Operand::of(epsScale_.value));
    AttrList attrs = {{"beta1", Attr::of(options_.beta1)},
                      {"beta2", Attr::of(options_.beta2)},
                      {"eps", Attr::of(options_.eps)}};
    Op* op = step_.builder().create(Opcode::adam_update, std::move(operands), attrs);
    const std::string hints[] = {name + "_next", "m_" + name + "_next", "v_" + name + "_next"};
    Next next{name, {}};
    for (int i = 0; i < 3; ++i) next.values[i] = step_.named(hints[i], step_.expr(op->result(i))).value;
    next_.push_back(std::move(next));
  }

  StepBuilder step_;
  const AppendAdamOptions& options_;
  std::vector<Next> next_;
  TensorExpr time_, rate_, shrink_;
  TensorExpr epsScale_, noShrink_;  ///< with corrected-eps
};

Result<void> checkKind(const Site& site, const AppendAdamOptions& options) {
  if (options.kind != "adam" && options.kind != "adamw")
    return passError(site.pass, site.step->loc, 8, "unknown kind '{}'; known: adam, adamw", options.kind);
  if (options.kind == "adamw" && options.weightDecay == 0)
    return passError(site.pass, site.step->loc, 9,
                     "adamw needs a weight-decay above 0; without one use kind=adam");
  return {};
}

}  // namespace

Result<void> run_append_adam(Module& module, const AppendAdamOptions& options, const PassContext& context) {
  TG_TRY(Site site, optimizer::findSite("append-adam", module, options, "adam"));
  std::vector<std::string> states = {site.prefix + ".t"};
  for (const Item* param : optimizer::paramsWithGradient(site, module)) {
    states.push_back(site.prefix + ".m." + param->name);
    states.push_back(site.prefix + ".v." + param->name);
  }
  TG_CHECK(optimizer::check(
      site, module, options, states,
      {{"beta1", options.beta1, 0, 1}, {"beta2", options.beta2, 0, 1}, {"eps", options.eps, 0, INFINITY}}));
  TG_CHECK(checkKind(site, options));
  optimizer::remarkPatterns(site, module, options, context);
  optimizer::remarkFrozen(site, context);
  Adam(module, site, options).run();
  optimizer::remarkRate(site, options, context);
  return {};
}

}  // namespace tg
