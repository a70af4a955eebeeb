// SPDX-License-Identifier: Apache-2.0
// The core of the IR in memory: each value knows who reads it, and ops come and go in their block.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"
#include "ir/parser.h"
#include "passes/pass.h"

namespace tg {
namespace {

std::vector<const Op*> usersOf(const Value& value) {
  std::vector<const Op*> users;
  for (const Use& use : value.uses) users.push_back(use.user());
  std::sort(users.begin(), users.end());
  return users;
}

std::unique_ptr<Op> reading(std::initializer_list<Operand> operands) {
  return Op::create(Opcode::add, {}, operands);
}

TEST(Uses, FollowTheOperandsOfOps) {
  Value a, b;
  auto op = reading({Operand::of(&a), Operand::of(&a)});
  EXPECT_EQ(usersOf(a), (std::vector<const Op*>{op.get(), op.get()}));
  EXPECT_FALSE(a.uses.hasOne());
  op->operands[0].value = &b;
  EXPECT_TRUE(a.uses.hasOne() && b.uses.hasOne());
  op->operands.erase(op->operands.begin());
  EXPECT_TRUE(b.uses.empty());
  op.reset();
  EXPECT_TRUE(a.uses.empty());
}

TEST(Uses, FollowAListThatGrows) {
  Value a, b;
  Op op(Opcode::concat);
  for (int i = 0; i < 100; ++i) op.operands.push_back(Operand::of(i % 2 ? &a : &b));
  op.operands.insert(op.operands.begin(), Operand::of(&a));
  EXPECT_EQ(usersOf(a).size(), 51u);
  std::swap(op.operands[1], op.operands[2]);
  EXPECT_EQ(op.operands[1].value, &a);
  EXPECT_EQ(usersOf(a), std::vector<const Op*>(51, &op));
  EXPECT_EQ(usersOf(b), std::vector<const Op*>(50, &op));
  op.operands.resize(1);
  EXPECT_TRUE(a.uses.hasOne() && b.uses.empty());
}

TEST(Uses, CountItemsOfOperandsButNoDefinitionAndNoCopy) {
  Value buffer, index, argument, source;
  Op op(Opcode::k_load);
  op.operands = {Operand::element(&buffer, {Operand::of(&index)}),
                 Operand::binding(&argument, Operand::of(&source))};
  op.operands[0].items.push_back(Operand::of(&index));
  EXPECT_EQ(usersOf(index).size(), 2u);
  EXPECT_TRUE(argument.uses.empty());
  EXPECT_TRUE(source.uses.hasOne() && buffer.uses.hasOne());
  const Operand copy = op.operands[0];
  const Value same = index;
  EXPECT_EQ(usersOf(index).size(), 2u);
  EXPECT_TRUE(same.uses.empty());
}

TEST(Uses, ThoseFromAnOpOnAreReplaced) {
  Value a, b;
  OpList ops;
  std::vector<Op*> made;
  for (int i = 0; i < 3; ++i) {
    made.push_back(ops.push_back(Op::create(Opcode::neg, {})));
    made.back()->operands.push_back(Operand::of(&a));
  }
  a.uses.replaceFrom(*made[1], &b);
  EXPECT_EQ(usersOf(a), std::vector<const Op*>{made[0]});
  EXPECT_EQ(usersOf(b).size(), 2u);
  EXPECT_TRUE(made[1]->operands[0].value == &b && made[2]->operands[0].value == &b);
  a.uses.replaceFrom(*made[1], &b);  // none is left there
  EXPECT_TRUE(a.uses.hasOne());
  Value unread;
  unread.uses.replaceFrom(*made[0], &b);
  EXPECT_EQ(usersOf(b).size(), 2u);
}

TEST(Uses, AllAreReplacedAtOnce) {
  Value a, b;
  auto first = reading({Operand::of(&a), Operand::of(&b)}), second = reading({Operand::group({&a, &a})});
  a.uses.replaceAll(&a);
  a.uses.replaceAll(&b);
  EXPECT_TRUE(a.uses.empty());
  EXPECT_EQ(usersOf(b).size(), 4u);
  EXPECT_EQ(second->operands[0].items[1].value, &b);
}

TEST(Uses, AValueThatIsGoneIsReadNoMore) {
  auto value = std::make_unique<Value>();
  auto op = reading({Operand::of(value.get())});
  value.reset();
  EXPECT_EQ(op->operands[0].value, nullptr);
}

std::string codesOf(const OpList& ops) {
  std::string out;
  for (const Op* op : ops) out += std::string(op->info().name.substr(3)) + ' ';
  std::string back;
  for (auto it = ops.rbegin(); it != ops.rend(); ++it)
    back = std::string((*it)->info().name.substr(3)) + ' ' + back;
  EXPECT_EQ(out, back);
  EXPECT_EQ(static_cast<size_t>(std::count(out.begin(), out.end(), ' ')), ops.size());
  return out;
}

TEST(OpList, OpsComeAndGoAnywhere) {
  OpList ops;
  auto make = [](Opcode code) { return Op::create(code, {}); };
  Op* exp = ops.push_back(make(Opcode::exp));
  Op* neg = ops.insert(exp, make(Opcode::neg));
  ops.insert(nullptr, make(Opcode::abs));
  EXPECT_EQ(codesOf(ops), "neg exp abs ");
  EXPECT_EQ(exp->list(), &ops);
  EXPECT_EQ(exp->previous(), neg);
  EXPECT_EQ(neg->previous(), nullptr);
  std::unique_ptr<Op> taken = ops.take(exp);
  EXPECT_EQ(codesOf(ops), "neg abs ");
  EXPECT_EQ(exp->list(), nullptr);
  OpList other;
  other.push_back(make(Opcode::log));
  other.push_back(std::move(taken));
  other.push_back(make(Opcode::sin));
  ops.splice(neg, other, other.front(), other.back());
  EXPECT_EQ(codesOf(ops), "log exp neg abs ");
  EXPECT_EQ(codesOf(other), "sin ");
  other = ops.takeAll();
  EXPECT_TRUE(ops.empty());
  EXPECT_EQ(codesOf(other), "log exp neg abs ");
  EXPECT_EQ(exp->list(), &other);
  other.eraseIf([](const Op* op) { return op->code == Opcode::log || op->code == Opcode::abs; });
  EXPECT_EQ(codesOf(other), "exp neg ");
  other.erase(other.front());
  other.erase(other.back());
  EXPECT_TRUE(other.empty() && !other.front() && !other.back());
}

/// What reads each value by the operands that stand in a block, counted anew, against the lists.
void expectTrueUses(const Block& body) {
  std::map<const Value*, std::vector<const Op*>> counted;
  std::vector<const Value*> values;
  for (const auto& arg : body.args) values.push_back(arg.get());
  walk(body, [&](Op& op) {
    forEachUse(std::as_const(op), [&](const Value* value) { counted[value].push_back(&op); });
    for (const auto& result : op.results) values.push_back(result.get());
    for (const auto& region : op.regions)
      for (const auto& arg : region->args) values.push_back(arg.get());
  });
  for (const Value* value : values) {
    std::vector<const Op*>& users = counted[value];
    std::sort(users.begin(), users.end());
    EXPECT_EQ(usersOf(*value), users) << "of %" << value->name;
  }
}

TEST(Uses, AreTrueBehindEachPass) {
  int passes = 0;
  for (const char* folder : {"/docs/examples", "/docs/examples/kernels"})
    for (const auto& entry : std::filesystem::directory_iterator(std::string(TG_SOURCE_DIR) + folder)) {
      if (entry.path().extension() != ".tgir") continue;
      SCOPED_TRACE(entry.path().string());
      auto module = parseFile(entry.path().string());
      ASSERT_TRUE(module) << module.error().str();
      auto manager = PassManager::parse("append-grad,append-adam,canonicalize,canonicalize-kernels,cse,dce,"
                                        "fuse{target=lavapipe},plan,lower-kernels");
      ASSERT_TRUE(manager) << manager.error().str();
      manager->instrument({{}, [&](const PipelineStep& step, int, const Module& now, double) {
                             SCOPED_TRACE(step.pass->name);
                             for (const auto& item : now.items) expectTrueUses(item->body);
                             ++passes;
                           }});
      auto ran = manager->run(*module);
      ASSERT_TRUE(ran) << ran.error().str();
    }
  EXPECT_GE(passes, 9 * 9);
}

}  // namespace
}  // namespace tg
