// SPDX-License-Identifier: Apache-2.0
// Kernels as GLSL and SPIR-V: what is printed, and that it compiles, validates and stays exact.
#include <algorithm>
#include <bit>
#include <thread>

#include <spirv-tools/libspirv.hpp>

#include "codegen/glsl.h"
#include "codegen/shader.h"
#include "ir/kernel/rewrites.h"
#include "ir/kernel/semantics.h"
#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

Target everyFeature() {
  Target target;
  target.subgroups = target.floatAtomics = target.halfStorage = true;
  return target;
}

/// The shader of kernel @k, which is legalized first.
GlslText printed(Module& module) {
  verified(module);
  Item* kernel = module.find(ItemKind::kernel, "k");
  legalize(&module, *kernel);
  auto glsl = printGlsl(verified(module), everyFeature());
  EXPECT_TRUE(glsl);
  EXPECT_EQ(static_cast<size_t>(std::count(glsl->text.begin(), glsl->text.end(), '\n')),
            glsl->lineLocs.size());
  EXPECT_EQ(glsl->lineLocs.size(), glsl->lineOps.size());
  return *std::move(glsl);
}

/// SPIR-V as assembly text with friendly names, or a message if the words are no module.
std::string disassemble(const std::vector<uint32_t>& words) {
  std::string text;
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_1);
  bool fine = tools.Disassemble(words, &text,
                                SPV_BINARY_TO_TEXT_OPTION_INDENT | SPV_BINARY_TO_TEXT_OPTION_FRIENDLY_NAMES);
  return fine ? text : "; not a SPIR-V module\n";
}

/// The assembly.
std::string compiled(const GlslText& glsl) {
  auto words = compileGlsl(glsl, "k");
  EXPECT_TRUE(words) << words.error().str();
  return words ? disassemble(*words) : "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(KernelGlsl, MapKernelReadsAsWritten) {
  auto module = kernels(
      R"(kernel @k(%a: buf<1xf32, in>, %x: buf<13xf32, in>, %o: buf<13xf32, out>) workgroup(8) grid(2) {
    %i = tgk.global_id 0 : u32
    %inside = tgk.lt %i, 13 : bool
    tgk.if %inside {
      %av = tgk.load %a[0] : f32
      %xv = tgk.load %x[%i] : f32
      %r = tgk.fma %av, %xv, 0.1 : f32
      tgk.store %r, %o[%i]
    }
  })");
  GlslText glsl = printed(*module);
  EXPECT_EQ(glsl.text, R"(#version 450
layout(local_size_x = 8, local_size_y = 1, local_size_z = 1) in;
layout(std430, set = 0, binding = 0) readonly buffer B0 { float a[]; };
layout(std430, set = 0, binding = 1) readonly buffer B1 { float x[]; };
layout(std430, set = 0, binding = 2) writeonly buffer B2 { float o[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  bool inside = i < 13u;
  if (inside) {
    precise float av = a[0];
    precise float xv = x[i];
    precise float r = fma(av, xv, 0.1);
    o[i] = r;
  }
}
)");
  EXPECT_EQ(glsl.lineOps[12], "tgk.fma");
  ASSERT_TRUE(placeOf(glsl.lineLocs[12]));
  EXPECT_EQ(placeOf(glsl.lineLocs[12])->line, 8u);
  compiled(glsl);
}

// Uses every op of the table at least once; CoversTheTable says so.
const char* const kEverything =
    R"(kernel @k(%x: buf<4x8xf32, in>, %n: buf<?xi32, in>, %t: buf<16xvec4<f32>, in, texel>,
    %s1: buf<16xu32, in, texel>,
    %m: buf<4x8xf32, inout>, %acc: buf<8xf32, accum>, %cnt: buf<8xi32, accum>, %un: buf<8xu32, inout>,
    %fm: buf<8xf32, inout>, %ex: buf<8x11xi32, accum>, %et: buf<8x11xi32, tape>, %ha: buf<8xf16, in>,
    %hv: buf<8xvec4<f16>, inout>,
    %q: buf<?x2xvec4<f32>, inout>, %tp: buf<64xf32, tape>)
    workgroup(4, 2) grid(2, 2) {
  %g = tgk.global_id 0 : u32
  %l = tgk.local_id 1 : u32
  %wg = tgk.workgroup_id 0 : u32
  %nw = tgk.num_workgroups 1 : u32
  %d = tgk.dim %n, 0 : u32
  %dq = tgk.dim %q, 0 : u32
  %sh = tgk.shared : buf<8xf32, shared>
  %shv = tgk.shared : buf<8xvec4<f32>, shared>
  %lo = tgk.local : buf<4xf32, local>
  %f = tgk.load %x[%l, %g] : f32
  %i = tgk.load %n[%g] : i32
  %u = tgk.load %s1[%g] : u32
  %v = tgk.load %t[%g] : vec4<f32>
  %k2 = tgk.load %x[1, 2] : f32
  %k3 = tgk.load %x[%i, 3] : f32
  %a0 = tgk.add %f, %k2 : f32
  %a1 = tgk.sub %a0, %k3 : f32
  %a2 = tgk.mul %a1, -1.5 : f32
  %a3 = tgk.div %a2, %f : f32
  %a4 = tgk.min %a3, %f : f32
  %a5 = tgk.max %a4, 0.0 : f32
  %a6 = tgk.pow %a5, 2.5 : f32
  %a7 = tgk.fma %a6, %a5, %f : f32
  %a8 = tgk.neg %a7 : f32
  %a9 = tgk.abs %a8 : f32
  %a10 = tgk.sign %a9 : f32
  %a11 = tgk.floor %a10 : f32
  %h12 = tgk.constant 0.5 : f32
  %h11 = tgk.round_f16 %a10 : f32
  %b11 = tgk.round_bf16 %a10 : f32
  %p11 = tgk.pack_f16 %h11, %b11 : u32
  %p12 = tgk.pack_bf16 %h11, 1.0 : u32
  %n11 = tgk.unpack_f16 %p11 : f32
  %n12 = tgk.unpack_bf16 %p12 : f32
  %a12 = tgk.sqrt %a9 : f32
  %a13 = tgk.rsqrt %a12 : f32
  %a14 = tgk.exp %a13 : f32
  %a15 = tgk.log %a14 : f32
  %i0 = tgk.div %i, 3 : i32
  %i1 = tgk.div %i, %i0 : i32
  %i2 = tgk.mod %i1, 5 : i32
  %i3 = tgk.min %i2, %i : i32
  %i4 = tgk.sign %i3 : i32
  %i5 = tgk.abs %i4 : i32
  %i6 = tgk.neg %i5 : i32
  %i7 = tgk.shr %i6, 35 : i32
  %i8 = tgk.shl %i7, %i : i32
  %u0 = tgk.div %u, 7 : u32
  %u1 = tgk.mod %u, %u0 : u32
  %u2 = tgk.mod %u1, 8 : u32
  %u3 = tgk.shl 1, %u2 : u32
  %u4 = tgk.and %u3, 255 : u32
  %u5 = tgk.or %u4, %u : u32
  %h5 = tgk.mulhi %u5, 3528531795 : u32
  %u6 = tgk.xor %h5, %g : u32
  %u7 = tgk.not %u6 : u32
  %u8 = tgk.sign %u7 : u32
  %u9 = tgk.abs %u8 : u32
  %b0 = tgk.lt %f, %a0 : bool
  %b1 = tgk.le %i, 4 : bool
  %b2 = tgk.gt %u, %g : bool
  %b3 = tgk.ge %f, 0.0 : bool
  %b4 = tgk.eq %u, %u0 : bool
  %b5 = tgk.ne %i, %i0 : bool
  %b6 = tgk.and %b0, %b1 : bool
  %b7 = tgk.or %b6, %b2 : bool
  %b8 = tgk.xor %b7, %b3 : bool
  %b9 = tgk.not %b8 : bool
  %c0 = tgk.select %b9, %f, 1e-40 : f32
  %c1 = tgk.cast %i : f32
  %c2 = tgk.cast %c1 : u32
  %c3 = tgk.cast %b4 : f32
  %c4 = tgk.cast %f : bool
  %c5 = tgk.bitcast %f : u32
  %c6 = tgk.bitcast %i8 : f32
  %c7 = tgk.bitcast %c2 : i32
  %v0 = tgk.vec %f, %c0, %c6, 0.0 : vec4<f32>
  %v1 = tgk.vec %a15 : vec4<f32>
  %v2 = tgk.add %v0, %v1 : vec4<f32>
  %v3 = tgk.mul %v2, %f : vec4<f32>
  %v4 = tgk.max %v3, 0.0 : vec4<f32>
  %v5 = tgk.fma %v4, %v, %f : vec4<f32>
  %v6 = tgk.sign %v5 : vec4<f32>
  %vb0 = tgk.lt %v5, %v6 : vec4<bool>
  %vb1 = tgk.ne %v5, 1.0 : vec4<bool>
  %vb2 = tgk.and %vb0, %vb1 : vec4<bool>
  %vb3 = tgk.or %vb2, %vb1 : vec4<bool>
  %vb4 = tgk.xor %vb3, %vb0 : vec4<bool>
  %vb5 = tgk.not %vb4 : vec4<bool>
  %v7 = tgk.select %vb5, %v5, -2.0 : vec4<f32>
  %v8 = tgk.select %b5, %v7, %v6 : vec4<f32>
  %v9 = tgk.cast %v8 : vec4<i32>
  %v10 = tgk.cast %v8 : vec4<bool>
  %v11 = tgk.bitcast %v9 : vec4<u32>
  %v12 = tgk.div %v11, %u : vec4<u32>
  %v13 = tgk.shr %v12, %u : vec4<u32>
  %v14 = tgk.div %v8, %v5 : vec4<f32>
  %e = tgk.extract %v14, 3 : f32
  %w0 = tgk.workgroup_reduce %e : f32
  %w1 = tgk.workgroup_reduce %v14 {kind = max} : vec4<f32>
  %w2 = tgk.workgroup_reduce %i {kind = min} : i32
  tgk.store %w0, %sh[%l]
  tgk.store %w1, %shv[%l]
  tgk.store %a15, %lo[3]
  tgk.barrier
  %r0, %r1 = tgk.for %k = 1 to(%d) step(2) iter_args(%p = %f, %o = 0.5) {unroll = true} : f32, f32 {
    %y = tgk.load %sh[%l] : f32
    %z = tgk.fma %p, %y, %o : f32
    tgk.yield %o, %z : f32, f32
  }
  %ir, %jr = tgk.if %b9 : f32, i32 {
    tgk.yield %r0, -2147483648 : f32, i32
  } else {
    %lv = tgk.load %lo[3] : f32
    tgk.yield %lv, %w2 : f32, i32
  }
  tgk.store %ir, %m[%l, %g]
  tgk.atomic_add %r1, %acc[%g]
  tgk.atomic_add %jr, %cnt[%g]
  tgk.atomic_add 0.25, %sh[%l]
  tgk.store %w1, %q[%l, 1]
  tgk.store 0.0, %q[%l, 0]
  tgk.store %c3, %tp[%g]
  %mm = tgk.load %m[%l, %g] : f32
  %z0 = tgk.ceil %f : f32
  %z1 = tgk.round %z0 : f32
  %z2 = tgk.trunc %z1 : f32
  %z3 = tgk.exp2 %z2 : f32
  %z4 = tgk.log2 %z3 : f32
  %z5 = tgk.reciprocal %z4 : f32
  %z6 = tgk.sin %z5 : f32
  %z7 = tgk.cos %z6 : f32
  %z8 = tgk.tan %z7 : f32
  %z9 = tgk.asin %z8 : f32
  %y0 = tgk.acos %z9 : f32
  %y1 = tgk.atan %y0 : f32
  %y2 = tgk.sinh %y1 : f32
  %y3 = tgk.cosh %y2 : f32
  %y4 = tgk.tanh 0.5 : f32
  %y5 = tgk.erf %v14 : vec4<f32>
  %y6 = tgk.stop_gradient %y5 : vec4<f32>
  %y7 = tgk.sin %y6 : vec4<f32>
  %y8 = tgk.mul %y3, %y4 : f32
  %y9 = tgk.log1p %y8 : f32
  %t0 = tgk.expm1 %y7 : vec4<f32>
  %t1 = tgk.atan2 %y9, %t0 : vec4<f32>
  %t2 = tgk.atan2 %t1, 0.5 : vec4<f32>
  %t3 = tgk.atan2 -1.0, %y8 : f32
  %n0 = tgk.isnan %y8 : bool
  %n1 = tgk.isinf %y7 : vec4<bool>
  %n2 = tgk.isfinite %y8 : bool
  %p0 = tgk.popcount %u : u32
  %p1 = tgk.clz %i : i32
  %p2 = tgk.ctz %v11 : vec4<u32>
  %p3 = tgk.reverse_bits %v9 : vec4<i32>
  %p4 = tgk.rotl %u, %p0 : u32
  %p5 = tgk.rotr %v11, 5 : vec4<u32>
  %p6 = tgk.add_sat %p4, 7 : u32
  %p7 = tgk.sub_sat %p6, %u : u32
  %p8 = tgk.mul_sat %p5, %p7 : vec4<u32>
  %p9 = tgk.abs_diff %p8, %u : vec4<u32>
  tgk.atomic_and %u, %un[0]
  %q0 = tgk.atomic_or 3, %un[%l] : u32
  tgk.atomic_xor %q0, %un[1]
  tgk.atomic_min %u, %un[2]
  tgk.atomic_max %u, %un[3]
  %q1 = tgk.atomic_exchange %f, %fm[%l] : f32
  %q2 = tgk.atomic_compare_exchange %q1, 0.5, %fm[1] : f32
  %q3 = tgk.atomic_add %q2, %fm[2] : f32
  tgk.accumulate %q3, %acc[%g]
  tgk.accumulate 1.5, %lo[2]
  tgk.exact_add %q3, %ex[%l]
  tgk.exact_store %q3, %et[3]
  %x0 = tgk.exact_load %et[%g] : f32
  %h0 = tgk.load %ha[%l] : f32
  %h1 = tgk.load %hv[0] : vec4<f32>
  %h2 = tgk.mul %h1, %h0 : vec4<f32>
  tgk.store %h2, %hv[%l]
  %s0 = tgk.subgroup_size : u32
  %s2 = tgk.subgroup_id : u32
  %s3 = tgk.subgroup_lane : u32
  %s4 = tgk.subgroup_reduce %h2 {kind = max} : vec4<f32>
  %s5 = tgk.subgroup_reduce %s3 {kind = xor} : u32
  %s6 = tgk.subgroup_shuffle %b5, 0 : bool
  %s7 = tgk.subgroup_ballot %s6 : vec4<u32>
  %w3 = tgk.workgroup_reduce %s5 {kind = and} : u32
  %called = tgk.call @helper(%x0, 2.0) : f32
  tgk.store %called, %lo[0]
}
func @helper(%hx: f32, %hy: f32) -> (r: f32) {
  %r = tgk.mul %hx, %hy : f32
  return %r : f32
})";

TEST(KernelGlsl, CoversTheTable) {
  auto module = kernels(kEverything);
  std::vector<bool> used(kOpcodeCount);
  walk(verified(*module).body, [&](Op& op) { used[static_cast<size_t>(op.code)] = true; });
  const Opcode all[] = {
#define OP(id, ...) Opcode::id,
#include "ir/kernel/ops.def"
#undef OP
  };
  for (Opcode code : all)  // coopmat_test.cpp has those on matrices
    EXPECT_TRUE(used[static_cast<size_t>(code)] || isCoopmatOp(code))
        << info(code).name << " is not in kEverything";
  compiled(printed(*module));
}

/// The result ids that carry a decoration, from assembly.
bool decorated(const std::string& assembly, const std::string& id) {
  return has(assembly, "OpDecorate " + id + " NoContraction");
}

TEST(KernelGlsl, FloatArithmeticIsExact) {
  auto module = kernels(kEverything);
  GlslText glsl = printed(*module);
  auto words = compileGlsl(glsl, "k");
  ASSERT_TRUE(words) << words.error().str();
  std::string assembly = disassemble(*words);
  int found = 0;
  for (size_t start = 0, end; (end = assembly.find('\n', start)) != std::string::npos; start = end + 1) {
    std::string line = assembly.substr(start, end - start);
    bool arithmetic = false;
    for (const char* op :
         {" OpFAdd ", " OpFSub ", " OpFMul ", " OpFDiv ", " OpFNegate ", " OpVectorTimesScalar "})
      arithmetic |= has(line, op);
    if (!arithmetic) continue;
    ++found;
    size_t id = line.find('%');
    EXPECT_TRUE(decorated(assembly, line.substr(id, line.find(' ', id) - id))) << line;
  }
  EXPECT_GE(found, 10);
}

TEST(KernelGlsl, OrderAndCancellationAreKept) {
  auto module = kernels(R"(kernel @k(%x: buf<4xf32, in>, %o: buf<4xf32, out>) workgroup(4) grid(1) {
    %i = tgk.global_id 0 : u32
    %v = tgk.load %x[%i] : f32
    %a = tgk.add %v, 16777216.0 : f32
    %b = tgk.sub %a, 16777216.0 : f32
    %c = tgk.mul %b, 3.0 : f32
    %d = tgk.mul %c, 0.1 : f32
    %e = tgk.sub %d, %d : f32
    %f = tgk.add %d, %e : f32
    tgk.store %f, %o[%i]
  })");
  std::string assembly = compiled(printed(*module));
  auto count = [&](const std::string& op) {
    int n = 0;
    for (size_t at = 0; (at = assembly.find(op, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(count("OpFAdd "), 2);
  EXPECT_EQ(count("OpFSub "), 2);
  EXPECT_EQ(count("OpFMul "), 2);
}

TEST(KernelGlsl, LiteralsAreExact) {
  std::vector<float> values{0.1f,        1e-30f,       3.4028235e38f, 16777217.0f, 1.17549435e-38f,
                            0.33333334f, 9.999999e-5f, 1e10f};
  for (float value : values) {
    std::string text = formatF32(value);
    auto module = kernels("kernel @k(%o: buf<2xf32, out>) workgroup(1) grid(1) {\ntgk.store " + text +
                          ", %o[0]\ntgk.store -" + text + ", %o[1]\n}");
    auto words = compileGlsl(printed(*module), "k");
    ASSERT_TRUE(words) << words.error().str();
    for (float wanted : {value, -value})
      EXPECT_NE(std::find(words->begin(), words->end(), std::bit_cast<uint32_t>(wanted)), words->end())
          << text;
  }
  auto module = kernels(
      R"(kernel @k(%o: buf<4xf32, out>, %i: buf<2xi32, out>, %u: buf<1xu32, out>) workgroup(1) grid(1) {
    tgk.store inf, %o[0]
    tgk.store nan, %o[1]
    tgk.store -0.0, %o[2]
    tgk.store -7, %i[0]
    tgk.store -2147483648, %i[1]
    tgk.store 4294967295, %u[0]
  })");
  GlslText glsl = printed(*module);
  EXPECT_TRUE(has(glsl.text, "o[0] = uintBitsToFloat(0x7f800000u);"));
  EXPECT_TRUE(has(glsl.text, "o[1] = uintBitsToFloat(0x7fc00000u);"));
  EXPECT_TRUE(has(glsl.text, "o[2] = uintBitsToFloat(0x80000000u);"));
  EXPECT_TRUE(has(glsl.text, "u[0] = 4294967295u;"));
  compiled(glsl);
}

TEST(KernelGlsl, NamesThatGlslOwns) {
  auto module = kernels(
      R"(kernel @k(%buffer: buf<4xf32, in>, %out: buf<4xf32, out>, %gl_x: buf<4xf32, in, texel>, %B0: buf<4xf32, in>)
      workgroup(4) grid(1) {
    %float = tgk.global_id 0 : u32
    %exp = tgk.load %buffer[%float] : f32
    %3 = tgk.exp %exp : f32
    %a__b = tgk.add %3, 1.0 : f32
    %a_b = tgk.add %a__b, 1.0 : f32
    %image2D = tgk.load %gl_x[%float] : f32
    %vec4 = tgk.mul %image2D, %a_b : f32
    %main = tgk.max %vec4, %a_b : f32
    %tgMax = tgk.max %main, %vec4 : f32
    %VULKAN = tgk.add %tgMax, 1.0 : f32
    %GL_KHR_vulkan_glsl = tgk.add %VULKAN, 1.0 : f32
    %b = tgk.load %B0[%float] : f32
    %s = tgk.add %GL_KHR_vulkan_glsl, %b : f32
    tgk.store %s, %out[%float]
  })");
  GlslText glsl = printed(*module);
  EXPECT_TRUE(has(glsl.text, "precise float a_b = v3 + 1.0;"));
  EXPECT_TRUE(has(glsl.text, "precise float a_b_2 = a_b + 1.0;"));
  compiled(glsl);
}

TEST(KernelGlsl, MemoryQualifiersFollowUse) {
  auto module = kernels(
      R"(kernel @k(%x: buf<8xf32, inout>, %y: buf<8xf32, inout>, %a: buf<1xf32, accum>) workgroup(8) grid(1) {
    %l = tgk.local_id 0 : u32
    %j = tgk.xor %l, 1 : u32
    tgk.store 1.0, %x[%l]
    tgk.barrier
    %v = tgk.load %x[%j] : f32
    tgk.store %v, %y[%l]
    tgk.atomic_add %v, %a[0]
  })");
  GlslText glsl = printed(*module);
  EXPECT_TRUE(has(glsl.text, "binding = 0) coherent buffer B0 { float x[]; };"));
  EXPECT_TRUE(has(glsl.text, "binding = 1) buffer B1 { float y[]; };"));
  EXPECT_TRUE(has(glsl.text, "binding = 2) buffer B2 { float a[]; };"));
  EXPECT_TRUE(has(glsl.text, "memoryBarrierBuffer();\n  barrier();"));
  compiled(glsl);
}

// Without native additions the sum is a loop over bits; with them only exchanges need the bits.
TEST(KernelGlsl, FloatAtomicsFollowTheTarget) {
  auto module = kernels(
      R"(kernel @k(%a: buf<1xf32, accum>, %b: buf<1xf32, inout>) workgroup(8) grid(1) {
    tgk.atomic_add 1.0, %a[0]
    tgk.atomic_add 1.0, %b[0]
    tgk.atomic_exchange 1.0, %b[0]
  })");
  auto plain = printGlsl(verified(*module)), native = printGlsl(verified(*module), everyFeature());
  ASSERT_TRUE(plain && native);
  EXPECT_TRUE(has(plain->text, "binding = 0) buffer B0 { uint a[]; };"));
  EXPECT_FALSE(has(plain->text, "GL_EXT_shader_atomic_float"));
  EXPECT_TRUE(has(native->text, "#extension GL_EXT_shader_atomic_float : require"));
  EXPECT_TRUE(has(native->text, "binding = 0) buffer B0 { float a[]; };"));
  EXPECT_TRUE(has(native->text, "atomicAdd(a[0], 1.0);"));
  EXPECT_TRUE(has(native->text, "binding = 1) buffer B1 { uint b[]; };"));
  EXPECT_TRUE(has(native->text, "atomicExchange(b[0], floatBitsToUint(1.0));"));
  compiled(*plain);
  compiled(*native);
}

TEST(KernelGlsl, MissingFeaturesAreNamedWhereTheyAreNeeded) {
  auto module = kernels(R"(kernel @k(%h: buf<4xf16, in>, %o: buf<4xf32, out>) workgroup(4) grid(1) {
    %l = tgk.subgroup_lane : u32
    %v = tgk.load %h[%l] : f32
    %s = tgk.subgroup_reduce %v : f32
    tgk.store %s, %o[%l]
  })");
  auto glsl = printGlsl(verified(*module));
  ASSERT_FALSE(glsl);
  std::string shown = glsl.error().str();
  EXPECT_FALSE(has(shown, "f16")) << "without 16-bit storage two share a word: " << shown;
  EXPECT_TRUE(
      has(shown, "kernel_test.tgir:3:5: error: tgk.subgroup_lane [kernel.feature]: needs `subgroups`"))
      << shown;
  EXPECT_TRUE(has(shown, "tgk.subgroup_reduce [kernel.feature]")) << shown;
  EXPECT_TRUE(printGlsl(verified(*module), everyFeature()));
}

TEST(KernelGlsl, WhatIsNotLegalIsRefused) {
  auto module = kernels(R"(kernel @k(%o: buf<?x4xf32, out>) workgroup(1) grid(1) {
    %s = tgk.sin 0.5 : f32
    tgk.store %s, %o[0, 0]
  })");
  auto glsl = printGlsl(verified(*module));
  ASSERT_FALSE(glsl);
  EXPECT_TRUE(has(glsl.error().str(), "kernel_test.tgir:3:5: error: tgk.sin has no form in a shader"))
      << glsl.error().str();
}

// Expansions verify, read back, and leave what is legal alone.
TEST(Legalize, KeepsTheKernelWhole) {
  auto module = kernels(kEverything);
  Item* kernel = module->find(ItemKind::kernel, "k");
  legalize(module.get(), *kernel);
  walk(kernel->body, [](Op& op) { EXPECT_TRUE(isLegal(op)) << op.info().name; });
  std::string once = print(verified(*module));
  legalize(module.get(), *kernel);
  EXPECT_EQ(print(*kernel), once);
  auto again = kernels(once);
  EXPECT_EQ(print(verified(*again)), once);
  EXPECT_TRUE(has(once, "%y3 = "));  // results keep their names
}

// Compilers of GLSL take less than 1024 characters; two names that agree in the first ones stay two.
TEST(KernelShader, LongNamesAreShortened) {
  const std::string first(3000, 'x'), second = first + "y";
  auto module =
      kernels(fmt::format(R"(kernel @k(%{0}: buf<1xf32, in>, %{1}: buf<1xf32, out>) workgroup(1) grid(1) {{
    %{0}v = tgk.load %{0}[0] : f32
    %{1}v = tgk.add %{0}v, 1.0 : f32
    tgk.store %{1}v, %{1}[0]
  }})",
                          first, second));
  const GlslText glsl = printed(*module);
  auto words = compileGlsl(glsl, "k");
  EXPECT_TRUE(words) << words.error().str();
}

TEST(KernelShader, ErrorsNameTheKernelTheOpAndTheLine) {
  auto module = kernels(R"(kernel @k(%o: buf<1xf32, out>) workgroup(1) grid(1) {
    tgk.store 1.0, %o[0]
  })");
  GlslText glsl = printed(*module);
  size_t at = glsl.text.find("o[0] = 1.0");
  glsl.text.replace(at, 10, "o[0] = one");
  auto words = compileGlsl(glsl, "k");
  ASSERT_FALSE(words);
  std::string shown = words.error().str();
  EXPECT_TRUE(has(
      shown,
      "kernel_test.tgir:3:5: error: kernel @k, printed from tgk.store: shaderc refuses the shader: k:6: "))
      << shown;
  EXPECT_TRUE(has(shown, "'one' : undeclared identifier")) << shown;
  EXPECT_TRUE(has(shown, "   6    o[0] = one;")) << shown;
}

TEST(KernelShader, ThreadsCompileAlike) {
  auto module = kernels(kEverything);
  GlslText glsl = printed(*module);
  auto expected = compileGlsl(glsl, "k");
  ASSERT_TRUE(expected);
  std::vector<std::vector<uint32_t>> words(4);
  std::vector<std::thread> threads;
  for (auto& mine : words)
    threads.emplace_back([&] {
      if (auto result = compileGlsl(glsl, "k")) mine = *result;
    });
  for (auto& thread : threads) thread.join();
  for (auto& mine : words) EXPECT_EQ(mine, *expected);
}

}  // namespace
}  // namespace tg::test
