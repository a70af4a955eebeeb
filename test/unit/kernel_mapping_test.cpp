// SPDX-License-Identifier: Apache-2.0
// Reads and verifies every example of docs/kernel_mapping.def.
#include <gtest/gtest.h>

#include <string>

#include "ir/parser.h"
#include "ir/verify.h"

namespace tg::test {
namespace {

struct Example {
  const char *there, *text;
};

void accepts(const char* there, const std::string& kernel) {
  auto module = parse("module @m {\n  func @half(%x: f32) -> (y: f32) {\n    %y = tgk.mul %x, 0.5 : f32\n"
                      "    return %y : f32\n  }\n" +
                          kernel + "}\n",
                      "example.tgir");
  ASSERT_TRUE(module) << there << "\n" << module.error().str();
  auto checked = verify(**module);
  EXPECT_TRUE(checked) << there << "\n" << checked.error().str();
}

TEST(KernelMapping, EveryExampleVerifies) {
  const Example examples[] = {
#define SAME(group, there, here, text) {there, text},
#define TYPE(group, there, here, type)
#define NONE(group, there, why)
#include "docs/kernel_mapping.def"
  };
  for (const Example& example : examples)
    accepts(example.there, std::string(
                               R"(  kernel @k(%x: buf<4xf32, in>, %m: buf<4xu32, inout>, %n: buf<4xi32, in>,
      %q: buf<4xf32, accum>, %y: buf<4xf32, out>) workgroup(4) grid(1) {
    %i = tgk.local_id 0 : u32
    %a = tgk.load %x[%i] : f32
    %b = tgk.neg %a : f32
    %j = tgk.load %n[%i] : i32
    %k = tgk.neg %j : i32
    %p = tgk.load %m[%i] : u32
    %r = tgk.not %p : u32
    %c = tgk.gt %a, 0.0 : bool
    %d = tgk.not %c : bool
    )") + example.text + "\n  }\n");
}

TEST(KernelMapping, EveryTypeExists) {
  const Example examples[] = {
#define SAME(group, there, here, text)
#define TYPE(group, there, here, type) {there, type},
#define NONE(group, there, why)
#include "docs/kernel_mapping.def"
  };
  for (const Example& example : examples) {
    std::string type = example.text, head = "  kernel @k(", launch = ") workgroup(4) grid(1) {\n";
    std::string maker = type.ends_with("shared>")  ? "tgk.shared"
                        : type.ends_with("local>") ? "tgk.local"
                                                   : "";
    if (maker.empty())
      accepts(example.there, head + "%x: " + type + launch + "  }\n");
    else
      accepts(example.there, head + launch + "    %x = " + maker + " : " + type + "\n  }\n");
  }
}

}  // namespace
}  // namespace tg::test
