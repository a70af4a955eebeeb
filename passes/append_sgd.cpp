// SPDX-License-Identifier: Apache-2.0
// append-sgd: gradient descent, with momentum or without.
//
// What: adds one tg.sgd_update for each gradient and, with a momentum, a velocity as state.
//
//   tg.param_grad @w, %d_w      →    state @sgd.v.w
//                                    %w_next, %v = tg.sgd_update %w, %d_w, %lr, %decay, %v_w {momentum = 0.9}
//                                    tg.update @w, %w_next   tg.update @sgd.v.w, %v
//
//   d = g + wd·p (decay is L2, so it enters the velocity), v' = momentum·v + d, p' = p - lr·v', or
//   p - lr·(d + momentum·v') with nesterov. Normalizing, clipping, grad_norm, lr and the choice of decayed parameters are
//   those of append-adam.
// Requires: stage tensor, after append-grad.
//   c1 to c7, c10: optimizer/optimizer.h; c8: nesterov has a momentum.
// Ensures: one tg.update for each of these parameters and velocities; the param_grads stay. A parameter without a gradient
//   is not changed, not even by decay, and a remark names it. After append-grad{accumulate=N} all of it is added to the
//   function that has the summed gradients.
// Where: after append-grad, whose gradients it reads; before fuse, so that the updates fuse too.

#include "passes/optimizer/optimizer.h"

namespace tg {
namespace {

using optimizer::Site;
using optimizer::StepBuilder;
using optimizer::TrainedParam;

class Sgd {
 public:
  Sgd(Module& module, const Site& site, const AppendSgdOptions& options)
      : step_(module, site, options), options_(options) {}

  void run() {
    if (options_.momentum > 0)
      for (const TrainedParam& trained : step_.params()) step_.addState("v", trained);
    rate_ = step_.learningRate();
    for (const TrainedParam& trained : step_.params()) step(trained);
    for (auto& [symbol, value] : next_) step_.update(symbol, value);
    step_.finish();
  }

 private:
  /// The decay of all parameters that decay, or the zero of those that do not: one value each.
  Value* decay(bool decays) {
    TensorExpr& value = decay_[decays];
    if (!value)
      value = step_.named(decays ? "decay" : "no_decay",
                          step_.expr(step_.builder().scalar(decays ? options_.weightDecay : 0)));
    return value.value;
  }

  void step(const TrainedParam& trained) {
    const std::string& name = trained.param->name;
    OperandList operands;
    for (Value* value : {trained.value, trained.grad.value, rate_.value, decay(trained.decays)})
      operands.push_back(Operand::of(value));
    AttrList attrs;
    if (options_.momentum > 0) {
      operands.push_back(Operand::of(step_.readState("v." + name, "v_" + name)));
      attrs.push_back({"momentum", Attr::of(options_.momentum)});
      if (options_.nesterov) attrs.push_back({"nesterov", Attr::boolean(true)});
    }
    Op* op = step_.builder().create(Opcode::sgd_update, std::move(operands), std::move(attrs));
    next_.emplace_back(name, step_.named(name + "_next", step_.expr(op->result(0))).value);
    if (options_.momentum > 0)
      next_.emplace_back(step_.stateName("v." + name),
                         step_.named("v_" + name + "_next", step_.expr(op->result(1))).value);
  }

  StepBuilder step_;
  const AppendSgdOptions& options_;
  TensorExpr rate_;
  TensorExpr decay_[2];
  std::vector<std::pair<std::string, Value*>> next_;
};

}  // namespace

Result<void> run_append_sgd(Module& module, const AppendSgdOptions& options, const PassContext& context) {
  TG_TRY(Site site, optimizer::findSite("append-sgd", module, options, "sgd"));
  std::vector<std::string> states;
  for (const Item* param : optimizer::paramsWithGradient(site, module))
    states.push_back(site.prefix + ".v." + param->name);
  TG_CHECK(optimizer::check(site, module, options, states, {{"momentum", options.momentum, 0, 1}}));
  if (options.nesterov && options.momentum == 0)
    return passError(site.pass, site.step->loc, 8, "nesterov needs a momentum above 0");
  optimizer::remarkPatterns(site, module, options, context);
  optimizer::remarkFrozen(site, context);
  Sgd(module, site, options).run();
  optimizer::remarkRate(site, options, context);
  return {};
}

}  // namespace tg
