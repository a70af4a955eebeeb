// SPDX-License-Identifier: Apache-2.0
// The operations for writing models: one function for each op of the tensor stage (ops.def lists them; docs/ops.md
// has their meaning and constraints), operators, and common compositions. A negative axis counts from the end.
// Numbers are accepted wherever a tensor operand gives their type. An operation outside a trace, or with shapes that
// do not fit, gives an invalid tensor and an error with a location.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ir/attr.h"
#include "ir/op_info.h"
#include "ir/trace/module.h"
#include "ir/trace/tensor.h"

namespace tg::nn {

/// During its lifetime errors of traces in this thread get a note with its location: an error in a helper function is
/// then reported together with the line of the model that called it.
///
///     Tensor block(Tensor x) {
///       Scope here("block");
///       return x + mlp(x);     // an error in mlp has a note: in block, called here
///     }
class Scope {
 public:
  explicit Scope(std::string name, Site site = Site::current());
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

/// Appends an op, located where the first operand was written; the functions below use it.
Tensor make(Opcode code, std::vector<Arg> operands, AttrList attrs = {}, Site site = Site::current());

/// A C++ argument as an attribute: numbers, flags and lists of integers.
template <class T>
Attr attrOf(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return Attr::boolean(value);
  else if constexpr (std::is_integral_v<T>)
    return Attr::of(static_cast<int64_t>(value));
  else if constexpr (std::is_floating_point_v<T>)
    return Attr::of(static_cast<double>(value));
  else
    return Attr::ints(value.values());
}

#define UNARY(op, function) Tensor function(const Arg& x);
#define BINARY(op, function) Tensor function(const Arg& a, const Arg& b);
#define args(...) \
  { __VA_ARGS__ }
#define attr(name) {#name, attrOf(name)},
#define CALL(op, function, parameters, operands, attributes) \
  inline Tensor function parameters { return make(Opcode::op, operands, {attributes}); }
#define FN(op, call)
#define INTERNAL(op, why)
#include "ir/trace/ops.def"
#undef args
#undef attr

// Operators. Comparisons give i1. == is not overloaded; equal(a, b) compares elements.
Tensor operator-(const Arg& x);
Tensor operator+(const Arg& a, const Arg& b);
Tensor operator-(const Arg& a, const Arg& b);
Tensor operator*(const Arg& a, const Arg& b);
Tensor operator/(const Arg& a, const Arg& b);
Tensor operator<(const Arg& a, const Arg& b);
Tensor operator<=(const Arg& a, const Arg& b);
Tensor operator>(const Arg& a, const Arg& b);
Tensor operator>=(const Arg& a, const Arg& b);
/// On i1. Both operands are always computed, because they are tensors.
Tensor operator!(const Arg& x);
Tensor operator&&(const Arg& a, const Arg& b);
Tensor operator||(const Arg& a, const Arg& b);
/// `a` becomes the handle of the new value; the old value is unchanged.
Tensor& operator+=(Tensor& a, const Arg& b);
Tensor& operator-=(Tensor& a, const Arg& b);
Tensor& operator*=(Tensor& a, const Arg& b);
Tensor& operator/=(Tensor& a, const Arg& b);

// Inputs of a function, parameters and states. Names are those in the function or module; see trace.h for inputs that
// are declared with the function.
/// An argument of the function that is being traced; the caller fills it for each call.
Tensor tensorInput(const Key& name, const Dims& shape, DType dtype = DType::f32);
/// A parameter by its full name, declared if no function has done so before. Without options it is initialized with
/// randn(0.02), or as it was declared.
Tensor paramInput(const Key& name, const Dims& shape, const std::optional<ParamOptions>& options = {});
/// A state: kept from step to step, initially filled with `init`.
Tensor stateInput(const Key& name, const Dims& shape, DType dtype = DType::f32, double init = 0);
/// At the end of the step the parameter or state becomes `value`.
void update(const Arg& storage, const Arg& value);
/// Makes a value readable after the step under `name`, and returns it.
Tensor capture(const Key& name, const Arg& x);
/// The same value, under this name in the module's text.
Tensor named(const Key& name, const Arg& x);
/// The step's random key, i32[2], which the host fills.
Tensor randomKey(Site site = Site::current());
/// The gradients of an f32 value of rank 0 with respect to values that it was computed from.
std::vector<Tensor> grad(const Arg& loss, const Args& wrt);

// Constants.
Tensor constant(double value, const Dims& shape = {}, DType dtype = DType::f32, Site site = Site::current());
/// A constant with these values, row-major.
Tensor constant(const std::vector<double>& values, const Dims& shape, DType dtype = DType::f32,
                Site site = Site::current());
Tensor zeros(const Dims& shape, DType dtype = DType::f32, Site site = Site::current());
Tensor ones(const Dims& shape, DType dtype = DType::f32, Site site = Site::current());
/// 0, 1, …, n-1.
Tensor arange(int64_t n, DType dtype = DType::i32, Site site = Site::current());
/// Each element is its index along the axis.
Tensor iota(const Dims& shape, int axis, DType dtype = DType::i32, Site site = Site::current());
/// Where column <= row + columns - rows, as i1. Of rank 2 or more; the last two axes are rows and columns.
Tensor causalMask(const Dims& shape, Site site = Site::current());

// Elementwise.
/// `a` where the condition holds, else `b`.
Tensor where(const Arg& cond, const Arg& a, const Arg& b);
Tensor cast(const Arg& x, DType dtype);
enum class Gelu : uint8_t { exact, tanh };
Tensor gelu(const Arg& x, Gelu form = Gelu::exact);

// Reductions, over all axes if none are given.
Tensor sum(const Arg& x, const Axes& axes = {}, bool keepdims = false);
Tensor mean(const Arg& x, const Axes& axes = {}, bool keepdims = false);
Tensor maxReduce(const Arg& x, const Axes& axes = {}, bool keepdims = false);
Tensor minReduce(const Arg& x, const Axes& axes = {}, bool keepdims = false);
Tensor logsumexp(const Arg& x, const Axes& axes = {}, bool keepdims = false);
Tensor argmax(const Arg& x, int axis = -1, bool keepdims = false);
Tensor argmin(const Arg& x, int axis = -1, bool keepdims = false);
struct CumsumOptions {
  bool reverse = false, exclusive = false;
};
/// Prefix sums along the axis.
Tensor cumsum(const Arg& x, int axis = -1, const CumsumOptions& options = {});
/// The mean over the last axis, which is kept with extent 1.
Tensor meanLast(const Arg& x);
/// The sum over the last axis, which is removed.
Tensor sumLast(const Arg& x);
Tensor sumAll(const Arg& x);

// Structure.
/// One extent may be -1.
Tensor reshape(const Arg& x, const Dims& shape);
/// Joins the axes from `first` to the last.
Tensor flatten(const Arg& x, int first = 0);
/// Axis i of the result is axis perm[i] of x.
Tensor transpose(const Arg& x, const Dims& perm);
Tensor swapAxes(const Arg& x, int a, int b);
/// Elements start, start + stride, … before limit along one axis; negative bounds count from the end.
Tensor slice(const Arg& x, int axis, int64_t start, int64_t limit, int64_t stride = 1);
Tensor slice(const Arg& x, const Dims& starts, const Dims& limits, const Dims& strides = {});
/// slice along the last axis.
Tensor sliceLastRange(const Arg& x, int64_t start, int64_t limit);
Tensor pad(const Arg& x, const Dims& low, const Dims& high, double value = 0);
Tensor concat(const Args& xs, int axis = 0);
Tensor broadcastTo(const Arg& x, const Dims& shape);
/// Reverses the order along the axes; along all if none are given.
Tensor flip(const Arg& x, const Axes& axes = {});
/// Repeats x as a whole, repeats[i] times along axis i.
Tensor tile(const Arg& x, const Dims& repeats);
/// Joins tensors of one type along a new axis.
Tensor stack(const Args& xs, int axis = 0);
/// Splits x along the axis into equal sections, or into parts of the given sizes.
std::vector<Tensor> split(const Arg& x, int64_t sections, int axis = 0);
std::vector<Tensor> split(const Arg& x, const Dims& sizes, int axis = 0);
/// Options of windows of `size` elements along an axis, which are on a new last axis.
struct WindowOptions {
  int64_t step = 1, dilation = 1;
};
Tensor unfold(const Arg& x, int axis, int64_t size, const WindowOptions& options = {});
/// The adjoint of unfold: the windows on the last axis are summed to an axis of this extent.
Tensor fold(const Arg& x, int axis, int64_t extent, const WindowOptions& options = {});
/// [..., T, D] to [..., heads, T, D/heads].
Tensor splitHeads(const Arg& x, int64_t heads);
/// [..., H, T, d] to [..., T, H·d].
Tensor mergeHeads(const Arg& x);

// Contraction and indexing.
struct MatmulOptions {
  bool transposeA = false, transposeB = false;
};
/// Matrix product of the last two axes; leading axes broadcast.
Tensor matmul(const Arg& a, const Arg& b, const MatmulOptions& options = {});
Tensor oneHot(const Arg& ids, int64_t depth, DType dtype = DType::f32);
/// The elements at ids along the axis; the other extents must be equal.
Tensor takeAlongAxis(const Arg& x, const Arg& ids, int axis = -1);
/// Rows of a [vocab, width] table by i32 ids.
Tensor embedding(const Arg& table, const Arg& ids);

// Convolution and pooling of [N, C, H, W]; options with two entries are for H and W.
struct ConvOptions {
  Dims stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
};
/// w is [K, C/groups, kh, kw].
Tensor conv2d(const Arg& x, const Arg& w, const ConvOptions& options = {});
struct ConvTransposeOptions {
  Dims stride = {1, 1}, padding = {0, 0}, outputPadding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
};
/// w is [C, K/groups, kh, kw].
Tensor convTranspose2d(const Arg& x, const Arg& w, const ConvTransposeOptions& options = {});
struct MaxPoolOptions {
  Dims stride = {};  ///< the kernel's when empty
  Dims padding = {0, 0}, dilation = {1, 1};
};
struct AvgPoolOptions {
  Dims stride = {};  ///< the kernel's when empty
  Dims padding = {0, 0};
  bool countIncludePad = true;
};
Tensor maxPool2d(const Arg& x, const Dims& kernel, const MaxPoolOptions& options = {});
Tensor avgPool2d(const Arg& x, const Dims& kernel, const AvgPoolOptions& options = {});
Tensor upsampleNearest2d(const Arg& x, const Dims& scale = {2, 2});

// Random numbers, from the host's key and a salt that numbers the random operations of a function.
/// Uniform in [low, high).
Tensor randomUniform(const Dims& shape, double low = 0, double high = 1, Site site = Site::current());
Tensor randomNormal(const Dims& shape, double mean = 0, double std = 1, Site site = Site::current());
/// x/(1-p) with probability 1-p, else 0.
Tensor dropout(const Arg& x, double p);
/// Classes drawn with the probabilities softmax(logits) along the axis.
Tensor categorical(const Arg& logits, int axis = -1);

// Rows and losses.
Tensor softmax(const Arg& x, int axis = -1);
Tensor logSoftmax(const Arg& x, int axis = -1);
/// Softmax over the last axis in which a row sees only the columns up to its own, over the last two axes.
Tensor softmaxCausalLast(const Arg& x);
Tensor logSoftmaxLast(const Arg& x);
enum class Reduction : uint8_t { mean, sum, none };
struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  std::optional<int64_t> ignoreIndex = {};  ///< rows with this target are ignored
  double labelSmoothing = 0;
};
/// -log softmax(logits)[target] over the last axis; targets are i32 and have the shape of the leading axes.
Tensor crossEntropy(const Arg& logits, const Arg& targets, const CrossEntropyOptions& options = {});
/// The same without reduction.
Tensor crossEntropyLast(const Arg& logits, const Arg& targets);
/// -logProbs[target] over the last axis, for log-probabilities.
Tensor nllLoss(const Arg& logProbs, const Arg& targets, Reduction reduction = Reduction::mean);
// Losses between predictions and targets of one shape, as PyTorch defines them.
/// (x - y)².
Tensor mseLoss(const Arg& x, const Arg& y, Reduction reduction = Reduction::mean);
/// ½d² where |d| <= delta, else delta·(|d| - ½delta), with d = x - y; delta is positive.
Tensor huberLoss(const Arg& x, const Arg& y, double delta = 1, Reduction reduction = Reduction::mean);
/// -(t·log p + (1-t)·log(1-p)) for probabilities p; each logarithm is at least -100.
Tensor bceLoss(const Arg& p, const Arg& t, Reduction reduction = Reduction::mean);
/// The same for logits, p = sigmoid(x): softplus(x) - x·t, which does not overflow.
Tensor bceWithLogits(const Arg& x, const Arg& t, Reduction reduction = Reduction::mean);
/// t·(log t - logProbs), 0 where t is 0. The mean is over all elements; PyTorch's `batchmean` is the sum divided by
/// the number of rows.
Tensor klDiv(const Arg& logProbs, const Arg& t, Reduction reduction = Reduction::mean);

Tensor layerNorm(const Arg& x, const Arg& gain, const Arg& bias, double eps = 1e-5);
/// x/√(mean x² + eps)·gain over the last axis.
Tensor rmsNorm(const Arg& x, const Arg& gain, double eps = 1e-6);

/// (x - mean)/√(var + eps)·gain + bias. Mean and variance are taken over each sample's `groups` equal parts of axis 1
/// and all axes after it: x is [N, C, ...], gain and bias are [C].
Tensor groupNorm(const Arg& x, int64_t groups, const Arg& gain, const Arg& bias, double eps = 1e-5);
/// Mean and (biased) variance over all axes but axis 1, each [C], with which batch norm normalizes. x is [N, C, ...].
std::pair<Tensor, Tensor> channelMoments(const Arg& x);

struct RopeOptions {
  double base = 10000;
  int64_t offset = 0;  ///< the position of the first row
};
/// Rotates queries and keys [..., T, D] by their positions.
std::pair<Tensor, Tensor> rope(const Arg& q, const Arg& k, const RopeOptions& options = {});
struct AttentionOptions {
  bool causal = false;
  double scale = 0;  ///< 0 means 1/√D
  /// Broadcast to the scores [..., T, S]: i1, true where a row may attend, or f32, added to the scores. With a mask
  /// attention becomes matrix products and a softmax instead of one op. A row that may attend to nothing gives the
  /// mean of v.
  Tensor mask = {};
};
/// softmax(q·kᵀ·scale)·v over q [..., T, D], k [..., S, D], v [..., S, Dv].
Tensor attention(const Arg& q, const Arg& k, const Arg& v, const AttentionOptions& options = {});

/// How a model calls an op; "" for an op that only passes make.
struct Spelling {
  Opcode op;
  std::string call;
};
/// The rows of ops.def.
const std::vector<Spelling>& spellings();

}  // namespace tg::nn
