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

/// Kernels of the input's own are looked at for races and the like; those that the compiler makes, KernelSteps does.
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

/// The device's value beside the two of the oracle, and others that differ from it by rounding.
ResultCheck check(std::string kind, const std::string& name, const HostArray& device, const NdArray& wide,
                  const NdArray& exact, std::span<const NdArray* const> others = {}) {
  ResultCheck out{std::move(kind), name, device.type(), true, ""};
  out.close = wholeFunctionClose(toNdArray(device), wide, exact, kWholeFunctionFloor, &out.why, others);
  if (out.close) out.why.clear();
  return out;
}

/// The unit roundoff of the coarsest of f16 and bf16 that ops of a function give; 0 where none do.
double narrowRoundoff(const Module& module, const std::string& function) {
  double out = 0;
  for (const Op* op : module.func(function)->body.ops)
    for (const auto& result : op->results)
      if (isNarrow(result->type.dtype)) out = std::max(out, epsilonOf(result->type.dtype) / 2);
  return out;
}

/// Parameters as other roundings would have them: each real is changed by up to the unit roundoff.
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

/// From so many elements on, the largest error of one run is a fair estimate.
constexpr int64_t kFewElements = 16;
/// Runs with parameters that are rounded otherwise.
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
  // First the interpreter: what it refuses, such as an access outside of memory, a driver may not survive.
  TG_TRY(Oracle wide, consult(source, function, params, inputs, InterpMode::wide, subgroup));
  TG_TRY(Oracle exact, consult(spirv, function, params, inputs, InterpMode::exact, subgroup));
  TG_TRY(RunOutputs ran, executor->run(function, inputs, true));
  TG_TRY(NamedArrays grads, executor->paramGrads(function));
  std::vector<ResultCheck> out;
  const double roundoff = narrowRoundoff(source, function);
  std::vector<Oracle> others;  // made when the first result needs them
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
