// SPDX-License-Identifier: Apache-2.0
// A model's parameters: a tree of modules. A parameter is named by its path in the tree.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/attr.h"
#include "ir/trace/tensor.h"

namespace tg::nn {

using tg::DType;  // for models, which write `using namespace tg::nn`

/// How a parameter is initialized. `kaiming` and `xavier` are normal with the standard deviations gain/√fan_in and
/// gain·√(2/(fan_in + fan_out)); the gains are √2 and 1 by default.
class Init {
 public:
  using Values = std::vector<float>;
  /// Makes the values, row-major; called once, when the parameter is declared.
  using Maker = std::function<Values(int64_t size, const Shape& shape)>;

  static Init zeros() { return Init(Attr::word("zeros")); }
  static Init ones() { return Init(Attr::word("ones")); }
  static Init constant(double value) { return Init(Attr::call("constant", {Attr::of(value)})); }
  static Init randn(double std = 0.02) { return Init(Attr::call("randn", {Attr::of(std)})); }
  static Init uniform(double low, double high) {
    return Init(Attr::call("uniform", {Attr::of(low), Attr::of(high)}));
  }
  static Init kaiming() { return Init(Attr::word("kaiming")); }
  static Init kaiming(double gain) { return Init(Attr::call("kaiming", {Attr::of(gain)})); }
  static Init xavier() { return Init(Attr::word("xavier")); }
  static Init xavier(double gain) { return Init(Attr::call("xavier", {Attr::of(gain)})); }
  /// Values made by the caller; they are written into the module's text as dense<…>.
  static Init from(Maker maker) {
    Init init{Attr()};
    init.maker_ = std::move(maker);
    return init;
  }

  const Attr& spec() const { return spec_; }
  const Maker& maker() const { return maker_; }

 private:
  explicit Init(Attr spec) : spec_(std::move(spec)) {}
  Attr spec_;
  Maker maker_;
};

/// Options of Module::param.
struct ParamOptions {
  Init init = Init::randn();
  /// Whether weight decay applies. By default it does unless the init is zeros, ones or constant.
  std::optional<bool> decay = std::nullopt;
  DType dtype = DType::f32;
  /// Names of its axes, "_" for none. Axes with one name in a module keep equal extents when these are changed.
  std::vector<std::string> dims = {};
  /// False makes it a state: gradients and optimizers skip it, and `update` changes it. Its init is a single value.
  bool trained = true;
};

struct ParamNode;
struct ModuleNode;

/// A parameter of a module: a handle, cheap to copy. A copy is the same parameter with the same name: a plain member
/// `Param head = tokens.w;` ties two weights.
class Param {
 public:
  /// No parameter; reading it is an error.
  Param() = default;
  /// Moving copies the handle.
  Param(const Param&) = default;
  Param& operator=(const Param&) = default;
  const Shape& shape() const;
  DType dtype() const;
  const std::shared_ptr<const ParamNode>& node() const { return node_; }

 private:
  friend class Module;
  std::shared_ptr<const ParamNode> node_;
};

/// Base class of everything with parameters. Derive from it, and declare members with their names:
///
///     struct Block : Module {
///       Linear in = child("in", Linear(64, 256)), out = child("out", Linear(256, 64));
///       Param scale = param("scale", {64}, {.init = Init::ones()});
///       Tensor operator()(Tensor x) const { return x + out(relu(in(x * scale))); }
///     };
///     struct Model : Module {
///       std::vector<Block> blocks = children("blocks", 4, [](int64_t) { return Block(); });
///     };
///
/// declares blocks.0.in.w, blocks.0.in.b, …, blocks.3.scale. A module is a handle, too: a copy is the same module
/// with the same parameters. Errors in declarations are reported by trace().
class Module {
 public:
  Module();
  /// Moving copies the handle.
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  const std::shared_ptr<ModuleNode>& node() const { return node_; }

 protected:
  /// Declares a parameter. Names consist of letters, digits and '_' and are unique in a module.
  Param param(const Key& name, const Dims& shape, const ParamOptions& options = {});

  /// Declares a module as a member of this one and returns it.
  template <class M>
  M child(const Key& name, M module) {
    adopt(name, module.node());
    return module;
  }
  /// Declares a list of modules, named by their indices. The same module twice is an error, because both would share
  /// their weights.
  template <class M>
  std::vector<M> children(const Key& name, std::vector<M> modules) {
    Module list;
    for (size_t i = 0; i < modules.size(); ++i)
      list.adoptOnce(Key(std::to_string(i), name.site), modules[i].node());
    adopt(name, list.node());
    return modules;
  }
  /// The same; `make(index)` makes each module.
  template <class Make>
  auto children(const Key& name, int64_t count, Make make) {
    std::vector<decltype(make(int64_t{0}))> modules;
    if (mayMake(name, count, isEmpty(make)))
      for (int64_t i = 0; i < count; ++i) modules.push_back(make(i));
    return children(name, std::move(modules));
  }

 private:
  template <class Make>
  static bool isEmpty(const Make&) {
    return false;
  }
  template <class M>
  static bool isEmpty(const std::function<M(int64_t)>& make) {
    return !make;
  }
  /// Whether a list of `count` modules can be made; else records the error.
  bool mayMake(const Key& name, int64_t count, bool empty);
  void adopt(const Key& name, const std::shared_ptr<ModuleNode>& module);
  /// The same for a module that must not be a member yet.
  void adoptOnce(const Key& name, const std::shared_ptr<ModuleNode>& module);
  std::shared_ptr<ModuleNode> node_;
};

/// The data of one declared parameter, made by Module::param.
struct ParamNode {
  std::string name;  ///< the last part of its path
  Type type;
  AttrList attrs;  ///< init and decay, as in the module's text
  Loc loc;
  bool trained = true;
  bool failed = false;  ///< its declaration failed; reading it reports no further error
};

/// The data of a module behind its handles; members are in the order of declaration.
struct ModuleNode {
  struct Member {
    std::string name;
    std::shared_ptr<const ParamNode> param;  ///< a parameter,
    std::shared_ptr<ModuleNode> module;      ///< or a module
  };
  std::vector<Member> members;
  Error errors;
};

}  // namespace tg::nn
