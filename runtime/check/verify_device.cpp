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
                       const Inputs& inputs, InterpMode mode, uint32_t subgroup) {
  InterpOptions options;
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
/// The number of additional runs with perturbed parameters.
constexpr uint64_t kOtherRuns = 3;

Result<void> compareStorage(const Module& module, Executor& executor, const Oracle& wide, const Oracle& exact,
                            const NamedArrays& params, std::vector<ResultCheck>& out) {
  for (const auto& item : module.items) {
    if (item->kind != ItemKind::param && item->kind != ItemKind::state) continue;
    HostArray before = HostArray::zeros(item->type);
    for (const auto& [name, value] : params)
      if (name == item->name) before = value;
    TG_TRY(HostArray after, executor.storage(item->name));
    TG_TRY(NdArray wideAfter, wide.interpreter.storage(item->name));
    TG_TRY(NdArray exactAfter, exact.interpreter.storage(item->name));
    NdArray was = toNdArray(before);
    if (after.bytes == before.bytes && wideAfter.data == was.data && exactAfter.data == was.data) continue;
    out.push_back(check(std::string(name(item->kind)), item->name, after, wideAfter, exactAfter));
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
  std::vector<ResultCheck> out;
  const double roundoff = narrowRoundoff(source, function);
  std::vector<Oracle> others;  // computed when the first result needs them
  const auto compare = [&](const char* kind, const NamedArrays& values, const auto& of) -> Result<void> {
    for (const auto& [name, value] : values) {
      out.push_back(check(kind, name, value, of(wide, name), of(exact, name)));
      if (out.back().close || roundoff == 0 || value.elements() >= kFewElements) continue;
      for (uint64_t seed = others.size() + 1; seed <= kOtherRuns; ++seed) {
        TG_TRY(const NamedArrays rounded, roundedOtherwise(source, params, roundoff, seed));
        TG_TRY(Oracle other, consult(source, function, rounded, inputs, InterpMode::wide, subgroup));
        others.push_back(std::move(other));
      }
      std::vector<const NdArray*> near;
      for (const Oracle& other : others) near.push_back(&of(other, name));
      out.back() = check(kind, name, value, of(wide, name), of(exact, name), near);
    }
    return {};
  };
  TG_CHECK(
      compare("result", ran.results, [](const Oracle& oracle, const std::string& name) -> const NdArray& {
        return *oracle.result.result(name);
      }));
  TG_CHECK(
      compare("capture", ran.captures, [](const Oracle& oracle, const std::string& name) -> const NdArray& {
        return oracle.result.captures.at(name);
      }));
  TG_CHECK(compare("gradient", grads, [](const Oracle& oracle, const std::string& name) -> const NdArray& {
    return oracle.result.paramGrads.at(name);
  }));
  TG_CHECK(compareStorage(source, *executor, wide, exact, params, out));
  return out;
}

}  // namespace tg
