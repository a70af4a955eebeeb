// SPDX-License-Identifier: Apache-2.0
// Runs every row of docs/mapping.def.
#include <cmath>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/trace/recorder.h"
#include "ir/trace/trace.h"
#include "passes/pass.h"
#include "runtime/session.h"
#include "runtime/train/checkpoint.h"

namespace tg::test {
namespace {

using namespace tg::nn;
using Module = nn::Module;
using Names = std::vector<std::string>;
using Values = std::vector<double>;

HostArray values(const Shape& shape, double first = 0.5, double step = 0.25) {
  HostArray array = HostArray::zeros(DType::f32, shape);
  for (int64_t i = 0; i < array.elements(); ++i) array.set(i, first + step * static_cast<double>(i));
  return array;
}
HostArray twoIds() {
  HostArray array = HostArray::zeros(DType::i32, {2});
  array.set(0, 2);
  array.set(1, 1);
  return array;
}
Values elements(const HostArray& array) {
  Values out;
  for (int64_t i = 0; i < array.elements(); ++i) out.push_back(array.at(i));
  return out;
}

/// The tensors that the rows of op kinds are over.
const tg::Inputs& inputs() {
  static const tg::Inputs all{{"a", values({2, 3})},
                              {"b", values({2, 3}, 2, -0.3)},
                              {"p", values({2, 3}, -1, 0.4)},
                              {"w", values({3, 4}, -0.5, 0.1)},
                              {"s", values({3, 3}, 1, -0.3)},
                              {"k", values({2, 3, 3}, 0, 0.1)},
                              {"l", values({2, 3, 3}, 1, -0.1)},
                              {"ids", twoIds()}};
  return all;
}

/// Element i of the causal softmax of a 3x3 matrix.
double causalSoftmax(const Values& s, int64_t i) {
  int64_t row = i / 3, column = i % 3;
  double total = 0;
  for (int64_t j = 0; j <= row; ++j) total += std::exp(s[static_cast<size_t>(3 * row + j)]);
  return column > row ? 0 : std::exp(s[static_cast<size_t>(i)]) / total;
}

/// Traces the expression as function @f, runs it, and compares each element.
void check(const std::function<Tensor(const nn::Inputs&)>& expression,
           const std::function<double(int64_t)>& element) {
  struct Nothing : Module {
  } nothing;
  std::vector<Input> declared;
  for (const auto& [name, array] : inputs()) declared.push_back({name, array.shape, array.dtype});
  auto module = trace(nothing, {{"f", declared, [&](const nn::Inputs& in) { return expression(in); }}});
  ASSERT_TRUE(module) << module.error().str();
  auto session = Session::create(std::move(*module), {.device = "interp"});
  ASSERT_TRUE(session) << session.error().str();
  auto out = (*session)->run("f", inputs());
  ASSERT_TRUE(out) << out.error().str();
  const HostArray& got = out->results[0].second;
  for (int64_t i = 0; i < got.elements(); ++i) EXPECT_NEAR(got.at(i), element(i), 1e-6) << "element " << i;
}

struct Line : Module {
  Linear fc = child("fc", Linear(2, 1));
};
std::unique_ptr<tg::Module> lineModule(const Line& line) {
  auto train = [&](const nn::Inputs& in) {
    Tensor prediction = capture("prediction", line.fc(in["x"]));
    return mean(square(prediction - in["y"]));
  };
  auto module = trace(line, {{"train", {{"x", {4, 2}}, {"y", {4, 1}}}, train}});
  EXPECT_TRUE(module) << module.error().str();
  return std::move(*module);
}
std::unique_ptr<Session> lineSession() {
  Line line;
  auto session = Session::create(
      lineModule(line), {.device = "interp", .seed = 1, .trainPipeline = "append-grad,append-adam{lr=1e-2}"});
  EXPECT_TRUE(session) << session.error().str();
  return std::move(*session);
}
tg::Inputs batch() { return {{"x", values({4, 2})}, {"y", values({4, 1}, 1, 1)}}; }

Names paramsOf(const tg::Module& module) {
  Names names;
  for (const Item* param : module.all(ItemKind::param)) names.push_back(param->name);
  return names;
}

Result<void> runPipeline(std::unique_ptr<tg::Module>& module, const std::string& text) {
  TG_TRY(PassManager pipeline, PassManager::parse(text));
  return pipeline.run(module);
}

/// Hands over a tensor while it is traced.
void ofTensor(const std::function<void(const Tensor&)>& look) {
  auto module = trace([&] {
    Tensor x = tensorInput("x", {2, 3});
    look(x);
    return sum(x);
  });
  EXPECT_TRUE(module) << module.error().str();
}

/// The text after append-grad and append-adam with these options; nothing where they are refused.
std::optional<std::string> adamText(const std::string& options) {
  Line line;
  auto module = lineModule(line);
  if (!runPipeline(module, "append-grad,append-adam{" + options + "}")) return {};
  return print(*module);
}

std::unique_ptr<tg::Module> normModule() {
  struct Net : Module {
    LayerNorm norm = child("norm", LayerNorm(4));
  } net;
  auto module = trace(net, {{"f", {{"x", {2, 4}}}, [&](const nn::Inputs& in) { return net.norm(in["x"]); }}});
  EXPECT_TRUE(module) << module.error().str();
  return std::move(*module);
}

/// The arrays of a file that are those a module wants.
Result<NamedArrays> matchedArrays(const NamedArrays& file,
                                  const std::vector<std::pair<std::string, Type>>& wanted,
                                  const std::string& where) {
  TG_TRY(const TensorSource matched, matchTensors(sourceOf(file), wanted, where));
  return readAll(matched);
}

/// The parameters that a file of these tensors gives.
Names loadedFrom(const NamedArrays& file, const tg::Module& module) {
  std::vector<std::pair<std::string, Type>> wanted;
  for (const Item* param : module.all(ItemKind::param)) wanted.emplace_back(param->name, param->type);
  auto matched = matchedArrays(file, wanted, "file");
  EXPECT_TRUE(matched) << matched.error().str();
  Names names;
  if (matched)
    for (const auto& [name, array] : *matched) names.push_back(name);
  return names;
}

/// What the library's index exports with `export type`, and the fields that a user of it writes or reads.
TEST(Mapping, everyExportedTypeHasARow) {
  std::set<std::string> rows;
#define KIND(name, here, expression, element)
#define CALL(name, here, expression, element)
#define EXPORT(name, here, ...)
#define TYPE(name, here, ...) rows.insert(std::string(#name).substr(0, std::string(#name).find('_')));
#define NONE(name, why)
#include "docs/mapping.def"
  for (const char* type : {"AdamConfig",
                           "AdamResult",
                           "BufferPlan",
                           "BufferSpec",
                           "CallSite",
                           "CompiledForward",
                           "CompiledForwardModule",
                           "CompiledIR",
                           "CompiledModule",
                           "CompiledRuntime",
                           "CompileForwardMethodOptions",
                           "CompileForwardOptions",
                           "CompileModuleOptions",
                           "Dtype",
                           "ForwardFn",
                           "GradResult",
                           "Graph",
                           "InitSpec",
                           "InputDecl",
                           "InputDecls",
                           "InputsTensors",
                           "KernelSpec",
                           "LinearOptions",
                           "MaterializedParams",
                           "OpNode",
                           "ParamOptions",
                           "RunOptions",
                           "RunResult",
                           "RuntimeOpts",
                           "Shape",
                           "StepResult",
                           "Tensor",
                           "Writeback",
                           "WritebackDecl"})
    EXPECT_TRUE(rows.contains(type)) << type;
}

#define ROW(prefix, name, expression, element)                                                        \
  TEST(Mapping, prefix##_##name) {                                                                    \
    [[maybe_unused]] const Values A = elements(inputs().at("a")), B = elements(inputs().at("b")),     \
                                  P = elements(inputs().at("p")), W = elements(inputs().at("w")),     \
                                  S = elements(inputs().at("s")), K = elements(inputs().at("k")),     \
                                  L = elements(inputs().at("l")), IDS = elements(inputs().at("ids")); \
    check(                                                                                            \
        [](const nn::Inputs& in) {                                                                    \
          [[maybe_unused]] Tensor a = in["a"], b = in["b"], p = in["p"], w = in["w"], s = in["s"],    \
                                  k = in["k"], l = in["l"], ids = in["ids"];                          \
          [[maybe_unused]] auto adam = [&](int which) {                                               \
            return makeAll(Opcode::adam_update, {p, b, a, a, constant(0.01)}, {}, 3)[which];          \
          };                                                                                          \
          return Tensor(expression);                                                                  \
        },                                                                                            \
        [&]([[maybe_unused]] int64_t i) { return element; });                                         \
  }
#define KIND(name, here, expression, element) ROW(kind, name, expression, element)
#define CALL(name, here, expression, element) ROW(call, name, expression, element)
#define EXPORT(name, here, ...) TEST(Mapping, export_##name) __VA_ARGS__
#define TYPE(name, here, ...) TEST(Mapping, type_##name) __VA_ARGS__
#define NONE(name, why)
#include "docs/mapping.def"
#undef ROW

}  // namespace
}  // namespace tg::test
