// append-adam: Adam, or AdamW with a weight decay.
//
// What: moments and a step counter as states, and for each gradient one tg.adam_update.
//
//   tg.param_grad @w, %d_w      →    state @adam.m.w, @adam.v.w, @adam.t
//                                    %w_next, %m, %v = tg.adam_update %w, %d_w, …
//                                    tg.update @w, %w_next  …
//
//   lr_t = lr·√(1-β₂ᵗ)/(1-β₁ᵗ) with t counted from 1 on the device; lr is an argument the host fills.
//   With clip-norm c every gradient is scaled by min(1, c/(‖g‖₂ + 1e-6)), one norm over all of them; the
//   result grad_norm reports it before scaling. Decay multiplies p by 1 - lr·wd (AdamW); a parameter's
//   `decay` attribute decides, then no-decay, then its init: constants do not decay.
// Requires: stage tensor, after append-grad.
//   c1: the function exists; c2: it has gradients; c3: Adam is not there yet; c4: no-decay names a
//   parameter; c5: nothing else updates a parameter that has a gradient.
// Ensures: one tg.update for each of these parameters and states; the param_grads stay. A parameter
//   without a gradient is left as it is.
// Where: after append-grad, whose gradients it reads; before fuse, so that the updates fuse too.
#include <fmt/format.h>

#include "ir/tensor_expr.h"
#include "passes/lookup.h"
#include "passes/pass.h"

namespace tg {
namespace {

constexpr double kClipEps = 1e-6;

Error failure(const Loc& loc, int constraint, std::string message) {
  return failAt(loc, fmt::format("append-adam [append-adam.c{}]: {}", constraint, message));
}

bool initIsConstant(const Item& param) {
  const Attr* init = find(param.attrs, "init");
  return init && (init->text == "zeros" || init->text == "ones" || init->text == "constant");
}

/// The parameter's own attribute wins, then the pattern, then what its init suggests.
bool decays(const Item& param, const std::string& noDecay) {
  if (const Attr* own = find(param.attrs, "decay")) return own->integer != 0;
  if (!noDecay.empty() && globMatch(noDecay, param.name)) return false;
  return !initIsConstant(param);
}

class Adam {
 public:
  Adam(Module& module, Item& func, const AppendAdamOptions& options)
      : module_(module), func_(func), options_(options), builder_(&module, &func) {}

  void run() {
    end_ = std::move(func_.body.ops.back());
    func_.body.ops.pop_back();
    builder_.setLoc(derivedLoc("adam", func_.loc));
    collect();
    addStates();
    TensorExpr norm = gradNorm();
    if (options_.clipNorm > 0) clip(norm);
    rates();
    for (Target& target : targets_) step(target);
    for (const Target& target : targets_) {
      update(target.param->name, target.next[0]);
      update("adam.m." + target.param->name, target.next[1]);
      update("adam.v." + target.param->name, target.next[2]);
    }
    update("adam.t", time_.value);
    func_.results.push_back({resultName(), Type::tensor(DType::f32, {})});
    end_->operands.push_back(Operand::of(norm.value));
    func_.body.ops.push_back(std::move(end_));
  }

 private:
  struct Target {
    Item* param;
    Value* value;
    TensorExpr grad;
    Value* next[3] = {};  ///< p, m, v after the step
  };

  TensorExpr expr(Value* value) { return {&builder_, value}; }

  /// The same value under a name of its own.
  TensorExpr named(const std::string& name, TensorExpr value) {
    value.value->name = builder_.names().unique(name);
    return value;
  }

  Value* read(Opcode code, const std::string& name, const std::string& hint) {
    Op* op = builder_.create(code, {Operand::symbol(name)}, {}, {module_.storage(name)->type});
    return named(hint, expr(op->result())).value;
  }

  /// The gradients in the text's order, each with a read of its parameter.
  void collect() {
    std::vector<std::pair<std::string, Value*>> grads;
    for (const auto& op : func_.body.ops)
      if (op->code == Opcode::param_grad) grads.push_back({op->operands[0].text, op->in(1)});
    for (auto& [name, grad] : grads) {
      Value* value = nullptr;
      for (const auto& op : func_.body.ops)
        if (!value && op->code == Opcode::param && op->operands[0].text == name) value = op->result();
      if (!value) value = read(Opcode::param, name, name);
      targets_.push_back({module_.storage(name), value, expr(grad), {}});
    }
  }

  /// States go after the last param or state, where a reader looks for them.
  void addState(const std::string& name, const Type& type, bool explicitInit) {
    auto state = std::make_unique<Item>();
    state->kind = ItemKind::state;
    state->name = name;
    state->type = type;
    state->loc = builder_.loc();
    if (explicitInit) state->attrs.push_back({"init", Attr::call("constant", {Attr::of(int64_t{0})})});
    auto& items = module_.items;
    auto at = items.begin();
    for (auto it = items.begin(); it != items.end(); ++it)
      if ((*it)->kind == ItemKind::param || (*it)->kind == ItemKind::state) at = it + 1;
    items.insert(at, std::move(state));
  }
  void addStates() {
    for (const Target& target : targets_) {
      addState("adam.m." + target.param->name, target.param->type, false);
      addState("adam.v." + target.param->name, target.param->type, false);
    }
    addState("adam.t", Type::tensor(DType::i32, {}), true);
  }

  /// ‖g‖₂ over all gradients.
  TensorExpr gradNorm() {
    TensorExpr total;
    for (const Target& target : targets_) {
      TensorExpr squares = square(target.grad);
      if (squares.rank() > 0) squares = squares.sum(allAxes(squares.rank()));
      total = total ? total + squares : squares;
    }
    return named("grad_norm", sqrt(total));
  }

  void clip(const TensorExpr& norm) {
    TensorExpr ratio = options_.clipNorm / (norm + kClipEps);
    TensorExpr scale = named("clip", min(1.0, ratio));
    for (Target& target : targets_) target.grad = named("clipped_" + target.param->name, target.grad * scale);
  }

  /// The argument the host fills with the learning rate; an author's own keeps its schedule.
  Value* learningRate() {
    for (const auto& arg : func_.body.args)
      if (const Attr* host = find(arg->attrs, "host"); host && host->text == "lr") return arg.get();
    Value* arg = func_.body.addArg(Type::tensor(DType::f32, {}), builder_.names().unique("lr"));
    arg->attrs.push_back({"host", Attr::string("lr")});
    arg->attrs.push_back({"schedule", Attr::call("constant", {Attr::of(options_.lr)})});
    arg->loc = builder_.loc();
    return arg;
  }

  /// t, lr_t and the decay of this step.
  void rates() {
    TensorExpr lr = expr(learningRate());
    TensorExpr before = expr(read(Opcode::state, "adam.t", "adam.t"));
    time_ = named("adam.t_next", before + 1.0);
    TensorExpr second =
        expr(builder_.op(Opcode::one_minus_pow, {time_.value}, {{"base", Attr::of(options_.beta2)}}));
    TensorExpr first =
        expr(builder_.op(Opcode::one_minus_pow, {time_.value}, {{"base", Attr::of(options_.beta1)}}));
    rate_ = named("lr_t", lr * sqrt(second) / first);
    if (options_.weightDecay == 0) return;
    for (const Target& target : targets_)
      if (!shrink_ && decays(*target.param, options_.noDecay))
        shrink_ = named("shrink", lr * options_.weightDecay);
  }

  void step(Target& target) {
    const std::string& name = target.param->name;
    Value* m = read(Opcode::state, "adam.m." + name, "m_" + name);
    Value* v = read(Opcode::state, "adam.v." + name, "v_" + name);
    std::vector<Operand> operands;
    for (Value* value : {target.value, target.grad.value, m, v, rate_.value})
      operands.push_back(Operand::of(value));
    if (shrink_ && decays(*target.param, options_.noDecay)) operands.push_back(Operand::of(shrink_.value));
    AttrList attrs = {{"beta1", Attr::of(options_.beta1)},
                      {"beta2", Attr::of(options_.beta2)},
                      {"eps", Attr::of(options_.eps)}};
    Op* op = builder_.create(Opcode::adam_update, std::move(operands), attrs);
    const std::string hints[] = {name + "_next", "m_" + name + "_next", "v_" + name + "_next"};
    for (int i = 0; i < 3; ++i) target.next[i] = named(hints[i], expr(op->result(i))).value;
  }

  void update(const std::string& name, Value* value) {
    builder_.create(Opcode::update, {Operand::symbol(name), Operand::of(value)});
  }

  std::string resultName() const {
    std::string name = "grad_norm";
    for (const NamedType& result : func_.results)
      if (result.name == name) name += "_adam";
    return name;
  }

  Module& module_;
  Item& func_;
  const AppendAdamOptions& options_;
  Builder builder_;
  std::unique_ptr<Op> end_;
  std::vector<Target> targets_;
  TensorExpr time_, rate_, shrink_;
};

/// The tg.param_grad of a parameter, or null.
const Op* gradientOf(const Item& func, const std::string& param) {
  for (const auto& op : func.body.ops)
    if (op->code == Opcode::param_grad && op->operands[0].text == param) return op.get();
  return nullptr;
}

Result<void> checkInput(const Module& module, const Item& func, const AppendAdamOptions& options) {
  bool hasGradients = false;
  for (const auto& op : func.body.ops) hasGradients = hasGradients || op->code == Opcode::param_grad;
  if (const Item* time = module.storage("adam.t"))
    return failure(time->loc, 3, "the module has @adam.t already; append-adam runs once");
  if (!hasGradients)
    return failure(func.loc, 2, fmt::format("@{} has no gradients; run append-grad first", func.name));
  for (const auto& op : func.body.ops) {
    if (op->code != Opcode::update) continue;
    const std::string& name = op->operands[0].text;
    if (const Op* other = gradientOf(func, name))
      return failure(op->loc, 5, fmt::format("@{} is updated here and has a gradient", name))
          .note(other->loc, "the gradient");
  }
  std::vector<Item*> params = module.all(ItemKind::param);
  bool matches = options.noDecay.empty();
  for (const Item* param : params) matches = matches || globMatch(options.noDecay, param->name);
  if (!matches)
    return failure(
        func.loc, 4,
        fmt::format("no-decay={} names no parameter; there are {}", options.noDecay, namesOf(params)));
  return {};
}

}  // namespace

Result<void> run_append_adam(Module& module, const AppendAdamOptions& options, const PassContext& context) {
  Item* func = module.func(options.func);
  if (!func)
    return failure(module.loc, 1,
                   fmt::format("there is no func @{}; the module has {}", options.func,
                               namesOf(module.all(ItemKind::func))));
  TG_CHECK(checkInput(module, *func, options));
  for (const auto& op : func->body.ops)
    if (op->code == Opcode::param && !gradientOf(*func, op->operands[0].text))
      context.remark(op->loc, fmt::format("@{} has no gradient and stays as it is", op->operands[0].text));
  Adam(module, *func, options).run();
  return {};
}

}  // namespace tg
