// SPDX-License-Identifier: Apache-2.0
// The registry, pipeline text and the pass manager, with passes of our own: the shipped ones have
// tests that know what they do.
#include "passes/pass.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass_options.h"
#include "passes/plugin.h"
#include "test/unit/temp_folder.h"

namespace tg {
namespace {

struct DummyOptions {
  bool loud = false;
  int64_t count = 3;
  double rate = 0.5;
  std::string names = "*";
  static constexpr auto fields() {
    return std::tuple{
        option("loud", &DummyOptions::loud, "say something"),
        option("count", &DummyOptions::count, "how often"),
        option("rate", &DummyOptions::rate, "how fast"),
        option("some-names", &DummyOptions::names, "which"),
    };
  }
};

DummyOptions lastSeen;
Result<void> runDummy(Module& module, const DummyOptions& options, const PassContext& context) {
  lastSeen = options;
  if (options.loud) context.remark(module.loc, "dummy was here");
  return {};
}
Result<void> runFailing(Module& module, const NoOptions&, const PassContext&) {
  return failAt(module.func("f")->loc, "cannot do this");
}
Result<void> gradientOf(std::unique_ptr<tg::Module>& module, std::string& said) {
  TG_TRY(tg::PassManager passes, tg::PassManager::parse("canonicalize,append-grad,append-adam{lr=1e-3}"));
  passes.onDiagnostic([&](const tg::Diagnostic& each) { said += tg::render(each); });
  TG_CHECK(passes.run(module));
  return {};
}
// Leaves a return that does not fit the function's results.
Result<void> runBreaking(Module& module, const NoOptions&, const PassContext&) {
  module.func("f")->body.ops.back()->operands.clear();
  return {};
}
Result<void> runStaying(Module&, const NoOptions&, const PassContext&) { return {}; }
Result<void> runThrowing(Module&, const NoOptions&, const PassContext&) {
  throw std::out_of_range("no such thing");
}
Result<void> runThrowingNumber(Module&, const NoOptions&, const PassContext&) { throw 7; }
Result<void> runEmptying(Module& module, const NoOptions&, const PassContext&) {
  module.items.take();
  return {};
}
// A word that no text can hold: fine in memory, lost when printed.
Result<void> runUnprintable(Module& module, const NoOptions&, const PassContext&) {
  module.attrs.push_back({"train_pipeline", Attr::word("a b")});
  return {};
}

template <class Options>
void addPass(const std::string& name, Stage from, Stage to,
             Result<void> (*run)(Module&, const Options&, const PassContext&)) {
  PassInfo info{
      name, "", from, to, "A pass of the test.", describeOptions<Options>(), passFactory<Options>(name, run)};
  auto added = registerPass(std::move(info));
  ASSERT_TRUE(added) << added.error().str();
}

class PassTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    addPass<DummyOptions>("t-dummy", Stage::tensor, Stage::tensor, runDummy);
    addPass<NoOptions>("t-fail", Stage::tensor, Stage::tensor, runFailing);
    addPass<NoOptions>("t-break", Stage::tensor, Stage::tensor, runBreaking);
    addPass<NoOptions>("t-stay", Stage::tensor, Stage::fused, runStaying);
    addPass<NoOptions>("t-unprintable", Stage::tensor, Stage::tensor, runUnprintable);
    addPass<NoOptions>("t-throw", Stage::tensor, Stage::tensor, runThrowing);
    addPass<NoOptions>("t-throw-number", Stage::tensor, Stage::tensor, runThrowingNumber);
    addPass<NoOptions>("t-empty", Stage::tensor, Stage::tensor, runEmptying);
    addPass<NoOptions>("t-no-function", Stage::tensor, Stage::tensor, nullptr);
    addPass<NoOptions>("t-far", Stage::planned, Stage::spirv, runStaying);
  }
  static std::unique_ptr<Module> module(const std::string& stage = "") {
    auto parsed = tg::parse("module @m " + stage +
                                " {\n  func @f(%x: tensor<2xf32>) -> (y: tensor<2xf32>) {\n"
                                "    return %x : tensor<2xf32>\n  }\n}\n",
                            "m.tgir");
    EXPECT_TRUE(parsed) << parsed.error().str();
    return *std::move(parsed);
  }
  static PassManager pipeline(const std::string& text) {
    auto parsed = PassManager::parse(text);
    EXPECT_TRUE(parsed) << parsed.error().str();
    return *std::move(parsed);
  }
  /// Runs passes that must fail.
  static void expectError(const std::string& passes, const std::string& error) {
    auto m = module();
    auto done = pipeline(passes).run(m);
    ASSERT_FALSE(done) << passes;
    EXPECT_EQ(done.error().str(), error);
  }
  static std::string errorOf(const std::string& text) {
    auto parsed = PassManager::parse(text);
    return parsed ? "" : parsed.error().str();
  }
};

TEST(PassManager, RunsAsThePageOnCppShows) {
  auto module = parse(R"(module @m {
  param @w : tensor<4xf32>
  func @train() -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<4xf32>
    %loss = tg.sum %w {axes = [0]} : tensor<f32>
    return %loss : tensor<f32>
  }
})",
                      "page.tgir");
  ASSERT_TRUE(module);
  std::string said;
  auto ran = gradientOf(*module, said);
  ASSERT_TRUE(ran) << ran.error().str();
  EXPECT_EQ(said, "");
  EXPECT_NE(print(**module).find("tg.update @w"), std::string::npos);
}

TEST_F(PassTest, EveryRowOfTheTableIsRegisteredInOrder) {
  std::vector<std::string> rows = {
#define PASS(id, name, ...) name,
#define ALIAS(name, ...) name,
#include "passes/passes.def"
  };
  ASSERT_GE(passes().size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(passes()[i].name, rows[i]);
  EXPECT_EQ(findPass("append_adam"), findPass("append-adam"));
  EXPECT_EQ(findPass("nope"), nullptr);
}

TEST_F(PassTest, ATakenNameAndABadNameAreErrors) {
  EXPECT_FALSE(registerPass({"fuse", "", Stage::tensor, Stage::tensor, "", {}, {}}));
  for (const char* name : {"", "a,b", "a_b", "a=b", "a.b", "a\nb", "-a", "\u00fc"}) {
    EXPECT_FALSE(registerPass({name, "", Stage::tensor, Stage::tensor, "", {}, {}})) << name;
    EXPECT_EQ(findPass(name), nullptr) << name;
  }
}

TEST_F(PassTest, APassWithoutAFunctionIsAnError) {
  const auto added = registerPass({"t-nothing", "", Stage::tensor, Stage::tensor, "", {}, {}});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().message(), "pass 't-nothing' has no function");
}

TEST_F(PassTest, NoModuleIsAnError) {
  std::unique_ptr<Module> none;
  auto done = pipeline("t-dummy").run(none);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(), "PassManager::run: the module is null");
}

TEST_F(PassTest, OptionsReachThePass) {
  auto m = module();
  ASSERT_TRUE(pipeline("t-dummy{loud=true,count=-7,rate=1e-3,some-names=l1.*|l2.w}").run(m));
  EXPECT_TRUE(lastSeen.loud);
  EXPECT_EQ(lastSeen.count, -7);
  EXPECT_EQ(lastSeen.rate, 1e-3);
  EXPECT_EQ(lastSeen.names, "l1.*|l2.w");
  ASSERT_TRUE(pipeline("t-dummy{ rate=2 loud some_names=cosine(1e-3, 0, 50) }").run(m));
  EXPECT_TRUE(lastSeen.loud);
  EXPECT_EQ(lastSeen.count, 3);
  EXPECT_EQ(lastSeen.rate, 2);
  EXPECT_EQ(lastSeen.names, "cosine(1e-3, 0, 50)");
  ASSERT_TRUE(pipeline("t_dummy{some-names=\"a \\\"b\\\", c}\"}").run(m));
  EXPECT_EQ(lastSeen.names, "a \"b\", c}");
}

TEST_F(PassTest, PipelinesPrintWhatDiffersAndReadBack) {
  for (const char* text :
       {"", "t-dummy", "cse,t-dummy{count=4,some-names=\"\"},dce", "t-dummy{some-names=\"a b\"}",
        "t-dummy{loud=true,rate=0.001,some-names=\"{\\\"a\\\": [1, 2]}\"}"})
    EXPECT_EQ(pipeline(text).str(), text);
  EXPECT_EQ(pipeline("t-dummy{count=3 rate=0.5}").str(), "t-dummy");
  EXPECT_EQ(pipeline("t-dummy").str(true), "t-dummy{loud=false,count=3,rate=0.5,some-names=*}");
  EXPECT_EQ(pipeline(pipeline("t-dummy").str(true)).str(), "t-dummy");
  EXPECT_EQ(pipeline("builtin.module( cse, func.func(dce,t-dummy{loud}) )").str(),
            "cse,dce,t-dummy{loud=true}");
}

TEST_F(PassTest, ErrorsPointIntoThePipeline) {
  EXPECT_EQ(
      errorOf("cse,t-dumny"),
      "<pipeline>:1:5: error: no pass is named 't-dumny'; did you mean 't-dummy'?\ncse,t-dumny\n    ^\n");
  EXPECT_NE(errorOf("t-dummy{cuont=1}")
                .find("1:9: error: t-dummy has no option 'cuont'; did you mean 'count'? "
                      "(options: loud, count, rate, some-names)"),
            std::string::npos);
  EXPECT_NE(errorOf("cse{a=1}").find("cse has no options, but 'a' is given"), std::string::npos);
  EXPECT_NE(errorOf("t-dummy{count=1.5}").find("option 'count' takes an int, not '1.5'"), std::string::npos);
  EXPECT_NE(errorOf("t-dummy{rate=fast}").find("option 'rate' takes a double, not 'fast'"),
            std::string::npos);
  EXPECT_NE(errorOf("t-dummy{rate=nan}").find("takes a double, not 'nan'"), std::string::npos);
  EXPECT_NE(errorOf("t-dummy{loud=maybe}").find("option 'loud' takes a bool, not 'maybe'"),
            std::string::npos);
  EXPECT_NE(errorOf("t-dummy{count}").find("option 'count' needs a value"), std::string::npos);
  EXPECT_NE(errorOf("t-dummy{count=1,count=2}").find("option 'count' is given twice"), std::string::npos);
  for (const char* text : {",", "cse,", "cse dce", "cse{", "t-dummy{count=1", "t-dummy{some-names=(a}",
                           "module(cse", "t-dummy{some-names=\"a}", "cse)", "{}", "cse;dce"})
    EXPECT_NE(errorOf(text), "") << text;
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "module(";
  EXPECT_NE(errorOf(deep), "");
}

TEST_F(PassTest, OptionsGivenAsAttributesAreChecked) {
  auto m = module();
  PassManager wrongType;
  wrongType.add(*findPass("t-dummy"), {{"count", Attr::string("x")}});
  auto done = wrongType.run(m);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message().find("t-dummy: option 'count' takes an int"), std::string::npos);
  PassManager unknown;
  unknown.add(*findPass("t-dummy"), {{"nope", Attr::of(int64_t{1})}});
  EXPECT_FALSE(unknown.run(m));
}

TEST_F(PassTest, StagesAreChecked) {
  auto m = module("stage(fused)");
  auto done = pipeline("t-dummy").run(m);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(), "t-dummy needs stage(tensor), but the module is stage(fused)");
  EXPECT_EQ(placeOf(done.error().diagnostics()[0].loc)->file->name, "m.tgir");
  m = module();
  done = pipeline("t-far").run(m);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(),
            "t-far needs stage(planned) or stage(kernel), but the module is stage(tensor)");
  EXPECT_NE(done.error().str().find("note: run first: fuse,plan"), std::string::npos);
}

TEST_F(PassTest, APassUpToALaterStageTakesAndGivesWhatLiesBetween) {
  const PassInfo& emit = *findPass("spirv-emit");
  EXPECT_TRUE(emit.accepts(Stage::planned) && emit.accepts(Stage::kernel));
  EXPECT_FALSE(emit.accepts(Stage::fused) || emit.accepts(Stage::spirv));
  EXPECT_TRUE(emit.mayGive(Stage::kernel) && emit.mayGive(Stage::spirv) && !emit.mayGive(Stage::planned));
  const PassInfo& fuse = *findPass("fuse");
  EXPECT_TRUE(fuse.accepts(Stage::tensor) && !fuse.accepts(Stage::fused) && !fuse.mayGive(Stage::tensor));
  const PassInfo& strip = *findPass("strip-kernels");
  EXPECT_TRUE(strip.accepts(Stage::spirv) && strip.mayGive(Stage::spirv) && !strip.accepts(Stage::kernel));
}

TEST_F(PassTest, EveryPassHasATextTest) {
  std::string runs = " ";
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TG_SOURCE_DIR) + "/test/passes")) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);)
      if (line.find("RUN:") != std::string::npos) runs += line + " ";
  }
  auto isNameChar = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  };
  auto stands = [&](const std::string& name) {
    for (size_t at = runs.find(name); at != std::string::npos; at = runs.find(name, at + 1)) {
      const bool flag = runs.compare(at - 2, 2, "--") == 0;
      if ((flag || !isNameChar(runs[at - 1])) && !isNameChar(runs[at + name.size()])) return true;
    }
    return false;
  };
  for (const char* name : {
#define PASS(id, name, ...) name,
#include "passes/passes.def"
       })
    EXPECT_TRUE(stands(name)) << "no RUN line of test/passes runs " << name;
  EXPECT_FALSE(stands("no-such-pass"));
}

TEST_F(PassTest, AnAliasHasTheStagesAndOptionsOfItsPasses) {
  const PassInfo& fuse = *findPass("fuse");
  ASSERT_FALSE(fuse.parts.empty());
  EXPECT_TRUE(fuse.isLinked());
  EXPECT_EQ(fuse.parts.front(), findPass("set-target"));
  EXPECT_EQ(fuse.parts.back(), findPass("choose-schedules"));
  EXPECT_EQ(fuse.from, fuse.parts.front()->from);
  EXPECT_EQ(fuse.to, fuse.parts.back()->to);
  size_t distinct = 0;
  for (const OptionInfo& option : fuse.options) {
    auto has = [&](const PassInfo* part) { return part->option(option.name) != nullptr; };
    EXPECT_TRUE(std::any_of(fuse.parts.begin(), fuse.parts.end(), has)) << option.name;
    distinct += &option == fuse.option(option.name);
  }
  EXPECT_EQ(distinct, fuse.options.size());
  for (const PassInfo* part : fuse.parts)
    for (const OptionInfo& option : part->options) EXPECT_TRUE(fuse.option(option.name)) << option.name;
}

TEST_F(PassTest, HooksSeeAnAliasAroundItsPasses) {
  auto m = module();
  std::vector<std::string> seen;
  PassManager manager = pipeline("t-dummy,fuse{report}");
  manager.instrument({[&](const PipelineStep& step, int index, const Module&) {
                        seen.push_back(std::to_string(index) + "<" + step.pass->name);
                        EXPECT_EQ(step.of,
                                  index == 1 && step.pass->name != "fuse" ? findPass("fuse") : nullptr);
                        if (step.pass->name == "form-regions") {
                          EXPECT_TRUE(find(step.options, "report"));
                        }
                        if (step.pass->name == "sink-maps") {
                          EXPECT_TRUE(step.options.empty());
                        }
                      },
                      [&](const PipelineStep& step, int index, const Module&, double) {
                        seen.push_back(std::to_string(index) + ">" + step.pass->name);
                      }});
  ASSERT_TRUE(manager.run(m));
  std::vector<std::string> expected = {"0<t-dummy", "0>t-dummy", "1<fuse"};
  for (const PassInfo* part : findPass("fuse")->parts) {
    expected.push_back("1<" + part->name);
    expected.push_back("1>" + part->name);
  }
  expected.push_back("1>fuse");
  EXPECT_EQ(seen, expected);
}

TEST_F(PassTest, AnAliasFailsAsThePassThatFails) {
  auto m = module();
  auto done = pipeline("fuse{target=nowhere}").run(m);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().str().find("note: in pass set-target of fuse"), std::string::npos)
      << done.error().str();
  PassManager unknown;
  unknown.add(*findPass("fuse"), {{"colour", Attr::of(int64_t{1})}});
  done = unknown.run(m);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message().find("fuse has no option 'colour'"), std::string::npos);
}

TEST_F(PassTest, AFailureNamesThePassAndRunsNothingAfterIt) {
  auto m = module();
  std::vector<std::string> seen;
  PassManager manager = pipeline("t-dummy,t-fail,t-dummy");
  manager.instrument({[&](const PipelineStep& step, int index, const Module&) {
                        seen.push_back("before " + step.pass->name + std::to_string(index));
                      },
                      [&](const PipelineStep& step, int index, const Module&, double milliseconds) {
                        EXPECT_GE(milliseconds, 0);
                        seen.push_back("after " + step.pass->name + std::to_string(index));
                      }});
  auto done = manager.verifyEach(VerifyEach::on).run(m);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().str(),
            "m.tgir:2:3: error: cannot do this\n  func @f(%x: tensor<2xf32>) -> (y: tensor<2xf32>) "
            "{\n  ^\nnote: in pass t-fail\n");
  EXPECT_EQ(seen, (std::vector<std::string>{"before t-dummy0", "after t-dummy0", "before t-fail1"}));
}

TEST_F(PassTest, RemarksReachTheHandler) {
  auto m = module();
  std::vector<std::string> said;
  PassManager manager = pipeline("t-dummy{loud}");
  manager.onDiagnostic([&](const Diagnostic& diagnostic) { said.push_back(diagnostic.message); });
  ASSERT_TRUE(manager.run(m));
  EXPECT_EQ(said, std::vector<std::string>{"dummy was here"});
}

TEST_F(PassTest, AnInvalidInputIsTheInputsFault) {
  auto m = module();
  m->func("f")->body.ops.back()->operands.clear();
  auto done = pipeline("t-dummy").run(m);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().str().find("a bug in the compiler"), std::string::npos);
}

// The reproducer must fail in the same way when its own instructions are followed.
TEST_F(PassTest, ABrokenModuleIsThePassesFaultAndLeavesAReproducer) {
  const TempFolder folder;
  const std::string path = folder.path("reproducer.tgir");
  auto m = module();
  std::string before = print(*m);
  auto done = pipeline("t-dummy,t-break,t-dummy{count=9}").reproducer(path).run(m);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(),
            "pass t-break made an invalid module: a bug in that pass, not in the input");
  EXPECT_NE(done.error().str().find("note: the module before the pass is in " + path), std::string::npos);
  const std::string text = folder.slurp("reproducer.tgir");
  EXPECT_EQ(text, "// Reproduce: tg-opt --pass-pipeline='t-break,t-dummy{count=9}' THIS_FILE\n" + before);
  loadedPlugins() = {"my passes.so"};
  EXPECT_EQ(reproducerText("t-break", "m"),
            "// Reproduce: tg-opt --load-pass-plugin='my passes.so' --pass-pipeline='t-break' THIS_FILE\nm");
  loadedPlugins().clear();
  auto again = tg::parse(text, path);
  ASSERT_TRUE(again) << again.error().str();
  EXPECT_FALSE(pipeline("t-break,t-dummy{count=9}").run(*again));
}

TEST_F(PassTest, AnExceptionIsThePassesFault) {
  expectError("t-dummy,t-throw",
              "error: pass t-throw threw an exception: a bug in that pass, not in the input\n"
              "note: no such thing\n");
  expectError("t-throw-number",
              "error: pass t-throw-number threw an exception: a bug in that pass, not in the input\n"
              "note: an exception that is no std::exception\n");
}

TEST_F(PassTest, AFactoryThatThrowsOrGivesNothingIsThePassesFault) {
  PassInfo info{
      "t-factory", "", Stage::tensor, Stage::tensor, "", {}, [](const AttrList&) -> Result<PassFunction> {
        throw std::runtime_error("no factory");
      }};
  ASSERT_TRUE(registerPass(info));
  info.name = "t-empty-function";
  info.make = [](const AttrList&) { return Result<PassFunction>(PassFunction()); };
  ASSERT_TRUE(registerPass(info));
  expectError(
      "t-dummy{loud},t-factory",
      "error: pass t-factory threw where its options were bound: a bug in that pass, not in the input\n"
      "note: no factory\n");
  for (const std::string name : {"t-empty-function", "t-no-function"})
    expectError(name,
                "error: pass " + name + " is an empty function: a bug in that pass, not in the input\n");
}

TEST_F(PassTest, APassThatLosesAllFunctionsIsAtFault) {
  expectError("t-dummy,t-empty",
              "error: pass t-empty made an invalid module: a bug in that pass, not in the input\n"
              "note: it has no function any more\n");
  auto none = tg::parse("module @m {\n}\n", "m.tgir");
  ASSERT_TRUE(none);
  EXPECT_TRUE(pipeline("t-empty").run(*none)) << "there was none before";
}

TEST_F(PassTest, APassThatDoesNotReachItsStageIsCaught) {
  auto m = module();
  auto done = pipeline("t-stay").run(m);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().str().find("it should give stage(fused), but the module is stage(tensor)"),
            std::string::npos);
}

TEST_F(PassTest, RoundTripsBetweenPassesCatchWhatTextCannotHold) {
  auto m = module();
  EXPECT_TRUE(pipeline("t-unprintable").verifyEach(VerifyEach::on).run(m));
  m = module();
  auto done = pipeline("t-unprintable").verifyEach(VerifyEach::roundtrip).run(m);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message().find("t-unprintable made a module whose text does not read back"),
            std::string::npos);
  m = module();
  const Module* old = m.get();
  ASSERT_TRUE(pipeline("t-dummy").verifyEach(VerifyEach::roundtrip).run(m));
  EXPECT_NE(m.get(), old);
  EXPECT_EQ(locString(m->func("f")->body.ops.front()->loc), "m.tgir:3:5")
      << "locations survive the round trip";
}

TEST_F(PassTest, APassThatIsNotLinkedSaysWhereItIs) {
  PassInfo card{"t-card", "tg-card", Stage::tensor, Stage::tensor, "", {}, {}};
  ASSERT_TRUE(registerPass(card));
  auto m = module();
  auto done = pipeline("t-card").run(m);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(), "t-card is not part of this program; use tg-opt or tg-card");
}

TEST(Names, Nearest) {
  std::vector<std::string> known = {"append-grad", "append-adam", "fuse", "plan"};
  EXPECT_EQ(nearestName("fues", known), "fuse");
  EXPECT_EQ(nearestName("adam", known), "append-adam");
  EXPECT_EQ(nearestName("apend-grad", known), "append-grad");
  EXPECT_EQ(nearestName("zzzz", known), "");
  EXPECT_EQ(nearestName("", known), "");
}

TEST(Names, Glob) {
  EXPECT_TRUE(globMatch("*", ""));
  EXPECT_TRUE(globMatch("*", "l1.w"));
  EXPECT_TRUE(globMatch("l?.w", "l1.w"));
  EXPECT_FALSE(globMatch("l?.w", "l.w"));
  EXPECT_TRUE(globMatch("*.b|*.gain", "h.3.gain"));
  EXPECT_FALSE(globMatch("*.b|*.gain", "h.3.w"));
  EXPECT_TRUE(globMatch("a*b*c", "axxbyyc"));
  EXPECT_FALSE(globMatch("a*b*c", "axxbyy"));
  EXPECT_FALSE(globMatch("l1", "l1.w"));
  EXPECT_FALSE(globMatch("l1.w", "l1"));
  EXPECT_TRUE(globMatch("", ""));
  EXPECT_FALSE(globMatch("", "a"));
  EXPECT_TRUE(globMatch("|a", "a"));
  EXPECT_FALSE(globMatch(std::string(40, '*') + "b", std::string(2000, 'a')));
}

}  // namespace
}  // namespace tg
