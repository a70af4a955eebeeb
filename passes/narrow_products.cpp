// SPDX-License-Identifier: Apache-2.0
// A product becomes one of 16 bits; with a bias, and for gradients of parameters, an f32 sum of products of 16-bit values:
//
//   %y = tg.matmul %x, %w : f32              %x_f16 = tg.cast %x,  %w_f16 = tg.cast %w
//                                            %y_f16 = tg.matmul %x_f16, %w_f16 : f16
//                                       →    %y = tg.cast %y_f16 : f32
//   %z = tg.matmul %x, %w : f32              %z = tg.matmul %x_wide, %w_wide {precision = f16} : f32
//   %h = tg.add %z, %bias                →   %h_f32 = tg.add %z, %bias,  %h_f16 = tg.cast %h_f32
//                                            %h = tg.cast %h_f16 : f32
//   %d_w = tg.matmul %x, %d_y : f32          %x_wide = tg.cast %x_f16 : f32,  …
//   tg.param_grad @w, %d_w                   %d_w = tg.matmul %x_wide, … {precision = f16} : f32
#include "passes/narrow_products.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/access.h"
#include "ir/attention_parts.h"
#include "ir/builder.h"
#include "ir/collective.h"
#include "ir/op_view.h"
#include "ir/window.h"
#include "passes/rewrite.h"

namespace tg {

/// The type of a value, or of the value below a cast.
static DType typeBelowCast(const Value& value) {
  return value.def && value.def->code == Opcode::cast ? value.def->in(0)->type.dtype : value.type.dtype;
}

std::string multipliedAs(const Op& op) {
  if (isConvolution(op)) {
    const DType dtype = typeBelowCast(*op.operands[0].value);
    const bool narrow = isNarrow(dtype) && std::ranges::all_of(op.operands, [&](const auto& each) {
                          return typeBelowCast(*each.value) == dtype;
                        });
    return std::string(name(narrow ? dtype : op.operands[0].value->type.dtype));
  }
  auto narrower = [](const Value& operand, std::string precision) {
    return isNarrow(operand.type.dtype) ? std::string(name(operand.type.dtype)) : std::move(precision);
  };
  if (op.code == Opcode::matmul) return narrower(*as::matmul(op).lhs(), as::matmul(op).precision());
  if (op.info().fusion == table::Fusion::attention)
    return narrower(*as::attention(op).q(), as::attention(op).precision());
  return "";
}

namespace {

class NarrowProducts {
 public:
  NarrowProducts(Module& module, Item& func, DType dtype, PrecisionReport report)
      : func_(func), builder_(&module, &func), dtype_(dtype), report_(std::move(report)) {}

  void run() {
    std::vector<Op*> products;
    findGradients();
    const std::vector<const Value*> all = stored();
    for (Op* op : func_.body.ops) {
      const std::string type = multipliedAs(*op);
      if (type == "f32")
        products.push_back(op);
      else if (!type.empty())
        report_.tell(*op->result(), "stays {} because its op multiplies in {} already",
                     name(op->result()->type.dtype), type);
    }
    // Decided before casts are inserted on these paths.
    std::vector<const char*> whyWide;
    for (const Op* op : products) whyWide.push_back(whyF32(*op->result()));
    for (size_t i = 0; i < products.size(); ++i) rewrite(*products[i], whyWide[i]);
    for (Value* value : rounded_) shareRounded(*value);
    for (const Value* value : all)
      if (!report_.hasTold(*value))
        report_.tell(*value, "stays f32 because no product in {} computes or reads it", name(dtype_));
  }

 private:
  /// The f32 values of the report: not views, which are other values' memory, and not constants.
  std::vector<const Value*> stored() const {
    std::vector<const Value*> out;
    if (!report_) return out;
    for (const Op* op : func_.body.ops)
      for (const auto& result : op->results)
        if (result->type.dtype == DType::f32 && op->code != Opcode::constant && !isView(*op) &&
            !isNarrow(typeBelowCast(*result)))
          out.push_back(result.get());
    return out;
  }
  static bool isView(const Op& op) {
    return op.info().has(table::view) || op.info().fusion == table::Fusion::view;
  }

  /// Why the result of a product stays f32, or null if it need not.
  const char* whyF32(const Value& product) {
    if (leadsToParameters(product)) return "only gradients of parameters depend on it";
    return isReturned(product) ? "the function returns it" : nullptr;
  }

  /// Whether only gradients of parameters depend on a value, or values that an optimizer makes of them: their norm, and
  /// parameters and states that it updates.
  bool leadsToParameters(const Value& value) {
    if (auto known = leads_.find(&value); known != leads_.end()) return known->second;
    bool leads = !value.uses.empty();
    for (const Use& use : value.uses) {
      const Op& user = *use.user();
      if (user.code == Opcode::param_grad || user.code == Opcode::update ||
          user.code == Opcode::sum_of_squares)
        continue;
      leads = leads && leadsOn(value, user);
    }
    return leads_[&value] = leads;
  }

  /// The same for all results of an op that depend on the value; false for a product. A collective's result depends only on
  /// the operand at the same position.
  bool leadsOn(const Value& value, const Op& user) {
    if (user.info().fusion == table::Fusion::contraction || user.info().fusion == table::Fusion::attention)
      return false;
    bool leads = false;
    for (int i = 0; i < static_cast<int>(user.results.size()); ++i) {
      const Value& result = *user.result(i);
      if (result.uses.empty() || (isCollective(user) && user.in(i) != &value)) continue;
      if (!leadsToParameters(result)) return false;
      leads = true;
    }
    return leads;
  }

  /// Whether the function returns a value, maybe through views, and nothing else reads it.
  static bool isReturned(const Value& value) {
    bool returned = !value.uses.empty();
    for (const Use& use : value.uses) {
      const Op& user = *use.user();
      if (user.info().has(table::terminator)) continue;
      returned = returned && user.info().has(table::view) && isReturned(*user.result());
    }
    return returned;
  }

  /// Whether an op has one result and only moves elements.
  static bool moves(const Op* op) {
    return op && op->results.size() == 1 &&
           (op->info().fusion == table::Fusion::view || op->code == Opcode::concat);
  }

  /// Whether a tg.grad names the value: its readers must then not read a value below it instead.
  static bool isDifferentiatedBy(const Value& value) {
    return std::ranges::any_of(value.uses, [](const Use& use) { return use.user()->code == Opcode::grad; });
  }

  /// Repeats the op of `value`, which moves elements, on the 16-bit values `below` its operands.
  Value* moved(Value* value, const std::vector<Value*>& below) {
    Op& op = *value->def;
    OperandList operands;
    for (Value* each : below) operands.push_back(Operand::of(each));
    const Type type = Type::tensor(dtype_, value->type.shape);
    if (!isView(op)) report_.tell(*value, "is stored in {} because its operands are", name(dtype_));
    builder_.setBefore(op.next()).setLoc(op.loc).setHint(fmt::format("{}_{}", value->name, name(dtype_)));
    return narrow_[value] = builder_.create(op.code, operands, op.attrs, {type})->result();
  }

  /// The 16-bit value that `value` widens; for a view or concatenation of such values, the same of the 16-bit ones; null
  /// otherwise. All uses of the view then read the 16-bit one, widened, so that memory holds it once.
  Value* exact(Value* value) {
    if (isDifferentiatedBy(*value)) return nullptr;
    Op* def = value->def;
    if (def && def->code == Opcode::cast && def->in(0)->type.dtype == dtype_) return def->in(0);
    if (!moves(def)) return nullptr;
    if (Value* known = narrow_[value]) return known;
    std::vector<Value*> below;
    for (const Operand& operand : def->operands) {
      below.push_back(exact(operand.value));
      if (!below.back()) return nullptr;
    }
    Value* narrow = moved(value, below);
    builder_.setHint(value->name + "_wide");
    value->uses.replaceAll(builder_.cast(narrow, value->type.dtype));
    return narrow;
  }

  /// The value rounded to 16 bits, behind its definition; for a view, the view of the rounded value below it.
  Value* narrowed(Value* value) {
    if (Value* narrow = exact(value)) return narrow;
    if (Value* known = narrow_[value]) return known;
    Op* def = value->def;
    if (moves(def) && def->numOperands() == 1 && !isDifferentiatedBy(*value))
      return moved(value, {narrowed(def->in(0))});
    builder_.setBefore(def ? def->next() : func_.body.ops.front());
    if (def) builder_.setLoc(def->loc);
    builder_.setHint(fmt::format("{}_{}", value->name, name(dtype_)));
    narrow_[value] = builder_.cast(value, dtype_);
    if (def && def->code != Opcode::param)
      rounded_.push_back(value);
    else
      report_.tell(*value, "stays f32 because it is {}; products read its working copy %{}",
                   def ? "a parameter" : "an argument", narrow_[value]->name);
    return narrow_[value];
  }

  /// Finds the values that depend on the seed of the gradient.
  void findGradients() {
    for (const Op* op : func_.body.ops) {
      const bool isSeed = op->code == Opcode::constant && as::constant(*op).seed();
      if (isSeed || anyUse(*op, [&](const Value* value) { return gradients_.contains(value); }))
        for (const auto& result : op->results) gradients_.insert(result.get());
    }
  }

  /// Whether a value of the forward pass is the result of an activation or a max pool: not a sum, such as the residual stream
  /// of a model whose norms stand in front of the layers, in which errors would add up.
  bool isActivation(const Value& value) const {
    const Op* def = value.def;
    if (!def || gradients_.contains(&value) || value.type.dtype != DType::f32) return false;
    if (def->code == Opcode::max_pool2d || def->code == Opcode::max) return true;
    return def->code != Opcode::cast && def->numOperands() == 1 && keepsElements(*def);
  }

  /// Whether an op may read an activation rounded to 16 bits, as layers do: residuals, masks for gradients, max pools.
  static bool takesRounded(const Op& op) {
    switch (op.code) {
    case Opcode::add:
    case Opcode::sub:
    case Opcode::greater:
    case Opcode::less:
    case Opcode::max_pool2d:
    case Opcode::max_pool2d_grad: return true;
    default: return false;
    }
  }

  /// Why a reader needs the f32 value of what is rounded, or "". Sums that lead to gradients of parameters, such as a
  /// bias's, do not, nor takesRounded() of an activation.
  std::string whyAllDigits(const Op& reader, bool activation) {
    if (reader.code == Opcode::sum && leadsToParameters(*reader.result())) return "";
    if (!takesRounded(reader)) return fmt::format("{} needs all digits", reader.info().name);
    if (activation) return "";
    return fmt::format("it is no activation, and errors would add up in {}", reader.info().name);
  }

  /// Lets the other readers of a rounded value read that, if none needs more digits, so that memory need not hold the f32
  /// value for them alone.
  void shareRounded(Value& value) {
    const bool activation = isActivation(value);
    std::vector<Op*> readers;
    for (const Use& use : value.uses) {
      Op* user = use.user();
      const bool unread = moves(user) && user->result()->uses.empty();  // its readers took 16 bits
      if (user == narrow_[&value]->def || unread) continue;
      if (const std::string why = whyAllDigits(*user, activation); !why.empty())
        return report_.tell(value, "is stored in {} because products read it so, and in f32 because {}",
                            name(dtype_), why);
      readers.push_back(user);
    }
    report_.tell(value, "is stored in {} because products read it so", name(dtype_));
    for (Op* reader : readers)
      for (Operand& operand : reader->operands)
        if (operand.value == &value) operand = Operand::of(widened(narrow_[&value]));
    if (value.def->code == Opcode::max_pool2d) roundPooled(*value.def->in(0));
  }

  /// Rounds what a max pool reads if its result is rounded: the maximum of rounded values is the rounded maximum.
  void roundPooled(Value& value) {
    const bool all =
        std::ranges::all_of(value.uses, [](const Use& use) { return takesRounded(*use.user()); });
    if (isActivation(value) && all) round(value, "the maxima of its windows are");
  }

  /// A 16-bit value widened to f32, for products with an f32 result.
  Value* widened(Value* narrow) {
    Value*& known = wideAgain_[narrow];
    if (known) return known;
    builder_.setBefore(narrow->def ? narrow->def->next() : func_.body.ops.front());
    builder_.setHint(narrow->name + "_wide");
    return known = builder_.cast(narrow, DType::f32);
  }

  /// Whether a value is a parameter or a view of one.
  static bool isParameter(const Value& value) {
    const Op* def = value.def;
    while (def && def->info().has(table::view)) def = def->in(0)->def;
    return def && def->code == Opcode::param;
  }

  /// The sum of a product and its bias, if only that, maybe through reshapes, reads the product; otherwise the product.
  static Value* withBias(Value* value) {
    for (Value* at = value; at->uses.hasOne();) {
      const Op& user = *at->uses.begin()->user();
      const bool bias = user.code == Opcode::add &&
                        (isParameter(*as::add(user).lhs()) || isParameter(*as::add(user).rhs()));
      if (!bias && user.code != Opcode::reshape) break;
      at = user.result();
      if (bias) return at;
    }
    return value;
  }

  /// Rounds a value to 16 bits for all of its readers; the rounded value takes its name.
  void round(Value& value, const char* why) {
    report_.tell(value, "is stored in {} because {}", name(dtype_), why);
    builder_.setBefore(value.def->next()).setLoc(value.def->loc);
    builder_.setHint(fmt::format("{}_{}", value.name, name(dtype_)));
    Value* narrow = builder_.cast(&value, dtype_);
    builder_.setHint(fmt::format("{}_{}", value.name, name(value.type.dtype)));
    Value* rounded = builder_.cast(narrow, value.type.dtype);
    value.uses.replaceAll(rounded);
    narrow->def->operands[0] = Operand::of(&value);
    std::swap(rounded->name, value.name);
  }

  /// An attention, and its gradient, reads operands rounded to 16 bits and widened, as its products do; its results are
  /// rounded. Statistics of rows, a bias and a keep are not.
  void rewriteAttention(Op& op) {
    for (int i = 0; i < placeOfMore(op) && i < op.numOperands(); ++i) {
      const bool statistics = op.in(i)->type.rank() < op.in(0)->type.rank();
      if (!statistics) op.operands[static_cast<size_t>(i)] = Operand::of(widened(narrowed(op.in(i))));
    }
    set(op.attrs, "precision", Attr::word(std::string(name(dtype_))));
    for (const auto& result : op.results) {
      const bool statistics = result->type.rank() < op.in(0)->type.rank();
      if (!result->uses.empty() && !statistics) round(*result, "it is a result of attention");
      if (statistics) report_.tell(*result, "stays f32 because it is a statistic of rows of an attention");
    }
  }

  /// `whyWide`: why the result stays f32, or null.
  void rewrite(Op& op, const char* whyWide) {
    if (op.info().fusion == table::Fusion::attention) return rewriteAttention(op);
    Value* sum = whyWide ? nullptr : withBias(op.result());
    if (sum && sum != op.result()) {
      round(*sum, "it is the sum of a product and its bias");
      whyWide = "its sum with a bias is rounded instead";
    }
    if (whyWide)
      report_.tell(*op.result(), "is a product in {} and stays f32 because {}", name(dtype_), whyWide);
    else
      report_.tell(*op.result(), "is stored in {} because it is a product", name(dtype_));
    for (Operand& operand : op.operands) {
      Value* narrow = narrowed(operand.value);
      operand = Operand::of(whyWide ? widened(narrow) : narrow);
    }
    if (!whyWide) return retypeResult(op, *op.result(), dtype_, builder_);
    if (!isConvolution(op)) set(op.attrs, "precision", Attr::word(std::string(name(dtype_))));
  }

  Item& func_;
  Builder builder_;
  const DType dtype_;
  PrecisionReport report_;
  std::unordered_map<const Value*, bool> leads_;
  std::unordered_map<Value*, Value*> narrow_, wideAgain_;
  std::unordered_set<const Value*> gradients_;  ///< values of the backward pass
  std::vector<Value*>
      rounded_;  ///< values that are not parameters and for which a rounding cast was inserted
};

}  // namespace

void narrowProducts(Module& module, Item& func, DType dtype, PrecisionReport report) {
  NarrowProducts(module, func, dtype, std::move(report)).run();
}

}  // namespace tg
