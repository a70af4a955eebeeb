// SPDX-License-Identifier: Apache-2.0
// mixed-precision: products of 16 bits, and for f16 a loss scale that keeps gradients within range.
//
// What: with f16 or bf16, every tg.matmul, convolution and attention of f32 becomes one of that type (narrow_products.cpp).
//   Casts in front of it and behind it decide which activations, gradients of activations and copies of weights have 16
//   bits in memory. Parameters, their gradients, the optimizer and everything between the casts stay f32. With f32x3 each
//   product of extents from 16 on, and attention of heads up to 64 wide, gets that precision and its operands get scales
//   (halved_products.cpp); nothing is cast. With f16, if the function has gradients, the loss is scaled: the gradient starts
//   at a state instead of 1, and each parameter's gradient is divided by it, so that small gradients stay in f16's range.
//   The scale is a power of two, which rounds nothing in f32. A step whose gradients have a sum of squares that is not
//   finite halves it, and `growth` finite steps in a row double it. The optimizer leaves parameters and states of a step
//   that is not finite as they are (tg.select by the same %finite).
//
//   state @loss_scale, @loss_scale.good
//   %d_loss = tg.constant 1 {seed}   →    %d_loss = tg.state @loss_scale  …  %d_w = …
//   tg.param_grad @w, %d_w                %unscale = 1 / %d_loss,  %w_grad = tg.mul %d_w, %unscale
//                                         tg.param_grad @w, %w_grad
//                                         tg.update @loss_scale, select(%finite, …), tg.update
//                                         @loss_scale.good …
//
// Requires: stage tensor.
//   c1: the function exists; c2: precision is f16, bf16 or f32x3; c3: loss-scale is 0 (no scaling) or a power of
//   two up to 2^24, growth is from 1 to 2^31 - 1; c4: the states are not there yet; c5: the gradient starts at
//   a constant with `seed`, as append-grad leaves it; c6: nothing updates a parameter that has a gradient yet; c7: no
//   update reads a gradient in front of its tg.param_grad.
// Ensures: products are of the type, or of f32 tensors with the precision. After append-grad{accumulate=N} the scale
//   changes where the summed gradients are, in @apply. Other composites that hold products keep theirs.
// Where: right behind append-grad, whose seed it replaces, and before the optimizer, which reads the divided gradients and
//   %finite. In a module without gradients, anywhere in stage tensor.
#include <cmath>

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/access.h"
#include "ir/op_view.h"
#include "ir/tensor_expr.h"
#include "passes/lookup.h"
#include "passes/narrow_products.h"
#include "passes/optimizer/optimizer.h"
#include "passes/pass.h"

namespace tg {
namespace {

constexpr const char* kScale = "loss_scale";
constexpr const char* kGood = "loss_scale.good";
constexpr double kLargestScale = 0x1p24;

void setPrecision(Module& module, const MixedPrecisionOptions& options, const PassContext* report) {
  const auto narrow = dtypeNamed(options.precision);
  for (Item* func : module.all(ItemKind::func)) {
    if (narrow)
      narrowProducts(module, *func, *narrow, PrecisionReport(report));
    else
      halveProducts(module, *func, PrecisionReport(report));
  }
}

/// Why the loss has no scale, or null if it has one.
const char* whyUnscaled(const Item& train, const MixedPrecisionOptions& options) {
  if (!hasGradients(train)) return "there are no gradients";
  if (options.precision != "f16") return "only f16 has a smaller range than f32";
  return options.lossScale == 0 ? "loss-scale is 0" : nullptr;
}

/// The seed, a constant 1 at which the gradient starts, or null.
Op* startOf(Item& func) {
  for (Op* op : func.body.ops)
    if (op->code == Opcode::constant && as::constant(*op).seed()) return op;
  return nullptr;
}

/// Builds ops in front of an op of a function.
class Insertion {
 public:
  Insertion(Module& module, Item& func, const char* how) : builder_(&module, &func) {
    builder_.setLoc(derivedLoc(how, func.loc));
  }
  Builder& builder() { return builder_; }
  TensorExpr named(const std::string& name, TensorExpr value) {
    value.value->name = builder_.names().unique(name);
    return value;
  }
  TensorExpr read(const char* state, const Type& type, const std::string& name) {
    return named(name,
                 {&builder_, builder_.create(Opcode::state, {Operand::symbol(state)}, {}, {type})->result()});
  }

 private:
  Builder builder_;
};

class LossScaling {
 public:
  LossScaling(Module& module, Item& train, Item& step, const MixedPrecisionOptions& options)
      : module_(module), train_(train), step_(step), options_(options) {}

  void run(Op& start) {
    declare(kScale, float_, Attr::of(options_.lossScale));
    declare(kGood, count_, Attr::of(0));
    seed(start);
    divide();
    adapt();
  }

 private:
  void declare(const char* name, const Type& type, Attr first) {
    Item* state = module_.addStorage(ItemKind::state, name);
    state->type = type;
    state->loc = derivedLoc("mixed", train_.loc);
    state->attrs.push_back({"init", Attr::call("constant", {std::move(first)})});
  }

  /// Replaces the seed by a read of the scale, which keeps its name.
  void seed(Op& start) {
    start.code = Opcode::state;
    start.operands = {Operand::symbol(kScale)};
    start.attrs.clear();
    scale_ = start.result();
  }

  /// Divides each gradient of a parameter by the scale, from its tg.param_grad on.
  void divide() {
    Insertion insertion(module_, train_, "mixed");
    Op* op = train_.body.ops.front();
    while (op->code != Opcode::param_grad) op = op->next();
    insertion.builder().setBefore(op);
    TensorExpr scale{&insertion.builder(), scale_};
    TensorExpr inverse = insertion.named("unscale", 1.0 / scale);
    for (; op; op = op->next()) {
      if (op->code != Opcode::param_grad) continue;
      insertion.builder().setBefore(op);
      Value* grad = as::param_grad(*op).value();
      TensorExpr wide = TensorExpr{&insertion.builder(), grad}.cast(DType::f32) * inverse;
      TensorExpr divided = insertion.named(op->operands[0].text + "_grad", wide.cast(grad->type.dtype));
      grad->uses.replaceFrom(*op, divided.value);
    }
  }

  /// Tests whether the norm of all gradients is finite, and updates the scale for the next step.
  void adapt() {
    Insertion insertion(module_, step_, "mixed");
    Builder& builder = insertion.builder();
    Op* end = step_.body.ops.back();
    builder.setBefore(end);
    std::vector<optimizer::Gradient> grads = optimizer::gradientsIn(step_);
    for (optimizer::Gradient& grad : grads)
      grad.value = builder.cast(grad.value, computeType(grad.value->type.dtype));
    // Optimizers form the same sum. A NaN is not less than infinity.
    TensorExpr norm = insertion.named("grad_squares", {&builder, optimizer::sumOfSquares(builder, grads)});
    TensorExpr finite = insertion.named("finite", lt(norm, INFINITY));
    TensorExpr scale =
        &step_ == &train_ ? TensorExpr{&builder, scale_} : insertion.read(kScale, float_, "scale");
    TensorExpr good = insertion.read(kGood, count_, "good") + 1.0;
    TensorExpr grows = ge(good, static_cast<double>(options_.growth));
    TensorExpr up = select(grows, min(scale * 2.0, kLargestScale), scale);
    TensorExpr next = insertion.named("scale_next", select(finite, up, max(scale * 0.5, 1.0)));
    TensorExpr zero = good.constant(0);
    TensorExpr goodNext = insertion.named("good_next", select(finite, select(grows, zero, good), zero));
    builder.create(Opcode::update, {Operand::symbol(kScale), Operand::of(next.value)});
    builder.create(Opcode::update, {Operand::symbol(kGood), Operand::of(goodNext.value)});
  }

  Module& module_;
  Item &train_, &step_;
  const MixedPrecisionOptions& options_;
  const Type float_ = Type::tensor(DType::f32, {}), count_ = Type::tensor(DType::i32, {});
  Value* scale_ = nullptr;
};

Result<void> checkOptions(const Item& func, const MixedPrecisionOptions& options) {
  if (options.precision != "f16" && options.precision != "bf16" && options.precision != "f32x3")
    return passError("mixed-precision", func.loc, 2, "unknown precision '{}'; known: f16, bf16, f32x3",
                     options.precision);
  int exponent = 0;
  const bool power = std::frexp(options.lossScale, &exponent) == 0.5;
  if (options.lossScale != 0 && (!power || options.lossScale < 1 || options.lossScale > kLargestScale))
    return passError("mixed-precision", func.loc, 3,
                     "loss-scale={} is neither 0 nor a power of two from 1 to 2^24", options.lossScale);
  constexpr int64_t kMostSteps = std::numeric_limits<int32_t>::max();  // that the state counts
  if (options.growth < 1 || options.growth > kMostSteps)
    return passError("mixed-precision", func.loc, 3, "growth={} is not in 1..{}", options.growth, kMostSteps);
  return {};
}

/// Checks that no update reads what is scaled. A gradient is divided from its tg.param_grad on, and add-early moves
/// what reads it in front of that.
Result<void> checkUpdates(const Item& func, const Op& start) {
  std::unordered_set<const Value*> scaled{start.result()};
  for (const Op* op : func.body.ops) {
    if (op->code == Opcode::param_grad) {
      scaled.erase(as::param_grad(*op).value());
      continue;
    }
    const bool reads = std::ranges::any_of(
        op->operands, [&](const Operand& operand) { return scaled.contains(operand.value); });
    if (reads && op->code == Opcode::update)
      return passError("mixed-precision", op->loc, 7,
                       "@{} is updated by a gradient in front of its tg.param_grad; run mixed-precision "
                       "directly after append-grad",
                       op->operands[0].text);
    if (reads)
      for (const auto& result : op->results) scaled.insert(result.get());
  }
  return {};
}

}  // namespace

Result<void> run_mixed_precision(Module& module, const MixedPrecisionOptions& options,
                                 const PassContext& context) {
  TG_TRY(Item * train, funcNamed("mixed-precision", module, options.func));
  TG_CHECK(checkOptions(*train, options));
  const PassContext* report = options.report ? &context : nullptr;
  if (const char* why = whyUnscaled(*train, options)) {
    if (report) report->remark(train->loc, "the loss of @{} has no scale because {}", train->name, why);
    setPrecision(module, options, report);
    return {};
  }
  for (const char* name : {kScale, kGood})
    if (const Item* old = module.storage(name))
      return passError("mixed-precision", old->loc, 4,
                       "the module has @{} already; mixed-precision runs once", name);
  Op* start = startOf(*train);
  if (!start)
    return passError("mixed-precision", train->loc, 5,
                     "@{} has gradients, but no tg.constant 1.0 {{seed = true}} from which they start; run "
                     "mixed-precision directly after append-grad, or, if @{} gives its gradients itself, "
                     "without a loss scale: loss-scale=0, or precision=bf16",
                     train->name, train->name);
  Item& step = stepFunction(module, *train);
  for (Op* op : step.body.ops)
    if (op->code == Opcode::update && module.storage(op->operands[0].text)->kind == ItemKind::param)
      return passError("mixed-precision", op->loc, 6,
                       "@{} is updated already; run mixed-precision before the optimizer",
                       op->operands[0].text);
  TG_CHECK(checkUpdates(*train, *start));
  if (report)
    report->remark(start->loc,
                   "%{} starts the gradient at the state @{}, first {}, which keeps it in f16's range",
                   start->result()->name, kScale, options.lossScale);
  setPrecision(module, options, report);
  LossScaling(module, *train, step, options).run(*start);
  return {};
}

}  // namespace tg
