// SPDX-License-Identifier: Apache-2.0
#include "runtime/check/verify_device.h"

#include <algorithm>
#include <array>
#include <span>

#include "runtime/data/init.h"
#include "runtime/interp/tolerance.h"
#include "runtime/interp_runner.h"

namespace tg {

namespace {

struct Oracle {
  Interpreter interpreter;
  RunResult result;
};

/// Runs the interpreter. Custom kernels of the input are checked for races and similar errors; compiled kernels are
/// not, as KernelSteps checks those.
Result<Oracle> consult(const Module& module, const std::string& function, const NamedArrays& params,
                       const Inputs& inputs, InterpMode mode, uint32_t subgroup, uint32_t noise = 0) {
  InterpOptions options;
  options.noise = noise;
  options.mode = mode;
  options.kernel.subgroupSize = subgroup;
  options.kernel.checks = mode == InterpMode::wide;
  TG_TRY(Interpreter interpreter, Interpreter::create(module, options));
  for (const auto& [name, value] : params) TG_CHECK(interpreter.setStorage(name, toNdArray(value)));
  std::map<std::string, NdArray> arrays;
  for (const auto& [name, value] : inputs) arrays.emplace(name, toNdArray(value));
  TG_TRY(RunResult result, interpreter.run(function, arrays));
  return Oracle{std::move(interpreter), std::move(result)};
}

/// Compares the device's value with both values of the interpreter, and with `others`, which differ from them by
/// rounding.
ResultCheck check(std::string kind, const std::string& name, const HostArray& device, const NdArray& wide,
                  const NdArray& exact, std::span<const NdArray* const> others = {}) {
  ResultCheck out{std::move(kind), name, device.type(), true, ""};
  out.close = wholeFunctionClose(toNdArray(device), wide, exact, kWholeFunctionFloor, &out.why, others);
  if (out.close) out.why.clear();
  return out;
}

/// The larger unit roundoff of the 16-bit types (f16, bf16) that a function's ops compute; 0 if there are none.
double narrowRoundoff(const Module& module, const std::string& function) {
  double out = 0;
  for (const Op* op : module.func(function)->body.ops)
    for (const auto& result : op->results)
      if (isNarrow(result->type.dtype)) out = std::max(out, epsilonOf(result->type.dtype) / 2);
  return out;
}

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

/// With at least this many elements, the largest error of one run is a fair estimate.
constexpr int64_t kFewElements = 16;
/// The number of additional runs that are rounded differently.
constexpr uint32_t kOtherRuns = 3;

bool isZero(const NdArray& array) {
  return std::ranges::all_of(array.data, [](double value) { return value == 0; });
}

/// Compares the values of one call. For values of which the two runs of the interpreter tell too little about the rounding
/// error, it makes more runs, when the first such value needs them.
class Comparison {
 public:
  Comparison(const Module& source, const std::string& function, const NamedArrays& params,
             const Inputs& inputs, uint32_t subgroup, const Oracle& wide, const Oracle& exact)
      : source_(source), function_(function), params_(params), inputs_(inputs), subgroup_(subgroup),
        wide_(wide), exact_(exact), roundoff_(narrowRoundoff(source, function)) {}

  /// `of` gives a run's value.
  template <class Of>
  Result<void> add(std::string kind, const std::string& name, const HostArray& device, const Of& of) {
    const NdArray wide = of(wide_), exact = of(exact_);
    out.push_back(check(kind, name, device, wide, exact));
    if (out.back().close) return {};
    const bool zero = isZero(wide) && isZero(exact), stored = kind == "param" || kind == "state";
    const bool narrow = roundoff_ != 0 && device.elements() < kFewElements && !stored;
    if (!zero && !narrow) return {};
    TG_TRY(const std::vector<Oracle>* others, zero ? roundedEachOp() : roundedParams());
    std::vector<NdArray> values;
    for (const Oracle& other : *others) values.push_back(of(other));
    std::vector<const NdArray*> near;
    for (const NdArray& value : values) near.push_back(&value);
    out.back() = check(std::move(kind), name, device, wide, exact, near);
    return {};
  }

  std::vector<ResultCheck> out;

 private:
  /// With parameters that are rounded differently.
  Result<const std::vector<Oracle>*> roundedParams() {
    for (uint32_t seed = static_cast<uint32_t>(paramRuns_.size()) + 1; seed <= kOtherRuns; ++seed) {
      TG_TRY(const NamedArrays rounded, roundedOtherwise(source_, params_, roundoff_, seed));
      TG_TRY(Oracle other, consult(source_, function_, rounded, inputs_, InterpMode::wide, subgroup_));
      paramRuns_.push_back(std::move(other));
    }
    return &paramRuns_;
  }
  /// With the results of every op rounded differently. Terms that cancel out in both runs of the interpreter leave what a
  /// device's rounding may leave of them.
  Result<const std::vector<Oracle>*> roundedEachOp() {
    for (uint32_t seed = static_cast<uint32_t>(opRuns_.size()) + 1; seed <= kOtherRuns; ++seed) {
      TG_TRY(Oracle other, consult(source_, function_, params_, inputs_, InterpMode::wide, subgroup_, seed));
      opRuns_.push_back(std::move(other));
    }
    return &opRuns_;
  }

  const Module& source_;
  const std::string& function_;
  const NamedArrays& params_;
  const Inputs& inputs_;
  const uint32_t subgroup_;
  const Oracle &wide_, &exact_;
  const double roundoff_;
  std::vector<Oracle> paramRuns_, opRuns_;
};

Result<void> compareStorage(const Module& module, Executor& executor, const Oracle& wide, const Oracle& exact,
                            const NamedArrays& params, Comparison& comparison) {
  for (const auto& item : module.items) {
    if (!isStorage(item->kind)) continue;
    HostArray before = HostArray::zeros(item->type);
    if (const HostArray* value = named(params, item->name)) before = *value;
    TG_TRY(HostArray after, executor.storage(item->name));
    TG_TRY(NdArray wideAfter, wide.interpreter.storage(item->name));
    TG_TRY(NdArray exactAfter, exact.interpreter.storage(item->name));
    NdArray was = toNdArray(before);
    if (after.bytes == before.bytes && wideAfter.data == was.data && exactAfter.data == was.data) continue;
    const auto storage = [&](const Oracle& oracle) { return *oracle.interpreter.storage(item->name); };
    TG_CHECK(comparison.add(std::string(name(item->kind)), item->name, after, storage));
  }
  return {};
}

}  // namespace

Result<uint32_t> subgroupWidth(const Module& compiled, const vulkan::DeviceInfo& device) {
  TG_TRY(const Target target, targetOf(compiled.attrs));
  for (int64_t width : {target.subgroup, device.target.subgroup})
    if (width > 1) return static_cast<uint32_t>(width);
  return KernelRunOptions{}.subgroupSize;
}

Result<std::vector<ResultCheck>> compareFunction(const Module& source, const Module& spirv,
                                                 const std::string& function, const NamedArrays& params,
                                                 const Inputs& inputs,
                                                 std::shared_ptr<vulkan::Device> device) {
  TG_TRY(const uint32_t subgroup, subgroupWidth(spirv, device->info()));
  TG_TRY(std::unique_ptr<Executor> executor, Executor::create(spirv, std::move(device)));
  for (const auto& [name, value] : params) TG_CHECK(executor->setStorage(name, value));
  // Run the interpreter first: it rejects errors, such as accesses outside of memory, that could crash a driver.
  TG_TRY(Oracle wide, consult(source, function, params, inputs, InterpMode::wide, subgroup));
  TG_TRY(Oracle exact, consult(spirv, function, params, inputs, InterpMode::exact, subgroup));
  TG_TRY(RunOutputs ran, executor->run(function, inputs, true));
  TG_TRY(NamedArrays grads, executor->paramGrads(function));
  Comparison comparison(source, function, params, inputs, subgroup, wide, exact);
  for (const auto& each : ran.results)
    TG_CHECK(comparison.add("result", each.first, each.second,
                            [&](const Oracle& run) { return *run.result.result(each.first); }));
  for (const auto& each : ran.captures)
    TG_CHECK(comparison.add("capture", each.first, each.second,
                            [&](const Oracle& run) { return run.result.captures.at(each.first); }));
  for (const auto& each : grads)
    TG_CHECK(comparison.add("gradient", each.first, each.second,
                            [&](const Oracle& run) { return run.result.paramGrads.at(each.first); }));
  TG_CHECK(compareStorage(source, *executor, wide, exact, params, comparison));
  return std::move(comparison.out);
}

}  // namespace tg
