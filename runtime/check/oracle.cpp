// SPDX-License-Identifier: Apache-2.0
#include "runtime/check/oracle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "runtime/data/init.h"
#include "runtime/interp_runner.h"

namespace tg {

namespace {

/// Parameters with other rounding errors: each real is changed by at most the unit roundoff.
Result<NamedArrays> roundedOtherwise(const Module& module, const NamedArrays& params, double roundoff,
                                     uint64_t seed) {
  NamedArrays out = params;
  for (auto& [name, value] : out) {
    if (!module.find(ItemKind::param, name) || !isFloat(value.dtype)) continue;
    TG_TRY(const HostArray noise, initialValue(name, Type::tensor(DType::f32, value.shape), "uniform",
                                               std::array{-roundoff, roundoff}, seed));
    for (int64_t i = 0; i < value.elements(); ++i) value.set(i, value.at(i) * (1 + noise.at(i)));
  }
  return out;
}

/// With at least this many elements, the largest error of one run is a fair estimate of the rounding error.
constexpr int64_t kFewElements = 16;
/// The number of additional runs that are rounded differently.
constexpr uint32_t kOtherRuns = 3;

/// Where terms cancel out, f64 leaves zero or some 2^-52nd of a term. A result that is small in itself is below this too,
/// and is judged by more runs than it needs.
constexpr double kCancelled = 0x1p-20;

bool mayBeCancelled(const NdArray& array) {
  return std::ranges::all_of(array.data, [](double value) { return std::abs(value) < kCancelled; });
}

/// The larger unit roundoff of the 16-bit types (f16, bf16) that a function's ops compute; 0 if there are none.
double narrowRoundoff(const Module& module, const std::string& function) {
  double out = 0;
  for (const Op* op : module.func(function)->body.ops)
    for (const auto& result : op->results)
      if (isNarrow(result->type.dtype)) out = std::max(out, epsilonOf(result->type.dtype) / 2);
  return out;
}

}  // namespace

Result<InterpCall> InterpCall::run(const CallPoint& point, InterpMode mode, uint32_t noise,
                                   const std::map<std::string, NdArray>& paramGrads) {
  InterpOptions options;
  options.noise = noise;
  options.paramGrads = paramGrads;
  options.mode = mode;
  options.kernel.subgroupSize = point.subgroup;
  options.kernel.checks = mode == InterpMode::wide;  // KernelSteps checks compiled kernels
  TG_TRY(Interpreter interpreter, Interpreter::create(point.module, options));
  for (const auto& [name, value] : point.storage) TG_CHECK(interpreter.setStorage(name, toNdArray(value)));
  std::map<std::string, NdArray> arrays;
  for (const auto& [name, value] : point.inputs) arrays.emplace(name, toNdArray(value));
  TG_TRY(RunResult result, interpreter.run(point.function, arrays));
  return InterpCall(std::move(interpreter), std::move(result));
}

std::optional<NdArray> InterpCall::value(std::string_view kind, const std::string& name) const {
  if (kind == "result") {
    const NdArray* found = result_.result(name);
    return found ? std::optional(*found) : std::nullopt;
  }
  if (kind == "capture" || kind == "gradient") {
    const auto& values = kind == "capture" ? result_.captures : result_.paramGrads;
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  }
  auto stored = interpreter_.storage(name);
  return stored ? std::optional(*std::move(stored)) : std::nullopt;
}

Oracle::Oracle(const CallPoint& point, InterpCall wide, InterpCall exact)
    : point_(point), wide_(std::move(wide)), exact_(std::move(exact)),
      roundoff_(narrowRoundoff(point.module, point.function)) {}

Result<Oracle> Oracle::at(const CallPoint& point, const Module& rounded) {
  TG_TRY(InterpCall wide, InterpCall::run(point, InterpMode::wide));
  const CallPoint other{rounded, point.function, point.storage, point.inputs, point.subgroup};
  TG_TRY(InterpCall exact, InterpCall::run(other, InterpMode::exact));
  return Oracle(point, std::move(wide), std::move(exact));
}

Result<ResultCheck> Oracle::judge(const std::string& kind, const std::string& name, const NdArray& value,
                                  double floor) {
  const NdArray wide = *wide_.value(kind, name), exact = *exact_.value(kind, name);
  ResultCheck out{kind, name, value.type, true, ""};
  auto compare = [&](std::span<const NdArray* const> others) {
    out.why.clear();
    out.close = wholeFunctionClose(value, wide, exact, floor, &out.why, others);
  };
  compare({});
  if (out.close) return out;
  const auto& gradients = wide_.result().paramGrads;
  const bool behind = kind != "gradient" && std::ranges::any_of(gradients, [](const auto& gradient) {
                        return mayBeCancelled(gradient.second);
                      });
  const bool cancelled = mayBeCancelled(wide) || (behind && grads_.empty());
  const bool stored = kind == "param" || kind == "state";
  const bool few = value.type.elements() < kFewElements && !stored;
  auto compareWith = [&](const std::vector<InterpCall>& others) {
    std::vector<NdArray> values;
    for (const InterpCall& other : others) values.push_back(*other.value(kind, name));
    std::vector<const NdArray*> near;
    for (const NdArray& each : values) near.push_back(&each);
    compare(near);
  };
  if (cancelled || few) {
    TG_TRY(const std::vector<InterpCall>* others, roundedEachOp());
    compareWith(*others);
  }
  if (!out.close && few && roundoff_ != 0) {
    TG_TRY(const std::vector<InterpCall>* others, roundedParams());
    compareWith(*others);
  }
  if (!out.close && kind != "gradient" && !grads_.empty()) {
    TG_TRY(const std::vector<InterpCall>* calls, fromGradients());
    out.close =
        wholeFunctionClose(value, *calls->front().value(kind, name), *calls->back().value(kind, name), floor);
  }
  return out;
}

/// Calls with parameters that are rounded differently.
Result<const std::vector<InterpCall>*> Oracle::roundedParams() {
  for (uint32_t seed = static_cast<uint32_t>(paramCalls_.size()) + 1; seed <= kOtherRuns; ++seed) {
    TG_TRY(const NamedArrays rounded, roundedOtherwise(point_.module, point_.storage, roundoff_, seed));
    const CallPoint other{point_.module, point_.function, rounded, point_.inputs, point_.subgroup};
    TG_TRY(InterpCall call, InterpCall::run(other, InterpMode::wide));
    paramCalls_.push_back(std::move(call));
  }
  return &paramCalls_;
}

/// Calls in which the results of every op are rounded differently. Terms that cancel out in both calls leave what another
/// executor's rounding may leave of them.
Result<const std::vector<InterpCall>*> Oracle::roundedEachOp() {
  for (uint32_t seed = static_cast<uint32_t>(opCalls_.size()) + 1; seed <= kOtherRuns; ++seed) {
    TG_TRY(InterpCall call, InterpCall::run(point_, InterpMode::wide, seed));
    opCalls_.push_back(std::move(call));
  }
  return &opCalls_;
}

/// Calls in f64 and rounded, in which the other executor's gradients stand for the interpreter's own.
Result<const std::vector<InterpCall>*> Oracle::fromGradients() {
  if (gradCalls_.empty())
    for (const InterpMode mode : {InterpMode::wide, InterpMode::exact}) {
      TG_TRY(InterpCall call, InterpCall::run(point_, mode, 0, grads_));
      gradCalls_.push_back(std::move(call));
    }
  return &gradCalls_;
}

}  // namespace tg
