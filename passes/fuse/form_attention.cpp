// SPDX-License-Identifier: Apache-2.0
// form-attention: makes attention that is written as two products and a softmax one op, whose kernels store no scores, and
// likewise its gradient.
//
//   before:  %s = tg.matmul %q, %k {transpose_b}   %z = %s · c + %mask   %p = tg.softmax %z
//            %w = tg.dropout %p, %rng {p = 0.1}    %o = tg.matmul %w, %v
//            %dv = tg.matmul %w, %do {transpose_a}            %dp = tg.dropout(tg.matmul %do, %v {transpose_b})
//            %ds = tg.softmax_grad(%p, %dp) · c   %dq = tg.matmul %ds, %k   %dk = tg.matmul %ds, %q {transpose_a}
//   after:   %keep = the bits of tg.random_uniform %rng >= 0.1
//            %o, %lse = tg.attention %q, %k, %v, %mask, %keep {scale = c, p = 0.1}
//            %dq = tg.attention_grad_q …   %dk, %dv = tg.attention_grad_kv …
//
// The mask is what is added to the scores, or where a select replaces them by -1e9 or less. Roundings of scores
// and weights to 16 bits between the ops are dropped: the kernels keep these in f32 until a product reads them.
//
// Requires: stage(tensor), with a target, in f32 but for casts (compute-in-f32).
// Ensures: results are equal up to that rounding, but for gradients of rows without a visible score, which are 0 (see
//   tg.attention). A function changes only where kernels stream the scores, all products have one precision of 16 bits, and
//   nothing else reads what is between them.
// Where: behind cse, which makes equal factors one value; in front of split-rows, which would cut the scores.
#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/schedule.h"
#include "ir/access.h"
#include "ir/attention_parts.h"
#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/op_view.h"
#include "ir/tensor_expr.h"
#include "ir/unread.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/split_parts.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"

namespace tg::fuse {
namespace {

/// The largest number that may replace hidden scores: all weights of a row without a visible score are then equal. Under a
/// causal mask alone every row sees a score, if there are no more rows than columns.
constexpr double kLeastFill = -1e9, kLeastCausalFill = -1e4;

/// The ops of an attention, and of its gradient if the function has that.
struct Found {
  Op *scores = nullptr, *dropout = nullptr, *out = nullptr;
  Value *bias = nullptr, *hidden = nullptr;  ///< added to the scores; where they are replaced by `fill`
  double scale = 1, fill = 0;
  bool hidesTrue = false;  ///< `hidden` is true where a score is replaced, else where it stays
  bool causal = false;
  Op *dWeights = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

bool isFloatCast(const Op& op) {
  return op.code == Opcode::cast && isFloat(op.in(0)->type.dtype) && isFloat(op.result()->type.dtype);
}

/// The value at the start of a chain of casts between float types.
const Value* floatSource(const Value* value) {
  while (value->def && isFloatCast(*value->def)) value = value->def->in(0);
  return value;
}

std::optional<double> constantOf(const Value& value) {
  if (!value.def || value.def->code != Opcode::constant) return {};
  const Operand& given = as::constant(*value.def).value();
  return given.isLiteral() ? std::optional(given.number()) : std::nullopt;
}

/// A value's reader, and which of its operands reads it.
struct Reader {
  Op* op;
  int operand;
};

/// The readers of a value, looking through casts.
void addReaders(const Value& value, std::vector<Reader>& out) {
  for (const Use& use : value.uses) {
    Op& user = *use.user();
    if (isFloatCast(user)) {
      addReaders(*user.result(), out);
      continue;
    }
    for (int i = 0; i < user.numOperands(); ++i)
      if (user.in(i) == &value && std::ranges::none_of(out, [&](const Reader& each) {
            return each.op == &user && each.operand == i;
          }))
        out.push_back({&user, i});
  }
}

std::vector<Reader> readersOf(const Value& value) {
  std::vector<Reader> out;
  addReaders(value, out);
  return out;
}

/// Whether an op is a product with these forms of its operands.
bool isProduct(const Op& op, bool transposeA, bool transposeB) {
  return op.code == Opcode::matmul && as::matmul(op).transpose_a() == transposeA &&
         as::matmul(op).transpose_b() == transposeB;
}

class AttentionFormer {
 public:
  AttentionFormer(Item& func, const Target& target) : func_(func), target_(target), builder_(func.body) {}

  void run() {
    bool built = false;
    const std::vector<Op*> ops = func_.body.ops.all();
    for (size_t i = 0; i < ops.size(); ++i) place_.emplace(ops[i], i);
    for (Op* op : ops)
      if (op->code == Opcode::softmax)
        if (std::optional<Found> found = match(*op)) built = true, rewrite(*found);
    if (built) eraseUnread(func_.body.ops);
  }

 private:
  std::optional<Found> match(Op& softmax) const;
  static bool matchScores(const Op& softmax, Found& found);
  static bool scaledBy(const Op& op, const Value& value, double& scale);
  static bool matchWeights(const Op& softmax, Found& found, Op*& grad);
  static bool matchGradient(const Op& grad, Found& found);
  bool isNarrow(const Found& found) const;
  Value* asKeys(const Found& found, Value* k);
  Value* maskOf(const Found& found);
  Value* drawnKeep(const Found& found);
  bool streams(const Op& made) const {
    return streamsScores(made, target_) || wantsWholeHeads(made, target_);
  }
  void rewrite(const Found& found);
  Op* placeOfGradient(const Found& found) const;

  Item& func_;
  const Target& target_;
  Builder builder_;
  std::unordered_map<const Op*, size_t> place_;
};

/// Whether an op multiplies a value by a number, or divides it by one.
bool AttentionFormer::scaledBy(const Op& op, const Value& value, double& scale) {
  if (op.code != Opcode::mul && op.code != Opcode::div) return false;
  const bool left = op.in(0) == &value;
  const std::optional<double> by = constantOf(*op.in(left ? 1 : 0));
  if (!by || (op.code == Opcode::div && !left)) return false;
  scale *= op.code == Opcode::div ? 1 / *by : *by;
  return true;
}

/// Follows the scores from the softmax back to the product of q and k.
bool AttentionFormer::matchScores(const Op& softmax, Found& found) {
  const Shape& shape = softmax.in(0)->type.shape;
  found.causal = as::softmax(softmax).causal();
  bool causalFill = false;  // whether a where_causal has filled what is behind the diagonal
  for (Value* at = softmax.in(0);;) {
    Op* def = at->def;
    if (!def || !at->uses.hasOne() || def->results.size() != 1) return false;
    // The operand that has the scores. A constant, or what is broadcast, is the other one.
    auto leads = [&](int operand) {
      return def->in(operand)->type.shape == shape && !constantOf(*def->in(operand)) && def->in(operand)->def;
    };
    switch (def->code) {
    case Opcode::matmul:
      found.scores = def;
      return at->type.shape == shape && found.scale > 0 && std::isfinite(found.scale) &&
             !(causalFill && (found.bias || found.hidden));
    case Opcode::cast:
      if (!isFloatCast(*def)) return false;
      at = def->in(0);
      continue;
    case Opcode::mul:
    case Opcode::div: {
      Value* from = def->in(leads(0) ? 0 : 1);
      if (!scaledBy(*def, *from, found.scale)) return false;
      at = from;
      continue;
    }
    case Opcode::add: {
      const int own = leads(0) ? 0 : 1;
      if (found.bias || found.scale != 1 || !leads(own)) return false;
      found.bias = def->in(1 - own);
      at = def->in(own);
      continue;
    }
    case Opcode::select: {
      const as::select choice(*def);
      found.hidesTrue = constantOf(*choice.on_true()).has_value();
      const std::optional<double> fill =
          constantOf(*(found.hidesTrue ? choice.on_true() : choice.on_false()));
      if (found.hidden || found.scale != 1 || !fill || !(*fill <= kLeastFill)) return false;
      found.hidden = choice.cond();
      found.fill = *fill;
      at = found.hidesTrue ? choice.on_false() : choice.on_true();
      continue;
    }
    case Opcode::where_causal:
      if (found.causal || found.scale != 1 || !(as::where_causal(*def).fill() <= kLeastCausalFill) ||
          shape[shape.rank() - 2] > shape.back())
        return false;
      found.causal = causalFill = true;
      at = def->in(0);
      continue;
    default: return false;
    }
  }
}

/// Finds what reads the softmax: a dropout, the product with v, and ops of the gradient.
bool AttentionFormer::matchWeights(const Op& softmax, Found& found, Op*& grad) {
  std::vector<Reader> readers = readersOf(*softmax.result());
  bool multiplied = false;  // without a dropout in between
  for (const Reader& each : readers) {
    multiplied = multiplied || each.op->code == Opcode::matmul;
    if (each.op->code != Opcode::dropout) continue;
    if (found.dropout || each.operand != 0) return false;
    found.dropout = each.op;
  }
  if (found.dropout) {
    if (multiplied) return false;
    for (const Reader& each : readersOf(*found.dropout->result())) readers.push_back(each);
  }
  for (const Reader& each : readers) {
    if (each.op == found.dropout) continue;
    if (each.op->code == Opcode::softmax_grad && each.operand == 0 && !grad &&
        floatSource(as::softmax_grad(*each.op).y()) == softmax.result())
      grad = each.op;
    else if (each.operand == 0 && isProduct(*each.op, false, false) && !found.out)
      found.out = each.op;
    else if (each.operand == 0 && isProduct(*each.op, true, false) && !found.dv)
      found.dv = each.op;
    else
      return false;
  }
  return found.out != nullptr;
}

/// Follows the gradient from that of the softmax: back to the product of do and v, and on to those with q and k.
bool AttentionFormer::matchGradient(const Op& grad, Found& found) {
  Value* at = as::softmax_grad(grad).dy();
  bool drops = false;
  for (;; at = at->def->in(0)) {
    Op* def = at->def;
    if (!def || !at->uses.hasOne()) return false;
    if (isFloatCast(*def)) continue;
    if (def->code != Opcode::dropout) break;
    if (!found.dropout || drops || as::dropout(*def).rng() != as::dropout(*found.dropout).rng() ||
        def->attrs != found.dropout->attrs)
      return false;
    drops = true;
  }
  if (drops != (found.dropout != nullptr) || !isProduct(*at->def, false, true)) return false;
  found.dWeights = at->def;
  double scale = 1;
  const Value* ds = grad.result();
  std::vector<Reader> readers = readersOf(*ds);
  while (readers.size() == 1 && readers[0].op->code != Opcode::matmul) {
    const Op& op = *readers[0].op;
    const Value* read = op.in(readers[0].operand);
    bool passes = scaledBy(op, *read, scale);
    if (op.code == Opcode::where_causal) passes = found.causal && as::where_causal(op).fill() == 0;
    if (op.code == Opcode::select)
      passes = as::select(op).cond() == found.hidden && readers[0].operand == (found.hidesTrue ? 2 : 1) &&
               constantOf(*op.in(3 - readers[0].operand)) == 0.0;
    if (!passes) return false;
    readers = readersOf(*op.result());
  }
  const bool keysAreRows = as::matmul(*found.scores).transpose_b();
  for (const Reader& each : readers) {
    if (each.operand == 0 && isProduct(*each.op, false, !keysAreRows) && !found.dq)
      found.dq = each.op;
    else if (keysAreRows && each.operand == 0 && isProduct(*each.op, true, false) && !found.dk)
      found.dk = each.op;
    else if (!keysAreRows && each.operand == 1 && isProduct(*each.op, true, false) && !found.dk)
      found.dk = each.op;
    else
      return false;
  }
  return std::abs(scale - found.scale) <= 1e-6 * std::abs(found.scale);
}

/// Whether all products have one precision of 16 bits, and factors that suit each other.
bool AttentionFormer::isNarrow(const Found& found) const {
  const std::string precision = as::matmul(*found.scores).precision();
  const std::optional<DType> dtype = dtypeNamed(precision);
  if (!dtype || !tg::isNarrow(*dtype) || !target_.multiplies(*dtype)) return false;
  auto suits = [&](const Op* product) { return !product || as::matmul(*product).precision() == precision; };
  const as::matmul scores(*found.scores);
  Value *q = scores.lhs(), *k = scores.rhs(), *v = as::matmul(*found.out).rhs();
  for (const Op* product : {found.out, found.dWeights, found.dq, found.dk, found.dv})
    if (!suits(product)) return false;
  auto reads = [&](const Op* product, bool left, const Value* value) {
    const as::matmul of(*product);
    return floatSource(left ? of.lhs() : of.rhs()) == floatSource(value);
  };
  if (found.dWeights && !reads(found.dWeights, false, v)) return false;
  if (found.dv && (!found.dWeights || !reads(found.dv, false, as::matmul(*found.dWeights).lhs())))
    return false;
  if (found.dq && !reads(found.dq, false, k)) return false;
  if (found.dk && !reads(found.dk, !scores.transpose_b(), q)) return false;
  // Nothing may be broadcast.
  if (found.dWeights && as::matmul(*found.dWeights).lhs()->type != found.out->result()->type) return false;
  const int rank = q->type.rank();
  if (rank < 2 || k->type.rank() != rank || v->type.rank() != rank) return false;
  for (int axis = 0; axis < rank - 2; ++axis)
    if (k->type.shape[axis] != q->type.shape[axis] || v->type.shape[axis] != q->type.shape[axis])
      return false;
  return true;
}

std::optional<Found> AttentionFormer::match(Op& softmax) const {
  const Value& x = *softmax.in(0);
  auto isLast = [&](const Op& op) {
    return normalAxis(as::softmax(op).axis(), x.type.rank()) == x.type.rank() - 1;
  };
  if (x.type.dtype != DType::f32 || !isLast(softmax)) return {};
  Found found;
  Op* grad = nullptr;
  if (!matchScores(softmax, found) || as::matmul(*found.scores).transpose_a() ||
      !matchWeights(softmax, found, grad))
    return {};
  if (grad ? !isLast(*grad) || !matchGradient(*grad, found) : found.dv != nullptr) return {};
  const bool fits = !found.dropout || (x.type.shape.back() % kKeysOfNumber == 0 && x.type.rank() < kMaxRank);
  if (!fits || !isNarrow(found)) return {};
  return found;
}

/// A value of the form of the product's operand k as rows of keys, or the reverse.
Value* AttentionFormer::asKeys(const Found& found, Value* k) {
  if (as::matmul(*found.scores).transpose_b()) return k;
  std::vector<int64_t> perm = allAxes(k->type.rank());
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return builder_.transpose(k, perm);
}

/// What is added to the scores; null for nothing.
Value* AttentionFormer::maskOf(const Found& found) {
  Value* bias = found.bias ? builder_.cast(found.bias, DType::f32) : nullptr;
  if (!found.hidden) return bias;
  Value* stays = builder_.scalar(0);
  // It is added, not put in the score's place: -1e9 + s still depends on a score s above 32, -1e30 + s does not.
  Value* fill = builder_.scalar(std::min(found.fill, -1e30));
  Value* hides = builder_.op(Opcode::select,
                             {found.hidden, found.hidesTrue ? fill : stays, found.hidesTrue ? stays : fill});
  return bias ? builder_.binary(Opcode::add, bias, hides) : hides;
}

/// Which weights stay, drawn as the dropout draws it: the sum of 2^i for each key i of 16 that does.
Value* AttentionFormer::drawnKeep(const Found& found) {
  AttrList attrs{{"salt", found.dropout->attr("salt")}};
  if (const Attr* first = find(found.dropout->attrs, "first")) attrs.push_back({"first", *first});
  Shape shape = found.dropout->result()->type.shape;
  builder_.setHint(found.dropout->result()->name + "_keep");
  const TensorExpr drawn{&builder_, builder_.op(Opcode::random_uniform, {as::dropout(*found.dropout).rng()},
                                                attrs, {Type::tensor(DType::f32, shape)})};
  shape[shape.rank() - 1] /= kKeysOfNumber;
  shape.push(kKeysOfNumber);
  const TensorExpr stays = ge(drawn, as::dropout(*found.dropout).p()).reshape(shape);
  const TensorExpr unit = exp2(iota(builder_, {kKeysOfNumber}, 0).cast(DType::f32));
  return select(stays, unit, 0.0).sum({shape.rank() - 1}).value;
}

/// The first op that the gradient's ops replace. Null if it stands before the forward pass, or before the gradient that they
/// read.
Op* AttentionFormer::placeOfGradient(const Found& found) const {
  Op* first = found.dWeights;
  for (Op* op : {found.dq, found.dk, found.dv})
    if (op && place_.at(op) < place_.at(first)) first = op;
  const Op* gradient = as::matmul(*found.dWeights).lhs()->def;
  const bool follows = place_.at(found.out) < place_.at(first) &&
                       (!gradient || (place_.contains(gradient) && place_.at(gradient) < place_.at(first)));
  return follows ? first : nullptr;
}

/// Builds the ops in place of those found. Replaces nothing if no kernel streams the scores.
void AttentionFormer::rewrite(const Found& found) {
  Op& out = *found.out;
  builder_.setBefore(&out).setLoc(out.loc);
  const as::matmul scores(*found.scores);
  Value *q = scores.lhs(), *k = asKeys(found, scores.rhs()), *v = as::matmul(out).rhs();
  std::vector<Value*> more;
  if (Value* bias = maskOf(found)) more.push_back(bias);
  if (found.dropout) {
    if (more.empty()) more.push_back(builder_.constant(0, Type::tensor(DType::f32, {})));
    more.push_back(drawnKeep(found));
  }
  AttrList attrs{{"causal", Attr::boolean(found.causal)},
                 {"scale", Attr::of(found.scale)},
                 {"precision", Attr::word(as::matmul(*found.scores).precision())}};
  if (found.dropout) attrs.push_back({"p", found.dropout->attr("p")});
  auto with = [&](std::vector<Value*> operands) {
    operands.insert(operands.end(), more.begin(), more.end());
    return operands;
  };
  builder_.setHint(out.result()->name);
  Value* o = builder_.op(Opcode::attention, with({q, k, v}), attrs);
  if (!streams(*o->def)) return;
  place_.emplace(o->def, place_.at(&out));
  Value *dq = nullptr, *dk = nullptr;
  if (found.dWeights) {
    Op* first = placeOfGradient(found);
    if (!first) return;
    builder_.setBefore(first).setLoc(first->loc);
    Value* gradient = as::matmul(*found.dWeights).lhs();
    const DType narrow = *dtypeNamed(as::matmul(*found.scores).precision());
    const TensorExpr rounded = TensorExpr{&builder_, o}.cast(narrow).cast(DType::f32);
    const TensorExpr delta = (TensorExpr{&builder_, gradient} * rounded).sum({o->type.rank() - 1});
    const std::vector<Value*> operands = with({q, k, v, o->def->result(1), delta.value, gradient});
    dq = builder_.op(Opcode::attention_grad_q, operands, attrs);
    dk = builder_.op(Opcode::attention_grad_kv, operands, attrs);
    if (!streams(*dq->def) || !streams(*dk->def)) return;
    for (const Value* made : {dq, dk}) place_.emplace(made->def, place_.at(first));
    if (found.dk) found.dk->result()->uses.replaceAll(asKeys(found, dk));
    if (found.dq) found.dq->result()->uses.replaceAll(dq);
    if (found.dv) found.dv->result()->uses.replaceAll(dk->def->result(1));
  }
  out.result()->uses.replaceAll(o);
}

}  // namespace
}  // namespace tg::fuse

tg::Result<void> tg::run_form_attention(Module& module, const NoOptions&, const PassContext&) {
  return fuse::rewriteFunctions<fuse::AttentionFormer>(module, fuse::targetOn(module, "form-attention"));
}
