// SPDX-License-Identifier: Apache-2.0
// A function as the interpreter runs it, by which other executions of the function are judged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/interp/interp.h"
#include "runtime/interp/tolerance.h"
#include "runtime/runner.h"

namespace tg {

struct ResultCheck {
  std::string kind;  ///< "result", "capture", "gradient", "param", "state"
  std::string name;
  Type type;
  bool close = true;
  std::string why;  ///< the worst element, if not close
};

/// A call of a function in the interpreter: which function, and the values it starts from. The call refers to all of
/// them.
struct CallPoint {
  const Module& module;
  const std::string& function;
  const NamedArrays& storage;  ///< params and states; others are zero
  const Inputs& inputs;
  uint32_t subgroup;  ///< invocations of a subgroup of kernels
};

/// A call that is done.
class InterpCall {
 public:
  /// Custom kernels are checked for races and similar errors in `wide` mode. `noise` and `paramGrads` are those of
  /// InterpOptions.
  static Result<InterpCall> run(const CallPoint& point, InterpMode mode, uint32_t noise = 0,
                                const std::map<std::string, NdArray>& paramGrads = {});

  /// What the call left under a kind and a name of ResultCheck; nothing if it left no such value.
  std::optional<NdArray> value(std::string_view kind, const std::string& name) const;
  const RunResult& result() const { return result_; }

 private:
  InterpCall(Interpreter interpreter, RunResult result)
      : interpreter_(std::move(interpreter)), result_(std::move(result)) {}
  Interpreter interpreter_;
  RunResult result_;
};

/// Judges values by two calls at one point: in f64, and rounded. They are close if |value - wide| <= 4 |exact - wide| +
/// floor, the rule of tolerance.h. If one differs, more calls tell how large the rounding error may be:
/// - A result of few elements, for which one rounded call is a poor estimate, or one that is zero or nearly so in f64,
///   where terms may cancel out: three calls round every op's results differently.
/// - A result of few elements in a module with f16 or bf16, whose error is large: three calls start from parameters that
///   are rounded differently.
/// - An optimizer may enlarge what rounding leaves of a gradient. A value behind the gradients is compared with what two
///   calls make of the other executor's own gradients. If these are not known, and one is zero or nearly so in f64, the
///   calls of the first case are used.
class Oracle {
 public:
  /// `rounded`: the module of the rounded call, such as the compiled one; often that of the point.
  static Result<Oracle> at(const CallPoint& point, const Module& rounded);

  const InterpCall& wide() const { return wide_; }
  const InterpCall& exact() const { return exact_; }
  /// Gradients of the other executor, by parameter, that were judged to be close.
  void takeGradients(std::map<std::string, NdArray> close) { grads_ = std::move(close); }
  /// The oracle must have a value of this kind and name. `floor` is that of wholeFunctionClose.
  Result<ResultCheck> judge(const std::string& kind, const std::string& name, const NdArray& value,
                            double floor = kWholeFunctionFloor);

 private:
  Oracle(const CallPoint& point, InterpCall wide, InterpCall exact);
  Result<const std::vector<InterpCall>*> roundedParams();
  Result<const std::vector<InterpCall>*> roundedEachOp();
  Result<const std::vector<InterpCall>*> fromGradients();

  CallPoint point_;
  InterpCall wide_, exact_;
  double roundoff_;
  std::map<std::string, NdArray> grads_;  ///< of the other executor
  std::vector<InterpCall> paramCalls_, opCalls_, gradCalls_;
};

}  // namespace tg
