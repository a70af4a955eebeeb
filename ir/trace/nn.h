// SPDX-License-Identifier: Apache-2.0
// Layers: modules with a call operator. Parameters are named w and b, gain and bias.
#pragma once

#include <cstdint>

#include "ir/trace/module.h"
#include "ir/trace/ops.h"
#include "ir/trace/site.h"

namespace tg::nn {

struct LinearOptions {
  bool bias = true;
  Init init = Init::randn();
  std::vector<std::string> dims = {};  ///< names of the axes of w; b has the last of them
};

/// x·w + b: [..., in] to [..., out]. w is [in, out]; b is [out], zeros.
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, const LinearOptions& options = {}, Site site = Site::current());
  Tensor operator()(const Arg& x) const;

  Param w;
  Param b;  ///< empty without bias

 private:
  bool bias_;
};

struct Conv2dOptions {
  Dims stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
  bool bias = true;
  Init init = Init::kaiming();
};

/// [N, in, H, W] to [N, out, H', W']. w is [out, in/groups, size, size]; b is [out, 1, 1], zeros.
class Conv2d : public Module {
 public:
  Conv2d(int64_t in, int64_t out, int64_t size, const Conv2dOptions& options = {},
         Site site = Site::current());
  Tensor operator()(const Arg& x) const;

  Param w;
  Param b;  ///< empty without bias

 private:
  Conv2dOptions options_;
};

struct EmbeddingOptions {
  Init init = Init::randn();
  std::vector<std::string> dims = {};  ///< names of the axes of w
};

/// Looks up rows of a table by i32 ids: [...] to [..., width]. w is [count, width].
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t width, const EmbeddingOptions& options = {}, Site site = Site::current());
  Tensor operator()(const Arg& ids) const;

  Param w;
};

/// (x - mean)/√(var + eps)·gain + bias over the last axis, of extent `width`.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(int64_t width, double eps = 1e-5, Site site = Site::current());
  Tensor operator()(const Arg& x) const;

  Param gain;  ///< ones, not decayed
  Param bias;  ///< zeros, not decayed

 private:
  double eps_;
};

/// x/√(mean x² + eps)·gain over the last axis, of extent `width`.
class RMSNorm : public Module {
 public:
  explicit RMSNorm(int64_t width, double eps = 1e-6, Site site = Site::current());
  Tensor operator()(const Arg& x) const;

  Param gain;  ///< ones, not decayed

 private:
  double eps_;
};

/// groupNorm with `groups` parts of the channels of [N, channels, ...].
class GroupNorm : public Module {
 public:
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5, Site site = Site::current());
  Tensor operator()(const Arg& x) const;

  Param gain;  ///< ones, not decayed
  Param bias;  ///< zeros, not decayed

 private:
  int64_t groups_;
  double eps_;
};

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< weight of a batch's moments in the update of the running ones
};

/// (x - mean)/√(var + eps)·gain + bias for each channel of [N, channels, ...]. A training call uses the batch's mean
/// and variance, and moves the running ones, which are states of the module, towards them (the variance with N/(N-1),
/// as PyTorch does); any other call uses the running ones.
class BatchNorm : public Module {
 public:
  explicit BatchNorm(int64_t channels, const BatchNormOptions& options = {}, Site site = Site::current());
  /// `trains` is true in @train, false in @eval and @predict. A function may contain one training call.
  Tensor operator()(const Arg& x, bool trains) const;

  Param gain;      ///< ones, not decayed
  Param bias;      ///< zeros, not decayed
  Param mean;      ///< state, at first 0
  Param variance;  ///< state, at first 1

 private:
  BatchNormOptions options_;
};

}  // namespace tg::nn
