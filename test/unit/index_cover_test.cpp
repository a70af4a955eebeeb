// SPDX-License-Identifier: Apache-2.0
// What loads of a tile find was stored in the same trip: proofs, and what must not be proved.
#include <gtest/gtest.h>

#include "ir/kernel/element.h"
#include "ir/kernel/index_analysis.h"
#include "ir/parser.h"

namespace tg::test {
namespace {

/// Whether the loads of %s in a loop over %k find what its stores of the trip wrote. `fill` and `read` see
/// the invocation %l (%x and %y of a 2-d workgroup), the extent %n and loaded numbers %any.
bool covered(const std::string& fill, const std::string& read, const std::string& tile = "8xf32, shared",
             const std::string& workgroup = "8") {
  auto module = parse(R"(module @m stage(kernel) {
  kernel @k(%a: buf<?xf32, in>, %idx: buf<?xu32, in>, %o: buf<?xf32, inout>) workgroup()" +
                          workgroup + R"() grid(4) {
    %l = tgk.local_id 0 : u32
    %x = tgk.local_id 0 : u32
    %y = tgk.local_id 1 : u32
    %n = tgk.dim %a, 0 : u32
    %any = tgk.load %idx[%l] : u32
    %s = tgk.)" + (tile.ends_with("local") ? "local" : "shared") +
                          " : buf<" + tile + ">\n tgk.for %k = 0 to(%n) step(8) {\n" + fill +
                          "tgk.barrier\n" + read + "tgk.store %v, %o[%l]\n tgk.barrier\n }\n }\n }",
                      "cover.tgir");
  EXPECT_TRUE(module) << module.error().str();
  if (!module) return false;
  const Item& kernel = *(*module)->find(ItemKind::kernel, "k");
  const Op* loop = nullptr;
  for (Op* op : kernel.body.ops)
    if (op->code == Opcode::k_for) loop = op;
  std::vector<const Op*> stores, loads;
  walk(kernel.body, [&](Op& op) {
    const Operand* element = elementOf(op);
    if (element && element->value->name == "s") (op.code == Opcode::k_load ? loads : stores).push_back(&op);
  });
  return IndexAnalysis(kernel).covered(stores, loads, *loop->regions[0]);
}

const std::string kAll = "tgk.store 1.0, %s[%l]\n";
const std::string kFew = "%few = tgk.lt %l, 4 : bool\ntgk.if %few {\n tgk.store 1.0, %s[%l]\n}\n";
const std::string kTail = "%at = tgk.add %k, %l : u32\n%in = tgk.lt %at, %n : bool\n"
                          "tgk.if %in {\n tgk.store 1.0, %s[%l]\n}\n";

std::string readTo(const std::string& end, const std::string& index = "%j") {
  return "%v = tgk.for %j = 0 to(" + end + ") iter_args(%p = 0.0) : f32 {\n %u = tgk.load %s[" + index +
         "] : f32\n tgk.yield %u : f32\n}\n";
}

TEST(IndexCover, EveryInvocationStoresItsElement) {
  EXPECT_TRUE(covered(kAll, readTo("8")));
  EXPECT_TRUE(covered(kAll, "%r = tgk.sub 7, %l : u32\n%v = tgk.load %s[%r] : f32\n"));
  EXPECT_TRUE(covered(kAll, "%m = tgk.and %any, 7 : u32\n%v = tgk.load %s[%m] : f32\n"));
  EXPECT_FALSE(covered(kAll, readTo("9"), "9xf32, shared"));
}

TEST(IndexCover, GuardsBoundWhatIsStored) {
  EXPECT_TRUE(covered(kFew, readTo("4")));
  EXPECT_FALSE(covered(kFew, readTo("5")));
  EXPECT_FALSE(covered(kFew, "%m = tgk.and %any, 7 : u32\n%v = tgk.load %s[%m] : f32\n"));
  const std::string one = "%z = tgk.eq %l, 0 : bool\ntgk.if %z {\n tgk.store 1.0, %s[0]\n}\n";
  EXPECT_TRUE(covered(one, "%v = tgk.load %s[0] : f32\n"));
  EXPECT_FALSE(covered(one, "%v = tgk.load %s[1] : f32\n"));
}

TEST(IndexCover, TheLastTripReadsWhatItStored) {
  const std::string left = "%left = tgk.sub %n, %k : u32\n%end = tgk.min %left, 8 : u32\n";
  EXPECT_TRUE(covered(kTail, left + readTo("%end")));
  EXPECT_FALSE(covered(kTail, readTo("8")));
  EXPECT_FALSE(covered(kTail, left + "%more = tgk.add %end, 1 : u32\n" + readTo("%more")));
  EXPECT_TRUE(covered(kTail,
                      "%b = tgk.add %k, %l : u32\n%c = tgk.lt %b, %n : bool\n%v = tgk.if %c : f32 {\n"
                      " %u = tgk.load %s[%l] : f32\n tgk.yield %u : f32\n} else {\n tgk.yield 0.0\n}\n"));
}

TEST(IndexCover, TilesFilledInALoopAndInHalves) {
  const std::string loop = "tgk.for %e = %l to(36) step(8) {\n %r = tgk.div %e, 6 : u32\n"
                           " %c = tgk.mod %e, 6 : u32\n tgk.store 1.0, %s[%r, %c]\n}\n";
  EXPECT_TRUE(covered(loop, readTo("6", "%j, %j"), "6x6xf32, shared"));
  EXPECT_FALSE(covered(loop, readTo("7", "%j, 0"), "7x6xf32, shared"));
  const std::string turn = "%t = tgk.div %k, 8 : u32\n%h = tgk.and %t, 1 : u32\ntgk.store 1.0, %s[%h, %l]\n";
  EXPECT_TRUE(covered(turn, readTo("8", "%h, %j"), "2x8xf32, shared"));
  EXPECT_FALSE(
      covered(turn, "%other = tgk.sub 1, %h : u32\n" + readTo("8", "%other, %j"), "2x8xf32, shared"));
  EXPECT_TRUE(covered("tgk.store 1.0, %s[%y, %x]\n", readTo("4", "%j, %y"), "4x4xf32, shared", "4, 4"));
}

TEST(IndexCover, WhatDataDecideIsNotProved) {
  EXPECT_FALSE(covered("%m = tgk.and %any, 7 : u32\ntgk.store 1.0, %s[%m]\n", readTo("8")));
  EXPECT_FALSE(covered("%c = tgk.lt %any, 7 : bool\ntgk.if %c {\n tgk.store 1.0, %s[%l]\n}\n", readTo("8")));
  EXPECT_FALSE(covered("tgk.for %e = 0 to(%any) {\n tgk.store 1.0, %s[%l]\n}\n", readTo("8")));
}

TEST(IndexCover, LocalBuffersAreTheInvocationsOwn) {
  EXPECT_TRUE(covered("tgk.for %e = 0 to(2) {\n tgk.store 1.0, %s[%e]\n}\n", readTo("2"), "4xf32, local"));
  EXPECT_FALSE(covered("tgk.for %e = 0 to(2) {\n tgk.store 1.0, %s[%e]\n}\n", readTo("3"), "4xf32, local"));
  const std::string own = "%m = tgk.and %l, 3 : u32\ntgk.store 1.0, %s[%m]\n";
  EXPECT_TRUE(covered(own, "%v = tgk.load %s[%m] : f32\n", "4xf32, local"));
  EXPECT_FALSE(covered(own, readTo("4"), "4xf32, local"));
}

}  // namespace
}  // namespace tg::test
