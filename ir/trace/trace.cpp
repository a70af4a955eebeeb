// SPDX-License-Identifier: Apache-2.0
#include "ir/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text.h"
#include "ir/trace/recorder.h"
#include "ir/verify.h"

namespace tg::nn {

Tensor Inputs::operator[](const Key& name) const {
  constexpr size_t kListed = 20;
  std::string known;
  for (size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].first == name.text) return all_[i].second;
    if (i < kListed) known += (i ? ", " : "") + all_[i].first;
    if (i == kListed) known += ", …";
  }
  return Recorder::fail(name.site, "no input is named '{}'; {}", name.text,
                        known.empty() ? "the function has none" : "known: " + known);
}

Outputs::Outputs(const Tensor& one) {
  bool loss = one.valid() && one.rank() == 0 && one.dtype() == DType::f32;
  all_.emplace_back(loss ? "loss" : "result", one);
}
Outputs::Outputs(const std::vector<Tensor>& several) {
  for (const Tensor& tensor : several) all_.emplace_back(fmt::format("result{}", all_.size()), tensor);
}
Outputs::Outputs(std::initializer_list<Named> named) {
  for (const Named& each : named) all_.emplace_back(each.name, each.tensor);
}

namespace {

/// Appends to a module, and to one of its functions if one is given. Its destructor undoes all changes unless they
/// were kept.
class Addition {
 public:
  explicit Addition(tg::Module& module, Item* open = nullptr) : module_(module), open_(open) {
    for (const auto& item : module.items) before_.push_back(item.get());
    if (!open) return;
    end_ = open->body.ops.takeBack();
    args_ = open->body.args.size();
    ops_ = open->body.ops.size();
    results_ = open->results.size();
  }
  ~Addition() {
    if (kept_) return;
    module_.items.eraseIf([&](const std::unique_ptr<Item>& item) { return !contains(before_, item.get()); });
    if (!open_) return;
    while (open_->body.ops.size() > ops_) open_->body.ops.erase(open_->body.ops.back());
    open_->body.ops.push_back(std::move(end_));
    open_->body.args.resize(args_);
    open_->results.resize(results_);
  }
  Addition(const Addition&) = delete;
  Addition& operator=(const Addition&) = delete;

  /// Verifies the module, and keeps the changes if there are no errors.
  Result<void> finish(Error errors) {
    if (!errors.empty()) return errors;
    TG_CHECK(verify(module_));
    kept_ = true;
    return {};
  }
  /// The return that the function had; tracing makes a new one.
  const Op& end() const { return *end_; }

 private:
  tg::Module& module_;
  std::vector<Item*> before_;
  Item* open_;
  std::unique_ptr<Op> end_;
  size_t args_ = 0, ops_ = 0, results_ = 0;
  bool kept_ = false;
};

/// Gives every parameter and module its first path as its name, and declares the parameters.
class Declaration {
 public:
  explicit Declaration(tg::Module& module) : module_(module) {}
  void walk(const ModuleNode& node, const std::string& path) {
    if (!names.paths.emplace(&node, path).second) return;
    errors.append(node.errors);
    for (const ModuleNode::Member& member : node.members) {
      std::string full = path.empty() ? member.name : path + "." + member.name;
      if (member.module) {
        walk(*member.module, full);
      } else {
        names.paths[member.param.get()] = full;
        declare(*member.param, full);
      }
    }
  }

  ModelNames names;
  Error errors;

 private:
  void declare(const ParamNode& param, const std::string& name) {
    const Item* there = module_.storage(name);
    const ItemKind kind = param.trained ? ItemKind::param : ItemKind::state;
    if (!there)
      declareStorage(module_, kind, name, param.type, param.attrs, param.loc);
    else if (there->kind != kind || !(there->type == param.type) || there->attrs != param.attrs)
      errors.append(failAt(param.loc, "@{} is declared as a {} {} already, with other properties", name,
                           tg::name(there->kind), there->type.str())
                        .note(there->loc, "declared here"));
  }
  tg::Module& module_;
};

/// An error if the body is an empty function.
template <class Body>
Result<void> checkBody(const Body& body, const Key& function) {
  if (body) return {};
  return failAt(locOf(function.site), "@{}: the function of its body is empty", function.text);
}

/// Traces one function into the module; returns its errors.
Error traceFunction(tg::Module& module, const ModelNames& names, const Key& name,
                    const std::function<Outputs(Recorder&)>& body) {
  Loc loc = locOf(name.site);
  if (!isSymbolName(name.text)) return failAt(loc, "'{}' is not a valid name of a function", name.text);
  if (module.func(name.text))
    return failAt(
        loc,
        "the module has a function @{} already; a body that takes its values, (const Inputs&), appends to it",
        name.text);
  Item* func = module.add(ItemKind::func, name.text);
  func->loc = loc;
  Recorder recorder(module, *func, names);
  Outputs outputs = body(recorder);
  recorder.finish(outputs.all(), name.site);
  return recorder.errors();
}

/// An error if another trace is in progress, or if the module's name cannot be printed.
Result<void> checkStart(const tg::Module& module, const Site& site) {
  if (Recorder::active()) return failAt(locOf(site), "a trace begins inside another trace");
  if (isSymbolName(module.name)) return {};
  return failAt(locOf(site), "'{}' is not a valid name of a module", module.name);
}

Result<Item*> functionToExtend(const tg::Module& module, const Key& name) {
  const Loc loc = locOf(name.site);
  if (Item* func = module.func(name.text)) {
    const Op* end = func->body.terminator();
    if (end && end->code == Opcode::return_ && func->results.size() == end->operands.size()) return func;
    return failAt(loc, "@{} has no return to append before", name.text);
  }
  return failAt(loc, "the module has no function @{} to append to; it has {}", name.text,
                namesOf(module.all(ItemKind::func)));
}

/// Traces additions to a function whose return was `end`; returns the errors.
Error extendFunction(tg::Module& module, Item& func, const Op& end, const ModelNames& names, const Site& site,
                     const std::function<Outputs(const Inputs&)>& body) {
  Recorder recorder(module, func, names);
  Inputs values;
  for (const auto& arg : func.body.args) values.add(arg->name, recorder.existing(arg.get()));
  for (size_t i = 0; i < func.results.size(); ++i)
    values.add(func.results[i].name, recorder.existing(end.in(static_cast<int>(i))));
  for (const auto& op : func.body.ops)
    for (const auto& value : op->results) values.add(value->name, recorder.existing(value.get()));
  Outputs outputs = body(values);
  recorder.finish(outputs.all(), site, &end);
  return recorder.errors();
}

}  // namespace

Result<void> traceInto(tg::Module& module, const Module& model, const std::vector<Function>& functions,
                       Site site) {
  TG_CHECK(checkStart(module, site));
  Addition addition(module);
  Declaration declaration(module);
  declaration.walk(*model.node(), "");
  if (!declaration.errors.empty()) return std::move(declaration.errors);
  Error errors;
  for (const Function& function : functions) {
    if (auto callable = checkBody(function.body, function.name); !callable) {
      errors.append(callable.takeError());
      continue;
    }
    errors.append(traceFunction(module, declaration.names, function.name, [&](Recorder& recorder) {
      Inputs inputs;
      for (const Input& input : function.inputs)
        inputs.add(input.name.text,
                   recorder.argument(input.name, input.shape, input.dtype, input.batch, input.dims));
      return function.body(inputs);
    }));
  }
  return addition.finish(std::move(errors));
}

Result<void> traceInto(tg::Module& module, const std::function<Outputs()>& body, const Key& function) {
  TG_CHECK(checkStart(module, function.site));
  TG_CHECK(checkBody(body, function));
  Addition addition(module);
  return addition.finish(traceFunction(module, {}, function, [&](Recorder&) { return body(); }));
}

Result<void> traceInto(tg::Module& module, const Module& model,
                       const std::function<Outputs(const Inputs&)>& body, const Key& function) {
  TG_CHECK(checkStart(module, function.site));
  TG_CHECK(checkBody(body, function));
  TG_TRY(Item * func, functionToExtend(module, function));
  Addition addition(module, func);
  Declaration declaration(module);
  declaration.walk(*model.node(), "");
  if (!declaration.errors.empty()) return std::move(declaration.errors);
  return addition.finish(
      extendFunction(module, *func, addition.end(), declaration.names, function.site, body));
}

Result<void> traceInto(tg::Module& module, const std::function<Outputs(const Inputs&)>& body,
                       const Key& function) {
  return traceInto(module, Module(), body, function);
}

static std::unique_ptr<tg::Module> emptyModule(const TraceOptions& options) {
  auto module = std::make_unique<tg::Module>();
  module->name = options.name;
  if (!options.trainPipeline.empty())
    module->attrs = {{"train_pipeline", Attr::string(options.trainPipeline)}};
  return module;
}

Result<std::unique_ptr<tg::Module>> trace(const Module& model, const std::vector<Function>& functions,
                                          const TraceOptions& options, Site site) {
  auto module = emptyModule(options);
  TG_CHECK(traceInto(*module, model, functions, site));
  return module;
}

Result<std::unique_ptr<tg::Module>> trace(const std::function<Outputs()>& body, const TraceOptions& options,
                                          const Key& function) {
  auto module = emptyModule(options);
  TG_CHECK(traceInto(*module, body, function));
  return module;
}

}  // namespace tg::nn
