// SPDX-License-Identifier: Apache-2.0
#include "runtime/interp_runner.h"

#include <algorithm>

namespace tg {

NdArray toNdArray(const HostView& array) {
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
                                                           const InterpOptions& options,
                                                           const ParamBuffers& shared) {
  std::unique_ptr<InterpRunner> runner(new InterpRunner(options));
  TG_TRY(Interpreter interpreter, Interpreter::create(*module, options));
  for (const auto& [name, param] : shared) TG_CHECK(interpreter.shareStorage(name, param.array));
  runner->base_ = std::make_shared<Program>(Program{std::move(module), std::move(interpreter)});
  for (const Item* func : runner->base_->module->all(ItemKind::func))
    runner->functions_[func->name] = {runner->base_, func->name, {}};
  return runner;
}

Result<void> InterpRunner::setStorages(const NamedArrays& values) {
  for (const auto& [name, value] : values) TG_CHECK(base_->interpreter.setStorage(name, toNdArray(value)));
  return {};
}

Result<NamedArrays> InterpRunner::storages(const std::vector<std::string>& names) {
  NamedArrays out;
  for (const std::string& name : names) {
    TG_TRY(NdArray value, base_->interpreter.storage(name));
    out.emplace_back(name, toHostArray(value));
  }
  return out;
}

Result<void> InterpRunner::writeRows(const std::string& name, int64_t first,
                                     std::span<const std::byte> rows) {
  TG_TRY(const Type type, typeOf(name));
  TG_CHECK(checkRows(name, type, first, rows.size()));
  const HostArray part{type.dtype, {}, {rows.begin(), rows.end()}};
  std::vector<double> elements(rows.size() / static_cast<size_t>(byteSize(type.dtype)));
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = part.at(static_cast<int64_t>(i));
  return base_->interpreter.writeRows(name, first, elements);
}

Result<void> InterpRunner::readRows(const std::string& name, int64_t first, std::span<std::byte> rows) {
  TG_TRY(const Type type, typeOf(name));
  TG_CHECK(checkRows(name, type, first, rows.size()));
  std::vector<double> elements(rows.size() / static_cast<size_t>(byteSize(type.dtype)));
  TG_CHECK(base_->interpreter.readRows(name, first, elements));
  HostArray part{type.dtype, {}, std::vector<std::byte>(rows.size())};
  for (size_t i = 0; i < elements.size(); ++i) part.set(static_cast<int64_t>(i), elements[i]);
  std::ranges::copy(part.bytes, rows.begin());
  return {};
}

namespace {

class CopiedArrays : public StorageCopy {
 public:
  explicit CopiedArrays(NamedArrays arrays) : arrays_(std::move(arrays)) {}
  Result<void> readRows(const std::string& name, int64_t first, std::span<std::byte> rows) override {
    const HostArray* array = named(arrays_, name);
    if (!array) return fail("the copy has no param or state @{}", name);
    TG_CHECK(checkRows(name, array->type(), first, rows.size()));
    const auto from = array->bytes.begin() + first * byteSize(array->dtype);
    std::copy(from, from + static_cast<int64_t>(rows.size()), rows.begin());
    return {};
  }

 private:
  NamedArrays arrays_;
};

}  // namespace

Result<std::shared_ptr<StorageCopy>> InterpRunner::copyStorages() {
  std::vector<std::string> names;
  for (ItemKind kind : {ItemKind::param, ItemKind::state})
    for (const Item* item : base_->module->all(kind)) names.push_back(item->name);
  TG_TRY(NamedArrays arrays, storages(names));
  return std::shared_ptr<StorageCopy>(std::make_shared<CopiedArrays>(std::move(arrays)));
}

Result<Type> InterpRunner::typeOf(const std::string& name) const {
  if (const Item* item = base_->module->storage(name)) return item->type;
  // Fails if there is none; the error lists the existing names.
  TG_TRY(const NdArray none, base_->interpreter.storage(name));
  return none.type;
}

Result<ParamBuffer> InterpRunner::share(const std::string& name) {
  ParamBuffer out;
  TG_TRY(out.array, base_->interpreter.sharedStorage(name));
  out.type = out.array->type;
  out.device = "interp";
  return out;
}

Result<void> InterpRunner::addFunction(std::shared_ptr<const Module> sibling, const std::string& function,
                                       const std::string& key) {
  TG_TRY(Interpreter interpreter, Interpreter::create(*sibling, options_));
  for (const auto& item : sibling->items) {
    if (!isStorage(item->kind)) continue;
    TG_TRY(std::shared_ptr<NdArray> array, base_->interpreter.sharedStorage(item->name));
    TG_CHECK(interpreter.shareStorage(item->name, std::move(array)));
  }
  auto program = std::make_shared<Program>(Program{std::move(sibling), std::move(interpreter)});
  functions_[key] = {std::move(program), function, {}};
  return {};
}

Result<InterpRunner::Function*> InterpRunner::find(const std::string& key) {
  if (auto found = functions_.find(key); found != functions_.end()) return &found->second;
  return noFunction(key, functions_);
}

Result<std::shared_ptr<PendingCall>> InterpRunner::begin(const std::string& key, const InputViews& inputs,
                                                         bool captures) {
  TG_TRY(Function * function, find(key));
  std::vector<std::pair<std::string, Type>> arguments;
  for (const auto& arg : function->program->module->func(function->name)->body.args)
    arguments.emplace_back(arg->name, arg->type);
  TG_CHECK(checkInputs(function->name, arguments, inputs));
  std::map<std::string, NdArray> values;
  for (const auto& [name, array] : inputs) values.emplace(name, toNdArray(array));
  TG_TRY(RunResult result, function->program->interpreter.run(function->name, values));
  // A device would not detect these errors, and would compute a wrong result.
  if (const std::vector<std::string>& findings = result.counters.findings; !findings.empty())
    return fail("@{}: a kernel is wrong: {}", function->name, firstOf(findings));
  RunOutputs out;
  for (const auto& [name, array] : result.results) out.results.emplace_back(name, toHostArray(array));
  if (captures)
    for (const auto& [name, array] : result.captures) out.captures.emplace_back(name, toHostArray(array));
  function->grads.clear();
  for (const auto& [name, array] : result.paramGrads) function->grads.emplace_back(name, toHostArray(array));
  return std::shared_ptr<PendingCall>(std::make_shared<DoneCall>(std::move(out)));
}

Result<NamedArrays> InterpRunner::paramGrads(const std::string& key) {
  TG_TRY(Function * function, find(key));
  return function->grads;
}

}  // namespace tg
