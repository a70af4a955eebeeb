// SPDX-License-Identifier: Apache-2.0
// The common part of the optimizer passes: choosing the function for the updates, checks, normalizing and clipping of
// gradients, choice of decayed parameters, the host's learning rate, states and their updates. Private to
// passes/append_adam.cpp, passes/append_sgd.cpp and this folder.
//
// Constraints that both passes check and report under their own name:
//   c1: the function exists; c2: it has gradients; c3: the states to be added are not there yet;
//   c4: no-decay names a parameter; c5: nothing else updates a parameter that has a gradient;
//   c6: normalize-grads names a parameter that has a gradient; c7: the numbers are in their ranges;
//   c10: match names a parameter that has a gradient.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/tensor_expr.h"
#include "passes/pass.h"

namespace tg::optimizer {

/// The functions in which an optimizer reads gradients and adds updates, and its names.
struct Site {
  std::string_view pass;
  Item* train = nullptr;  ///< the function that was differentiated
  /// The function that has the summed gradients and runs after every n-th step, if append-grad made one (accumulate);
  /// otherwise `train`.
  Item* step = nullptr;
  std::string match;  ///< pattern of the parameters to train; "" is all
  std::string kind;   ///< adam or sgd: the value of the function's attribute `optimizer`
  std::string
      prefix;  ///< prefix of state names: adam, then adam2, … if match leaves parameters to other optimizers
  bool trains(std::string_view param) const;
};

/// The site, or an error c1 or c2. `kind` is also the prefix of state names if it is free.
Result<Site> findSite(std::string_view pass, Module& module, const OptimizerOptions& options,
                      const std::string& kind);

/// A number of the options and the range that it must be in, for c7.
struct Range {
  const char* option;
  double value, from, to;  ///< `from` is in the range, `to` is not
};

/// Checks c3 to c7 and c10. `states` are the names that the pass will declare, `ranges` are its own numbers.
Result<void> check(const Site& site, const Module& module, const OptimizerOptions& options,
                   const std::vector<std::string>& states, const std::vector<Range>& ranges);

/// The parameters trained at the site, in the order of their gradients.
std::vector<Item*> paramsWithGradient(const Site& site, const Module& module);
/// Remarks alternatives of the options' patterns that match nothing.
void remarkPatterns(const Site& site, const Module& module, const OptimizerOptions& options,
                    const PassContext& context);
/// Remarks, after the pass, that the option `lr` is not used because the function has a rate of the author's.
void remarkRate(const Site& site, const OptimizerOptions& options, const PassContext& context);
/// Remarks parameters that the trained function reads and that have no gradient: they do not change. Only the
/// first optimizer of a function does.
void remarkFrozen(const Site& site, const PassContext& context);

/// A gradient, as named by tg.param_grad.
struct Gradient {
  std::string param;
  Value* value = nullptr;
  int64_t ranks = 1;  ///< more than one: `value` is this rank's shard
};
std::vector<Gradient> gradientsIn(const Item& func);

/// Σ x² of gradients. Sums over shards are added over the ranks.
Value* sumOfSquares(Builder& builder, const std::vector<Gradient>& gradients);

/// A parameter with a gradient. If the gradient is sharded, the optimizer updates this rank's shard, and its states
/// are of the shard's type.
struct TrainedParam {
  Item* param = nullptr;
  Value* value = nullptr;  ///< the parameter before the step, or this rank's shard of it
  TensorExpr grad;         ///< normalized and clipped
  bool decays = false;     ///< whether it decays, by a weight decay other than 0
  int64_t ranks = 1;       ///< more than one: sharded
};

/// Builds the updates at the end of a function's body. From construction to finish() the body has no terminator.
class StepBuilder {
 public:
  /// Collects the gradients, normalizes and clips them.
  StepBuilder(Module& module, const Site& site, const OptimizerOptions& options);

  std::vector<TrainedParam>& params() { return params_; }
  Builder& builder() { return builder_; }
  TensorExpr expr(Value* value) { return {&builder_, value}; }
  /// The same value, renamed.
  TensorExpr named(const std::string& name, TensorExpr value);
  std::string stateName(const std::string& name) const { return site_.prefix + "." + name; }

  /// Declares state `prefix.name`; states are declared after the last param or state.
  void addState(const std::string& name, const Type& type, bool explicitInit = false);
  /// Declares a state `prefix.name.w` of the type that is trained of a parameter.
  void addState(const std::string& name, const TrainedParam& trained);
  /// Reads state `prefix.name`.
  Value* readState(const std::string& name, const std::string& hint);
  /// The argument that the host fills with the learning rate; one that the author wrote keeps its schedule. Optimizers of
  /// several groups of parameters share it if their schedules are equal.
  TensorExpr learningRate();
  /// Adds a tg.update of a param or state, by its full name.
  void update(const std::string& symbol, Value* value);
  /// Adds the result grad_norm, the terminator, and the optimizer's kind as an attribute of the function.
  void finish();

 private:
  void findReads();
  void collect();
  void takeParts();
  void gather();
  void gradNorm();
  void clip();
  std::unique_ptr<Value> authorsRate();

  Module& module_;
  const Site& site_;
  Item& func_;
  const OptimizerOptions& options_;
  Builder builder_;
  std::unique_ptr<Op> end_;
  std::unordered_map<std::string, Value*> reads_;  ///< by symbol: the first read of a param or state
  Value* finite_ = nullptr;  ///< if the loss is scaled: whether all gradients are finite
  std::vector<TrainedParam> params_;
  std::unordered_map<std::string, const TrainedParam*> sharded_;  ///< by symbol
  std::vector<std::pair<const TrainedParam*, Value*>> shards_;    ///< updated shards, to be gathered
  TensorExpr norm_;
};

}  // namespace tg::optimizer
