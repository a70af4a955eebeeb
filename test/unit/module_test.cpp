// SPDX-License-Identifier: Apache-2.0
// A module's items by name, as they come and go, names that are free, and where ops are built.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/module.h"
#include "ir/op_info.h"
#include "ir/parser.h"
#include "ir/parser_rules.h"
#include "ir/text.h"
#include "ir/unread.h"
#include "ir/verify.h"

namespace tg {
namespace {

std::unique_ptr<Item> item(ItemKind kind, std::string name) {
  auto made = std::make_unique<Item>();
  made->kind = kind;
  made->name = std::move(name);
  return made;
}

std::vector<std::string> itemNames(const ItemList& items) {
  std::vector<std::string> names;
  for (const auto& each : items) names.push_back(each->name);
  return names;
}

using Names = std::vector<std::string>;

TEST(CountText, OnlyOneIsSingular) {
  EXPECT_EQ(countText(0, "kernel"), "0 kernels");
  EXPECT_EQ(countText(1, "kernel"), "1 kernel");
  EXPECT_EQ(countText(-1, "byte"), "-1 bytes");
  EXPECT_EQ(countText(1, "value agrees", "values agree"), "1 value agrees");
  EXPECT_EQ(countText(2, "value agrees", "values agree"), "2 values agree");
}

TEST(ItemList, KindsHaveNamesOfTheirOwn) {
  Module module;
  Item* param = module.add(ItemKind::param, "a");
  Item* kernel = module.add(ItemKind::kernel, "k");
  Item* binary = module.add(ItemKind::binary, "k");
  Item* state = module.add(ItemKind::state, "s");
  EXPECT_EQ(module.find(ItemKind::kernel, "k"), kernel);
  EXPECT_EQ(module.find(ItemKind::binary, "k"), binary);
  EXPECT_EQ(module.find(ItemKind::param, "a"), param);
  EXPECT_EQ(module.find(ItemKind::state, "a"), nullptr);
  EXPECT_EQ(module.find(ItemKind::kernel, "a"), nullptr);
  EXPECT_EQ(module.storage("a"), param);
  EXPECT_EQ(module.storage("s"), state);
  EXPECT_EQ(module.storage("k"), nullptr);
}

TEST(ItemList, WhatIsInsertedIsFoundAndWhatIsErasedIsNot) {
  Module module;
  module.add(ItemKind::func, "f");
  auto at = module.items.insert(module.items.begin(), item(ItemKind::buffer, "arena"));
  EXPECT_EQ((*at)->name, "arena");
  module.items.push_back(item(ItemKind::kernel, "k"));
  EXPECT_EQ(itemNames(module.items), (Names{"arena", "f", "k"}));
  EXPECT_EQ(module.find(ItemKind::buffer, "arena"), module.items[0].get());
  module.items.eraseIf([](const auto& each) { return each->kind != ItemKind::func; });
  EXPECT_EQ(itemNames(module.items), (Names{"f"}));
  EXPECT_EQ(module.find(ItemKind::buffer, "arena"), nullptr);
  EXPECT_EQ(module.find(ItemKind::kernel, "k"), nullptr);
  EXPECT_EQ(module.find(ItemKind::func, "f"), module.items[0].get());
}

TEST(ItemList, TakenItemsGoIntoAnotherListUnderAnotherName) {
  Module from, to;
  from.add(ItemKind::func, "train");
  for (auto& each : from.items.take()) {
    each->name = "eval";
    to.items.push_back(std::move(each));
  }
  EXPECT_TRUE(from.items.empty());
  EXPECT_EQ(from.find(ItemKind::func, "train"), nullptr);
  EXPECT_EQ(to.find(ItemKind::func, "train"), nullptr);
  EXPECT_EQ(to.find(ItemKind::func, "eval"), to.items[0].get());
  from = std::move(to);
  EXPECT_EQ(from.find(ItemKind::func, "eval"), from.items[0].get());
}

TEST(ItemList, OfTwoWithOneNameTheFirstOfTheTextIsFound) {
  Module module;
  module.add(ItemKind::func, "f");
  module.items.insert(module.items.begin(), item(ItemKind::func, "f"));
  EXPECT_EQ(module.find(ItemKind::func, "f"), module.items[0].get());
  const Item* gone = module.items[0].get();
  module.items.eraseIf([&](const auto& each) { return each.get() == gone; });
  EXPECT_EQ(module.items.size(), 1u);
  EXPECT_EQ(module.find(ItemKind::func, "f"), module.items[0].get());
}

TEST(ItemList, CopiesFindTheirOwn) {
  Module module;
  module.add(ItemKind::param, "p");
  auto copy = clone(module);
  EXPECT_EQ(copy->storage("p"), copy->items[0].get());
  EXPECT_NE(copy->storage("p"), module.storage("p"));
}

TEST(Module, StorageStandsBehindTheStorageThereIs) {
  Module module;
  module.addStorage(ItemKind::state, "first");
  EXPECT_EQ(itemNames(module.items), (Names{"first"}));
  module.add(ItemKind::func, "f");
  module.addStorage(ItemKind::param, "second");
  EXPECT_EQ(itemNames(module.items), (Names{"first", "second", "f"}));
  Module bare;
  bare.add(ItemKind::func, "f");
  bare.addStorage(ItemKind::param, "p");
  EXPECT_EQ(itemNames(bare.items), (Names{"p", "f"}));
}

TEST(NameTable, GivesTheHintThenTheFirstFreeNumber) {
  NameTable names;
  for (const char* name : {"x", "x_2", "x_4"}) names.take(name);
  EXPECT_EQ(names.unique("x"), "x_3");
  EXPECT_EQ(names.unique("x"), "x_5");
  EXPECT_EQ(names.unique("x_2"), "x_2_2");
  EXPECT_EQ(names.unique("y"), "y");
  EXPECT_EQ(names.unique("y"), "y_2");
  EXPECT_EQ(names.unique(""), "v");
  NameTable moved = std::move(names);
  EXPECT_EQ(moved.unique("a_name_longer_than_a_short_string"), "a_name_longer_than_a_short_string");
  EXPECT_EQ(moved.unique("a_name_longer_than_a_short_string"), "a_name_longer_than_a_short_string_2");
  EXPECT_EQ(moved.unique("y"), "y_3");
}

TEST(Op, AttributesThatAreLeftOutHaveTheRowsDefault) {
  Op op(Opcode::sum);
  op.setAttr("axes", Attr::ints({0}));
  EXPECT_FALSE(op.flag("keepdims"));
  EXPECT_EQ(&op.attr("keepdims"), &op.attr("keepdims")) << "parsed once";
  op.setAttr("keepdims", Attr::boolean(true));
  EXPECT_TRUE(op.flag("keepdims"));
  op.setAttr("keepdims", Attr::boolean(false));
  EXPECT_EQ(op.attrs.size(), 1u) << "a default is not written";
  EXPECT_TRUE(op.attr("nothing").isNone());
}

TEST(Builder, BuildsAtTheEndOfAListAndBeforeAnOpWhereverThatStands) {
  Block first, second;
  Builder builder(first.ops);
  Op* constant = builder.scalar(1)->def;
  Op* other = builder.setEnd(second.ops).scalar(2)->def;
  Op* before = builder.setBefore(constant).scalar(3)->def;
  EXPECT_EQ(first.ops.all(), (std::vector<Op*>{before, constant}));
  EXPECT_EQ(second.ops.all(), std::vector<Op*>{other});
  Op* last = builder.setBefore(nullptr).scalar(4)->def;
  EXPECT_EQ(first.ops.back(), last);
}

TEST(Builder, NamesStandApartFromThoseOfItsTable) {
  Block block;
  block.addArg(Type::tensor(DType::f32, {}), "x");
  NameTable names;
  names.take("x");
  names.take("x_2");
  EXPECT_EQ(Builder(block).setHint("x").scalar(1)->name, "x_2");
  EXPECT_EQ(Builder(block.ops, &names).setHint("x").scalar(1)->name, "x_3");
  EXPECT_EQ(names.unique("x"), "x_4");
  EXPECT_EQ(Builder(block.ops).setHint("x").scalar(1)->name, "x");
}

TEST(Builder, WhatDoesNotInferIsAnErrorAndIsNotBuilt) {
  Block block;
  Builder builder(block);
  Value* a = builder.constant(1, Type::tensor(DType::f32, {2}));
  Value* b = builder.constant(1, Type::tensor(DType::f32, {3}));
  auto made = builder.tryCreate(Opcode::add, {Operand::of(a), Operand::of(b)});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().str().find("tg.add [add.c2]"), std::string::npos) << made.error().str();
  EXPECT_EQ(block.ops.size(), 2u);
  EXPECT_TRUE(builder.tryCreate(Opcode::add, {Operand::of(a), Operand::of(a)}));
}

TEST(Builder, AnOpWithoutAllItsOperandsDoesNotInfer) {
  Value x;
  x.type = Type::tensor(DType::f32, {2});
  for (const auto& [code, given, missing] :
       {std::tuple(Opcode::add, 1, "tg.add [op.operand]: operand 'rhs' is missing"),
        std::tuple(Opcode::exp, 0, "tg.exp [op.operand]: operand 'x' is missing"),
        std::tuple(Opcode::update, 0, "tg.update [op.operand]: operand 'name' is missing"),
        std::tuple(Opcode::matmul, 1, "tg.matmul [op.operand]: operand 'rhs' is missing")}) {
    Op op(code);
    for (int i = 0; i < given; ++i) op.operands.push_back(Operand::of(&x));
    auto types = infer(op, nullptr);
    ASSERT_FALSE(types) << missing;
    EXPECT_NE(types.error().str().find(missing), std::string::npos) << types.error().str();
  }
}

TEST(Builder, AnOpOfNullIsAnErrorAndIsNotBuilt) {
  Block block;
  Builder builder(block);
  Value* a = builder.scalar(1);
  for (const auto& [operands, why] :
       {std::pair(OperandList{Operand::of(a), Operand::of(nullptr)},
                  "tg.add [op.operand]: operand 1 is null"),
        std::pair(OperandList{Operand::of(a)}, "tg.add [op.operand]: operand 'rhs' is missing"),
        std::pair(OperandList{Operand::of(a), Operand::of(a), Operand::of(a)},
                  "tg.add [op.operand]: 3 operands, of which 2 fill its slots")}) {
    auto made = builder.tryCreate(Opcode::add, operands);
    ASSERT_FALSE(made) << why;
    EXPECT_EQ(made.error().message(), why);
  }
  EXPECT_EQ(block.ops.size(), 1u);
}

TEST(Verify, ANameThatNoTextCanSpellIsRefused) {
  for (const std::string name : {"", "a b", "a\nb", "é", "a\"b"}) {
    Module module;
    module.name = name;
    auto checked = verify(module);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().message(),
              fmt::format("module [module.name]: '@{}' is not a valid name of a module", name));
  }
}

TEST(Verify, AResultsNameIsAWord) {
  for (const std::string name : {"0", "1x", ".a", "$", "a b", ""}) {
    auto module =
        parse("module @m { func @f(%x: tensor<f32>) -> (r: tensor<f32>) { return %x : tensor<f32> } }", "m");
    ASSERT_TRUE(module) << module.error().str();
    (*module)->func("f")->results[0].name = name;
    auto checked = verify(**module);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().message(),
              fmt::format("func @f [op.type]: result '{}' has no name a text can spell", name));
  }
}

TEST(Verify, TheNameOfAnAxisIsNoValue) {
  for (const std::string name : {"true", "false", "inf", "nan"}) {
    auto module = parse("module @m { param @p : tensor<2xf32> {dims = [a]} }", "m");
    ASSERT_TRUE(module) << module.error().str();
    (*module)->storage("p")->attrs[0].value = Attr::array({Attr::word(name)});
    auto checked = verify(**module);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().message(),
              fmt::format("@p: attribute 'dims' holds names of letters, digits and '_', not {}", name));
  }
}

/// The names of the values that a kernel's ops give, in text order, after what nobody reads is gone but for
/// the ops up to the one of %last and the value %kept; "" names none.
Names leftUnread(std::string_view last, std::string_view kept) {
  auto module = parse(R"(module @m {
  kernel @k(%x: buf<64xf32, in>, %y: buf<64xf32, out>) workgroup(64) grid(1) {
    %early = tgk.num_workgroups 0 : u32
    %l = tgk.local_id 0 : u32
    %twice = tgk.add %l, %l : u32
    %square = tgk.mul %twice, %twice : u32
    %v = tgk.load %x[%l] : f32
    %in = tgk.lt %l, 64 : bool
    tgk.if %in {
      %half = tgk.div %l, 2 : u32
      %more = tgk.add %half, %square : u32
      %w = tgk.mul %v, %v : f32
      tgk.store %w, %y[%l]
    }
  }
})",
                      "unread");
  if (!module) return {module.error().str()};
  OpList& ops = (*module)->items[0]->body.ops;
  const Op* lastOp = nullptr;
  std::unordered_set<const Value*> keptValues;
  for (const Op* op : ops)
    for (const auto& result : op->results) {
      if (result->name == last) lastOp = op;
      if (result->name == kept) keptValues.insert(result.get());
    }
  eraseUnread(ops, lastOp, keptValues);
  Names names;
  walk((*module)->items[0]->body, [&](const Op& op) {
    for (const auto& result : op.results) names.push_back(result->name);
  });
  return names;
}

TEST(Unread, WhatOnlyUnreadOpsReadGoesInNestedRegionsToo) {
  EXPECT_EQ(leftUnread("", ""), (Names{"l", "v", "in", "w"}));
}

TEST(Unread, KeptValuesAndWhatTheyReadStay) {
  EXPECT_EQ(leftUnread("", "twice"), (Names{"l", "twice", "v", "in", "w"}));
}

TEST(Unread, OpsUpToTheLastOneStay) {
  EXPECT_EQ(leftUnread("twice", ""), (Names{"early", "l", "twice", "v", "in", "w"}));
}

// A name that the parser explains how to do without is no op's. An op of that name makes its row of ir/absent.cpp dead.
TEST(OpTable, NoNameIsExplainedAway) {
  for (int code = 0; code < kOpcodeCount; ++code) {
    const std::string_view name = info(static_cast<Opcode>(code)).name;
    if (!name.starts_with("tg.")) continue;
    EXPECT_EQ(insteadOfTensorOp(name), "") << name;
  }
}

}  // namespace
}  // namespace tg
