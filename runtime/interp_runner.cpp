#include "runtime/interp_runner.h"

#include <fmt/format.h>

namespace tg {

NdArray toNdArray(const HostArray& array) {
  NdArray out = NdArray::zeros(array.type());
  for (int64_t i = 0; i < array.elements(); ++i) out.data[static_cast<size_t>(i)] = array.at(i);
  return out;
}

HostArray toHostArray(const NdArray& array) {
  HostArray out = HostArray::zeros(array.type);
  for (int64_t i = 0; i < out.elements(); ++i) out.set(i, array.data[static_cast<size_t>(i)]);
  return out;
}

Result<std::unique_ptr<InterpRunner>> InterpRunner::create(std::shared_ptr<const Module> module,
                                                           const InterpOptions& options) {
  TG_TRY(Interpreter interpreter, Interpreter::create(*module, options));
  return std::unique_ptr<InterpRunner>(new InterpRunner(std::move(module), std::move(interpreter)));
}

Result<void> InterpRunner::setStorage(const std::string& name, const HostArray& value) {
  return interpreter_.setStorage(name, toNdArray(value));
}

Result<HostArray> InterpRunner::storage(const std::string& name) {
  TG_TRY(NdArray value, interpreter_.storage(name));
  return toHostArray(value);
}

Result<RunOutputs> InterpRunner::run(const std::string& function, const Inputs& inputs, bool captures) {
  if (const Item* func = module_->func(function)) {
    std::vector<std::pair<std::string, Type>> arguments;
    for (const auto& arg : func->body.args) arguments.emplace_back(arg->name, arg->type);
    TG_CHECK(checkInputs(function, arguments, inputs));
  }
  std::map<std::string, NdArray> values;
  for (const auto& [name, array] : inputs) values.emplace(name, toNdArray(array));
  TG_TRY(RunResult result, interpreter_.run(function, values));
  RunOutputs out;
  for (const auto& [name, array] : result.results) out.results.emplace_back(name, toHostArray(array));
  if (captures)
    for (const auto& [name, array] : result.captures) out.captures.emplace_back(name, toHostArray(array));
  NamedArrays& grads = grads_[function];
  grads.clear();
  for (const auto& [name, array] : result.paramGrads) grads.emplace_back(name, toHostArray(array));
  return out;
}

Result<NamedArrays> InterpRunner::paramGrads(const std::string& function) { return grads_[function]; }

}  // namespace tg
