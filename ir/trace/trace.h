// SPDX-License-Identifier: Apache-2.0
// From a model in C++ to a module of the IR: include this to write models (docs/cpp.md is the tour).
//
//     using namespace tg::nn;
//     struct Line : Module {
//       Linear fc = child("fc", Linear(2, 1));
//     } model;
//     auto module = trace(model, {{"train", {{"x", {8, 2}}, {"y", {8, 1}}}, [&](const Inputs& in) {
//       return mean(square(model.fc(in["x"]) - in["y"]));
//     }}});
//
// Tracing runs the functions once, on tensors that stand for any values: a C++ `if` or loop is decided
// then. One trace at a time runs in a thread; a model may be traced any number of times.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/trace/custom.h"
#include "ir/trace/module.h"
#include "ir/trace/nn.h"
#include "ir/trace/ops.h"
#include "ir/trace/site.h"
#include "ir/trace/tensor.h"

namespace tg::nn {

/// An input of a function. `dims` names each axis, "_" none, so that its extent may be set anew before compiling;
/// `batch` is the axis called batch where no other has a name, or -1. Both at once are an error.
struct Input {
  Key name;
  Dims shape;
  DType dtype = DType::f32;
  int batch = -1;
  std::vector<std::string> dims = {};
};

/// The inputs of the function being traced, by name; where a function is appended to, its arguments, then its
/// results, then all its values by their names in the text.
class Inputs {
 public:
  /// An unknown name is a located error that lists known ones.
  Tensor operator[](const Key& name) const;
  void add(std::string name, Tensor tensor) { all_.emplace_back(std::move(name), std::move(tensor)); }

 private:
  std::vector<std::pair<std::string, Tensor>> all_;
};

/// What a function returns: one tensor, several, or several with names: {{"loss", a}, {"logits", b}}. A
/// lone one is called "loss" when it is an f32 of rank 0, else "result"; unnamed ones result0, result1, ….
class Outputs {
 public:
  struct Named {
    std::string name;
    Tensor tensor;
  };
  Outputs(const Tensor& one);
  Outputs(const std::vector<Tensor>& several);
  Outputs(std::initializer_list<Named> named);
  const std::vector<std::pair<std::string, Tensor>>& all() const { return all_; }

 private:
  std::vector<std::pair<std::string, Tensor>> all_;
};

/// A function of a model: "train", "eval" and "predict" have a meaning to the tools.
struct Function {
  Key name;
  std::vector<Input> inputs;
  std::function<Outputs(const Inputs&)> body;
};

struct TraceOptions {
  std::string name = "model";      ///< of the module
  std::string trainPipeline = "";  ///< the passes that train it, written into the module
};

/// Traces functions over one set of parameters, the model's, all of which the module declares. The result
/// is verified. An error holds every finding: bad declarations, else what the functions did wrong, each at
/// its line of the caller's source; a tensor made from a failed one reports nothing.
Result<std::unique_ptr<tg::Module>> trace(const Module& model, const std::vector<Function>& functions,
                                          const TraceOptions& options = {}, Site site = Site::current());

/// Traces one function that declares what it needs by tensorInput, paramInput and stateInput.
Result<std::unique_ptr<tg::Module>> trace(const std::function<Outputs()>& body,
                                          const TraceOptions& options = {}, const Key& function = "train");

/// Adds a function to a module; paramInput and stateInput find what is declared there. After an error
/// the module is as it was.
Result<void> traceInto(tg::Module& module, const std::function<Outputs()>& body, const Key& function);
/// The same for functions of a model.
Result<void> traceInto(tg::Module& module, const Module& model, const std::vector<Function>& functions,
                       Site site = Site::current());

/// Appends to a function that the module has. What `body` gives are more results, behind those there are;
/// `Outputs{}` is none. Nothing that is there changes its place or its name. tensorInput finds an argument of
/// the same name and type, or adds one. A result or capture of a name that is taken, a second update of a
/// parameter and another type are errors at the line of the source, and the module is as it was.
Result<void> traceInto(tg::Module& module, const std::function<Outputs(const Inputs&)>& body,
                       const Key& function);
/// The same with the modules of a model, whose parameters are declared where they are new.
Result<void> traceInto(tg::Module& module, const Module& model,
                       const std::function<Outputs(const Inputs&)>& body, const Key& function);

}  // namespace tg::nn
