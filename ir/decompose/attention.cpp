// SPDX-License-Identifier: Apache-2.0
// attention and its gradients by the plain formulas over the whole T×S matrix of scores. The gradients take the row
// statistics that the forward pass saved, lse = log Σ e^s, so that p = e^(s - lse) needs no sum.
#include <cmath>

#include "ir/attention_parts.h"
#include "ir/decompose/decompose.h"
#include "ir/op_view.h"

namespace tg::decomposition {

namespace {

/// A value for each row, with a last axis of 1 to broadcast along the row.
TensorExpr column(const TensorExpr& rows) {
  Shape shape = rows.shape();
  shape.push(1);
  return rows.reshape(shape);
}

double scaleOf(const Composite& composite) {
  double scale = as::attention(composite.op).scale();
  return scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(composite[0].shape().back()));
}

DType precisionOf(const Composite& composite) {
  return dtypeNamed(as::attention(composite.op).precision()).value_or(DType::f32);
}

/// x as memory holds it, in f32: rounded if the precision has 16 bits.
TensorExpr stored(const Composite& composite, const TensorExpr& x) {
  const DType dtype = precisionOf(composite);
  return isNarrow(dtype) ? x.cast(dtype).cast(DType::f32) : x;
}

/// a·b, of operands as memory holds them.
TensorExpr multiplied(const Composite& composite, const TensorExpr& a, const TensorExpr& b, bool transposeA,
                      bool transposeB) {
  return product(stored(composite, a), stored(composite, b), transposeA, transposeB);
}

/// The scores, and the mask; without a mask if every column counts.
struct Scores {
  TensorExpr z, mask;
};

// The gradients compute the scores again. If the two computations were merged, the matrix of every attention would
// have to be kept from the forward pass. So the forward pass scales the product and the gradients scale the queries,
// which no pass recognizes as equal.
enum class Scaled : uint8_t { product, queries };

/// Weights, or their gradients: divided by 1 - p where they stay, else 0.
TensorExpr kept(const Composite& composite, const TensorExpr& weights) {
  if (!keepOf(composite.op)) return weights;
  const TensorExpr stays = staysOf(composite[placeOfMore(composite.op) + 1]);
  return select(stays, weights * (1 / (1 - as::attention(composite.op).p())), 0.0);
}

// q·kᵀ·scale + bias
Scores scoresOf(const Composite& composite, Scaled scaled) {
  double scale = scaleOf(composite);
  TensorExpr s = scaled == Scaled::product ? multiplied(composite, composite[at::attention::q],
                                                        composite[at::attention::k], false, true) *
                                                 scale
                                           : multiplied(composite, composite[at::attention::q] * scale,
                                                        composite[at::attention::k], false, true);
  s = stored(composite, s);
  if (biasOf(composite.op)) s = s + composite[placeOfMore(composite.op)].cast(s.dtype());
  TensorExpr mask;
  if (as::attention(composite.op).causal()) mask = causalMask(s);
  return {s, mask};
}

// log Σ e^z = max + log Σ e^(z-max), and 0 for a row that sees no column
TensorExpr logSumExp(const TensorExpr& z, const TensorExpr& mask) {
  int64_t last = z.rank() - 1;
  TensorExpr top = stopGradient(z.maxOver({last}, true));
  TensorExpr e = exp(z - top);
  bool emptyRows = mask && z.shape()[z.rank() - 2] > z.shape().back();
  TensorExpr total = (emptyRows ? select(mask, e, 0.0) : e).sum({last});
  top = top.reshape(total.shape());
  if (!emptyRows) return top + log(total);
  TensorExpr any = gt(total, 0.0);
  return select(any, top + log(select(any, total, 1.0)), 0.0);
}

/// `weights` are what v is multiplied by in the forward pass.
struct Backward {
  TensorExpr weights, ds;
};

// p = e^(s - lse), weights = kept(p), ds = p·(kept(do·vᵀ) - δ)·scale
Backward backward(const Composite& composite) {
  TensorExpr v = composite[at::attention_grad_q::v], lse = composite[at::attention_grad_q::lse],
             delta = composite[at::attention_grad_q::delta], dy = composite[at::attention_grad_q::dout];
  Scores scores = scoresOf(composite, Scaled::queries);
  // Masked last, so that e^z is 0 for hidden scores, whatever lse is.
  TensorExpr p = stored(composite, exp(masked(scores.mask, scores.z - column(lse))));
  if (biasOf(composite.op)) p = select(ge(column(lse), kLeastLse), p, 0.0);
  const TensorExpr dp = kept(composite, multiplied(composite, dy, v, false, true));
  TensorExpr ds = p * (dp - column(delta)) * scaleOf(composite);
  return {kept(composite, p), ds};
}

}  // namespace

// floor(w/2^i) - 2·floor(w/2^(i+1)) is bit i of w.
TensorExpr staysOf(const TensorExpr& keep) {
  Shape numbers = keep.shape(), scores = numbers;
  numbers.push(1);
  scores[scores.rank() - 1] *= kKeysOfNumber;
  const TensorExpr unit = exp2(-iota(*keep.builder, {kKeysOfNumber}, 0).cast(keep.dtype()));
  const TensorExpr whole = floor(keep.reshape(numbers) * unit), half = floor(whole * 0.5);
  return gt(whole - half * 2.0, 0.5).reshape(scores);
}

// o = kept(softmax(s))·v. softmax masks once more, so that a row that sees no column gives zeros.
Results expand(at::attention, const Composite& composite) {
  const Scores scores = scoresOf(composite, Scaled::product);
  const TensorExpr z = masked(scores.mask, scores.z);
  TensorExpr p{&composite.builder,
               composite.builder.op(Opcode::softmax, {z.value},
                                    {{"causal", Attr::boolean(as::attention(composite.op).causal())}})};
  Results results = {multiplied(composite, kept(composite, p), composite[at::attention::v], false, false)};
  if (composite.op.results.size() > 1) results.push_back(logSumExp(z, scores.mask));
  return results;
}

// δ = Σ do·o - dlse, then the gradients of q and of k, v
Results expand(at::attention_grad, const Composite& composite) {
  TensorExpr o = composite[at::attention_grad::o], lse = composite[at::attention_grad::lse],
             dy = composite[at::attention_grad::dout], dlse = composite[at::attention_grad::dlse];
  TensorExpr delta = (dy * o).sum({o.rank() - 1});
  if (dlse) delta = delta - dlse;
  std::vector<Value*> operands = {composite[at::attention_grad::q].value,
                                  composite[at::attention_grad::k].value,
                                  composite[at::attention_grad::v].value,
                                  lse.value,
                                  delta.value,
                                  dy.value};
  AttrList attrs = {{"causal", composite.op.attr("causal")},
                    {"scale", composite.op.attr("scale")},
                    {"precision", composite.op.attr("precision")}};
  Builder& builder = composite.builder;
  TensorExpr dq{&builder, builder.op(Opcode::attention_grad_q, operands, attrs)};
  TensorExpr dk{&builder, builder.op(Opcode::attention_grad_kv, operands, attrs)};
  return {dq, dk, {&builder, dk.value->def->result(1)}};
}

// dq = ds·k
Results expand(at::attention_grad_q, const Composite& composite) {
  return {multiplied(composite, backward(composite).ds, composite[at::attention_grad_q::k], false, false)};
}

// dk = dsᵀ·q, dv = weightsᵀ·do
Results expand(at::attention_grad_kv, const Composite& composite) {
  Backward parts = backward(composite);
  return {multiplied(composite, parts.ds, composite[at::attention_grad_kv::q], true, false),
          multiplied(composite, parts.weights, composite[at::attention_grad_kv::dout], true, false)};
}

}  // namespace tg::decomposition
