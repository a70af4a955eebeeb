// SPDX-License-Identifier: Apache-2.0
// verifyPlan on hand-edited modules: a good text, one edit, the label it triggers.
#include "ir/verify.h"
#include "test/unit/plan_support.h"

namespace tg::test {
namespace {

/// Replaces the first occurrence; the edit must apply.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// The message of the first finding, "" when there is none.
std::string finding(const std::string& text) {
  auto module = parse(text, "test.tgir");
  EXPECT_TRUE(module) << (module ? "" : module.error().str());
  if (!module) return "";
  auto verified = verifyPlan(**module);
  if (verified) return "";
  EXPECT_NE(locString(verified.error().diagnostics()[0].loc), "");
  return verified.error().message();
}

const std::string kPlanned = R"(module @m stage(planned) {
  param @w : tensor<4xf32> -> @persistent[0]
  param @u : tensor<3xf32> -> @persistent[16]
  buffer @persistent : 64
  buffer @io : 64
  buffer @arena : 96
  func @train(%x: tensor<4xf32> -> @io[0]) -> (y: tensor<4xf32>) {
    %w = tg.param @w : tensor<4xf32> -> @persistent[0]
    %u = tg.param @u : tensor<3xf32> -> @persistent[16]
    %h = tg.fused (%a = %x) {schedule = map} : tensor<4xf32> -> @arena[0] {
      %r = tg.exp %a : tensor<4xf32>
      tg.yield %r : tensor<4xf32>
    }
    %k = tg.fused (%a = %h) {schedule = map} : tensor<4xf32> -> @arena[0] inplace(%h) {
      %r = tg.exp %a : tensor<4xf32>
      tg.yield %r : tensor<4xf32>
    }
    %n = tg.fused (%g = [%w, %u]) {schedule = row} : tensor<f32> -> @arena[16] {
      %r = tg.sum %g {axes = [0]} : tensor<f32>
      tg.yield %r : tensor<f32>
    }
    tg.fill args(out(@arena[44:4]))
    %d = tg.fused (%a = %u) {schedule = map} : tensor<3xf32> -> @arena[32] {
      %r = tg.exp %a : tensor<3xf32>
      tg.yield %r : tensor<3xf32>
    }
    %e = tg.fused (%a = %k) {schedule = map} : tensor<4xf32> -> @arena[48] {
      %r = tg.neg %a : tensor<4xf32>
      tg.yield %r : tensor<4xf32>
    }
    %q = tg.fused (%a = %w, %b = %n, %c = [%d, %e]) {schedule = map} : tensor<4xf32> -> @persistent[0] inplace(%w) {
      %s = tg.slice %c {starts = [4], limits = [8]} : tensor<4xf32>
      %t = tg.add %a, %s : tensor<4xf32>
      %r = tg.mul %t, %b : tensor<4xf32>
      tg.yield %r : tensor<4xf32>
    }
    %y = tg.fused (%a = %q, %b = %k) {schedule = map} : tensor<4xf32> -> @io[16] {
      %r = tg.add %a, %b : tensor<4xf32>
      tg.yield %r : tensor<4xf32>
    }
    tg.update @w, %q
    tg.update @u, %d
    return %y : tensor<4xf32>
  }
  func @eval(%x: tensor<4xf32> -> @io[32]) -> (y: tensor<4xf32>) {
    return %x : tensor<4xf32>
  }
}
)";

std::string after(const std::string& from, const std::string& to) {
  return finding(edited(kPlanned, from, to));
}

TEST(VerifyPlan, TheTextAsItStandsIsGood) {
  EXPECT_EQ(finding(kPlanned), "");
  auto module = parsed(kPlanned);
  auto verified = verify(*module);
  EXPECT_TRUE(verified) << verified.error().str();
}

TEST(VerifyPlan, Range) {
  EXPECT_EQ(after("buffer @arena : 96", "buffer @arena : 56"),
            "%e [plan.range]: bytes 48 to 64 are outside of @arena, which has 56");
  EXPECT_EQ(after("-> @persistent[16]\n  buffer", "-> @persistent[64]\n  buffer"),
            "@u [plan.range]: bytes 64 to 76 are outside of @persistent, which has 64");
  EXPECT_EQ(after("-> @arena[32]", "-> @heap[32]"), "%d [plan.range]: there is no buffer @heap");
  EXPECT_EQ(after("out(@arena[44:4])", "out(@arena[94:4])"),
            "tg.fill [plan.range]: bytes 94 to 98 are outside of @arena");
}

TEST(VerifyPlan, Allocation) {
  const std::string attributes = "module @m stage(planned) attributes {target = {alignment = 16, ";
  auto with = [&](int bytes) {
    return edited(kPlanned, "module @m stage(planned) ",
                  fmt::format("{0}storage_range = {1}, allocation = {1}}}}} ", attributes, bytes));
  };
  EXPECT_EQ(finding(with(64)), "");
  EXPECT_EQ(finding(edited(with(64), "-> @arena[48] {", "-> @arena[64] {")),
            "tg.fused [plan.group]: %e is at @arena[64], not at @arena[48] where the group has it");
  EXPECT_EQ(
      finding(edited(with(64), "out(@arena[44:4])", "out(@arena[60:8])")),
      "tg.fill [plan.allocation]: bytes 60 to 68 of @arena cross a multiple of 64, where one buffer ends");
  // Members of 16 bytes cross nothing, their group does.
  EXPECT_EQ(finding(with(48)), "the group of %d [plan.allocation]: bytes 32 to 64 of @arena cross a multiple "
                               "of 48, where one buffer ends");
  EXPECT_EQ(finding(with(32)), "");
  EXPECT_EQ(finding(with(16)), "the group of %w [plan.allocation]: bytes 0 to 32 of @persistent cross a "
                               "multiple of 16, where one buffer ends");
}

TEST(VerifyPlan, Align) {
  EXPECT_EQ(after("-> @arena[16]", "-> @arena[20]"), "%n [plan.align]: offset 20 is not a multiple of 16");
}

TEST(VerifyPlan, Place) { EXPECT_EQ(after(" -> @arena[16]", ""), "tg.fused [plan.place]: %n has no place"); }

TEST(VerifyPlan, OverlapAcrossOps) {
  // %n is written over %k, which %e and %y still read.
  EXPECT_EQ(after("-> @arena[16]", "-> @arena[0]"),
            "tg.fused [plan.overlap]: %k is read here, after %n has overwritten its bytes 0 to 4 of @arena");
  // The fill as well.
  EXPECT_EQ(
      after("out(@arena[44:4])", "out(@arena[12:4])"),
      "tg.fused [plan.overlap]: %k is read here, after a fill has overwritten its bytes 12 to 16 of @arena");
}

TEST(VerifyPlan, OverlapWithinOneRegion) {
  EXPECT_EQ(after("@arena[0] inplace(%h)", "@arena[0]"),
            "tg.fused [plan.overlap]: %k overwrites %h, which its region reads");
  EXPECT_EQ(after("-> @arena[48] {", "-> @arena[0] {"),
            "tg.fused [plan.overlap]: %e overwrites %k, which its region reads");
  EXPECT_EQ(finding(R"(module @m stage(planned) {
  buffer @io : 64
  func @f(%x: tensor<4xf32> -> @io[0], %z: tensor<4xf32> -> @io[0]) -> (y: tensor<4xf32>) {
    return %x : tensor<4xf32>
  }
})"),
            "argument %z [plan.overlap]: its bytes are also those of %x");
  EXPECT_EQ(finding(R"(module @m stage(planned) {
  buffer @io : 64
  func @f(%x: tensor<4xf32> -> @io[0]) -> (y: tensor<4xf32>, z: tensor<4xf32>) {
    %y, %z = tg.fused (%a = %x) {schedule = map} : tensor<4xf32>, tensor<4xf32> -> @io[16], @io[16] {
      tg.yield %a, %a : tensor<4xf32>, tensor<4xf32>
    }
    return %y, %z : tensor<4xf32>, tensor<4xf32>
  }
})"),
            "tg.fused [plan.overlap]: %y and %z are written by one region to the same bytes");
}

TEST(VerifyPlan, InPlace) {
  const std::string k = "%k = tg.fused (%a = %h) {schedule = map} : tensor<4xf32> -> @arena[0] inplace(%h)";
  EXPECT_EQ(
      after(k, "%k = tg.fused (%a = %h) {schedule = row} : tensor<4xf32> -> @arena[0] inplace(%h)"),
      "tg.fused [plan.inplace]: %k in place of %h: the region reads it not only at the element it writes");
  EXPECT_EQ(after("(%a = %k) {schedule = map} : tensor<4xf32> -> @arena[48]",
                  "(%a = %h) {schedule = map} : tensor<4xf32> -> @arena[48]"),
            "tg.fused [plan.inplace]: %k in place of %h: %h is read again later");
  EXPECT_EQ(after("@arena[0] inplace(%h)", "@arena[16] inplace(%h)"),
            "tg.fused [plan.inplace]: %k in place of %h: their bytes are not the same");
  EXPECT_EQ(after("@arena[0] inplace(%h)", "@arena[16] inplace(%x)"),
            "tg.fused [plan.inplace]: %k in place of %x, which is not an operand");
}

TEST(VerifyPlan, Group) {
  EXPECT_EQ(after("-> @arena[48] {", "-> @arena[64] {"),
            "tg.fused [plan.group]: %e is at @arena[64], not at @arena[48] where the group has it");
}

TEST(VerifyPlan, Padding) {
  EXPECT_EQ(after("    tg.fill args(out(@arena[44:4]))\n", ""),
            "tg.fused [plan.padding]: the padding after %d, bytes 44 to 48 of @arena, does not read as zero");
}

TEST(VerifyPlan, Home) {
  EXPECT_EQ(after("@u : tensor<3xf32> -> @persistent[16]", "@u : tensor<3xf32> -> @persistent[0]"),
            "@u [plan.home]: its home overlaps that of @w");
  EXPECT_EQ(after("@u : tensor<3xf32> -> @persistent[16]", "@u : tensor<3xf32>"),
            "@u [plan.home]: has no home in @persistent");
  EXPECT_EQ(after("%u = tg.param @u : tensor<3xf32> -> @persistent[16]",
                  "%u = tg.param @u : tensor<3xf32> -> @persistent[32]"),
            "tg.param [plan.home]: %u is at @persistent[32], the home of @u is @persistent[16]");
  EXPECT_EQ(after("-> @arena[16]", "-> @persistent[32]"),
            "tg.fused [plan.home]: %n is at @persistent[32], which is not a home of a symbol it updates");
  EXPECT_EQ(after("-> @io[16]", "-> @arena[80]"),
            "return [plan.home]: %y is in @arena; what the host reads lives in @io");
  EXPECT_EQ(after("%x: tensor<4xf32> -> @io[0]", "%x: tensor<4xf32> -> @arena[64]"),
            "argument %x [plan.home]: has no place in @io");
  EXPECT_EQ(after("out(@arena[44:4])", "out(@persistent[48:4])"),
            "tg.fill [plan.home]: @persistent holds homes alone");
}

// A step of an update stands in the symbol's home if what follows takes its place, up to the new value.
TEST(VerifyPlan, HomeOfSteps) {
  const std::string steps = R"(module @m stage(planned) {
  state @s : tensor<4xf32> -> @persistent[0]
  buffer @persistent : 16
  buffer @io : 32
  buffer @arena : 16
  func @train(%x: tensor<4xf32> -> @io[0]) -> (y: tensor<4xf32>) {
    %s = tg.state @s : tensor<4xf32> -> @persistent[0]
    %h = tg.fused (%a = %s, %b = %x) {schedule = map} : tensor<4xf32> -> @persistent[0] inplace(%s) {
      %r = tg.add %a, %b : tensor<4xf32>
      tg.yield %r : tensor<4xf32>
    }
    %y = tg.fused (%b = %x) {schedule = map} : tensor<4xf32> -> @io[16] {
      %r = tg.exp %b : tensor<4xf32>
      tg.yield %r : tensor<4xf32>
    }
    %n = tg.fused (%a = %h) {schedule = map} : tensor<4xf32> -> @persistent[0] inplace(%h) {
      %r = tg.exp %a : tensor<4xf32>
      tg.yield %r : tensor<4xf32>
    }
    tg.update @s, %n
    return %y : tensor<4xf32>
  }
}
)";
  EXPECT_EQ(finding(steps), "");
  EXPECT_EQ(finding(edited(steps, "-> @persistent[0] inplace(%h)", "-> @arena[0]")),
            "tg.fused [plan.home]: %h is at @persistent[0], which is not a home of a symbol it updates");
  EXPECT_EQ(finding(edited(steps, "(%b = %x) {schedule = map} : tensor<4xf32> -> @io[16]",
                           "(%b = %s) {schedule = map} : tensor<4xf32> -> @io[16]")),
            "tg.fused [plan.inplace]: %h in place of %s: %s is read again later");
  EXPECT_EQ(finding(edited(steps, "tg.update @s, %n", "tg.update @s, %y")),
            "tg.fused [plan.home]: %h is at @persistent[0], which is not a home of a symbol it updates");
}

TEST(VerifyPlan, Update) {
  // %w is read once more after its home holds the new value, then after a copy has replaced it.
  EXPECT_EQ(after("(%a = %q, %b = %k)", "(%a = %q, %b = %w)"),
            "tg.fused [plan.inplace]: %q in place of %w: %w is read again later");
  std::string copied = edited(kPlanned, "    tg.update @u, %d\n", "");
  EXPECT_EQ(
      finding(edited(copied, "    %n = tg.fused",
                     "    %f = tg.fused (%a = %u) {schedule = map} : tensor<3xf32> -> @arena[16] {\n"
                     "      tg.yield %a : tensor<3xf32>\n    }\n    tg.update @u, %f\n    %n = tg.fused")),
      "tg.fused [plan.overlap]: %u is read here, after the update of @u has overwritten its bytes 16 to 28 "
      "of @persistent");
}

TEST(VerifyPlan, Fill) {
  EXPECT_EQ(after("args(out(@arena[44:4]))", "args(in(@arena[44:4]))"),
            "tg.fill [plan.fill]: needs args(out(@buffer[offset:bytes]))");
}

TEST(VerifyPlan, IoAcrossFunctions) {
  EXPECT_EQ(after("%x: tensor<4xf32> -> @io[32]", "%x: tensor<4xf32> -> @io[16]"),
            "@eval [plan.io]: its bytes 16 to 32 of @io are also those of @train");
}

// The kernel stage.

const std::string kKernels = R"(module @m stage(kernel) {
  buffer @io : 64
  buffer @arena : 64
  func @train(%x: tensor<4xf32> -> @io[0]) -> (y: tensor<4xf32>) {
    tg.dispatch @k0 grid(1, 1, 1) args(texel(@io[0:16]), in(@arena[32:16]), out(@arena[0:16])) {label = "h"}
    tg.barrier
    tg.copy args(in(@arena[0:16]), out(@arena[16:16]))
    tg.fill args(out(@arena[48:16]))
    tg.dispatch @k0 grid(1, 1, 1) args(texel(@arena[0:16]), in(@io[32:16]), out(@io[32:16]))
    %y = tg.home : tensor<4xf32> -> @io[32]
    return %y : tensor<4xf32>
  }
  kernel @k0(%a: buf<1xvec4<f32>, in, texel>, %b: buf<4xf32, in>, %c: buf<4xf32, out>) workgroup(1, 1, 1) grid(1, 1, 1) {
    %v = tgk.load %a[0] : vec4<f32>
    %s = tgk.load %b[0] : f32
    %r = tgk.extract %v, 0 : f32
    %t = tgk.add %s, %r : f32
    tgk.store %t, %c[0]
  }
}
)";

std::string commands(const std::string& from, const std::string& to) {
  return finding(edited(kKernels, from, to));
}

TEST(VerifyDispatch, TheTextAsItStandsIsGood) {
  EXPECT_EQ(finding(kKernels), "");
  auto module = parsed(kKernels);
  auto verified = verify(*module);
  EXPECT_TRUE(verified) << verified.error().str();
}

TEST(VerifyDispatch, Ranges) {
  EXPECT_EQ(commands("out(@arena[0:16])", "out(@arena[52:16])"),
            "tg.dispatch [plan.range]: bytes 52 to 68 are outside of @arena, which has 64");
  EXPECT_EQ(commands("out(@arena[0:16])", "out(@heap[0:16])"),
            "tg.dispatch [plan.range]: there is no buffer @heap");
  EXPECT_EQ(commands("out(@arena[0:16])", "out(@arena[0:12])"),
            "tg.dispatch [plan.range]: %c of @k0 takes 16 bytes, the range has 12");
  EXPECT_EQ(commands("texel(@io[0:16])", "texel(@io[8:16])"),
            "tg.dispatch [plan.align]: offset 8 is not a multiple of 16");
  EXPECT_EQ(commands("tensor<4xf32> -> @io[32]", "tensor<4xf32> -> @io[56]"),
            "%y [plan.range]: ends outside of @io, which has 64 bytes");
}

// Functions of this stage name no parameters, but the host fills their homes.
TEST(VerifyDispatch, Homes) {
  const std::string with = edited(kKernels, "  buffer @io : 64\n",
                                  "  param @w : tensor<4xf32> -> @persistent[0]\n"
                                  "  state @s : tensor<4xf32> -> @persistent[16]\n"
                                  "  buffer @persistent : 32\n  buffer @io : 64\n");
  EXPECT_EQ(finding(with), "");
  EXPECT_EQ(finding(edited(with, "@persistent[0]", "@persistent[1048576]")),
            "@w [plan.range]: bytes 1048576 to 1048592 are outside of @persistent, which has 32");
  EXPECT_EQ(finding(edited(with, "@persistent[16]", "@persistent[32]")),
            "@s [plan.range]: bytes 32 to 48 are outside of @persistent, which has 32");
  EXPECT_EQ(finding(edited(with, "@persistent[16]", "@persistent[0]")),
            "@s [plan.home]: its home overlaps that of @w");
}

TEST(VerifyDispatch, Aliases) {
  EXPECT_EQ(commands("out(@arena[0:16])", "out(@io[0:16])"),
            "tg.dispatch [plan.texel]: the texel range @io[0:16] overlaps @io[0:16], which is written");
  EXPECT_EQ(commands("in(@io[32:16])", "in(@io[40:16])"),
            "tg.dispatch [plan.inplace]: @io[40:16] is read and @io[32:16] written: they overlap but are not "
            "the same");
  std::string two = edited(kKernels, "%b: buf<4xf32, in>", "%b: buf<4xf32, inout>");
  EXPECT_EQ(finding(edited(two, "in(@arena[32:16])", "inout(@arena[0:16])")),
            "tg.dispatch [plan.overlap]: @arena[0:16] and @arena[0:16] are both written");
  EXPECT_EQ(commands("out(@arena[16:16])", "out(@arena[8:16])"),
            "tg.copy [plan.overlap]: copies a range over itself");
}

TEST(VerifyDispatch, Barriers) {
  EXPECT_EQ(commands("    tg.barrier\n", ""), "tg.copy [plan.barrier]: reads @arena[0:16], which an earlier "
                                              "command writes, without a barrier between");
  EXPECT_EQ(commands("out(@arena[48:16])", "out(@arena[0:16])"),
            "tg.fill [plan.barrier]: writes @arena[0:16], which an earlier command reads, without a barrier "
            "between");
  EXPECT_EQ(commands("out(@arena[48:16])", "out(@arena[16:16])"),
            "tg.fill [plan.barrier]: writes @arena[16:16], which an earlier command writes, without a "
            "barrier between");
}

TEST(VerifyDispatch, Form) {
  EXPECT_EQ(commands("tg.dispatch @k0", "tg.dispatch @k1"),
            "tg.dispatch [plan.kernel]: there is no kernel @k1");
  EXPECT_EQ(commands("grid(1, 1, 1) args", "grid(0, 1, 1) args"),
            "tg.dispatch [plan.grid]: needs grid(x, y, z) with positive extents");
  EXPECT_EQ(commands(", out(@arena[0:16])) {label", ") {label"),
            "tg.dispatch [plan.args]: @k0 has 3 parameters, 2 ranges are given");
  EXPECT_EQ(commands("in(@arena[32:16])", "texel(@arena[32:16])"),
            "tg.dispatch [plan.args]: %b of @k0 is in, the range is texel");
  EXPECT_EQ(commands("in(@arena[0:16]), out(@arena[16:16])", "in(@arena[0:16]), out(@arena[16:12])"),
            "tg.copy [plan.args]: needs args(in(@buffer[offset:bytes]), out(@buffer[offset:bytes])) of equal "
            "length");
  EXPECT_EQ(commands("tg.fill args(out(", "tg.fill args(in("),
            "tg.fill [plan.args]: needs args(out(@buffer[offset:bytes]))");
}

TEST(VerifyDispatch, ABinaryCarriesItsKernelsHash) {
  auto module = parsed(kKernels);
  const Item& kernelOf = *module->find(ItemKind::kernel, "k0");
  const std::string hash = kernelHash(kernelOf), modes = kernelModes(kernelOf).str();
  std::string text = edited(kKernels, "stage(kernel)", "stage(spirv)");
  EXPECT_EQ(finding(text), "tg.dispatch [plan.kernel]: there is no binary @k0");
  text.replace(
      text.rfind('}'), 1,
      fmt::format("  binary @k0 {{kernel_hash = \"{}\", modes = {}}} \"AwIjBw==\"\n}}", hash, modes));
  EXPECT_EQ(finding(text), "");
  EXPECT_EQ(finding(edited(text, "%t = tgk.add", "%t = tgk.sub")).substr(0, 53),
            "binary @k0 [plan.hash]: was compiled from another ker");
  // Without its source a binary's modes still judge the ranges.
  size_t kernel = text.find("  kernel @k0"), binary = text.find("  binary @k0");
  std::string stripped = text.substr(0, kernel) + text.substr(binary);
  EXPECT_EQ(finding(stripped), "");
  EXPECT_EQ(finding(edited(stripped, "in(@arena[32:16])", "texel(@arena[32:16])")),
            "tg.dispatch [plan.args]: parameter 1 of @k0 is in, the range is texel");
}

}  // namespace
}  // namespace tg::test
