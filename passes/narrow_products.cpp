// SPDX-License-Identifier: Apache-2.0
//   %y = tg.matmul %x, %w : f32              %x_f16 = tg.cast %x,  %w_f16 = tg.cast %w
//                                            %y_f16 = tg.matmul %x_f16, %w_f16 : f16
//                                       →    %y = tg.cast %y_f16 : f32
//   %d_w = tg.matmul %x, %d_y : f32          %x_wide = tg.cast %x_f16 : f32,  …
//   tg.param_grad @w, %d_w                   %d_w = tg.matmul %x_wide, … {precision = f16} : f32
#include "passes/narrow_products.h"

#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/op_view.h"
#include "passes/rewrite.h"

namespace tg {
namespace {

class NarrowProducts {
 public:
  NarrowProducts(Module& module, Item& func, DType dtype)
      : func_(func), builder_(&module, &func), dtype_(dtype) {}

  void run() {
    std::vector<Op*> products;
    for (Op* op : func_.body.ops)
      if (op->code == Opcode::matmul && op->in(0)->type.dtype == DType::f32) products.push_back(op);
    // What leads to parameters is judged before a cast stands on the way.
    std::vector<bool> wide;
    for (const Op* op : products) wide.push_back(staysWide(*op->result()));
    for (size_t i = 0; i < products.size(); ++i) rewrite(*products[i], wide[i]);
  }

 private:
  /// Whether a value is only read on the way to gradients of parameters, or where the function returns it.
  bool staysWide(const Value& value) {
    if (auto known = wide_.find(&value); known != wide_.end()) return known->second;
    bool wide = !value.uses.empty();
    for (const Use& use : value.uses) {
      const Op& user = *use.user();
      if (user.code == Opcode::param_grad || user.info().has(table::terminator)) continue;
      wide = wide && user.code != Opcode::matmul && user.results.size() == 1 && staysWide(*user.result());
    }
    return wide_[&value] = wide;
  }

  /// The value rounded to 16 bits, behind its definition.
  Value* narrowed(Value* value) {
    if (value->def && value->def->code == Opcode::cast && value->def->in(0)->type.dtype == dtype_)
      return value->def->in(0);
    Value*& known = narrow_[value];
    if (known) return known;
    builder_.setBefore(value->def ? value->def->next() : func_.body.ops.front());
    if (value->def) builder_.setLoc(value->def->loc);
    builder_.setHint(fmt::format("{}_{}", value->name, name(dtype_)));
    return known = builder_.cast(value, dtype_);
  }

  /// The same as f32, which products of an f32 result read.
  Value* widened(Value* narrow) {
    Value*& known = wideAgain_[narrow];
    if (known) return known;
    builder_.setBefore(narrow->def ? narrow->def->next() : func_.body.ops.front());
    builder_.setHint(narrow->name + "_wide");
    return known = builder_.cast(narrow, DType::f32);
  }

  void rewrite(Op& op, bool wide) {
    for (Operand& operand : op.operands) {
      Value* narrow = narrowed(operand.value);
      operand = Operand::of(wide ? widened(narrow) : narrow);
    }
    if (wide) return set(op.attrs, "precision", Attr::word(std::string(name(dtype_))));
    retypeResult(op, *op.result(), dtype_, builder_);
  }

  Item& func_;
  Builder builder_;
  const DType dtype_;
  std::unordered_map<const Value*, bool> wide_;
  std::unordered_map<Value*, Value*> narrow_, wideAgain_;
};

}  // namespace

void narrowProducts(Module& module, Item& func, DType dtype) { NarrowProducts(module, func, dtype).run(); }

}  // namespace tg
