// SPDX-License-Identifier: Apache-2.0
// The C++ front end: names, ties, errors at the author's line, and what each function appends.
#include "ir/trace/trace.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "test/unit/trace_support.h"

namespace trace_user {  // outside of tg, as a model is

using namespace tg::nn;

struct Attention : Module {
  Linear q = child("q", Linear(8, 8, {.bias = false}));
  Param scale = param("scale", {8}, {.init = Init::ones()});
  Tensor operator()(const Tensor& x) const { return x + q(x * scale); }
};

struct Block : Module {
  Attention attn = child("attn", Attention());
  LayerNorm norm = child("norm", LayerNorm(8));
  Tensor operator()(const Tensor& x) const { return attn(norm(x)); }
};

struct Net : Module {
  Embedding tokens = child("tokens", Embedding(5, 8));
  std::vector<Block> layers = children("layers", 2, [](int64_t) { return Block(); });
  Param head = tokens.w;  // tied
  Tensor operator()(const Tensor& ids) const {
    Tensor x = tokens(ids);
    for (const Block& layer : layers) x = layer(x);
    return matmul(x, head, {.transposeB = true});
  }
};

TEST(TraceModel, NamesFollowTheMemberPath) {
  Net net;
  auto module = traced(trace(
      net, {{"predict", {{"ids", {3}, DType::i32}}, [&](const Inputs& in) { return net(in["ids"]); }}}));
  ASSERT_TRUE(module);
  std::vector<std::string> names;
  for (const tg::Item* item : module->all(tg::ItemKind::param)) names.push_back(item->name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"tokens.w", "layers.0.attn.q.w", "layers.0.attn.scale",
                                      "layers.0.norm.gain", "layers.0.norm.bias", "layers.1.attn.q.w",
                                      "layers.1.attn.scale", "layers.1.norm.gain", "layers.1.norm.bias"}));
  std::string text = tg::print(*module);
  EXPECT_NE(text.find("param @layers.0.norm.gain : tensor<8xf32> {init = ones}"), std::string::npos) << text;
  EXPECT_NE(text.find("%layers.0.norm = tg.layer_norm %tokens, %layers.0.norm.gain, %layers.0.norm.bias"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("tg.matmul %add_2, %tokens.w {transpose_b = true}"), std::string::npos) << text;
  EXPECT_NE(text.find("-> (result: tensor<3x5xf32>)"), std::string::npos) << text;
}

TEST(TraceModel, FunctionsShareParametersAndAModelIsTracedAgain) {
  Net net;
  std::vector<Function> functions{
      {"train",
       {{"ids", {4}, DType::i32, 0}, {"targets", {4}, DType::i32, 0}},
       [&](const Inputs& in) { return crossEntropy(net(in["ids"]), in["targets"]); }},
      {"predict", {{"ids", {1}, DType::i32}}, [&](const Inputs& in) {
         Tensor logits = net(in["ids"]);
         return Outputs{{"logits", logits}, {"best", argmax(logits)}};
       }}};
  auto first = traced(trace(net, functions, {.name = "net", .trainPipeline = "append-grad,append-adam"}));
  auto second = traced(trace(net, functions, {.name = "net", .trainPipeline = "append-grad,append-adam"}));
  ASSERT_TRUE(first && second);
  std::string text = tg::print(*first);
  EXPECT_EQ(text, tg::print(*second));
  EXPECT_EQ(first->all(tg::ItemKind::param).size(), 9U);
  EXPECT_NE(text.find("%ids: tensor<4xi32> {batch = 0}"), std::string::npos) << text;
  EXPECT_NE(text.find("(logits: tensor<1x5xf32>, best: tensor<1xi32>)"), std::string::npos) << text;
  EXPECT_NE(text.find("module @net attributes {train_pipeline = "), std::string::npos) << text;
}

TEST(TraceModel, AModuleAtTwoPlacesHasOneName) {
  struct Twice : Module {
    Linear a = child("a", Linear(2, 2));
    Linear b = child("b", a);
  } model;
  auto module = traced(
      trace(model, {{"f", {{"x", {1, 2}}}, [&](const Inputs& in) { return model.b(model.a(in["x"])); }}}));
  ASSERT_TRUE(module);
  EXPECT_EQ(module->all(tg::ItemKind::param).size(), 2U);
  EXPECT_TRUE(module->storage("a.w"));
}

TEST(TraceModel, ParametersAreReadFirstInTheOrderOfTheirDeclarations) {
  struct Three : Module {
    Param a = param("a", {2}), b = param("b", {2}), c = param("c", {2});
  } model;
  auto module = traced(trace(model, {{"f", {{"x", {2}}}, [&](const Inputs& in) {
                                        Tensor y = in["x"] * model.c;
                                        return y + (model.b + model.a);  // in an order C++ leaves open
                                      }}}));
  ASSERT_TRUE(module);
  std::string names;
  for (const tg::Op* op : module->func("f")->body.ops)
    names += (op->results.empty() ? "return" : op->result()->name) + " ";
  EXPECT_EQ(names, "a b c mul add result return ");
}

TEST(TraceModel, InitsAndDecayStandInTheText) {
  struct All : Module {
    Param a = param("a", {2, 3}, {.init = Init::kaiming(), .decay = false});
    Param b = param("b", {2}, {.init = Init::constant(0.5)});
    Param c = param("c", {2}, {.init = Init::uniform(-1, 1)});
    Param d = param("d", {2, 2}, {.init = Init::xavier(2)});
    Param e = param("e", {2});
    Param f = param("f", {2, 2}, {.init = Init::from([](int64_t size, const tg::Shape& shape) {
                                    Init::Values values;
                                    for (int64_t i = 0; i < size; ++i)
                                      values.push_back(static_cast<float>(i * shape[0]) + 0.5F);
                                    return values;
                                  })});
  } model;
  auto module = traced(trace(model, {{"f", {}, [&](const Inputs&) { return sum(model.a) + sum(model.f); }}}));
  ASSERT_TRUE(module);
  std::string text = tg::print(*module);
  for (const char* line :
       {"param @a : tensor<2x3xf32> {init = kaiming, decay = false}",
        "param @b : tensor<2xf32> {init = constant(0.5)}",
        "param @c : tensor<2xf32> {init = uniform(-1.0, 1.0)}",
        "param @d : tensor<2x2xf32> {init = xavier(2.0)}", "param @e : tensor<2xf32> {init = randn(0.02)}",
        "param @f : tensor<2x2xf32> {init = dense<0.5, 2.5, 4.5, 6.5>}"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(TraceFunction, WithoutAModel) {
  auto module = traced(trace([] {
    Tensor x = tensorInput("x", {4, 2});
    Tensor w = paramInput("w", {2, 1}, ParamOptions{.init = Init::zeros()});
    Tensor count = stateInput("count", {}, DType::f32, 3);
    update(count, count + 1);
    capture("pred", matmul(x, w));
    return Outputs{{"loss", named("total", sum(matmul(x, w)) * count)}};
  }));
  ASSERT_TRUE(module);
  EXPECT_EQ(tg::print(*module), R"(module @model {
  param @w : tensor<2x1xf32> {init = zeros}
  state @count : tensor<f32> {init = constant(3.0)}
  func @train(%x: tensor<4x2xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<2x1xf32>
    %count = tg.state @count : tensor<f32>
    %c1.0 = tg.constant 1.0 : tensor<f32>
    %add = tg.add %count, %c1.0 : tensor<f32>
    tg.update @count, %add
    %pred = tg.matmul %x, %w : tensor<4x1xf32>
    tg.capture %pred {name = "pred"}
    %matmul = tg.matmul %x, %w : tensor<4x1xf32>
    %sum = tg.sum %matmul {axes = [0, 1]} : tensor<f32>
    %total = tg.mul %sum, %count : tensor<f32>
    return %total : tensor<f32>
  }
}
)");
  tg::Module& into = *module;
  auto added = traceInto(
      into,
      [] {
        return matmul(tensorInput("x", {1, 2}), paramInput("w", {2, 1}));
      },
      "predict");
  ASSERT_TRUE(added) << added.error().str();
  EXPECT_TRUE(into.func("predict"));
  EXPECT_EQ(into.all(tg::ItemKind::param).size(), 1U);
  std::string before = tg::print(into);
  auto clash = traceInto(
      into, [] { return sum(paramInput("w", {3}) + paramInput("new", {3})); }, "other");
  ASSERT_FALSE(clash);
  EXPECT_EQ(clash.error().message(),
            "@w is declared as a param tensor<2x1xf32> already, with other properties");
  EXPECT_EQ(tg::print(into), before);
}

TEST(TraceFunction, RandomKeyIsOneHostArgument) {
  auto module = traced(trace([] {
    Tensor rng = tensorInput("rng", {2});
    return sum(cast(randomKey(), DType::f32) + cast(randomKey(), DType::f32) + rng);
  }));
  ASSERT_TRUE(module);
  EXPECT_NE(tg::print(*module).find("(%rng: tensor<2xf32>, %rng_2: tensor<2xi32> {host = \"rng\"})"),
            std::string::npos)
      << tg::print(*module);
}

TEST(TraceFunction, NoiseOfAShapeFollowsTheBatch) {
  struct Nothing : Module {
  } nothing;
  std::unique_ptr<tg::Module> module =
      traced(trace(nothing, {{"noisy", {{.name = "x", .shape = {4, 3}, .batch = 0}}, [](const Inputs& in) {
                                Tensor x = in["x"], noise = randomNormal(x.shape());
                                return Outputs{{"z", x + 0.1 * noise}};
                              }}}));
  ASSERT_TRUE(module);
  auto resize = tg::PassManager::parse("set-batch{n=7}");
  auto done = resize->run(module);
  ASSERT_TRUE(done) << done.error().str();
  EXPECT_NE(tg::print(*module).find("tg.random_normal %rng {salt = 1} : tensor<7x3xf32>"), std::string::npos)
      << tg::print(*module);
}

TEST(TraceFunction, AxesOfInputsAndParametersHaveNames) {
  struct Scorer : Module {
    Embedding table = child("table", Embedding(5, 4, {.dims = {"words", "_"}}));
    Linear head = child("head", Linear(4, 5, {.dims = {"_", "words"}}));
    Param places = param("places", {6, 4}, {.dims = {"time", "_"}});
  } model;
  auto body = [&](const Inputs& in) {
    return Outputs{{"scores", model.head(model.table(in["ids"]) + model.places)}};
  };
  Input ids{"ids", {2, 6}, DType::i32};
  ids.dims = {"batch", "time"};
  std::unique_ptr<tg::Module> module = traced(trace(model, {{"score", {ids}, body}}));
  ASSERT_TRUE(module);
  auto resize = tg::PassManager::parse("set-dim{name=words n=9},set-dim{name=time n=3},set-batch{n=7}");
  auto done = resize->run(module);
  ASSERT_TRUE(done) << done.error().str();
  const std::string text = tg::print(*module);
  for (const char* line : {"@table.w : tensor<9x4xf32> {init = randn(0.02), dims = [words, _]}",
                           "@head.b : tensor<9xf32> {init = zeros, dims = [words]}",
                           "@places : tensor<3x4xf32> {init = randn(0.02), dims = [time, _]}",
                           "(%ids: tensor<7x3xi32> {dims = [batch, time]}) -> (scores: tensor<7x3x9xf32>)"})
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;

  ids.batch = 0;
  auto both = trace(model, {{"score", {ids}, body}});
  ASSERT_FALSE(both);
  EXPECT_NE(both.error().str().find("input 'ids': batch is given besides dims; name the batch in dims"),
            std::string::npos)
      << both.error().str();
  ids.batch = -1;
  ids.dims = {"batch"};
  auto few = trace(model, {{"score", {ids}, body}});
  ASSERT_FALSE(few);
  EXPECT_NE(few.error().str().find("attribute 'dims' gives 1 name for the 2 axes of tensor<2x6xi32>"),
            std::string::npos)
      << few.error().str();
}

TEST(TraceFunction, NumbersTakeTheTensorsTypeAndAreMadeOnce) {
  auto module = traced(trace([] {
    Tensor ids = tensorInput("ids", {3}, DType::i32), x = tensorInput("x", {3});
    Tensor shifted = 1 + ids;
    return sum(where(shifted > 2, x / 2, 2.0) - x * 2);
  }));
  ASSERT_TRUE(module);
  std::string text = tg::print(*module);
  EXPECT_NE(text.find("%c1 = tg.constant 1 : tensor<i32>"), std::string::npos) << text;
  EXPECT_NE(text.find("%c2 = tg.constant 2 : tensor<i32>"), std::string::npos) << text;
  EXPECT_EQ(text.find("tg.constant 2.0"), text.rfind("tg.constant 2.0")) << text;
}

// Errors: each at the line of this file where the author wrote it.

/// The only error of a trace, as "line: message".
std::string onlyError(const tg::Result<std::unique_ptr<tg::Module>>& result) {
  if (result) return "no error";
  const auto& all = result.error().diagnostics();
  if (all.size() != 1) return "several:\n" + result.error().str();
  const tg::LocNode* place = tg::placeOf(all[0].loc);
  if (!place) return "nowhere: " + all[0].message;
  EXPECT_NE(place->file->name.find("trace_test.cpp"), std::string::npos) << place->file->name;
  return std::to_string(place->line) + ": " + all[0].message;
}
std::string at(int line, const std::string& message) { return std::to_string(line) + ": " + message; }

TEST(TraceError, ShapesPointAtTheAuthorsLineAndSilenceUsers) {
  int line = 0;
  auto result = trace([&] {
    Tensor x = tensorInput("x", {4, 8});
    line = __LINE__ + 1;
    Tensor bad = matmul(x, paramInput("w", {9, 2}));
    EXPECT_FALSE(bad.valid());
    EXPECT_TRUE(bad.error());
    Tensor more = relu(bad + 1) * x;
    return mean(reshape(more, {bad.shape()[0] / bad.shape().back(), -1}));
  });
  EXPECT_EQ(onlyError(result), at(line, "tg.matmul [matmul.c2]: inner dimensions differ: 8 and 9"));
  ASSERT_EQ(result.error().diagnostics()[0].notes.size(), 1U);
  EXPECT_EQ(tg::placeOf(result.error().diagnostics()[0].notes[0].loc)->line, static_cast<uint32_t>(line));
}

TEST(TraceError, OperatorsAndLayersPointAtTheirUse) {
  int first = 0, second = 0;
  struct Model : Module {
    Linear fc = child("fc", Linear(3, 3));
  } model;
  auto result = trace(model, {{"train", {{"x", {4, 2}}}, [&](const Inputs& in) {
                                 first = __LINE__ + 1;
                                 Tensor y = model.fc(in["x"]);
                                 second = __LINE__ + 1;
                                 Tensor z = in["x"] + zeros({3, 3});
                                 return sum(y) + sum(z);
                               }}});
  ASSERT_FALSE(result);
  const auto& all = result.error().diagnostics();
  ASSERT_EQ(all.size(), 2U) << result.error().str();
  EXPECT_EQ(tg::placeOf(all[0].loc)->line, static_cast<uint32_t>(first));
  EXPECT_EQ(all[0].message, "tg.matmul [matmul.c2]: inner dimensions differ: 2 and 3");
  EXPECT_EQ(tg::placeOf(all[1].loc)->line, static_cast<uint32_t>(second));
  EXPECT_NE(result.error().str().find("trace_test.cpp:"), std::string::npos);
}

TEST(TraceError, WrongElementTypes) {
  int line = 0;
  auto result = trace([&] {
    Tensor ids = tensorInput("ids", {3}, DType::i32);
    line = __LINE__ + 1;
    return sum(exp(ids));
  });
  EXPECT_EQ(onlyError(result), at(line, "tg.exp [op.operand]: operand 'x' is tensor<3xi32>, not a float"));
  result = trace([&] {
    line = __LINE__ + 1;
    return tensorInput("ids", {3}, DType::i32) + 0.5;
  });
  EXPECT_EQ(onlyError(result), at(line, "tg.add: 0.5 is not a value of type i32"));
  result = trace([&] {
    line = __LINE__ + 1;
    return constant({1, 2, 3}, {2});
  });
  EXPECT_EQ(onlyError(result), at(line, "tg.constant [constant.c1]: dense has 3 values for tensor<2xf32>"));
}

TEST(TraceError, OutsideATrace) {
  int line = __LINE__ + 1;
  Tensor lost = relu(zeros({2}));
  ASSERT_TRUE(lost.error());
  EXPECT_EQ(tg::placeOf(lost.error()->diagnostics()[0].loc)->line, static_cast<uint32_t>(line));
  EXPECT_EQ(onlyError(trace([&] { return sum(lost); })), at(line, "constant needs a trace"));
  Tensor kept;
  auto good = trace([&] { return kept = sum(tensorInput("x", {2})); });
  ASSERT_TRUE(good);
  line = __LINE__ + 1;
  Tensor after = exp(kept);
  EXPECT_EQ(after.error()->message(),
            "tg.exp: operations need a trace; call them from a function given to trace()");
  EXPECT_EQ(tg::placeOf(after.loc())->line, static_cast<uint32_t>(line));
  EXPECT_EQ(kept.rank(), 0);
}

TEST(TraceError, ATensorOfAnotherTrace) {
  Tensor kept;
  ASSERT_TRUE(trace([&] { return kept = sum(tensorInput("x", {2})); }));
  int line = 0;
  auto result = trace([&] {
    line = __LINE__ + 1;
    return kept + tensorInput("x", {2});
  });
  EXPECT_EQ(onlyError(result), at(line, "tg.add: an operand belongs to another trace than @train; a value "
                                        "cannot leave the function it was traced in"));
  EXPECT_EQ(onlyError(trace([&] { return Tensor(); })).substr(5), "return: an operand is an empty Tensor");
}

TEST(TraceError, ATraceInsideATrace) {
  int line = 0;
  auto outer = trace([&] {
    line = __LINE__ + 1;
    auto inner = trace([] { return zeros({1}); });
    EXPECT_EQ(onlyError(inner), at(line, "a trace begins inside another trace"));
    return sum(zeros({2}));
  });
  EXPECT_TRUE(outer);
}

TEST(TraceError, ParametersWhileTracing) {
  int line = 0;
  auto result = trace([&] {
    line = __LINE__ + 1;
    Linear late(2, 2);
    return sum(late(tensorInput("x", {1, 2})));
  });
  ASSERT_FALSE(result);
  const auto& all = result.error().diagnostics();
  ASSERT_EQ(all.size(), 2U) << result.error().str();  // its w and its b
  for (const auto& each : all) EXPECT_EQ(tg::placeOf(each.loc)->line, static_cast<uint32_t>(line));
  EXPECT_EQ(all[0].message, "'w' is declared while tracing; a model is made before it is traced");
}

TEST(TraceError, AModuleThatIsNoPartOfTheModel) {
  Linear stranger(2, 2);
  struct Empty : Module {
  } model;
  int line = 0;
  auto result = trace(model, {{"f", {{"x", {1, 2}}}, [&](const Inputs& in) {
                                 line = __LINE__ + 1;
                                 return stranger(in["x"]);
                               }}});
  ASSERT_FALSE(result);
  EXPECT_EQ(tg::placeOf(result.error().diagnostics()[0].loc)->line, static_cast<uint32_t>(line));
  EXPECT_EQ(
      result.error().message(),
      "parameter 'w' is not part of the model that is traced; declare its module with child(name, module)");
}

TEST(TraceError, Declarations) {
  struct Bad : Module {
    Param a = param("a", {2});
    Param b = param("a", {3});
    Param c = param("c.d", {3});
    Param d = param("d", {0});
    Param e =
        param("e", {2}, {.init = Init::from([](int64_t, const tg::Shape&) { return Init::Values(3); })});
    Linear f = child("a", Linear(1, 1));
    Param g = param("g", {1, 1, 1, 1, 1, 1, 1, 1, 1});
  } model;
  auto result = trace(model, {{"f", {}, [&](const Inputs&) { return sum(model.b); }}});
  ASSERT_FALSE(result);
  std::vector<std::string> messages;
  for (const auto& each : result.error().diagnostics()) messages.push_back(each.message);
  EXPECT_EQ(messages, (std::vector<std::string>{
                          "a module has two members named 'a'",
                          "'c.d' is not a valid name of a member: letters, digits and '_'",
                          "the extents [0] are not positive or too many elements",
                          "the init gives 3 values for tensor<2xf32>", "a module has two members named 'a'",
                          "9 extents are over the most, 8"}));
}

TEST(TraceError, NamesOfInputsResultsAndCaptures) {
  int line = 0;
  struct Empty : Module {
  } model;
  auto unknown = trace(model, {{"f", {{"x", {2}}, {"y", {2}}}, [&](const Inputs& in) {
                                  line = __LINE__ + 1;
                                  return in["z"];
                                }}});
  EXPECT_EQ(onlyError(unknown), at(line, "no input is named 'z'; known: x, y"));
  auto twice = trace([&] {
    Tensor x = tensorInput("x", {2});
    capture("h", x);
    line = __LINE__ + 1;
    capture("h", x + x);
    return x;
  });
  EXPECT_EQ(onlyError(twice), at(line, "tg.capture [capture.c1]: 'h' is captured twice in @train"));
  auto inputs = trace([&] {
    Tensor x = tensorInput("x", {2});
    line = __LINE__ + 1;
    return x + tensorInput("x", {2});
  });
  EXPECT_EQ(onlyError(inputs), at(line, "@train has two inputs named 'x'"));
  auto results = trace([] {
    Tensor x = tensorInput("x", {2});
    return Outputs{{"r", x}, {"r", x}};
  });
  EXPECT_FALSE(results);
  auto functions = trace(model, {{"f", {{"x", {2}}}, [](const Inputs& in) { return in["x"]; }},
                                 {"f", {{"x", {2}}}, [](const Inputs& in) { return in["x"]; }}});
  EXPECT_NE(onlyError(functions).find("the module has a function @f already"), std::string::npos);
  auto updates = trace([&] {
    Tensor s = stateInput("s", {2});
    update(s, s + 1);
    line = __LINE__ + 1;
    update(s, s + 2);
    return sum(s);
  });
  EXPECT_EQ(onlyError(updates), at(line, "tg.update [update.c3]: @s has a second update in @train"));
  auto target = trace([&] {
    Tensor x = tensorInput("x", {2});
    line = __LINE__ + 1;
    update(x, x + 2);
    return sum(x);
  });
  EXPECT_EQ(onlyError(target), at(line, "update: the first operand is not a parameter or state"));
}

TEST(TraceError, AThrowingModelLeavesNothingBehind) {
  tg::Module module;
  module.name = "m";
  EXPECT_THROW((void)traceInto(
                   module, []() -> Outputs { throw std::runtime_error("mine"); }, "f"),
               std::runtime_error);
  EXPECT_TRUE(module.items.empty());
  EXPECT_TRUE(traceInto(
      module, [] { return sum(zeros({2})); }, "f"));
}

TEST(TraceFunction, ThreadsTraceAlone) {
  Net net;
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& text : texts)
    threads.emplace_back([&] {
      auto module =
          trace(net, {{"f", {{"ids", {3}, DType::i32}}, [&](const Inputs& in) { return net(in["ids"]); }}});
      if (module) text = tg::print(**module);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  EXPECT_FALSE(texts[0].empty());
}

}  // namespace trace_user
