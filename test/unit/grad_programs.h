// SPDX-License-Identifier: Apache-2.0
// Gradient cases as programs: their text with gradients of first and second order, inputs away from kinks,
// and the central differences that gradients are compared with.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/interp/interp.h"
#include "test/unit/grad_cases.h"
#include "test/unit/module_text.h"

namespace tg::test {

using Inputs = std::map<std::string, NdArray>;

/// Expands the gradients of @train and verifies the outcome; false after a reported failure.
bool expand(Module& module);
/// Runs @train in f64; its results in order.
std::vector<NdArray> evaluate(const Module& module, const Inputs& inputs);

/// The text of a case as a scalar function: Σ over results of Σ weight·result.
struct Program {
  std::vector<std::string> args, floats;  ///< `%a: tensor<…>`; names of differentiable inputs
  std::vector<std::string> floatTypes;
  std::string body;  ///< defines %loss

  std::string text(const std::string& more, const std::string& results, const std::string& returned) const;
  std::string forward() const { return text("", "loss: tensor<f32>", "%loss : tensor<f32>"); }
};
Program programOf(const GradCase& gradCase);
/// The program with gradients; `order` 2 differentiates Σ v·gradient instead of the loss.
std::string withGradients(const Program& program, int order);

Inputs drawInputs(const Module& module, const GradCase& gradCase, std::mt19937& random);
/// d f/d input[element], fourth order in the step.
double centralDifference(const std::function<double(const Inputs&)>& f, Inputs inputs,
                         const std::string& name, size_t element);
/// How far a gradient may be from its difference quotient: the rounding of the rules' constants to f32.
constexpr double kGradientTolerance = 2e-6;

/// ops whose gradient is none by definition, so that differences say nothing about it.
bool cutsGradient(Opcode code);

}  // namespace tg::test
