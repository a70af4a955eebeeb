// SPDX-License-Identifier: Apache-2.0
#include "ir/trace/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/infer.h"
#include "ir/trace/recorder.h"
#include "ir/verify.h"

namespace tg::nn {

Tensor make(Opcode code, std::vector<Arg> operands, AttrList attrs, Site site) {
  if (!operands.empty()) site = operands.front().site();
  return Recorder::emit(site, {.code = code, .operands = std::move(operands), .attrs = std::move(attrs)});
}

std::vector<Tensor> makeAll(Opcode code, std::vector<Arg> operands, AttrList attrs, int count) {
  Site site = operands.front().site();
  return Recorder::emitAll(site, {.code = code, .operands = std::move(operands), .attrs = std::move(attrs)},
                           count);
}

Tensor makeTyped(Opcode code, std::vector<Arg> operands, const Dims& shape, DType dtype, AttrList attrs,
                 const Site& site) {
  Result<Type> type = tensorType(dtype, shape, nullptr);
  if (!type) return Recorder::fail(site, "{}: {}", info(code).name, type.error().message());
  return Recorder::emit(
      site, {.code = code, .operands = std::move(operands), .attrs = std::move(attrs), .declared = {*type}});
}

int64_t fromFront(int64_t axis, int rank) {
  int normal = normalAxis(axis, rank);
  return normal < 0 ? axis : normal;
}

namespace {

Tensor reduce(Opcode code, const Arg& x, const Axes& axes, bool keepdims) {
  return make(code, {x}, {{"axes", Attr::ints(axes.of(x.rank()))}, {"keepdims", Attr::boolean(keepdims)}});
}

}  // namespace

Tensor reduced(const Arg& x, Reduction reduction) {
  switch (reduction) {
  case Reduction::mean: return mean(x);
  case Reduction::sum: return sum(x);
  case Reduction::none: break;
  }
  return x.tensor();
}

#define UNARY(op, function) \
  Tensor function(const Arg& x) { return make(Opcode::op, {x}); }
#define BINARY(op, function) \
  Tensor function(const Arg& a, const Arg& b) { return make(Opcode::op, {a, b}); }
#define CALL(...)
#define FN(op, call)
#define INTERNAL(op, why)
#include "ir/trace/ops.def"

/// The call for documentation: `leakyRelu(x, slope)` for leakyRelu with `(const Arg& x, double slope = 0.01)`.
static std::string spelledCall(std::string_view function, std::string_view parameters) {
  std::string names;
  for (size_t start = 1; start < parameters.size();) {
    const size_t end = std::min(parameters.find(',', start), parameters.size() - 1);
    std::string_view one = parameters.substr(start, end - start);
    one = one.substr(0, one.find(" ="));
    names += (names.empty() ? "" : ", ") + std::string(one.substr(one.rfind(' ') + 1));
    start = end + 1;
  }
  return fmt::format("{}({})", function, names);
}

const std::vector<Spelling>& spellings() {
  static const std::vector<Spelling> rows{
#define UNARY(op, function) {Opcode::op, #function "(x)"},
#define BINARY(op, function) {Opcode::op, #function "(a, b)"},
#define CALL(op, function, parameters, ...) {Opcode::op, spelledCall(#function, #parameters)},
#define FN(op, call) {Opcode::op, call},
#define INTERNAL(op, why) {Opcode::op, ""},
#include "ir/trace/ops.def"
  };
  return rows;
}

Tensor operator-(const Arg& x) { return neg(x); }
Tensor operator+(const Arg& a, const Arg& b) { return add(a, b); }
Tensor operator-(const Arg& a, const Arg& b) { return sub(a, b); }
Tensor operator*(const Arg& a, const Arg& b) { return mul(a, b); }
Tensor operator/(const Arg& a, const Arg& b) { return div(a, b); }
Tensor operator<(const Arg& a, const Arg& b) { return less(a, b); }
Tensor operator<=(const Arg& a, const Arg& b) { return lessEqual(a, b); }
Tensor operator>(const Arg& a, const Arg& b) { return greater(a, b); }
Tensor operator>=(const Arg& a, const Arg& b) { return greaterEqual(a, b); }
Tensor operator!(const Arg& x) { return logicalNot(x); }
Tensor operator&&(const Arg& a, const Arg& b) { return logicalAnd(a, b); }
Tensor operator||(const Arg& a, const Arg& b) { return logicalOr(a, b); }
Tensor& operator+=(Tensor& a, const Arg& b) { return a = add(Arg(a, b.site()), b); }
Tensor& operator-=(Tensor& a, const Arg& b) { return a = sub(Arg(a, b.site()), b); }
Tensor& operator*=(Tensor& a, const Arg& b) { return a = mul(Arg(a, b.site()), b); }
Tensor& operator/=(Tensor& a, const Arg& b) { return a = div(Arg(a, b.site()), b); }

Tensor tensorInput(const Key& name, const Dims& shape, DType dtype) {
  if (Recorder* recorder = Recorder::active()) return recorder->argument(name, shape, dtype, -1, {});
  return Recorder::fail(name.site, "tensorInput '{}' needs a trace", name.text);
}

Tensor paramInput(const Key& name, const Dims& shape, const std::optional<ParamOptions>& options) {
  Recorder* recorder = Recorder::active();
  if (!recorder) return Recorder::fail(name.site, "paramInput '{}' needs a trace", name.text);
  ParamOptions known = options.value_or(ParamOptions{});
  Result<AttrList> attrs = initAttrs(known, shape, locOf(name.site));
  if (!attrs) return Recorder::fail(name.site, attrs.error().message());
  std::optional<AttrList> given;
  if (options) given = *attrs;
  return recorder->storage(ItemKind::param, name, shape, known.dtype, given, *attrs);
}

Tensor stateInput(const Key& name, const Dims& shape, DType dtype, double init) {
  Recorder* recorder = Recorder::active();
  if (!recorder) return Recorder::fail(name.site, "stateInput '{}' needs a trace", name.text);
  AttrList attrs;
  if (init != 0) attrs = {{"init", Attr::call("constant", {Attr::of(init)})}};
  return recorder->storage(ItemKind::state, name, shape, dtype, attrs, {});
}

void update(const Arg& storage, const Arg& value) {
  if (Recorder* recorder = Recorder::active())
    recorder->update(storage, value);
  else
    Recorder::fail(storage.site(), "update needs a trace");
}

Tensor capture(const Key& name, const Arg& x) {
  if (Recorder* recorder = Recorder::active()) return recorder->capture(name, x);
  return Recorder::fail(name.site, "capture '{}' needs a trace", name.text);
}

Tensor named(const Key& name, const Arg& x) {
  if (!isSymbolName(name.text))
    return Recorder::fail(name.site, "'{}' is not a valid name of a value", name.text);
  if (Recorder* recorder = Recorder::active()) return recorder->name(name.text, x.tensor());
  return x.tensor();
}

Tensor randomKey(Site site) { return Recorder::key(site); }

std::vector<Tensor> grad(const Arg& loss, const Args& wrt) {
  std::vector<Arg> operands{loss};
  operands.insert(operands.end(), wrt.list().begin(), wrt.list().end());
  return Recorder::emitAll(loss.site(), {.code = Opcode::grad, .operands = std::move(operands)},
                           static_cast<int>(wrt.list().size()));
}

Tensor constant(double value, const Dims& shape, DType dtype, Site site) {
  return constant(std::vector<double>{value}, shape, dtype, site);
}

Tensor constant(const std::vector<double>& values, const Dims& shape, DType dtype, Site site) {
  return Recorder::constant(site, values, shape, dtype);
}

Tensor zeros(const Dims& shape, DType dtype, Site site) { return constant(0, shape, dtype, site); }
Tensor ones(const Dims& shape, DType dtype, Site site) { return constant(1, shape, dtype, site); }
Tensor arange(int64_t n, DType dtype, Site site) { return iota({n}, 0, dtype, site); }
Tensor causalMask(const Dims& shape, Site site) {
  return makeTyped(Opcode::causal_mask, {}, shape, DType::i1, {}, site);
}
Tensor iota(const Dims& shape, int axis, DType dtype, Site site) {
  int64_t front = fromFront(axis, static_cast<int>(shape.values().size()));
  return makeTyped(Opcode::iota, {}, shape, dtype, {{"axis", Attr::of(front)}}, site);
}

Tensor where(const Arg& cond, const Arg& a, const Arg& b) {
  CallSite here(cond.site());
  DType dtype = !a.isNumber() ? a.tensor().dtype() : !b.isNumber() ? b.tensor().dtype() : DType::f32;
  auto branch = [&](const Arg& x) { return x.isNumber() ? Arg(constant(x.number(), {}, dtype)) : x; };
  return make(Opcode::select, {cond, branch(a), branch(b)});
}

Tensor cast(const Arg& x, DType dtype) {
  if (!x.tensor().valid() || x.tensor().dtype() == dtype) return x.tensor();
  return Recorder::emit(
      x.site(),
      {.code = Opcode::cast, .operands = {x}, .attrs = {}, .declared = {Type::tensor(dtype, x.shape())}});
}

Tensor gelu(const Arg& x, Gelu form) {
  return make(Opcode::gelu, {x}, {{"approximate", Attr::word(form == Gelu::tanh ? "tanh" : "none")}});
}

Tensor sum(const Arg& x, const Axes& axes, bool keepdims) { return reduce(Opcode::sum, x, axes, keepdims); }
Tensor mean(const Arg& x, const Axes& axes, bool keepdims) { return reduce(Opcode::mean, x, axes, keepdims); }
Tensor maxReduce(const Arg& x, const Axes& axes, bool keepdims) {
  return reduce(Opcode::max_reduce, x, axes, keepdims);
}
Tensor minReduce(const Arg& x, const Axes& axes, bool keepdims) {
  return reduce(Opcode::min_reduce, x, axes, keepdims);
}
Tensor logsumexp(const Arg& x, const Axes& axes, bool keepdims) {
  return reduce(Opcode::logsumexp, x, axes, keepdims);
}
static Tensor argReduce(Opcode code, const Arg& x, int axis, bool keepdims) {
  return make(code, {x},
              {{"axis", Attr::of(fromFront(axis, x.rank()))}, {"keepdims", Attr::boolean(keepdims)}});
}
Tensor argmax(const Arg& x, int axis, bool keepdims) { return argReduce(Opcode::argmax, x, axis, keepdims); }
Tensor argmin(const Arg& x, int axis, bool keepdims) { return argReduce(Opcode::argmin, x, axis, keepdims); }
Tensor cumsum(const Arg& x, int axis, const CumsumOptions& options) {
  return make(Opcode::cumsum, {x},
              {{"axis", Attr::of(fromFront(axis, x.rank()))},
               {"reverse", Attr::boolean(options.reverse)},
               {"exclusive", Attr::boolean(options.exclusive)}});
}
Tensor meanLast(const Arg& x) { return mean(x, -1, true); }
Tensor sumLast(const Arg& x) { return sum(x, -1); }
Tensor sumAll(const Arg& x) { return sum(x); }

Tensor matmul(const Arg& a, const Arg& b, const MatmulOptions& options) {
  return make(Opcode::matmul, {a, b},
              {{"transpose_a", Attr::boolean(options.transposeA)},
               {"transpose_b", Attr::boolean(options.transposeB)}});
}
Tensor oneHot(const Arg& ids, int64_t depth, DType dtype) {
  CallSite here(ids.site());
  return cast(make(Opcode::one_hot, {ids}, {{"depth", Attr::of(depth)}}), dtype);
}
Tensor embedding(const Arg& table, const Arg& ids) { return make(Opcode::embedding, {table, ids}); }

Tensor softmax(const Arg& x, int axis) { return make(Opcode::softmax, {x}, {{"axis", Attr::of(axis)}}); }
Tensor logSoftmax(const Arg& x, int axis) {
  return make(Opcode::log_softmax, {x}, {{"axis", Attr::of(axis)}});
}
Tensor softmaxCausalLast(const Arg& x) {
  return make(Opcode::softmax, {x}, {{"causal", Attr::boolean(true)}});
}
Tensor logSoftmaxLast(const Arg& x) { return logSoftmax(x, -1); }

Tensor crossEntropy(const Arg& logits, const Arg& targets, const CrossEntropyOptions& options) {
  constexpr const char* words[] = {"mean", "sum", "none"};
  return make(Opcode::cross_entropy, {logits, targets},
              {{"reduction", Attr::word(words[static_cast<int>(options.reduction)])},
               {"ignore_index", options.ignoreIndex ? Attr::of(*options.ignoreIndex) : Attr::word("none")},
               {"label_smoothing", Attr::of(options.labelSmoothing)}});
}
Tensor crossEntropyLast(const Arg& logits, const Arg& targets) {
  return crossEntropy(logits, targets, {.reduction = Reduction::none});
}
Tensor nllLoss(const Arg& logProbs, const Arg& targets, Reduction reduction) {
  CallSite here(logProbs.site());
  if (logProbs.rank() < 1) return Recorder::fail(logProbs.site(), "nllLoss: log-probabilities of rank 0");
  Tensor chosen = sumLast(logProbs * oneHot(targets, logProbs.shape().back()));
  return reduced(-chosen, reduction);
}

Tensor layerNorm(const Arg& x, const Arg& gain, const Arg& bias, double eps) {
  return make(Opcode::layer_norm, {x, gain, bias}, {{"eps", Attr::of(eps)}});
}
Tensor rmsNorm(const Arg& x, const Arg& gain, double eps) {
  return make(Opcode::rms_norm, {x, gain}, {{"eps", Attr::of(eps)}});
}
std::pair<Tensor, Tensor> rope(const Arg& q, const Arg& k, const RopeOptions& options) {
  std::vector<Tensor> turned = makeAll(
      Opcode::rope, {q, k}, {{"base", Attr::of(options.base)}, {"offset", Attr::of(options.offset)}}, 2);
  return {turned[0], turned[1]};
}
/// Attention with a mask, composed of primitives.
static Tensor maskedAttention(const Arg& q, const Arg& k, const Arg& v, const AttentionOptions& options) {
  CallSite here(q.site());
  if (!q.tensor().valid()) return q.tensor();
  const double width = q.rank() > 0 ? static_cast<double>(q.shape().back()) : 1;
  Tensor scores =
      matmul(q, k, {.transposeB = true}) * (options.scale != 0 ? options.scale : 1 / std::sqrt(width));
  // Low enough to hide a score, but finite: subtracting a row's maximum gives no inf - inf.
  constexpr double kHidden = -1e30;
  if (options.mask.dtype() == DType::i1)
    scores = where(options.mask, scores, kHidden);
  else
    scores += options.mask;
  if (options.causal) scores = whereCausal(scores, kHidden);
  return matmul(softmax(scores), v);
}

Tensor attention(const Arg& q, const Arg& k, const Arg& v, const AttentionOptions& options) {
  if (options.mask.valid() || options.mask.error()) return maskedAttention(q, k, v, options);
  return makeAll(Opcode::attention, {q, k, v},
                 {{"causal", Attr::boolean(options.causal)}, {"scale", Attr::of(options.scale)}}, 1)[0];
}

}  // namespace tg::nn
