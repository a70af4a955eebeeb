// SPDX-License-Identifier: Apache-2.0
// Tuning files: keys of regions, the text, and what fuse makes of an entry.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/parser.h"
#include "passes/pass.h"
#include "passes/tuning.h"
#include "test/unit/temp_folder.h"

namespace tg {
namespace {

/// Two layers alike in all but names, one with another inner extent and the same result, one with relu.
constexpr const char* kLayers = R"(
module @layers {
  param @w1 : tensor<8x8xf32>
  param @w2 : tensor<8x8xf32>
  param @w3 : tensor<4x8xf32>
  func @f(%x: tensor<16x8xf32>, %z: tensor<16x4xf32>) -> (a: tensor<16x8xf32>, b: tensor<16x8xf32>, c: tensor<16x8xf32>, d: tensor<16x8xf32>) {
    %w1 = tg.param @w1 : tensor<8x8xf32>
    %w2 = tg.param @w2 : tensor<8x8xf32>
    %w3 = tg.param @w3 : tensor<4x8xf32>
    %first = tg.matmul %x, %w1 : tensor<16x8xf32>
    %second = tg.matmul %first, %w2 : tensor<16x8xf32>
    %third = tg.matmul %z, %w3 : tensor<16x8xf32>
    %fourth = tg.matmul %second, %w1 : tensor<16x8xf32>
    %rest = tg.relu %fourth : tensor<16x8xf32>
    return %first, %second, %third, %rest : tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>
  }
}
)";

/// The layers after fuse for lavapipe, and what was said meanwhile.
struct Fused {
  std::unique_ptr<Module> module;
  std::vector<std::string> remarks;
  const Op& region(const std::string& result) const {
    for (Op* op : module->func("f")->body.ops)
      if (op->code == Opcode::fused && op->result()->name == result) return *op;
    ADD_FAILURE() << "no region makes %" << result;
    return *module->func("f")->body.ops.front();
  }
  std::string schedule(const std::string& result) const { return region(result).attr("schedule").str(); }
};

Fused fused(const std::string& tuning = "") {
  Fused out;
  auto module = parse(kLayers, "layers.tgir");
  EXPECT_TRUE(module) << module.error().str();
  auto manager =
      PassManager::parse(fmt::format("fuse{{target=lavapipe,tuning={}}}", Attr::string(tuning).str()));
  EXPECT_TRUE(manager) << manager.error().str();
  manager->onDiagnostic([&](const Diagnostic& diagnostic) { out.remarks.push_back(diagnostic.message); });
  out.module = std::move(*module);
  auto ran = manager->run(out.module);
  EXPECT_TRUE(ran) << ran.error().str();
  return out;
}

class Tuning : public FolderTest {
 protected:
  std::string file(const std::string& text) const { return put("tuning.txt", text); }
};

Attr schedule(const std::string& text) {
  auto attr = parseAttr(text);
  EXPECT_TRUE(attr) << text;
  return attr ? *attr : Attr();
}

TEST_F(Tuning, EqualRegionsShareAKeyAndOthersDoNot) {
  Fused layers = fused();
  const std::string first = tuningKey(layers.region("first"));
  EXPECT_EQ(first.size(), 17u);
  EXPECT_EQ(first[0], 'r');
  EXPECT_EQ(first, tuningKey(layers.region("second"))) << "names and sources do not count";
  EXPECT_NE(first, tuningKey(layers.region("third"))) << "the inner extent does, which no result shows";
  EXPECT_NE(first, tuningKey(layers.region("rest"))) << "so do the ops";
  std::unordered_map<const Value*, Value*> map;
  std::unique_ptr<Op> other = cloneOp(layers.region("first"), map);
  other->setAttr("schedule", schedule("matmul{tile = [1, 4], workgroup = 8}"));
  EXPECT_EQ(first, tuningKey(*other)) << "the schedule is what is looked up";
}

TEST_F(Tuning, SlicesAlongOtherAxesThanTheLastShareAKey) {
  auto parsed = parse(R"(
module @m {
  func @f(%x: tensor<4x8x16xf32>) -> (a: tensor<4x2x16xf32>, b: tensor<4x2x16xf32>, c: tensor<4x3x16xf32>, d: tensor<4x8x8xf32>, e: tensor<4x8x8xf32>) {
    %sa = tg.slice %x {starts = [0, 1, 0], limits = [4, 3, 16]} : tensor<4x2x16xf32>
    %a = tg.exp %sa : tensor<4x2x16xf32>
    %sb = tg.slice %x {starts = [0, 5, 0], limits = [4, 7, 16]} : tensor<4x2x16xf32>
    %b = tg.exp %sb : tensor<4x2x16xf32>
    %sc = tg.slice %x {starts = [0, 1, 0], limits = [4, 4, 16]} : tensor<4x3x16xf32>
    %c = tg.exp %sc : tensor<4x3x16xf32>
    %sd = tg.slice %x {starts = [0, 0, 0], limits = [4, 8, 8]} : tensor<4x8x8xf32>
    %d = tg.exp %sd : tensor<4x8x8xf32>
    %se = tg.slice %x {starts = [0, 0, 8], limits = [4, 8, 16]} : tensor<4x8x8xf32>
    %e = tg.exp %se : tensor<4x8x8xf32>
    return %a, %b, %c, %d, %e : tensor<4x2x16xf32>, tensor<4x2x16xf32>, tensor<4x3x16xf32>, tensor<4x8x8xf32>, tensor<4x8x8xf32>
  }
})",
                      "slices.tgir");
  ASSERT_TRUE(parsed) << parsed.error().str();
  Fused slices{*std::move(parsed), {}};
  const auto passes = PassManager::parse("set-target{target=lavapipe},form-regions");
  ASSERT_TRUE(passes && passes->run(slices.module));
  std::vector<std::string> keys;
  for (const char* result : {"a", "b", "c", "d", "e"}) keys.push_back(tuningKey(slices.region(result)));
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_NE(keys[0], keys[2]);
  EXPECT_NE(keys[3], keys[4]);
}

TEST_F(Tuning, TextReadsBackAsItWas) {
  const AttrList table = {{"rb", schedule("row{lanes = 1, vec = 4, workgroup = 8}")},
                          {"ra", schedule("matmul{tile = [4, 4], shared = [32, 32, 16], slices = 2}")}};
  const std::string text = printTuning(table);
  EXPECT_EQ(text, "{\n  ra = matmul{tile = [4, 4], shared = [32, 32, 16], slices = 2},\n"
                  "  rb = row{lanes = 1, vec = 4, workgroup = 8}\n}\n");
  auto read = readTuning(file(text));
  ASSERT_TRUE(read) << read.error().str();
  EXPECT_EQ(*read, (AttrList{table[1], table[0]}));
  auto none = readTuning(file(printTuning({})));
  ASSERT_TRUE(none) << none.error().str();
  EXPECT_TRUE(none->empty());
}

TEST_F(Tuning, WhatIsNoTableIsRefused) {
  auto absent = readTuning(path("absent"));
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().message().find("/absent: cannot open: No such file or directory"),
            std::string::npos);
  auto list = readTuning(file("[1, 2]"));
  ASSERT_FALSE(list);
  EXPECT_NE(list.error().message().find("is no {key = schedule"), std::string::npos);
  EXPECT_FALSE(readTuning(file("{ra = ")));
}

TEST_F(Tuning, ActsOnTheRegionsOfItsKeysAlone) {
  Fused plain = fused();
  EXPECT_TRUE(plain.remarks.empty());
  const std::string other = "matmul{tile = [2, 4], workgroup = 16}";
  ASSERT_NE(plain.schedule("first"), other);
  const std::string name = file(printTuning(
      {{tuningKey(plain.region("first")), schedule(other)}, {"r0123456789abcdef", schedule(other)}}));
  Fused tuned = fused(name);
  EXPECT_EQ(tuned.schedule("first"), other);
  EXPECT_EQ(tuned.schedule("second"), other);
  EXPECT_EQ(tuned.schedule("third"), plain.schedule("third"));
  EXPECT_EQ(tuned.schedule("rest"), plain.schedule("rest"));
  EXPECT_EQ(tuned.remarks, std::vector<std::string>{
                               fmt::format("tuning file {}: no region has the key r0123456789abcdef", name)});
}

}  // namespace
}  // namespace tg
