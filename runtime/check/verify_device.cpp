// SPDX-License-Identifier: Apache-2.0
#include "runtime/check/verify_device.h"

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
                       const Inputs& inputs, InterpMode mode) {
  InterpOptions options;
  options.mode = mode;
  options.kernel.checks = mode == InterpMode::wide;
  TG_TRY(Interpreter interpreter, Interpreter::create(module, options));
  for (const auto& [name, value] : params) TG_CHECK(interpreter.setStorage(name, toNdArray(value)));
  std::map<std::string, NdArray> arrays;
  for (const auto& [name, value] : inputs) arrays.emplace(name, toNdArray(value));
  TG_TRY(RunResult result, interpreter.run(function, arrays));
  return Oracle{std::move(interpreter), std::move(result)};
}

/// The device's value beside the two of the oracle.
ResultCheck check(std::string kind, const std::string& name, const HostArray& device, const NdArray& wide,
                  const NdArray& exact) {
  ResultCheck out{std::move(kind), name, device.type(), true, ""};
  out.close = wholeFunctionClose(toNdArray(device), wide, exact, kWholeFunctionFloor, &out.why);
  if (out.close) out.why.clear();
  return out;
}

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

Result<std::vector<ResultCheck>> compareFunction(const Module& source, const Module& spirv,
                                                 const std::string& function, const NamedArrays& params,
                                                 const Inputs& inputs,
                                                 std::shared_ptr<vulkan::Device> device) {
  TG_TRY(std::unique_ptr<Executor> executor, Executor::create(spirv, std::move(device)));
  for (const auto& [name, value] : params) TG_CHECK(executor->setStorage(name, value));
  // First the interpreter: what it refuses, such as an access outside of memory, a driver may not survive.
  TG_TRY(Oracle wide, consult(source, function, params, inputs, InterpMode::wide));
  TG_TRY(Oracle exact, consult(spirv, function, params, inputs, InterpMode::exact));
  TG_TRY(RunOutputs ran, executor->run(function, inputs, true));
  TG_TRY(NamedArrays grads, executor->paramGrads(function));
  std::vector<ResultCheck> out;
  for (const auto& [name, value] : ran.results)
    out.push_back(check("result", name, value, *wide.result.result(name), *exact.result.result(name)));
  for (const auto& [name, value] : ran.captures)
    out.push_back(
        check("capture", name, value, wide.result.captures.at(name), exact.result.captures.at(name)));
  for (const auto& [name, value] : grads)
    out.push_back(
        check("gradient", name, value, wide.result.paramGrads.at(name), exact.result.paramGrads.at(name)));
  TG_CHECK(compareStorage(source, *executor, wide, exact, params, out));
  return out;
}

}  // namespace tg
