// SPDX-License-Identifier: Apache-2.0
// Rewrites f32 products and attention to f32x3 with scaled operands:
//
//   %y = tg.matmul %x, %w   →   %x_scale, %w_scale = powers of two, %x_unscale, %w_unscale = 1 by them
//                               %x_scaled = tg.mul %x, %x_scale
//                               %w_scaled = tg.mul %w, %w_scale
//                               %y_scaled = tg.matmul %x_scaled, %w_scaled {precision = f32x3}
//                               %y = %y_scaled · %x_unscale · %w_unscale
//   %o, %l = tg.attention %q, %k, %v   →   %o, %l = tg.attention %q, %k, %v, %q_scale, %k_scale, %v_scale {…}
//
// Attention takes the scales as operands of their own, because its weights and their gradients are formed inside. A gradient
// of attention is expanded into its two parts. One with a gradient of lse is left: that is added to δ, so nothing
// bounds ds. So is one with a bias or a keep.
//
// The scale of %x is 2^(13 - floor(log2 m)), where m is its largest finite |element|. Scaled, m is then 2^13 to 2^14, or up
// to 2^15 where a device rounds the logarithm, so that no half is infinite, and the low halves lose at most 2^-38 of m.
// m is clamped to [2^-86, 2^94], beyond which scales, or a sum times one of them, would leave the range of f32. A tensor
// has one scale for all views through which products read it. Its maximum is formed row by row first, so that kernels over
// rows can form it as they go.
#include "passes/narrow_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "ir/attention_parts.h"
#include "ir/builder.h"
#include "ir/op_view.h"
#include "ir/tensor_expr.h"
#include "passes/rewrite.h"

namespace tg {
namespace {

constexpr double kTop = 13;                            ///< the exponent of the largest element after scaling
constexpr double kLeast = 0x1p-86, kLargest = 0x1p94;  ///< the range to which the largest element is clamped
constexpr int64_t kLeastExtent = 16;                   ///< the side of a matrix of matrix units

class HalvedProducts {
 public:
  HalvedProducts(Module& module, Item& func, PrecisionReport report)
      : func_(func), builder_(&module, &func), report_(std::move(report)) {}

  void run() {
    std::vector<Op*> products, attentions;
    for (Op* op : func_.body.ops) {
      const bool attends = op->info().fusion == table::Fusion::attention;
      if (!attends && op->info().fusion != table::Fusion::contraction) continue;
      const char* why = attends ? whyNotAttention(*op) : whyNotProduct(*op);
      if (why)
        report_.tell(*op->result(), "stays as it is because {}", why);
      else
        report_.tell(*op->result(), "is computed by three products of f16, from operands with scales");
      if (!why) (attends ? attentions : products).push_back(op);
    }
    for (Op* op : products) rewrite(*op);
    for (Op* op : attentions) rewriteAttention(*op);
  }

 private:
  struct Scale {
    TensorExpr up, down;
  };

  /// Why a product does not become f32x3, or null.
  static const char* whyNotProduct(const Op& op) {
    if (op.code != Opcode::matmul) return "f32x3 has no convolutions";
    const as::matmul product(op);
    const Shape &a = product.lhs()->type.shape, &out = op.result()->type.shape;
    const int64_t inner = a[a.rank() - (product.transpose_a() ? 2 : 1)];
    if (product.lhs()->type.dtype != DType::f32 || product.precision() != "f32")
      return "its precision is another already";
    return std::min({out[out.rank() - 2], out.back(), inner}) < kLeastExtent
               ? "an extent of the product is below 16"
               : nullptr;
  }

  /// The same for an attention, whose heads kernels for matrix units must hold in registers.
  static const char* whyNotAttention(const Op& op) {
    if (op.code != Opcode::attention && op.code != Opcode::attention_grad)
      return "the gradient of the attention is in parts already";
    constexpr int64_t kWidest = 64;
    const as::attention view(op);
    const Shape &q = view.q()->type.shape, &v = view.v()->type.shape;
    auto heads = [](int64_t width) { return width % kLeastExtent == 0 && width <= kWidest; };
    const bool adds = (op.code == Opcode::attention_grad && as::attention_grad(op).dlse()) ||
                      placeOfMore(op) < op.numOperands();
    if (view.q()->type.dtype != DType::f32 || view.precision() != "f32")
      return "its precision is another already";
    if (adds) return "nothing bounds what is added in the attention";
    if (!heads(q.back()) || !heads(v.back())) return "heads are not 16, 32, 48 or 64 wide";
    return std::min(q[q.rank() - 2], v[v.rank() - 2]) < kLeastExtent ? "the attention has fewer than 16 rows"
                                                                     : nullptr;
  }

  /// The value that a chain of views starts at.
  static Value* source(Value* value) {
    while (value->def && value->def->info().has(table::view)) value = value->def->in(0);
    return value;
  }

  void behind(const Value& value) {
    builder_.setBefore(value.def ? value.def->next() : func_.body.ops.front());
    if (value.def) builder_.setLoc(value.def->loc);
  }

  const Scale& scaleOf(Value* value) {
    auto [at, fresh] = scales_.try_emplace(value);
    if (!fresh) return at->second;
    behind(*value);
    builder_.setHint(value->name + "_size");
    const TensorExpr x{&builder_, value}, size = abs(x);
    TensorExpr most = select(lt(size, INFINITY), size, 0.0);
    builder_.setHint(value->name + "_most");
    if (x.rank() > 0) most = most.maxOver({x.rank() - 1});
    if (x.rank() > 1) most = most.maxOver(allAxes(x.rank() - 1));
    const TensorExpr exponent = max(min(most, kLargest), kLeast).unary(Opcode::log2).unary(Opcode::floor);
    auto power = [&](const char* name, const TensorExpr& of) {
      builder_.setHint(fmt::format("{}_{}", value->name, name));
      return of.unary(Opcode::exp2);
    };
    at->second.up = power("scale", kTop - exponent);
    at->second.down = power("unscale", exponent - kTop);
    return at->second;
  }

  Value* scaled(Value* value) {
    Value*& known = scaled_[value];
    if (known) return known;
    const TensorExpr scale = scaleOf(source(value)).up;
    behind(*(value == source(value) ? scales_[value].down.value : value));
    builder_.setHint(value->name + "_scaled");
    return known = (TensorExpr{&builder_, value} * scale).value;
  }

  void rewrite(Op& op) {
    std::vector<TensorExpr> down;
    for (Operand& operand : op.operands) {
      down.push_back(scaleOf(source(operand.value)).down);
      operand = Operand::of(scaled(operand.value));
    }
    set(op.attrs, "precision", Attr::word("f32x3"));
    Value* sums = op.result();
    behind(*sums);
    builder_.setHint(sums->name);
    Value* half = (TensorExpr{&builder_, sums} * down[0]).value;
    Value* product = (TensorExpr{&builder_, half} * down[1]).value;
    sums->uses.replaceAll(product);
    half->def->operands[0] = Operand::of(sums);
    std::swap(product->name, sums->name);
  }

  void rewriteAttention(Op& op) {
    if (op.code == Opcode::attention) return scaleOperands(op, {0, 1, 2});
    builder_.setBefore(&op).setLoc(op.loc).setHint(op.in(0)->name + "_delta");
    const std::vector<Value*> grads = expandOp(op, builder_);
    for (size_t i = 0; i < grads.size(); ++i) op.results[i]->uses.replaceAll(grads[i]);
    func_.body.ops.erase(&op);
    const int dout = at::attention_grad_q::dout;
    for (const Value* grad : {grads[0], grads[1]}) scaleOperands(*grad->def, {0, 1, 2, dout});
  }

  void scaleOperands(Op& op, std::initializer_list<int> operands) {
    std::vector<Value*> scales;
    for (int index : operands) scales.push_back(scaleOf(source(op.in(index))).up.value);
    for (Value* scale : scales) op.operands.push_back(Operand::of(scale));
    set(op.attrs, "precision", Attr::word("f32x3"));
  }

  Item& func_;
  Builder builder_;
  PrecisionReport report_;
  std::unordered_map<Value*, Scale> scales_;
  std::unordered_map<Value*, Value*> scaled_;
};

}  // namespace

void halveProducts(Module& module, Item& func, PrecisionReport report) {
  HalvedProducts(module, func, std::move(report)).run();
}

}  // namespace tg
