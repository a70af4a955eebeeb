// SPDX-License-Identifier: Apache-2.0
// Which operands a kernel may write over.
#include "ir/access.h"

#include "test/unit/plan_support.h"

namespace tg::test {
namespace {

TEST(Access, ReadsOnlyWrittenElement) {
  auto reads = [](const std::string& type, const std::string& result, const std::string& body,
                  const std::string& schedule = "map") {
    auto module =
        parsed(fusedModule(fmt::format("  func @f(%x: {0}, %s: tensor<f32>) -> (y: {1}) {{\n"
                                       "    %y = tg.fused (%a = %x, %k = %s) {{schedule = {3}}} : {1} {{\n{2}"
                                       "      tg.yield %r : {1}\n    }}\n    return %y : {1}\n  }}\n",
                                       type, result, body, schedule)));
    auto verified = verify(*module);
    EXPECT_TRUE(verified) << (verified ? "" : verified.error().str());
    return readsOnlyWrittenElement(*module->func("f")->body.ops.front(), 0, 0, *module);
  };
  const std::string t = "tensor<4x4xf32>";
  EXPECT_TRUE(reads(t, t, "%r = tg.mul %a, %k : tensor<4x4xf32>\n"));
  EXPECT_TRUE(
      reads(t, "tensor<16xf32>",
            "%b = tg.exp %a : tensor<4x4xf32>\n%r = tg.reshape %b {shape = [16]} : tensor<16xf32>\n"));
  EXPECT_TRUE(reads(t, "tensor<4x4xi32>", "%r = tg.cast %a : tensor<4x4xi32>\n"));
  EXPECT_FALSE(reads(t, t, "%r = tg.mul %a, %k : tensor<4x4xf32>\n", "row"));
  EXPECT_FALSE(reads(t, t, "%r = tg.transpose %a {perm = [1, 0]} : tensor<4x4xf32>\n"));
  EXPECT_FALSE(reads(
      t, t,
      "%b = tg.transpose %a {perm = [1, 0]} : tensor<4x4xf32>\n%r = tg.add %a, %b : tensor<4x4xf32>\n"));
  EXPECT_FALSE(reads(t, t,
                     "%b = tg.sum %a {axes = [1], keepdims = true} : tensor<4x1xf32>\n%r = tg.sub %a, %b : "
                     "tensor<4x4xf32>\n"));
  EXPECT_FALSE(reads(t, t,
                     "%b = tg.slice %a {starts = [0, 0], limits = [4, 1]} : tensor<4x1xf32>\n%r = tg.add %a, "
                     "%b : tensor<4x4xf32>\n"));
  EXPECT_FALSE(reads("tensor<4xf32>", t, "%r = tg.broadcast_to %a {shape = [4, 4]} : tensor<4x4xf32>\n"));
  EXPECT_FALSE(reads(t, t, "%r = tg.matmul %a, %a : tensor<4x4xf32>\n"));
  EXPECT_FALSE(reads(t, t, "%r = tg.softmax %a : tensor<4x4xf32>\n"));
  // What a product's kernel does with its sums, it does element by element; its factors it reads many times.
  EXPECT_TRUE(reads(t, t,
                    "%b = tg.constant 2 : tensor<4x4xf32>\n%c = tg.matmul %b, %b : tensor<4x4xf32>\n%r = "
                    "tg.mul %a, %c : tensor<4x4xf32>\n",
                    "matmul{tile = [2, 2]}"));
  EXPECT_FALSE(reads(t, t,
                     "%b = tg.constant 2 : tensor<4x4xf32>\n%c = tg.matmul %b, %a : tensor<4x4xf32>\n%r = "
                     "tg.mul %a, %c : tensor<4x4xf32>\n",
                     "matmul{tile = [2, 2]}"));
  // A kernel over rows has read a row before it writes there, along which it puts together what it reads.
  const std::string total = "%b = tg.sum %a {axes = [1], keepdims = true} : tensor<4x1xf32>\n";
  EXPECT_TRUE(reads(t, t, "%r = tg.softmax %a : tensor<4x4xf32>\n", "row"));
  EXPECT_TRUE(reads(t, t, total + "%r = tg.sub %a, %b : tensor<4x4xf32>\n", "row"));
  EXPECT_TRUE(reads(t, "tensor<16xf32>",
                    total + "%c = tg.sub %a, %b : tensor<4x4xf32>\n%r = tg.reshape %c {shape = [16]} : "
                            "tensor<16xf32>\n",
                    "row"));
  const std::string all = "%b = tg.sum %a {axes = [1]} : tensor<4xf32>\n";
  EXPECT_TRUE(reads(t, t,
                    all + "%c = tg.exp %b : tensor<4xf32>\n%d = tg.reshape %c {shape = [4, 1]} : "
                          "tensor<4x1xf32>\n%r = tg.sub %a, %d : tensor<4x4xf32>\n",
                    "row"));
  EXPECT_TRUE(reads(t, t,
                    total + "%c = tg.broadcast_to %b {shape = [4, 4]} : tensor<4x4xf32>\n%r = tg.sub %a, %c "
                            ": tensor<4x4xf32>\n",
                    "row"));
  // What came of another row may be read too late: here element j of a row reads the sum of row j.
  EXPECT_FALSE(reads(t, t, all + "%r = tg.sub %a, %b : tensor<4x4xf32>\n", "row"));
  EXPECT_FALSE(reads(t, t,
                     all + "%c = tg.reshape %b {shape = [1, 4]} : tensor<1x4xf32>\n%d = tg.broadcast_to %c "
                           "{shape = [4, 4]} : tensor<4x4xf32>\n%r = tg.sub %a, %d : tensor<4x4xf32>\n",
                     "row"));
  EXPECT_FALSE(reads(t, t,
                     total + "%c = tg.flip %b {axes = [0]} : tensor<4x1xf32>\n%r = tg.sub %a, %c : "
                             "tensor<4x4xf32>\n",
                     "row"));
  EXPECT_FALSE(reads(t, t,
                     total + "%c = tg.slice %b {starts = [1, 0], limits = [2, 1]} : tensor<1x1xf32>\n%r = "
                             "tg.sub %a, %c : tensor<4x4xf32>\n",
                     "row"));
  EXPECT_FALSE(reads(t, t, "%r = tg.softmax %a {axis = 0} : tensor<4x4xf32>\n", "row"));
  EXPECT_FALSE(reads(t, t,
                     "%b = tg.sum %a {axes = [0], keepdims = true} : tensor<1x4xf32>\n%r = tg.sub %a, %b : "
                     "tensor<4x4xf32>\n",
                     "row"));
  EXPECT_FALSE(reads(t, t,
                     total + "%c = tg.sum %a {axes = [0, 1]} : tensor<f32>\n%d = tg.sub %a, %b : "
                             "tensor<4x4xf32>\n%r = tg.sub %d, %c : tensor<4x4xf32>\n",
                     "row"));
  EXPECT_FALSE(reads(t, t,
                     "%b = tg.cumsum %a {axis = 1} : tensor<4x4xf32>\n%c = tg.softmax %a : tensor<4x4xf32>\n"
                     "%r = tg.add %b, %c : tensor<4x4xf32>\n",
                     "row"));
  EXPECT_TRUE(reads(t, t,
                    "%b = tg.argmax %a {axis = 1} : tensor<4xi32>\n%c = tg.cast %b : tensor<4xf32>\n%d = "
                    "tg.reshape %c {shape = [4, 1]} : tensor<4x1xf32>\n%e = tg.softmax %a : "
                    "tensor<4x4xf32>\n%r = tg.add %e, %d : tensor<4x4xf32>\n",
                    "row"));
  EXPECT_FALSE(reads(t, t, total + "%r = tg.broadcast_to %b {shape = [4, 4]} : tensor<4x4xf32>\n", "row"));
  // What is the row's is read by all who share it.
  EXPECT_FALSE(reads("tensor<4x1xf32>", "tensor<4x1xf32>",
                     "%b = tg.softmax %a : tensor<4x1xf32>\n%r = tg.add %a, %b : tensor<4x1xf32>\n", "row"));
  // Beside a larger result, code of its own may load the element again after the store.
  auto module =
      parsed(fusedModule("  func @f(%x: " + t + ") -> (y: " + t +
                         ") {\n    %y, %z = tg.fused (%a = %x) {schedule = map} : " + t +
                         ", tensor<32xf32> {\n      %r = tg.exp %a : " + t +
                         "\n      %k = tg.constant 1.0 : tensor<32xf32>\n      tg.yield %r, %k : " + t +
                         ", tensor<32xf32>\n    }\n    return %y : " + t + "\n  }\n"));
  ASSERT_TRUE(module);
  EXPECT_FALSE(readsOnlyWrittenElement(*module->func("f")->body.ops.front(), 0, 0, *module));
}

}  // namespace
}  // namespace tg::test
