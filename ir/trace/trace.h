// SPDX-License-Identifier: Apache-2.0
// Traces a model in C++ to a module of the IR. To write models include this header (docs/cpp.md is the tour).
//
//     using namespace tg::nn;
//     struct Line : Module {
//       Linear fc = child("fc", Linear(2, 1));
//     } model;
//     auto module = trace(model, {{"train", {{"x", {8, 2}}, {"y", {8, 1}}}, [&](const Inputs& in) {
//       return mean(square(model.fc(in["x"]) - in["y"]));
//     }}});
//
// Tracing runs the functions once, on tensors without values: a C++ `if` or loop is evaluated at trace time. A thread
// runs one trace at a time; a model may be traced any number of times.
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

/// An input of a function. `dims` names each axis, "_" for none, so that extents may be changed before compiling.
/// `batch` is the axis named batch when no others have names, or -1. Giving both is an error.
struct Input {
  Key name;
  Dims shape;
  DType dtype = DType::f32;
  int batch = -1;
  std::vector<std::string> dims = {};
};

/// The inputs of the function that is being traced, by name. When appending to a function: its arguments, then its
/// results, then all its values by their names in the text.
class Inputs {
 public:
  /// An unknown name is an error with a location that lists the known ones.
  Tensor operator[](const Key& name) const;
  void add(std::string name, Tensor tensor) { all_.emplace_back(std::move(name), std::move(tensor)); }

 private:
  std::vector<std::pair<std::string, Tensor>> all_;
};

/// The results of a function: one tensor, several, or several with names: {{"loss", a}, {"logits", b}}. A single one
/// is named "loss" if it is an f32 of rank 0, else "result"; several without names are result0, result1, ….
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

/// A function of a model. The tools give the names "train", "eval" and "predict" a meaning.
struct Function {
  Key name;
  std::vector<Input> inputs;
  std::function<Outputs(const Inputs&)> body;
};

struct TraceOptions {
  std::string name = "model";      ///< of the module
  std::string trainPipeline = "";  ///< the passes that train it, written into the module
};

/// Traces functions that share the parameters of a model; the module declares all of these. The module is verified.
/// An error holds every finding, each at its line of the caller's source: bad declarations, or else the errors in the
/// functions. An operation on a tensor from a failed one reports nothing.
Result<std::unique_ptr<tg::Module>> trace(const Module& model, const std::vector<Function>& functions,
                                          const TraceOptions& options = {}, Site site = Site::current());

/// Traces one function, which declares its inputs, parameters and states by tensorInput, paramInput and stateInput.
Result<std::unique_ptr<tg::Module>> trace(const std::function<Outputs()>& body,
                                          const TraceOptions& options = {}, const Key& function = "train");

/// Adds a function to a module; paramInput and stateInput find what the module declares. After an error the module is
/// unchanged.
Result<void> traceInto(tg::Module& module, const std::function<Outputs()>& body, const Key& function);
/// The same for functions of a model.
Result<void> traceInto(tg::Module& module, const Module& model, const std::vector<Function>& functions,
                       Site site = Site::current());

/// Appends to a function of the module. The results of `body` are added after the existing ones; `Outputs{}` adds
/// none. Existing values keep their order and names. tensorInput finds an argument of the same name and type, or adds
/// one. A result or capture with a name that is taken, a second update of a parameter, and an argument of another
/// type are errors at the line of the source, and leave the module unchanged.
Result<void> traceInto(tg::Module& module, const std::function<Outputs(const Inputs&)>& body,
                       const Key& function);
/// The same with the modules of a model, whose parameters are declared if they are new.
Result<void> traceInto(tg::Module& module, const Module& model,
                       const std::function<Outputs(const Inputs&)>& body, const Key& function);

}  // namespace tg::nn
