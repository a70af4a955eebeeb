// SPDX-License-Identifier: Apache-2.0
#include "passes/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "ir/access.h"
#include "ir/dtype.h"
#include "ir/op_view.h"
#include "passes/lookup.h"

namespace tg::optimizer {

namespace {

constexpr double kClipEps = 1e-6;
constexpr double kNormalizeEps = 1e-8;

bool initIsConstant(const Item& param) {
  const Attr* init = find(param.attrs, "init");
  return init && (init->text == "zeros" || init->text == "ones" || init->text == "constant");
}

/// Whether a parameter decays: its own attribute decides, then the pattern, then its init.
bool decays(const Item& param, const std::string& noDecay) {
  if (const Attr* own = find(param.attrs, "decay")) return own->integer != 0;
  if (!noDecay.empty() && globMatch(noDecay, param.name)) return false;
  return !initIsConstant(param);
}

/// The tg.param_grads of a function, by parameter.
std::unordered_map<std::string_view, const Op*> gradientsOf(const Item& func) {
  std::unordered_map<std::string_view, const Op*> gradients;
  for (Op* op : func.body.ops)
    if (op->code == Opcode::param_grad) gradients.try_emplace(op->operands[0].text, op);
  return gradients;
}

bool anyMatches(const std::string& pattern, const std::vector<Item*>& items) {
  return std::ranges::any_of(items, [&](const Item* item) { return globMatch(pattern, item->name); });
}

Result<void> checkUpdates(const Site& site) {
  const auto gradients = gradientsOf(*site.step);
  for (const Item* func : {site.train, site.step})
    for (Op* op : func->body.ops) {
      if (op->code != Opcode::update) continue;
      const std::string& name = op->operands[0].text;
      if (!site.trains(name)) continue;
      if (auto other = gradients.find(name); other != gradients.end())
        return passError(site.pass, op->loc, 5, "@{} is updated here and has a gradient", name)
            .note(other->second->loc, "the gradient");
    }
  return {};
}

Result<void> checkPatterns(const Site& site, const Module& module, const OptimizerOptions& options) {
  std::vector<Item*> params = module.all(ItemKind::param);
  if (!options.noDecay.empty() && !anyMatches(options.noDecay, params))
    return passError(site.pass, site.step->loc, 4, "no-decay={} names no parameter; there are {}",
                     options.noDecay, namesOf(params));
  std::vector<Item*> trained = paramsWithGradient(site, module);
  if (trained.empty()) {
    Site all = site;
    all.match.clear();
    return passError(site.pass, site.step->loc, 10,
                     "match={} names no parameter with a gradient; there are {}", site.match,
                     namesOf(paramsWithGradient(all, module)));
  }
  if (!options.normalizeGrads.empty() && !anyMatches(options.normalizeGrads, trained))
    return passError(site.pass, site.step->loc, 6,
                     "normalize-grads={} names no parameter with a gradient; there are {}",
                     options.normalizeGrads, namesOf(trained));
  return {};
}

}  // namespace

bool Site::trains(std::string_view param) const { return match.empty() || globMatch(match, param); }

/// The first of adam, adam2, adam3, … with which no state's name begins.
static std::string freePrefix(const Module& module, const std::string& prefix) {
  std::string name = prefix;
  auto taken = [&](const Item* state) { return state->name.starts_with(name + "."); };
  for (int next = 2;; ++next) {
    const std::vector<Item*> states = module.all(ItemKind::state);
    if (std::ranges::none_of(states, taken)) return name;
    name = fmt::format("{}{}", prefix, next);
  }
}

Result<Site> findSite(std::string_view pass, Module& module, const OptimizerOptions& options,
                      const std::string& kind) {
  TG_TRY(Item * train, funcNamed(pass, module, options.func));
  Site site{pass,          train, &stepFunction(module, *train),
            options.match, kind,  options.match.empty() ? kind : freePrefix(module, kind)};
  if (!hasGradients(*site.step)) return noGradients(pass, *site.step);
  return site;
}

Result<void> check(const Site& site, const Module& module, const OptimizerOptions& options,
                   const std::vector<std::string>& states, const std::vector<Range>& ranges) {
  for (const std::string& name : states)
    if (const Item* old = module.storage(name))
      return passError(site.pass, old->loc, 3, "the module has @{} already; {} runs once", name, site.pass);
  const bool named = std::ranges::any_of(site.step->results,
                                         [](const NamedType& result) { return result.name == "grad_norm"; });
  if (named && !find(site.step->attrs, "optimizer"))
    return passError(site.pass, site.step->loc, 11,
                     "@{} has a result grad_norm, which is the name of the norm of the gradients; rename it",
                     site.step->name);
  TG_CHECK(checkUpdates(site));
  TG_CHECK(checkPatterns(site, module, options));
  std::vector<Range> all = {{"weight-decay", options.weightDecay, 0, INFINITY},
                            {"clip-norm", options.clipNorm, 0, INFINITY}};
  all.insert(all.end(), ranges.begin(), ranges.end());
  for (const Range& range : all) {
    // Kernels compute with the number as f32.
    const double rounded = roundedTo(DType::f32, range.value);
    const auto inside = [&](double value) { return value >= range.from && value < range.to; };
    if (inside(range.value) && inside(rounded)) continue;
    return passError(site.pass, site.step->loc, 7, "{}={} is not in [{}, {}){}", range.option, range.value,
                     range.from, range.to,
                     inside(range.value) ? fmt::format(": as f32 it is {}", rounded) : "");
  }
  return {};
}

std::vector<Item*> paramsWithGradient(const Site& site, const Module& module) {
  std::vector<Item*> params;
  for (Op* op : site.step->body.ops)
    if (op->code == Opcode::param_grad && site.trains(op->operands[0].text))
      params.push_back(module.storage(op->operands[0].text));
  return params;
}

void remarkPatterns(const Site& site, const Module& module, const OptimizerOptions& options,
                    const PassContext& context) {
  Site all = site;
  all.match.clear();
  const Loc& loc = site.step->loc;
  remarkIdle(context, loc, "match", site.match, paramsWithGradient(all, module));
  remarkIdle(context, loc, "no-decay", options.noDecay, module.all(ItemKind::param));
  remarkIdle(context, loc, "normalize-grads", options.normalizeGrads, paramsWithGradient(site, module));
}

void remarkFrozen(const Site& site, const PassContext& context) {
  constexpr size_t kNamed = 3;
  if (find(site.step->attrs, "optimizer")) return;  // an earlier optimizer has told it
  const auto gradients = gradientsOf(*site.step);
  auto nameOf = [](const Op* op) { return op->operands[0].text; };
  std::set<std::string> assigned;
  for (const Op* op : site.train->body.ops)
    if (op->code == Opcode::update) assigned.insert(nameOf(op));
  std::vector<const Op*> reads;  // the first of each such parameter
  for (const Op* op : site.train->body.ops) {
    if (op->code != Opcode::param || gradients.contains(nameOf(op)) || assigned.contains(nameOf(op)))
      continue;
    if (std::ranges::find(reads, nameOf(op), nameOf) == reads.end()) reads.push_back(op);
  }
  if (reads.size() > kNamed) {
    context.remark(site.train->loc,
                   "{} parameters have no gradient and stay as they are, among them @{}, @{} and @{}",
                   reads.size(), nameOf(reads[0]), nameOf(reads[1]), nameOf(reads[2]));
    return;
  }
  for (const Op* op : reads) context.remark(op->loc, "@{} has no gradient and stays as it is", nameOf(op));
}

/// The schedule that the option asks for.
static Attr scheduleOf(const OptimizerOptions& options) {
  return options.lr.isNumber() ? Attr::call("constant", {Attr::of(options.lr.number())}) : options.lr;
}

void remarkRate(const Site& site, const OptimizerOptions& options, const PassContext& context) {
  if (options.lr == OptimizerOptions().lr) return;
  const Value* other = nullptr;
  for (const auto& arg : site.step->body.args) {
    if (hostRole(*arg) != "lr") continue;
    const Attr* own = find(arg->attrs, "schedule");
    if (own && *own == scheduleOf(options)) return;
    other = arg.get();
  }
  if (other)
    context.remark(other->loc, "lr={} is not used: %{} is the learning rate of @{}", options.lr.str(),
                   other->name, site.train->name);
}

std::vector<Gradient> gradientsIn(const Item& func) {
  std::vector<Gradient> gradients;
  for (Op* op : func.body.ops)
    if (op->code == Opcode::param_grad)
      gradients.push_back({op->operands[0].text, as::param_grad(*op).value(), as::param_grad(*op).ranks()});
  return gradients;
}

Value* sumOfSquares(Builder& builder, const std::vector<Gradient>& gradients) {
  std::vector<Value*> wholes, shards;
  for (const Gradient& gradient : gradients) (gradient.ranks > 1 ? shards : wholes).push_back(gradient.value);
  if (shards.empty()) return builder.op(Opcode::sum_of_squares, wholes);
  Value* all = builder.op(Opcode::all_reduce, {builder.op(Opcode::sum_of_squares, shards)},
                          {{"reduction", Attr::word("sum")}});
  return wholes.empty() ? all : builder.binary(Opcode::add, all, builder.op(Opcode::sum_of_squares, wholes));
}

StepBuilder::StepBuilder(Module& module, const Site& site, const OptimizerOptions& options)
    : module_(module), site_(site), func_(*site.step), options_(options), builder_(&module, site.step) {
  end_ = func_.body.ops.takeBack();
  builder_.setLoc(derivedLoc(site_.prefix, func_.loc));
  findReads();
  collect();
  takeParts();
  gradNorm();
  if (options_.clipNorm > 0) clip();
}

TensorExpr StepBuilder::named(const std::string& name, TensorExpr value) {
  value.value->name = builder_.names().unique(name);
  return value;
}

/// Records reads of symbols. If mixed-precision scales the loss, the condition of its select tells whether all gradients
/// are finite.
void StepBuilder::findReads() {
  for (Op* op : func_.body.ops) {
    if (readsSymbol(*op) && !namesRows(*op)) reads_.try_emplace(op->operands[0].text, op->result());
    if (op->code != Opcode::update || op->operands[0].text != "loss_scale" || finite_) continue;
    const Op* chosen = as::update(*op).value()->def;
    if (chosen && chosen->code == Opcode::select) finite_ = as::select(*chosen).cond();
  }
}

/// Collects the gradients in text order, each with a read of its parameter.
void StepBuilder::collect() {
  for (auto& [name, grad, ranks] : gradientsIn(func_)) {
    if (!site_.trains(name)) continue;
    Value*& value = reads_[name];
    Item* param = module_.storage(name);
    if (!value) {
      value = builder_.create(Opcode::param, {Operand::symbol(name)}, {}, {param->type})->result();
      value = named(name, expr(value)).value;
    }
    // Parameters of f16 and bf16 are updated in f32, the type of their moments.
    const DType wide = computeType(param->type.dtype);
    Value* start = builder_.setHint(name + "_f32").cast(value, wide);
    grad = builder_.setHint("d_" + name + "_f32").cast(grad, wide);
    builder_.setHint("");
    params_.push_back(
        {param, start, expr(grad), options_.weightDecay > 0 && decays(*param, options_.noDecay), ranks});
  }
}

/// Replaces the values of sharded parameters by this rank's shards.
void StepBuilder::takeParts() {
  std::vector<TrainedParam*> with;
  std::vector<Value*> wholes;
  for (TrainedParam& trained : params_)
    if (trained.ranks > 1) {
      with.push_back(&trained);
      wholes.push_back(trained.value);
      sharded_.emplace(trained.param->name, &trained);
    }
  if (with.empty()) return;
  const Op* made = builder_
                       .op(Opcode::reduce_scatter, wholes,
                           {{"reduction", Attr::word("same")}, {"ranks", Attr::of(with.front()->ranks)}})
                       ->def;
  for (size_t i = 0; i < with.size(); ++i)
    with[i]->value = named(with[i]->param->name + "_part", expr(made->result(static_cast<int>(i)))).value;
}

/// Gathers the updated shards of parameters from all ranks.
void StepBuilder::gather() {
  if (shards_.empty()) return;
  OperandList operands;
  std::vector<Type> wholes;
  for (const auto& [trained, value] : shards_) {
    operands.push_back(Operand::of(value));
    wholes.push_back(Type::tensor(DType::f32, trained->param->type.shape));
  }
  const Op* made = builder_.create(Opcode::all_gather, std::move(operands),
                                   {{"ranks", Attr::of(shards_.front().first->ranks)}}, wholes);
  for (size_t i = 0; i < shards_.size(); ++i) {
    const Item& param = *shards_[i].first->param;
    Value* whole = named(param.name + "_whole", expr(made->result(static_cast<int>(i)))).value;
    whole = builder_.setHint(param.name + "_" + std::string(tg::name(param.type.dtype)))
                .cast(whole, param.type.dtype);
    builder_.setHint("");
    builder_.create(Opcode::update, {Operand::symbol(param.name), Operand::of(whole)});
  }
}

/// Computes ‖g‖₂ over all gradients, after dividing those that the pattern names by their own norm. A norm n becomes
/// n/(n + ε) by that, so the elements are not read again.
void StepBuilder::gradNorm() {
  std::vector<Gradient> terms;
  for (TrainedParam& trained : params_) {
    const std::string& name = trained.param->name;
    terms.push_back({name, trained.grad.value, trained.ranks});
    if (options_.normalizeGrads.empty() || !globMatch(options_.normalizeGrads, name)) continue;
    TensorExpr norm = named("norm_" + name, sqrt(expr(sumOfSquares(builder_, {terms.back()}))));
    TensorExpr divisor = norm + kNormalizeEps;
    trained.grad = named("normalized_" + name, trained.grad / divisor);
    terms.back() = {name, (norm / divisor).value, 1};
  }
  norm_ = named("grad_norm", sqrt(expr(sumOfSquares(builder_, terms))));
}

void StepBuilder::clip() {
  TensorExpr ratio = options_.clipNorm / (norm_ + kClipEps);
  TensorExpr scale = named("clip", min(1.0, ratio));
  for (TrainedParam& trained : params_)
    trained.grad = named("clipped_" + trained.param->name, trained.grad * scale);
}

void StepBuilder::addState(const std::string& name, const Type& type, bool explicitInit) {
  Item* state = module_.addStorage(ItemKind::state, stateName(name));
  state->type = type;
  state->loc = builder_.loc();
  if (explicitInit) state->attrs.push_back({"init", Attr::call("constant", {Attr::of(0)})});
}

void StepBuilder::addState(const std::string& name, const TrainedParam& trained) {
  const std::string full = name + "." + trained.param->name;
  addState(full, trained.value->type);
  if (trained.ranks == 1) return;
  const Shape& whole = trained.param->type.shape;
  module_.storage(stateName(full))->attrs.push_back({"part_of", Attr::ints({whole.begin(), whole.end()})});
}

Value* StepBuilder::readState(const std::string& name, const std::string& hint) {
  std::string full = stateName(name);
  Op* op = builder_.create(Opcode::state, {Operand::symbol(full)}, {}, {module_.storage(full)->type});
  reads_.try_emplace(full, op->result());
  return named(hint, expr(op->result())).value;
}

/// For updates in another function than the differentiated one: the latter's own learning rate. The argument moves to the
/// other function, or is copied if the differentiated one reads it. Null if there is none.
std::unique_ptr<Value> StepBuilder::authorsRate() {
  if (site_.train == site_.step) return nullptr;
  auto& args = site_.train->body.args;
  for (auto it = args.begin(); it != args.end(); ++it) {
    if (hostRole(**it) != "lr") continue;
    auto copy = std::make_unique<Value>(**it);
    if ((*it)->uses.empty()) args.erase(it);
    return copy;
  }
  return nullptr;
}

TensorExpr StepBuilder::learningRate() {
  const Attr schedule = scheduleOf(options_);
  // If another optimizer already updates parameters here, its argument is shared only if it has the same schedule.
  const bool several = std::ranges::any_of(func_.body.ops, [&](const auto& op) {
    return op->code == Opcode::update && module_.find(ItemKind::param, op->operands[0].text);
  });
  for (const auto& arg : func_.body.args)
    if (hostRole(*arg) == "lr") {
      const Attr* own = find(arg->attrs, "schedule");
      if (!several || (own && *own == schedule)) return expr(arg.get());
    }
  std::unique_ptr<Value> own = authorsRate();
  Value* arg =
      func_.body.addArg(Type::tensor(DType::f32, {}), builder_.names().unique(own ? own->name : "lr"));
  if (own) {
    arg->attrs = own->attrs;
    arg->loc = own->loc;
    return expr(arg);
  }
  arg->attrs.push_back({"host", Attr::string("lr")});
  arg->attrs.push_back({"schedule", schedule});
  arg->loc = builder_.loc();
  return expr(arg);
}

void StepBuilder::update(const std::string& symbol, Value* value) {
  if (auto shard = sharded_.find(symbol); shard != sharded_.end()) {
    if (finite_) {
      Value* kept = builder_.op(Opcode::select, {finite_, value, shard->second->value});
      value = named(symbol + "_kept", expr(kept)).value;
    }
    shards_.emplace_back(shard->second, value);
    return;
  }
  if (const DType dtype = module_.storage(symbol)->type.dtype; dtype != value->type.dtype) {
    value = builder_.setHint(value->name + "_" + std::string(tg::name(dtype))).cast(value, dtype);
    builder_.setHint("");
  }
  if (finite_) {
    Value* kept = builder_.op(Opcode::select, {finite_, value, reads_.at(symbol)});
    value = named(symbol + "_kept", expr(kept)).value;
  }
  builder_.create(Opcode::update, {Operand::symbol(symbol), Operand::of(value)});
}

/// The value of the function's attribute `optimizer`: `adam`, or `adam, sgd` for several groups of parameters.
static std::string withKind(const Item& func, const std::string& kind) {
  const Attr* before = find(func.attrs, "optimizer");
  if (!before) return kind;
  if (before->text.find(kind) != std::string::npos) return before->text;
  return fmt::format("{}, {}", before->text, kind);
}

void StepBuilder::finish() {
  gather();
  set(func_.attrs, "optimizer", Attr::string(withKind(func_, site_.kind)));
  std::string name = "grad_norm";
  for (const NamedType& result : func_.results)
    if (result.name == name) name += "_" + site_.prefix;
  func_.results.push_back({name, Type::tensor(DType::f32, {})});
  end_->operands.push_back(Operand::of(norm_.value));
  func_.body.ops.push_back(std::move(end_));
}

}  // namespace tg::optimizer
