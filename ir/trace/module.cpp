// SPDX-License-Identifier: Apache-2.0
#include "ir/trace/module.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/dims.h"
#include "ir/text.h"
#include "ir/trace/recorder.h"
#include "ir/verify.h"

namespace tg::nn {

const Shape& Param::shape() const {
  static const Shape none;
  return node_ ? node_->type.shape : none;
}
DType Param::dtype() const { return node_ ? node_->type.dtype : DType::f32; }

Arg::Arg(const Param& param, Site site) : tensor_(Recorder::read(param.node().get(), site)), site_(site) {}

/// The init of a parameter whose values the caller's function makes.
static Result<Attr> madeInit(const Init& init, const Type& type, const Loc& loc) {
  if (!init.maker()) return failAt(loc, "the function of the init is empty");
  int64_t size = type.elements();
  Init::Values values = init.maker()(size, type.shape);
  if (static_cast<int64_t>(values.size()) != size)
    return failAt(loc, "the init gives {} for {}", countText(values.size(), "value"), type.str());
  std::vector<Attr> list;
  list.reserve(values.size());
  for (float value : values) list.push_back(Attr::of(static_cast<double>(value)));
  Attr dense = Attr::call("dense", std::move(list));
  dense.angle = true;
  return dense;
}

/// The attributes for a state's initial value, a single number; none for 0.
static Result<AttrList> stateAttrs(const Attr& init, const Loc& loc) {
  if (init.text == "zeros") return AttrList{};
  if (init.text == "ones") return AttrList{{"init", Attr::call("constant", {Attr::of(1.0)})}};
  if (init.text == "constant") return AttrList{{"init", init}};
  return failAt(loc, "a state begins as zeros, ones or constant(v), not {}", init.str());
}

Result<AttrList> initAttrs(const ParamOptions& options, const Dims& shape, const Loc& loc) {
  TG_TRY(Type type, tensorType(options.dtype, shape, loc));
  Attr init = options.init.spec();
  if (options.init.maker() || init.isNone()) {
    TG_TRY(init, madeInit(options.init, type, loc));
  }
  AttrList attrs{{"init", init}};
  if (!options.trained) {
    TG_TRY(attrs, stateAttrs(init, loc));
  } else if (options.decay) {
    attrs.push_back({"decay", Attr::boolean(*options.decay)});
  }
  if (!options.dims.empty()) attrs.push_back({"dims", dimsAttr(options.dims)});
  return attrs;
}

Module::Module() : node_(std::make_shared<ModuleNode>()) {}

/// An error if `name` cannot be a new member: malformed, taken, or declared while tracing.
static Result<void> checkMember(const ModuleNode& node, const Key& name) {
  bool plain = isSymbolName(name.text) && name.text.find_first_of(".$") == std::string::npos;
  if (!plain)
    return failAt(locOf(name.site), "'{}' is not a valid name of a member: letters, digits and '_'",
                  name.text);
  for (const ModuleNode::Member& member : node.members)
    if (member.name == name.text)
      return failAt(locOf(name.site), "a module has two members named '{}'", name.text);
  if (Recorder::active())
    return failAt(locOf(name.site), "'{}' is declared while tracing; a model is made before it is traced",
                  name.text);
  return {};
}

/// Records an error for trace(), and for the trace in progress, if any.
static void declarationError(ModuleNode& node, Error error) {
  if (Recorder* recorder = Recorder::active()) recorder->reject(error);
  node.errors.append(std::move(error));
}

Param Module::param(const Key& name, const Dims& shape, const ParamOptions& options) {
  auto node = std::make_shared<ParamNode>();
  node->name = name.text;
  node->loc = locOf(name.site);
  Result<AttrList> attrs = initAttrs(options, shape, node->loc);
  Result<void> member = checkMember(*node_, name);
  node->failed = !attrs || !member;
  if (node->failed) {
    declarationError(*node_, member ? attrs.takeError() : member.takeError());
  } else {
    node->type = *tensorType(options.dtype, shape, node->loc);
    node->attrs = *std::move(attrs);
    node->trained = options.trained;
    node_->members.push_back({name.text, node, nullptr});
  }
  Param param;
  param.node_ = std::move(node);
  return param;
}

void Module::adopt(const Key& name, const std::shared_ptr<ModuleNode>& module) {
  if (auto member = checkMember(*node_, name); !member)
    declarationError(*node_, member.takeError());
  else
    node_->members.push_back({name.text, nullptr, module});
}

bool Module::mayMake(const Key& name, int64_t count, bool empty) {
  if (count >= 0 && !empty) return true;
  declarationError(*node_,
                   failAt(locOf(name.site),
                          empty ? fmt::format("the modules of '{}' are made by an empty function", name.text)
                                : fmt::format("'{}' is a list of {} modules", name.text, count)));
  return false;
}

void Module::adoptOnce(const Key& name, const std::shared_ptr<ModuleNode>& module) {
  auto same =
      std::ranges::find_if(node_->members, [&](const auto& member) { return member.module == module; });
  if (same == node_->members.end()) return adopt(name, module);
  declarationError(*node_, failAt(locOf(name.site),
                                  "members '{}' and '{}' are one module, so they would share their weights: "
                                  "make a module for each",
                                  same->name, name.text));
}

}  // namespace tg::nn
