// SPDX-License-Identifier: Apache-2.0
// What the optimizer passes share: which function takes the updates, what may go wrong, gradients
// normalized and clipped, who decays, the host's learning rate, states and their updates. Private to
// passes/append_adam.cpp, passes/append_sgd.cpp and this folder.
//
// Constraints that both passes label with their own name:
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

/// `append-sgd [append-sgd.c3]: …`
Error failure(std::string_view pass, const Loc& loc, int constraint, std::string message);

/// Where an optimizer reads its gradients and puts its updates.
struct Site {
  std::string_view pass;
  Item* train = nullptr;  ///< the function that was differentiated
  /// The function that holds the summed gradients and runs after every n-th step, if append-grad made one
  /// (accumulate); else `train`.
  Item* step = nullptr;
  std::string match;   ///< pattern of the parameters to train; "" is all
  std::string kind;    ///< adam, sgd: what the function says with `optimizer`
  std::string prefix;  ///< begins the names of states: adam, then adam2, … where match leaves some to others
  bool trains(std::string_view param) const;
};

/// The site, or c1 or c2. `kind` is also what names of states begin with where nothing has it yet.
Result<Site> findSite(std::string_view pass, Module& module, const OptimizerOptions& options,
                      const std::string& kind);

/// One number of the options and the range it must be in, for c7.
struct Range {
  const char* option;
  double value, from, to;  ///< the end `to` is outside; `from` belongs to the range
};

/// Constraints c3 to c7. `states` are the names the pass is going to declare, `ranges` its own numbers.
Result<void> check(const Site& site, const Module& module, const OptimizerOptions& options,
                   const std::vector<std::string>& states, const std::vector<Range>& ranges);

/// The parameters that are trained at the site, in the order of their gradients.
std::vector<Item*> paramsWithGradient(const Site& site, const Module& module);
/// Tells of alternatives of the options' patterns that name nothing.
void remarkPatterns(const Site& site, const Module& module, const OptimizerOptions& options,
                    const PassContext& context);
/// Tells of parameters that the trained function reads and that have no gradient: they stay as they are.
void remarkFrozen(const Site& site, const PassContext& context);

/// A gradient as tg.param_grad names it.
struct Gradient {
  std::string param;
  Value* value = nullptr;
  int64_t ranks = 1;  ///< more than one: `value` is this rank's shard
};
std::vector<Gradient> gradientsIn(const Item& func);

/// Σ x² of gradients. Those of shards are summed over the ranks.
Value* sumOfSquares(Builder& builder, const std::vector<Gradient>& gradients);

/// A parameter with a gradient. If the gradient is sharded, the optimizer updates this rank's shard, and its states
/// are of the shard's type.
struct TrainedParam {
  Item* param = nullptr;
  Value* value = nullptr;  ///< the parameter before the step, or this rank's shard of it
  TensorExpr grad;         ///< normalized and clipped
  bool decays = false;     ///< and the weight decay is not 0
  int64_t ranks = 1;       ///< more than one: sharded
};

/// Builds the updates behind a function's body. Between construction and finish() the body has no
/// terminator.
class StepBuilder {
 public:
  /// Collects the gradients, normalizes and clips them.
  StepBuilder(Module& module, const Site& site, const OptimizerOptions& options);

  std::vector<TrainedParam>& params() { return params_; }
  Builder& builder() { return builder_; }
  TensorExpr expr(Value* value) { return {&builder_, value}; }
  /// The same value under a name of its own.
  TensorExpr named(const std::string& name, TensorExpr value);
  std::string stateName(const std::string& name) const { return site_.prefix + "." + name; }

  /// Declares state `prefix.name`; states stand after the last param or state.
  void addState(const std::string& name, const Type& type, bool explicitInit = false);
  /// One as large as what is trained of a parameter: `prefix.name.w`.
  void addState(const std::string& name, const TrainedParam& trained);
  /// A read of state `prefix.name`.
  Value* readState(const std::string& name, const std::string& hint);
  /// The argument the host fills with the learning rate; an author's own keeps its schedule. Optimizers of
  /// several groups share it where they begin with the same rate.
  TensorExpr learningRate();
  /// tg.update of a param or state by its full name.
  void update(const std::string& symbol, Value* value);
  /// Adds the result grad_norm, the terminator, and the optimizer's kind to the function's attributes.
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
  std::unordered_map<std::string, Value*> reads_;  ///< of params and states, by symbol; the first of each
  Value* finite_ = nullptr;  ///< where the loss is scaled: whether all gradients are finite
  std::vector<TrainedParam> params_;
  std::unordered_map<std::string, const TrainedParam*> sharded_;  ///< by symbol
  std::vector<std::pair<const TrainedParam*, Value*>> shards_;    ///< updated, to be gathered
  TensorExpr norm_;
};

}  // namespace tg::optimizer
