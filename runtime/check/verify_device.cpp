// SPDX-License-Identifier: Apache-2.0
#include "runtime/check/verify_device.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "runtime/interp_runner.h"

namespace tg {

/// Judges the params and states that a call changes, on the device or in the interpreter.
static Result<void> compareStorage(const Module& module, Executor& executor, const NamedArrays& params,
                                   Oracle& oracle, std::vector<ResultCheck>& checks) {
  for (const auto& item : module.items) {
    if (!isStorage(item->kind)) continue;
    const std::string kind(name(item->kind));
    HostArray before = HostArray::zeros(item->type);
    if (const HostArray* value = named(params, item->name)) before = *value;
    TG_TRY(HostArray after, executor.storage(item->name));
    const NdArray was = toNdArray(before);
    if (after.bytes == before.bytes && oracle.wide().value(kind, item->name)->data == was.data &&
        oracle.exact().value(kind, item->name)->data == was.data)
      continue;
    TG_TRY(ResultCheck check, oracle.judge(kind, item->name, toNdArray(after)));
    checks.push_back(std::move(check));
  }
  return {};
}

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
  TG_TRY(Oracle oracle, Oracle::at({source, function, params, inputs, subgroup}, spirv));
  TG_TRY(RunOutputs ran, executor->run(function, inputs, true));
  TG_TRY(NamedArrays grads, executor->paramGrads(function));
  std::vector<ResultCheck> checks, gradients;
  std::map<std::string, NdArray> close;
  for (const auto& [name, value] : grads) {
    const NdArray gradient = toNdArray(value);
    TG_TRY(gradients.emplace_back(), oracle.judge("gradient", name, gradient));
    if (gradients.back().close) close.emplace(name, gradient);
  }
  oracle.takeGradients(std::move(close));
  auto judge = [&](const char* kind, const NamedArrays& values) -> Result<void> {
    for (const auto& [name, value] : values) {
      TG_TRY(checks.emplace_back(), oracle.judge(kind, name, toNdArray(value)));
    }
    return {};
  };
  TG_CHECK(judge("result", ran.results));
  TG_CHECK(judge("capture", ran.captures));
  std::ranges::move(gradients, std::back_inserter(checks));
  TG_CHECK(compareStorage(source, *executor, params, oracle, checks));
  return checks;
}

}  // namespace tg
