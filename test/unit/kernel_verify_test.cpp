// SPDX-License-Identifier: Apache-2.0
// Every constraint of the kernel op table refuses something, with its label and the line.
#include <set>

#include <fmt/format.h>

#include "ir/kernel/kernel.h"
#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

struct Refusal {
  std::string label, body;
};

const std::string kHelpers = R"(func @half(%x: f32) -> (y: f32) {
    %y = tgk.mul %x, 0.5 : f32
    return %y : f32
  }
  func @again(%x: f32) -> (y: f32) {
    %y = tgk.call @again(%x) : f32
    return %y : f32
  }
  )";

/// A kernel around a body that may use %f (f32), %i (i32), %u (u32), %b (bool), %v (vec4<f32>) and buffers.
std::string around(const std::string& body) {
  return R"(kernel @k(%x: buf<4xf32, in>, %y: buf<4xi32, in>, %p: buf<4xu32, in>, %m: buf<2x4xf32, inout>,
      %o: buf<4xf32, out>, %a: buf<4xf32, accum>, %q: buf<4xvec4<f32>, inout>, %t: buf<4xf32, in, texel>,
      %n0: buf<4xi32, inout>, %g0: buf<4xvec2<i32>, inout>, %h0: buf<4xf16, inout>, %e0: buf<2x11xi32, inout>,
      %d0: buf<2x11xi32, accum>) workgroup(4) grid(1) {
    %l = tgk.local_id 0 : u32
    %f = tgk.load %x[%l] : f32
    %i = tgk.load %y[%l] : i32
    %u = tgk.load %p[%l] : u32
    %b = tgk.lt %u, 2 : bool
    %v = tgk.vec %f : vec4<f32>
    %w = tgk.vec %f, %f : vec2<f32>
    )" + body +
         "\n}";
}

/// Of what adds up, of subgroups, of calls.
std::vector<Refusal> exactRefusals() {
  return {
      {"k_accumulate.c1", "tgk.accumulate %f, %m[0]"},
      {"k_accumulate.c2", "tgk.accumulate %f, %o[0]"},
      {"k_accumulate.c3", "tgk.accumulate %f, %h0[0]"},
      {"k_accumulate.c3", "tgk.accumulate %v, %m[0, 0]"},
      {"k_accumulate.c4", "tgk.accumulate %f, %m[2, 0]"},
      {"k_exact_add.c1", "tgk.exact_add %f, %n0[0]"},
      {"k_exact_add.c2", "%s = tgk.local : buf<2x11xi32, local>\ntgk.exact_add %f, %s[0]"},
      {"k_exact_add.c3", "tgk.exact_add %v, %e0[0]"},
      {"k_exact_add.c4", "tgk.exact_add %f, %e0[2]"},
      {"k_exact_load.c1", "%r = tgk.exact_load %e0[0, 0] : f32"},
      {"k_exact_load.c2", "%r = tgk.exact_load %d0[0] : f32"},
      {"k_exact_load.c3", "%r = tgk.exact_load %e0[2] : f32"},
      {"k_exact_store.c1", "tgk.exact_store %f, %e0[0, 0]"},
      {"k_exact_store.c2", "tgk.exact_store %f, %d0[0]"},
      {"k_exact_store.c3", "tgk.exact_store %v, %e0[0]"},
      {"k_exact_store.c4", "tgk.exact_store %f, %e0[2]"},
      {"k_workgroup_reduce.c2", "%r = tgk.workgroup_reduce %f {kind = and} : f32"},
      {"k_subgroup_reduce.c1", "%r = tgk.subgroup_reduce %f {kind = or} : f32"},
      {"k_subgroup_shuffle.c1", "%r = tgk.subgroup_shuffle %f, %i : f32"},
      {"k_subgroup_ballot.c1", "%c = tgk.lt %w, 0.0 : vec2<bool>\n%r = tgk.subgroup_ballot %c : vec4<u32>"},
      {"k_isnan.x", "%r = tgk.isnan 1.0 : bool"},
      {"k_call.c1", "%r = tgk.call @none(%f) : f32"},
      {"k_call.c2", "%r = tgk.call @half(%u) : f32"},
      {"kernel.type", "%s = tgk.local : buf<4xf16, local>"},
      {"kernel.type", "%r = tgk.cast %f : f16"},
      {"kernel.out", "tgk.store %f, %o[1]"},
      {"kernel.out", "tgk.for %k = 0 to(2) {\ntgk.store %f, %o[%l]\n}"},
  };
}

/// Of matrices that a subgroup holds.
std::vector<Refusal> matrixRefusals() {
  const std::string a = "coopmat<f16, 16x16, A>", acc = "coopmat<f32, 16x16, acc>";
  const std::string halves = "%mh = tgk.shared : buf<32x6xvec4<f16>, shared>\n";
  const std::string sums = "%ms = tgk.shared : buf<16x20xf32, shared>\n";
  const std::string vector = "%mv = tgk.shared : buf<24xf32, shared>\n";
  const std::string zero = "%mz = tgk.coopmat_splat 0.0 : " + acc + "\n";
  const std::string factors = halves + "%ma = tgk.coopmat_load %mh[0, 0] : " + a +
                              "\n%mb = tgk.coopmat_load %mh[16, 0] : coopmat<f16, 16x16, B>\n";
  auto load = [&](const std::string& place, const std::string& type) {
    return "%r = tgk.coopmat_load " + place + " : " + type;
  };
  return {
      {"k_coopmat_splat.c1", "%r = tgk.coopmat_splat 0.0 : " + a},
      {"k_coopmat_splat.c2", "%r = tgk.coopmat_splat %f : " + acc},
      {"k_coopmat_load.c1", load("%h0[0]", a)},
      {"k_coopmat_load.c2", load("%e0[0, 0]", a)},
      {"k_coopmat_load.c2", "%mw = tgk.shared : buf<16x3xvec4<i32>, shared>\n" + load("%mw[0, 0]", a)},
      {"k_coopmat_load.c3", "%mw = tgk.shared : buf<16x7xu32, shared>\n" + load("%mw[0, 0]", a)},
      {"k_coopmat_load.c6", "%mw = tgk.shared : buf<16x3xvec4<u32>, shared>\n" + load("%mw[0, 2]", a)},
      {"k_coopmat_load.c3", "%mq = tgk.shared : buf<8x6xvec4<f16>, shared>\n" + load("%mq[0, 0]", a)},
      {"k_coopmat_load.c2", halves + load("%mh[0, 0]", acc)},
      {"k_coopmat_load.c4", halves + load("%mh[0, 0]", "coopmat<f16, 16x16, acc>")},
      {"k_coopmat_load.c5", halves + load("%mh[%l, 0]", a)},
      {"k_coopmat_load.c6", halves + load("%mh[17, 0]", a)},
      {"k_coopmat_mma.c1", zero + "%r = tgk.coopmat_mma %mz, %mz, %mz : " + acc},
      {"k_coopmat_mma.c2",
       zero + factors + "tgk.if %b {\n%r = tgk.coopmat_mma %ma, %mb, %mz : " + acc + "\n}"},
      {"k_add.c1", factors + "%r = tgk.add %ma, %ma : " + a},
      {"k_mul.c1", zero + "%r = tgk.mul %mz, %v : " + acc},
      {"k_pack_f16.c1", zero + "%r = tgk.pack_f16 %mz, %mz : u32"},
      {"k_coopmat_index.c1", "%r = tgk.coopmat_index : " + a},
      {"k_coopmat_index.c2", "tgk.if %b {\n%r = tgk.coopmat_index : " + acc + "\n}"},
      {"k_coopmat_repeat.c1", sums + "%r = tgk.coopmat_repeat %ms[0, 0] : " + acc},
      {"k_coopmat_repeat.c2",
       "%mq = tgk.shared : buf<16xvec4<f32>, shared>\n%r = tgk.coopmat_repeat %mq[0] : " + acc},
      {"k_coopmat_repeat.c3",
       "%mq = tgk.shared : buf<8xf32, shared>\n%r = tgk.coopmat_repeat %mq[0] : " + acc},
      {"k_coopmat_repeat.c4", vector + "%r = tgk.coopmat_repeat %mv[0] : " + a},
      {"k_coopmat_repeat.c5", vector + "%r = tgk.coopmat_repeat %mv[%l] : " + acc},
      {"k_coopmat_repeat.c6", vector + "%r = tgk.coopmat_repeat %mv[9] : " + acc},
      {"k_coopmat_row_reduce.c1", factors + "%r = tgk.coopmat_row_reduce %ma : " + a},
      {"k_coopmat_row_reduce.c1", factors + zero + "%r = tgk.coopmat_row_reduce %mz, %ma : " + acc},
      {"k_coopmat_row_reduce.c1", "%r = tgk.coopmat_row_reduce : " + acc},
      {"k_coopmat_row_reduce.c2", zero + "tgk.if %b {\n%r = tgk.coopmat_row_reduce %mz : " + acc + "\n}"},
      {"k_coopmat_any_above.c1", zero + "%r = tgk.coopmat_any_above 0.5 : bool"},
      {"k_coopmat_any_above.c1", zero + "%r = tgk.coopmat_any_above %l, %mz : bool"},
      {"k_coopmat_any_above.c1", zero + "%r = tgk.coopmat_any_above %v, %mz : bool"},
      {"k_coopmat_any_above.c2", zero + "tgk.if %b {\n%r = tgk.coopmat_any_above 0.5, %mz : bool\n}"},
      {"k_coopmat_convert.c1", factors + "%r = tgk.coopmat_convert %mb : " + acc},
      {"k_coopmat_convert.c3", factors + "%r = tgk.coopmat_convert %ma : " + a},
      {"k_coopmat_convert.c2", zero + "tgk.if %b {\n%r = tgk.coopmat_convert %mz : " + a + "\n}"},
      {"k_coopmat_convert.c3", zero + "%r = tgk.coopmat_convert %mz : coopmat<f16, 16x16, B>"},
      {"k_coopmat_convert.c4", zero + "%r = tgk.coopmat_convert %mz {truncate = true} : " + a},
      {"k_coopmat_store.c1", zero + "tgk.coopmat_store %mz, %h0[0]"},
      {"k_coopmat_store.c2", zero + halves + "tgk.coopmat_store %mz, %mh[0, 0]"},
      {"k_coopmat_store.c2",
       zero + "%mv = tgk.shared : buf<16x5xvec4<f32>, shared>\ntgk.coopmat_store %mz, %mv[0, 0]"},
      {"k_coopmat_store.c3",
       zero + "%mq = tgk.shared : buf<8x20xf32, shared>\ntgk.coopmat_store %mz, %mq[0, 0]"},
      {"k_coopmat_store.c2", factors + sums + "tgk.coopmat_store %ma, %ms[0, 0]"},
      {"k_coopmat_store.c3",
       factors + "%mq = tgk.shared : buf<16x7xu32, shared>\ntgk.coopmat_store %ma, %mq[0, 0]"},
      {"k_coopmat_store.c4", factors + sums + "tgk.coopmat_store %mb, %ms[0, 0]"},
      {"k_coopmat_store.c5", zero + sums + "tgk.coopmat_store %mz, %ms[%l, 0]"},
      {"k_coopmat_store.c6", zero + sums + "tgk.coopmat_store %mz, %ms[0, 5]"},
      {"kernel.type", "%mq = tgk.shared : buf<8xf16, shared>"},
  };
}

std::vector<Refusal> refusals() {
  std::vector<Refusal> all = {
      {"k_dim.buffer", "%d = tgk.dim %f, 0 : u32"},
      {"k_dim.c1", "%d = tgk.dim %m, 2 : u32"},
      {"k_add.c1", "%r = tgk.add %v, %w : vec4<f32>"},
      {"k_add.rhs", "%r = tgk.add %i, 1.5 : i32"},
      {"k_add.rhs", "%r = tgk.add %u, -1 : u32"},
      {"k_fma.c1", "%r = tgk.fma %f, %v, %w : vec4<f32>"},
      {"k_fma.a", "%r = tgk.fma %i, %i, %i : i32"},
      {"k_neg.x", "%r = tgk.neg %b : bool"},
      {"k_exp.x", "%r = tgk.exp %u : u32"},
      {"k_shl.x", "%r = tgk.shl %f, %f : f32"},
      {"k_not.c1", "%r = tgk.not %f : f32"},
      {"k_lt.c1", "%r = tgk.lt 1, 2 : bool"},
      {"k_select.cond", "%r = tgk.select %u, %f, %f : f32"},
      {"k_select.c1", "%r = tgk.select %b, %f, %i : f32"},
      {"k_select.c1", "%c = tgk.lt %w, 0.0 : vec2<bool>\n%r = tgk.select %c, %v, %v : vec4<f32>"},
      {"k_cast.c1", "%r = tgk.cast %v : i32"},
      {"k_cast.x", "%r = tgk.cast 1.0 : i32"},
      {"k_bitcast.c1", "%r = tgk.bitcast %v : u32"},
      {"k_bitcast.c2", "%r = tgk.bitcast %b : u32"},
      {"k_vec.c1", "%r = tgk.vec %f, %f : vec4<f32>"},
      {"k_vec.c1", "%r = tgk.vec %f, %i : vec2<f32>"},
      {"k_extract.c1", "%r = tgk.extract %w, 2 : f32"},
      {"k_load.c1", "%r = tgk.load %m[%l] : f32"},
      {"k_load.c1", "%r = tgk.load %x[%f] : f32"},
      {"k_load.c2", "%r = tgk.load %o[%l] : f32"},
      {"k_load.c2", "%r = tgk.load %a[%l] : f32"},
      {"k_load.c3", "%r = tgk.load %m[1, 4] : f32"},
      {"k_store.c1", "tgk.store %f, %m[%l]"},
      {"k_store.c2", "tgk.store %f, %x[%l]"},
      {"k_store.c2", "tgk.store %f, %a[%l]"},
      {"k_store.c3", "tgk.store %i, %o[%l]"},
      {"k_store.c4", "tgk.store %f, %o[-1]"},
      {"k_atomic_add.c1", "tgk.atomic_add %f, %m[%l]"},
      {"k_atomic_add.c2", "tgk.atomic_add %f, %o[%l]"},
      {"k_atomic_add.c3", "tgk.atomic_add %i, %a[%l]"},
      {"k_atomic_add.c3", "tgk.atomic_add %v, %q[%l]"},
      {"k_atomic_add.c4", "tgk.atomic_add %f, %a[4]"},
      {"k_shared.c1", "%s = tgk.shared : buf<4xf32, local>"},
      {"k_shared.c1", "%s = tgk.shared : buf<?xf32, shared>"},
      {"k_local.c1", "%s = tgk.local : buf<4xf32, shared>"},
      {"k_if.cond", "tgk.if %u {\n}"},
      {"k_if.c1", "%r = tgk.if %b : f32 {\ntgk.yield %f : f32\n} else {\ntgk.yield %i : i32\n}"},
      {"k_if.c1", "%r = tgk.if %b : f32 {\ntgk.yield %f : f32\n}"},
      {"kernel.body", "%r = tgk.if %b : f32 {\n} else {\ntgk.yield %f : f32\n}"},
      {"kernel.body", "%r = tgk.for %k = 0 to(4) iter_args(%c = %f) : f32 {\n}"},
      {"k_for.to", "tgk.for %k = 0 to(%f) {\n}"},
      {"k_for.step", "tgk.for %k = 0 to(4) step(0) {\n}"},
      {"k_for.c1", "%r = tgk.for %k = 0 to(4) iter_args(%c = %i) : f32 {\ntgk.yield %c : f32\n}"},
      {"k_for.c2", "%r = tgk.for %k = 0 to(4) iter_args(%c = %f) : f32 {\ntgk.yield %k : u32\n}"},
      {"k_barrier.c1", "tgk.if %b {\ntgk.barrier\n}"},
      {"k_barrier.c1", "tgk.for %k = 0 to(%l) {\ntgk.barrier\n}"},
      {"k_barrier.c1",
       "%n = tgk.for %k = 0 to(4) iter_args(%c = 0) : u32 {\ntgk.for %j = 0 to(%c) {\ntgk.barrier\n}\n"
       "%d = tgk.add %c, %l : u32\ntgk.yield %d : u32\n}"},
      {"k_workgroup_reduce.c1", "tgk.if %b {\n%r = tgk.workgroup_reduce %f : f32\n}"},
      {"kernel.result", "%r = tgk.add %f, %f : i32"},
      {"kernel.type", "%s = tgk.shared : buf<4xbool, shared>"},
      {"kernel.yield", "tgk.yield %f : f32"},
      {"kernel.shared", "%s = tgk.shared : buf<65536xf32, shared>"},
      {"kernel.shared", "%s = tgk.shared : buf<16384xf32, shared>\n%r = tgk.workgroup_reduce %f : f32"},
  };
  for (const char* op : {"global_id", "local_id", "workgroup_id", "num_workgroups"})
    all.push_back({fmt::format("k_{}.c1", op), fmt::format("%r = tgk.{} 3 : u32", op)});
  for (const char* op : {"add", "sub", "mul", "div", "min", "max"})
    all.push_back({fmt::format("k_{}.c1", op), fmt::format("%r = tgk.{} %f, %i : f32", op)});
  for (const char* op : {"mod", "and", "or", "xor", "shl", "shr"})
    all.push_back({fmt::format("k_{}.c1", op), fmt::format("%r = tgk.{} %u, %i : u32", op)});
  all.push_back({"k_constant.c1", "%r = tgk.constant 1.5 : i32"});
  for (const char* op : {"and", "or", "xor"})
    all.push_back({fmt::format("k_{}.c1", op), fmt::format("%r = tgk.{} %f, %f : f32", op)});
  for (const char* op : {"lt", "le", "gt", "ge", "eq", "ne"})
    all.push_back({fmt::format("k_{}.c1", op), fmt::format("%r = tgk.{} %u, %i : bool", op)});
  all.push_back({"k_pow.c1", "%r = tgk.pow %v, %w : vec4<f32>"});
  all.push_back({"k_atan2.c1", "%r = tgk.atan2 %v, %w : vec4<f32>"});
  for (const char* narrow : {"f16", "bf16"}) {
    all.push_back(
        {fmt::format("k_pack_{}.c1", narrow), fmt::format("%r = tgk.pack_{} %v, %w : vec4<u32>", narrow)});
    all.push_back(
        {fmt::format("k_unpack_{}.c2", narrow), fmt::format("%r = tgk.unpack_{} %i : f32", narrow)});
  }
  for (const char* op : {"mulhi", "rotl", "rotr", "add_sat", "sub_sat", "mul_sat", "abs_diff"}) {
    all.push_back({fmt::format("k_{}.c1", op), fmt::format("%r = tgk.{} %u, %i : u32", op)});
    all.push_back({fmt::format("k_{}.c2", op), fmt::format("%r = tgk.{} %i, %i : i32", op)});
  }
  for (const char* op : {"and", "or", "xor", "min", "max", "exchange", "compare_exchange"}) {
    std::string values = op == std::string("compare_exchange") ? "%i, %i" : "%i";
    all.push_back(
        {fmt::format("k_atomic_{}.c1", op), fmt::format("tgk.atomic_{} {}, %n0[0, 0]", op, values)});
    all.push_back({fmt::format("k_atomic_{}.c2", op), fmt::format("tgk.atomic_{} {}, %y[0]", op, values)});
    all.push_back({fmt::format("k_atomic_{}.c3", op), fmt::format("tgk.atomic_{} {}, %g0[0]", op, values)});
    all.push_back({fmt::format("k_atomic_{}.c4", op), fmt::format("tgk.atomic_{} {}, %n0[4]", op, values)});
  }
  for (const Refusal& each : exactRefusals()) all.push_back(each);
  for (const Refusal& each : matrixRefusals()) all.push_back(each);
  return all;
}

TEST(KernelVerify, EachConstraintRefuses) {
  for (const Refusal& refusal : refusals()) {
    auto module = kernels(kHelpers + around(refusal.body));
    ASSERT_TRUE(module);
    const Item& kernel = *module->find(ItemKind::kernel, "k");
    auto checked = verifyKernel(kernel);
    if (checked) checked = verifyKernelWrites(kernel);
    if (checked) checked = verifyKernelSymbols(kernel, *module);
    ASSERT_FALSE(checked) << refusal.body;
    const Diagnostic& first = checked.error().diagnostics().front();
    EXPECT_NE(first.message.find("[" + refusal.label + "]"), std::string::npos) << refusal.body << "\n"
                                                                                << first.message;
    ASSERT_TRUE(placeOf(first.loc)) << first.message;
    EXPECT_EQ(checked.error().diagnostics().size(), 1u) << checked.error().str();
  }
}

TEST(KernelVerify, EveryLabelOfTheTableIsTried) {
  std::set<std::string> tried;
  for (const Refusal& refusal : refusals()) tried.insert(refusal.label);
  const char* ids[] = {
#define OP(id, ...) #id,
#include "ir/kernel/ops.def"
#undef OP
  };
  int labels = 0;
  for (size_t index = 0; index < std::size(ids); ++index) {
    const OpInfo& row = info(static_cast<Opcode>(kFirstKernelOp + static_cast<int>(index)));
    for (int number = 1; number <= 9; ++number) {
      if (row.constraints.find(fmt::format("c{}: ", number)) == std::string_view::npos) continue;
      ++labels;
      if (fmt::format("{}.c{}", ids[index], number) == "k_call.c3") continue;  // of funcs: see below
      EXPECT_TRUE(tried.contains(fmt::format("{}.c{}", ids[index], number))) << row.name << " c" << number;
    }
  }
  EXPECT_GT(labels, 40);
}

TEST(KernelVerify, AFuncDoesNotCallItself) {
  auto module = kernels(kHelpers);
  auto checked = verifyKernelCalls(*module);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("[k_call.c3]"), std::string::npos) << checked.error().message();
}

TEST(KernelVerify, UniformFlowMayHoldBarriers) {
  auto module = kernels(R"(kernel @k(%x: buf<4xf32, in>, %n: buf<1xu32, in>) workgroup(4) grid(2) {
    %g = tgk.workgroup_id 0 : u32
    %c = tgk.load %n[0] : u32
    %row = tgk.local_id 1 : u32
    %to = tgk.add %c, %row : u32
    %m = tgk.for %k = %g to(%to) step(%c) iter_args(%acc = 0) : u32 {
      %b = tgk.lt %k, %acc : bool
      tgk.if %b {
        tgk.barrier
      }
      %l = tgk.local_id 0 : u32
      %v = tgk.load %x[%l] : f32
      %s = tgk.workgroup_reduce %v : f32
      %positive = tgk.gt %s, 0.0 : bool
      %next = tgk.if %positive : u32 {
        tgk.barrier
        tgk.yield %k : u32
      } else {
        tgk.yield 7 : u32
      }
      tgk.yield %next : u32
    }
  })");
  verified(*module);
}

TEST(KernelVerify, LaunchAndParameters) {
  auto message = [](const std::string& head) {
    auto module = kernels("kernel @k" + head + " {\n}");
    auto checked = verifyKernel(*module->find(ItemKind::kernel, "k"));
    return checked ? std::string("accepted") : checked.error().message();
  };
  EXPECT_EQ(message("(%x: buf<4xf32, in>) workgroup(8, 8, 16) grid(65536, 2, 1)"), "accepted");
  EXPECT_EQ(message("(%x: buf<4xf32, in>) workgroup(4, 4, 64) grid(1)"), "accepted");
  EXPECT_NE(message("(%x: buf<4xf32, in>) workgroup(1, 1, 65) grid(1)")
                .find("[kernel.workgroup]: a local size of 65 along z, more than 64"),
            std::string::npos);
  EXPECT_NE(message("(%x: buf<4xf32, in>) workgroup(0) grid(1)").find("[kernel.workgroup]"),
            std::string::npos);
  EXPECT_NE(message("(%x: buf<4xf32, in>) workgroup(64, 64) grid(1)").find("4096 invocations"),
            std::string::npos);
  EXPECT_NE(message("(%x: buf<4xf32, in>) workgroup(1) grid(0)").find("[kernel.grid]"), std::string::npos);
  EXPECT_NE(message("(%x: buf<4xf32, in>) workgroup(1) grid(1, 1, 1, 1)").find("[kernel.grid]"),
            std::string::npos);
  EXPECT_NE(message("(%x: buf<4xf32, shared>) workgroup(1) grid(1)").find("only tgk.shared makes"),
            std::string::npos);
  EXPECT_NE(message("(%x: buf<4xf32, out, texel>) workgroup(1) grid(1)").find("texels"), std::string::npos);
  EXPECT_NE(message("(%x: buf<4xbool, in>) workgroup(1) grid(1)").find("as u32"), std::string::npos);
  EXPECT_EQ(message("(%x: buf<?x4x?xf16, inout>, %t: buf<?xf32, tape>) workgroup(1) grid(1)"), "accepted");
  EXPECT_NE(message("(%x: buf<4xf16, accum>) workgroup(1) grid(1)").find("adds up in f16"),
            std::string::npos);
  EXPECT_NE(message("(%x: buf<4xf16, in, texel>) workgroup(1) grid(1)").find("texels"), std::string::npos);
  EXPECT_NE(message("(%x: f32) workgroup(1) grid(1)").find("not a buffer"), std::string::npos);
}

TEST(KernelVerify, ValuesStayInTheirScope) {
  auto module = kernels(around("tgk.if %b {\n%r = tgk.add %f, 1.0 : f32\ntgk.store %r, %o[%l]\n}"));
  Item& kernel = *module->find(ItemKind::kernel, "k");
  Op& branch = *kernel.body.ops.back();
  kernel.body.ops.push_back(branch.regions[0]->ops.takeBack());  // text cannot say this; a pass can
  auto checked = verifyKernel(kernel);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("tgk.store [kernel.scope]: %r is not defined here"),
            std::string::npos)
      << checked.error().message();
}

TEST(KernelVerify, PrintParsePrintIsAFixpoint) {
  auto module =
      kernels(around(R"(%r = tgk.for %k = 0 to(%u) step(2) iter_args(%c = %f) {unroll = true} : f32 {
      %n = tgk.if %b : f32 {
        tgk.yield %c : f32
      } else {
        %e = tgk.extract %v, 3 : f32
        tgk.yield %e : f32
      }
      tgk.yield %n : f32
    }
    tgk.store %r, %o[%l]
    %z = tgk.load %m[1, %i] : f32
    tgk.barrier
    %last = tgk.workgroup_reduce %z {kind = max} : f32)"));
  verified(*module);
  std::string once = print(*module);
  auto again = parse(once, "again.tgir");
  ASSERT_TRUE(again) << again.error().str() << once;
  EXPECT_EQ(print(**again), once);
}

}  // namespace
}  // namespace tg::test
