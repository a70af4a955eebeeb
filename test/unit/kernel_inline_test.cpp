// SPDX-License-Identifier: Apache-2.0
// Calls of helper funcs become the funcs' bodies.
#include "ir/kernel/inline.h"

#include <gtest/gtest.h>

#include <string>

#include "ir/parser.h"
#include "ir/verify.h"

namespace tg::test {
namespace {

/// The kernel @k of a module after inlining, as text; the module verifies before and after.
std::string inlined(const std::string& items, bool keepOwnVjp = false) {
  auto module = parse("module @m {\n" + items + "}\n", "inline.tgir");
  EXPECT_TRUE(module) << module.error().str();
  if (!module) return "";
  auto checked = verify(**module);
  EXPECT_TRUE(checked) << checked.error().str();
  Item* kernel = (*module)->find(ItemKind::kernel, "k");
  inlineCalls(**module, *kernel, keepOwnVjp);
  checked = verify(**module);
  EXPECT_TRUE(checked) << checked.error().str();
  return print(*kernel);
}

const std::string kHelpers = R"(  func @square(%x: f32) -> (y: f32) {
    %y = tgk.mul %x, %x : f32
    return %y : f32
  }
  func @quartic(%x: f32) -> (y: f32, same: f32) attributes {vjp = @quartic_vjp} {
    %s = tgk.call @square(%x) : f32
    %y = tgk.call @square(%s) : f32
    return %y, %x : f32, f32
  }
  func @quartic_vjp(%x: f32, %d_y: f32, %d_same: f32) -> (d_x: f32) {
    %d_x = tgk.add %d_y, %d_same : f32
    return %d_x : f32
  }
  func @steps(%c: bool, %n: u32, %v: vec2<f32>) -> (y: f32) {
    %x = tgk.extract %v, 1 : f32
    %y = tgk.for %k = 0 to(%n) iter_args(%s = %x) : f32 {
      %t = tgk.if %c : f32 {
        %q = tgk.call @square(%s) : f32
        tgk.yield %q : f32
      } else {
        tgk.yield %s : f32
      }
      tgk.yield %t : f32
    }
    return %y : f32
  }
)";

std::string kernel(const std::string& body) {
  return "  kernel @k(%x: buf<4xf32, in>, %y: buf<4xf32, out>) workgroup(4, 1, 1) grid(1) {\n" + body +
         "  }\n";
}

TEST(Inline, CallsInCallsGetNamesOfTheirOwn) {
  EXPECT_EQ(inlined(kHelpers + kernel(R"(    %i = tgk.local_id 0 : u32
    %a = tgk.load %x[%i] : f32
    %s, %same = tgk.call @quartic(%a) : f32, f32
    %r = tgk.add %s, %same : f32
    tgk.store %r, %y[%i]
)")),
            kernel(R"(    %i = tgk.local_id 0 : u32
    %a = tgk.load %x[%i] : f32
    %y_2 = tgk.mul %a, %a : f32
    %y_4 = tgk.mul %y_2, %y_2 : f32
    %r = tgk.add %y_4, %a : f32
    tgk.store %r, %y[%i]
)"));
}

TEST(Inline, LiteralsBecomeValuesAndBodiesComeAlong) {
  EXPECT_EQ(inlined(kHelpers + kernel(R"(    %i = tgk.local_id 0 : u32
    tgk.for %k = 0 to(2) {
      %r = tgk.call @steps(true, 3, 2.0) : f32
      %z = tgk.add %r, 1.0 : f32
    }
)")),
            kernel(R"(    %i = tgk.local_id 0 : u32
    tgk.for %k = 0 to(2) {
      %literal = tgk.constant 1 : bool
      %literal_2 = tgk.constant 3 : u32
      %literal_3 = tgk.constant 2.0 : vec2<f32>
      %x_2 = tgk.extract %literal_3, 1 : f32
      %y_2 = tgk.for %k_2 = 0 to(%literal_2) iter_args(%s = %x_2) : f32 {
        %t = tgk.if %literal : f32 {
          %y_3 = tgk.mul %s, %s : f32
          tgk.yield %y_3 : f32
        } else {
          tgk.yield %s : f32
        }
        tgk.yield %t : f32
      }
      %z = tgk.add %y_2, 1.0 : f32
    }
)"));
}

TEST(Inline, CallsOfFuncsWithTheirOwnGradientMayStay) {
  const std::string body = R"(    %i = tgk.local_id 0 : u32
    %a = tgk.load %x[%i] : f32
    %b = tgk.call @square(%a) : f32
    %s, %same = tgk.call @quartic(%b) : f32, f32
    tgk.store %s, %y[%i]
)";
  std::string kept = inlined(kHelpers + kernel(body), true);
  EXPECT_EQ(kept.find("@square"), std::string::npos) << kept;
  EXPECT_NE(kept.find("%s, %same = tgk.call @quartic(%y_2) : f32, f32"), std::string::npos) << kept;
}

}  // namespace
}  // namespace tg::test
