// SPDX-License-Identifier: Apache-2.0
#include "test/unit/grad_programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ir/parser.h"
#include "ir/verify.h"
#include "passes/pass.h"

namespace tg::test {

bool expand(Module& module) {
  auto done = run_append_grad(module, {}, {});
  EXPECT_TRUE(done) << (done ? "" : done.error().str()) << print(module);
  if (!done) return false;
  auto valid = verify(module);
  EXPECT_TRUE(valid) << (valid ? "" : valid.error().str()) << print(module);
  return bool(valid);
}

std::vector<NdArray> evaluate(const Module& module, const Inputs& inputs) {
  auto interpreter = Interpreter::create(module);
  EXPECT_TRUE(interpreter);
  auto run = interpreter->run("train", inputs);
  EXPECT_TRUE(run) << (run ? "" : run.error().str()) << print(module);
  std::vector<NdArray> values;
  if (run)
    for (auto& [name, value] : run->results) values.push_back(std::move(value));
  return values;
}

/// A kernel of every mode a gradient passes: what is read by all and by one, overwritten, and summed up; a
/// loop whose states are kept.
constexpr std::string_view kKernel = R"(
  kernel @mix(%a: buf<?x3xf32, in>, %w: buf<1xf32, in>, %s: buf<?xf32, inout>, %o: buf<?x3xf32, out>,
      %t: buf<3xf32, accum>) workgroup(4) grid(ceildiv(dim(%a, 0), 4)) {
    %i = tgk.global_id 0 : u32
    %n = tgk.dim %a, 0 : u32
    %in = tgk.lt %i, %n : bool
    tgk.if %in {
      %wv = tgk.load %w[0] : f32
      %sv = tgk.load %s[%i] : f32
      %end = tgk.for %k = 0 to(3) iter_args(%h = %sv) : f32 {
        %av = tgk.load %a[%i, %k] : f32
        %z = tgk.fma %wv, %h, %av : f32
        %y = tgk.tanh %z : f32
        %q = tgk.mul %y, %av : f32
        tgk.store %q, %o[%i, %k]
        tgk.atomic_add %y, %t[%k]
        tgk.yield %y
      }
      %p = tgk.mul %end, %sv : f32
      tgk.store %p, %s[%i]
    }
  }
)";

std::string Program::text(const std::string& more, const std::string& results,
                          const std::string& returned) const {
  bool kernel = body.find("tg.custom @mix") != std::string::npos;
  return fmt::format("module @m {{\n  param @p : tensor<f32>\n{}  func @train({}) -> ({}) {{\n    {}\n{}    "
                     "return {}\n  }}\n}}\n",
                     kernel ? kKernel : "", fmt::join(args, ", "), results, body, more, returned);
}

static std::string tensor(const std::string& type) { return "tensor<" + type + ">"; }
static int rankOf(const std::string& type) {
  return static_cast<int>(std::count(type.begin(), type.end(), 'x'));
}
static std::string axesOf(const std::string& type) {
  std::vector<int> axes(rankOf(type));
  std::iota(axes.begin(), axes.end(), 0);
  return fmt::format("[{}]", fmt::join(axes, ", "));
}

/// Lines that define %NAME as Σ value·weight.
static std::string weightedSum(const std::string& name, const std::string& value, const std::string& weight,
                               const std::string& type) {
  return fmt::format(
      "    %{0}_w = tg.mul %{1}, %{2} : {3}\n    %{0} = tg.sum %{0}_w {{axes = {4}}} : tensor<f32>\n", name,
      value, weight, tensor(type), axesOf(type));
}

Program programOf(const GradCase& gradCase) {
  Program program;
  for (size_t i = 0; i < gradCase.inputs.size(); ++i) {
    std::string name(1, static_cast<char>('a' + i)), type = gradCase.inputs[i].type;
    program.args.push_back(fmt::format("%{}: {}", name, tensor(type)));
    if (type.ends_with("f32")) program.floats.push_back(name), program.floatTypes.push_back(type);
  }
  program.body = gradCase.body + "\n";
  for (size_t i = 0; i < gradCase.results.size(); ++i) {
    std::string type = gradCase.results[i], value = fmt::format("r{}", i);
    if (type.ends_with("i1")) {
      type = type.substr(0, type.size() - 2) + "f32";
      program.body += fmt::format("    %f{0} = tg.cast %r{0} : {1}\n", i, tensor(type));
      value = fmt::format("f{}", i);
    }
    program.args.push_back(fmt::format("%w{}: {}", i, tensor(type)));
    std::string sum = i + 1 == gradCase.results.size() && i == 0 ? "loss" : fmt::format("s{}", i);
    program.body += weightedSum(sum, value, fmt::format("w{}", i), type);
    if (i > 0)
      program.body += fmt::format("    %{} = tg.add %{}, %s{} : tensor<f32>\n",
                                  i + 1 == gradCase.results.size() ? "loss" : fmt::format("t{}", i),
                                  i == 1 ? std::string("s0") : fmt::format("t{}", i - 1), i);
  }
  return program;
}

/// `%d_a, %d_b = tg.grad %LOSS, %a, %b : …`
static std::string gradLine(const Program& program, const std::string& prefix, const std::string& loss) {
  std::vector<std::string> names, wrt, types;
  for (size_t i = 0; i < program.floats.size(); ++i) {
    names.push_back("%" + prefix + program.floats[i]);
    wrt.push_back("%" + program.floats[i]);
    types.push_back(tensor(program.floatTypes[i]));
  }
  return fmt::format("    {} = tg.grad %{}, {} : {}\n", fmt::join(names, ", "), loss, fmt::join(wrt, ", "),
                     fmt::join(types, ", "));
}

std::string withGradients(const Program& program, int order) {
  Program made = program;
  std::string more = gradLine(program, "d_", "loss"), value = "loss", prefix = "d_";
  if (order == 2) {
    value = "h0", prefix = "e_";
    for (size_t i = 0; i < program.floats.size(); ++i) {
      const std::string& name = program.floats[i];
      made.args.push_back(fmt::format("%v_{}: {}", name, tensor(program.floatTypes[i])));
      more += weightedSum(fmt::format("g{}", i), "d_" + name, "v_" + name, program.floatTypes[i]);
      std::string before = i == 0 ? "" : value;
      value = fmt::format("h{}", i);
      more += i == 0 ? "    %h0 = tg.neg %g0 : tensor<f32>\n"
                     : fmt::format("    %{} = tg.add %{}, %g{} : tensor<f32>\n", value, before, i);
    }
    more += gradLine(program, "e_", value);
  }
  std::string results = "value: tensor<f32>", returned = "%" + value, types = "tensor<f32>";
  for (size_t i = 0; i < program.floats.size(); ++i) {
    results += fmt::format(", g_{}: {}", program.floats[i], tensor(program.floatTypes[i]));
    returned += ", %" + prefix + program.floats[i];
    types += ", " + tensor(program.floatTypes[i]);
  }
  return made.text(more, results, returned + " : " + types);
}

/// Distinct values on a grid that no other input shares and that stays away from 0, so that no draw
/// is near a kink or a tie.
static NdArray draw(const Type& type, double lo, double hi, int index, std::mt19937& random) {
  NdArray array = NdArray::zeros(type);
  if (type.dtype != DType::f32) {
    std::uniform_int_distribution<int> pick(type.dtype == DType::i1 ? 0 : static_cast<int>(lo),
                                            type.dtype == DType::i1 ? 1 : static_cast<int>(hi));
    for (double& value : array.data) value = pick(random);
    return array;
  }
  constexpr int kSteps = 80;
  std::vector<int> steps(kSteps);
  std::iota(steps.begin(), steps.end(), 0);
  std::shuffle(steps.begin(), steps.end(), random);
  for (size_t i = 0; i < array.data.size(); ++i)
    array.data[i] = lo + (hi - lo) * (steps[i % kSteps] + 0.2 + 0.25 * index) / kSteps;
  return array;
}

Inputs drawInputs(const Module& module, const GradCase& gradCase, std::mt19937& random) {
  Inputs inputs;
  const auto& args = module.func("train")->body.args;
  for (size_t i = 0; i < args.size(); ++i) {
    bool own = i < gradCase.inputs.size();
    inputs[args[i]->name] = draw(args[i]->type, own ? gradCase.inputs[i].lo : -1.5,
                                 own ? gradCase.inputs[i].hi : 1.5, own ? static_cast<int>(i) : 0, random);
  }
  return inputs;
}

double centralDifference(const std::function<double(const Inputs&)>& f, Inputs inputs,
                         const std::string& name, size_t element) {
  constexpr double kStep = 1e-3;
  double& x = inputs[name].data[element];
  double at = x;
  auto value = [&](double offset) {
    x = at + offset * kStep;
    return f(inputs);
  };
  return (8 * (value(1) - value(-1)) - (value(2) - value(-2))) / (12 * kStep);
}

bool cutsGradient(Opcode code) { return code == Opcode::stop_gradient; }

}  // namespace tg::test
