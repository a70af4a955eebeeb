// SPDX-License-Identifier: Apache-2.0
// Matrices of subgroups from SPIR-V's NV form to its KHR form, against the numbers and orders of operands that the
// SPIR-V registry gives both.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/glsl.h"
#include "codegen/khr_matrices.h"
#include "codegen/shader.h"
#include "ir/target.h"
#include "test/unit/halves.h"
#include "test/unit/kernel_text.h"
#include "test/unit/temp_folder.h"

namespace tg::test {
namespace {

using Words = std::vector<uint32_t>;

struct Instruction {
  uint32_t op;
  Words args;
};

struct SpirvText {
  explicit SpirvText(const Words& words) {
    for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
      all.push_back({words[at] & 0xffff, Words(words.begin() + static_cast<long>(at) + 1,
                                               words.begin() + static_cast<long>(at + (words[at] >> 16)))});
      const Instruction& each = all.back();
      if (each.op == 43 || each.op == 50) numbers[each.args[1]] = each.args[2];
      if (each.op == 41 || each.op == 42) numbers[each.args[1]] = each.op == 41;
    }
  }
  std::vector<Words> of(uint32_t op) const {
    std::vector<Words> out;
    for (const Instruction& each : all)
      if (each.op == op) out.push_back(each.args);
    return out;
  }
  uint32_t number(uint32_t id) const { return numbers.at(id); }

  std::vector<Instruction> all;
  std::map<uint32_t, uint32_t> numbers;  ///< of constants, by id
};

/// A, B by columns, a sum, and a store.
constexpr const char* kKernel = R"(
  kernel @k(%x: buf<64xvec4<f32>, in>, %z: buf<16x16xf32, out>) workgroup(32) grid(1) {
    %a = tgk.shared : buf<16x6xvec4<f16>, shared>
    %p = tgk.shared : buf<16x20xf32, shared>
    %l = tgk.local_id 0 : u32
    tgk.for %e = %l to(64) step(32) {
      %r = tgk.div %e, 4 : u32
      %q = tgk.mod %e, 4 : u32
      %v = tgk.load %x[%e] : vec4<f32>
      tgk.store %v, %a[%r, %q]
    }
    tgk.barrier
    %zero = tgk.coopmat_splat 0.0 : coopmat<f32, 16x16, acc>
    %ma = tgk.coopmat_load %a[0, 0] : coopmat<f16, 16x16, A>
    %mb = tgk.coopmat_load %a[0, 0] {column_major = true} : coopmat<f16, 16x16, B>
    %s = tgk.coopmat_mma %ma, %mb, %zero : coopmat<f32, 16x16, acc>
    tgk.coopmat_store %s, %p[0, 0]
    tgk.barrier
    tgk.for %e = %l to(256) step(32) {
      %r = tgk.div %e, 16 : u32
      %c = tgk.mod %e, 16 : u32
      %v = tgk.load %p[%r, %c] : f32
      tgk.store %v, %z[%r, %c]
    }
  })";

Words compiled(const char* text, const Target& target) {
  auto module = kernels(text);
  if (!module) return {};
  auto glsl = printGlsl(verified(*module), target);
  EXPECT_TRUE(glsl) << glsl.error().str();
  auto words = compileGlsl(*glsl, "k");
  EXPECT_TRUE(words) << words.error().str();
  return *words;
}

Words compiledAs(const std::string& matrices) {
  Target target = *targetByName("gpu-coopmat");
  target.matrices = matrices;
  return compiled(kKernel, target);
}

std::string extensionsOf(const SpirvText& code) {
  std::string out;
  for (const Words& args : code.of(10))
    for (uint32_t word : args)
      for (int byte = 0; byte < 4; ++byte)
        if (char c = static_cast<char>(word >> 8 * byte)) out += c;
  return out;
}

TEST(KhrMatrices, TypesHaveTheirUse) {
  const SpirvText nv(compiledAs("nv")), khr(compiledAs("khr"));
  ASSERT_EQ(nv.of(5358).size(), 3u);
  ASSERT_EQ(khr.of(4456).size(), 3u);
  EXPECT_TRUE(khr.of(5358).empty());
  std::map<uint32_t, int> uses;
  for (size_t i = 0; i < 3; ++i) {
    const Words old = nv.of(5358)[i], now = khr.of(4456)[i];
    ASSERT_EQ(now.size(), 6u);
    EXPECT_EQ(Words(now.begin(), now.begin() + 5), old) << "id, element, scope, rows, columns";
    EXPECT_EQ(khr.number(now[2]), 3u) << "a subgroup";
    EXPECT_EQ(khr.number(now[3]), 16u);
    EXPECT_EQ(khr.number(now[4]), 16u);
    ++uses[khr.number(now[5])];
  }
  EXPECT_EQ(uses, (std::map<uint32_t, int>{{0, 1}, {1, 1}, {2, 1}}));
  // The product takes them in their places.
  ASSERT_EQ(khr.of(4459).size(), 1u);
  EXPECT_EQ(khr.of(4459), nv.of(5361));
  std::map<uint32_t, uint32_t> typeOf, useOf;
  for (const Words& type : khr.of(4456)) useOf[type[0]] = khr.number(type[5]);
  for (const Instruction& each : khr.all)
    if (each.args.size() > 1 && useOf.contains(each.args[0])) typeOf[each.args[1]] = each.args[0];
  const Words product = khr.of(4459)[0];
  EXPECT_EQ(useOf[product[0]], 2u);
  EXPECT_EQ(useOf[typeOf[product[2]]], 0u);
  EXPECT_EQ(useOf[typeOf[product[3]]], 1u);
}

/// A sum that becomes, rounded, a factor: element by element.
constexpr const char* kConverting = R"(
  kernel @k(%z: buf<16x16xf32, out>) workgroup(32) grid(1) {
    %b = tgk.shared : buf<16x3xvec4<u32>, shared>
    %one = tgk.coopmat_splat 1.0 : coopmat<f32, 16x16, acc>
    %ma = tgk.coopmat_convert %one : coopmat<bf16, 16x16, A>
    %mb = tgk.coopmat_load %b[0, 0] : coopmat<bf16, 16x16, B>
    %s = tgk.coopmat_mma %ma, %mb, %one : coopmat<f32, 16x16, acc>
    tgk.coopmat_store %s, %z[0, 0]
  })";

TEST(KhrMatrices, ElementsOfBf16MatricesAreBf16) {
  auto module = kernels(kConverting);
  ASSERT_TRUE(module);
  Target target = withBf16();
  target.fragments = "quads";
  auto glsl = printGlsl(verified(*module), target);
  ASSERT_TRUE(glsl) << glsl.error().str();
  auto words = compileGlsl(*glsl, "k");
  ASSERT_TRUE(words) << words.error().str();
  const SpirvText code(*words);
  uint32_t bf16 = 0;
  for (const Words& type : code.of(22))
    if (type.size() == 3 && type[1] == 16 && type[2] == 0) bf16 = type[0];
  ASSERT_NE(bf16, 0u);
  std::map<uint32_t, uint32_t> pointee, typeOf;
  std::set<uint32_t> matrices;
  for (const Words& type : code.of(4456))
    if (type[1] == bf16) matrices.insert(type[0]);
  for (const Words& type : code.of(32)) pointee[type[0]] = type[2];
  for (uint32_t op : {59u, 65u, 115u})  // variables, places of elements, conversions
    for (const Words& each : code.of(op)) typeOf[each[1]] = each[0];
  std::set<uint32_t> elements;
  for (const Words& chain : code.of(65)) {
    if (!matrices.contains(pointee[typeOf[chain[2]]])) continue;
    elements.insert(chain[1]);
    EXPECT_EQ(pointee[chain[0]], bf16);
  }
  int stored = 0;
  for (const Words& store : code.of(62)) {
    if (!elements.contains(store[0])) continue;
    EXPECT_EQ(typeOf[store[1]], bf16);
    ++stored;
  }
  EXPECT_EQ(stored, 1);
}

/// A sum, element by element.
constexpr const char* kAdding = R"(
  kernel @k(%z: buf<16x16xf32, out>) workgroup(32) grid(1) {
    %one = tgk.coopmat_splat 1.0 : coopmat<f32, 16x16, acc>
    %two = tgk.add %one, %one : coopmat<f32, 16x16, acc>
    tgk.coopmat_store %two, %z[0, 0]
  })";

SpirvText addingFor(const std::string& fragments) {
  Target target = *targetByName("gpu-coopmat");
  target.fragments = fragments;
  return SpirvText(compiled(kAdding, target));
}

TEST(KhrMatrices, LengthsAreInstructionsOfMain) {
  const SpirvText code = addingFor("opaque");
  // The compiler of GLSL writes them as constants that specialize, which drivers need not take.
  for (const Words& args : code.of(52)) EXPECT_TRUE(args[2] != 5362 && args[2] != 4460);
  EXPECT_TRUE(code.of(5362).empty());
  EXPECT_FALSE(code.of(4460).empty());
  bool inside = false, behindVariables = false;
  for (const Instruction& each : code.all) {
    inside = inside || each.op == 54;
    if (each.op == 54) behindVariables = false;
    if (each.op == 4460) {
      EXPECT_TRUE(inside);
      behindVariables = true;
    }
    EXPECT_FALSE(each.op == 59 && behindVariables);
  }
}

TEST(KhrMatrices, KnownPlacesNeedNoLength) {
  const SpirvText code = addingFor("quads");
  for (const Words& args : code.of(52)) EXPECT_TRUE(args[2] != 5362 && args[2] != 4460);
  EXPECT_TRUE(code.of(4460).empty());
  bool eight = false;  // elements of 16x16 for each of 32 invocations
  for (const Words& args : code.of(43)) eight = eight || args[2] == 8;
  EXPECT_TRUE(eight);
}

TEST(KhrMatrices, LoadsAndStoresSayTheirLayoutBeforeTheStride) {
  const SpirvText nv(compiledAs("nv")), khr(compiledAs("khr"));
  ASSERT_EQ(nv.of(5359).size(), 2u);
  ASSERT_EQ(khr.of(4457).size(), 2u);
  int columns = 0;
  for (size_t i = 0; i < 2; ++i) {
    const Words old = nv.of(5359)[i], now = khr.of(4457)[i];
    ASSERT_EQ(now.size(), old.size());
    for (size_t at : {0u, 1u, 2u}) EXPECT_EQ(now[at], old[at]);
    EXPECT_EQ(now[4], old[3]) << "the stride";
    EXPECT_EQ(khr.number(now[3]), nv.number(old[4])) << "by columns";
    columns += static_cast<int>(khr.number(now[3]));
    EXPECT_EQ(Words(now.begin() + 5, now.end()), Words(old.begin() + 5, old.end())) << "memory operands";
  }
  EXPECT_EQ(columns, 1);
  ASSERT_EQ(khr.of(4458).size(), 1u);
  const Words old = nv.of(5360)[0], now = khr.of(4458)[0];
  EXPECT_EQ(Words(now.begin(), now.begin() + 2), Words(old.begin(), old.begin() + 2));
  EXPECT_EQ(khr.number(now[2]), 0u);
  EXPECT_EQ(now[3], old[2]) << "the stride";
}

TEST(KhrMatrices, TheModuleAsksForTheExtension) {
  const Words words = compiledAs("khr");
  const SpirvText khr(words);
  EXPECT_NE(extensionsOf(khr).find("SPV_KHR_cooperative_matrix"), std::string::npos);
  EXPECT_EQ(extensionsOf(khr).find("SPV_NV"), std::string::npos);
  std::map<uint32_t, int> capabilities;
  for (const Words& each : khr.of(17)) ++capabilities[each[0]];
  EXPECT_EQ(capabilities[6022], 1);
  EXPECT_EQ(capabilities[5357], 0);
  EXPECT_EQ(capabilities[5116], 0) << "no bf16";
  EXPECT_TRUE(khr.of(50).empty()) << "no specialization constant is left";
  for (const Words& each : khr.of(71)) EXPECT_NE(each[1], 1u) << "nor its number";
  uint32_t largest = 0;
  for (const auto& [id, value] : khr.numbers) largest = std::max(largest, id);
  EXPECT_LT(largest, words[3]);
  EXPECT_EQ(toKhrMatrices(words), words) << "what has no matrix of the NV form stays";
}

// Shaderc has no bf16: the constants' numbers say it.
TEST(KhrMatrices, OfBf16) {
  const Type a = Type::coopmat(DType::bf16, 16, 16, MatrixUse::a);
  const Type acc = Type::coopmat(DType::f32, 16, 16, MatrixUse::acc);
  GlslText glsl;
  glsl.text = "#version 450\n"
              "#extension GL_NV_cooperative_matrix : require\n"
              "#extension GL_KHR_memory_scope_semantics : require\n"
              "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n"
              "layout(local_size_x = 32) in;\n"
              "layout(constant_id = " +
              std::to_string(matrixExtents(acc)[0].id) +
              ") const uint m = 16u;\n"
              "layout(constant_id = " +
              std::to_string(matrixExtents(acc)[1].id) +
              ") const uint n = 16u;\n"
              "layout(constant_id = " +
              std::to_string(matrixExtents(a)[1].id) +
              ") const uint k = 16u;\n"
              "shared uvec4 s[16 * 3];\n"
              "layout(binding = 0) buffer Z { float z[]; };\n"
              "void main() {\n"
              "  s[gl_LocalInvocationIndex] = uvec4(0);\n"
              "  barrier();\n"
              "  fcoopmatNV<16, gl_ScopeSubgroup, m, k> a;\n"
              "  coopMatLoadNV(a, s, 0u, 3u, false);\n"
              "  fcoopmatNV<16, gl_ScopeSubgroup, k, n> b;\n"
              "  coopMatLoadNV(b, s, 0u, 3u, true);\n"
              "  fcoopmatNV<32, gl_ScopeSubgroup, m, n> c = fcoopmatNV<32, gl_ScopeSubgroup, m, n>(0.0);\n"
              "  coopMatStoreNV(coopMatMulAddNV(a, b, c), z, 0u, 16u, false);\n"
              "}\n";
  glsl.khrMatrices = true;
  auto words = compileGlsl(glsl, "bf16");
  ASSERT_TRUE(words) << words.error().str();
  const SpirvText code(*words);
  std::map<uint32_t, int> capabilities;
  for (const Words& each : code.of(17)) ++capabilities[each[0]];
  EXPECT_EQ(capabilities[5116], 1);
  EXPECT_EQ(capabilities[5118], 1);
  EXPECT_NE(extensionsOf(code).find("SPV_KHR_bfloat16"), std::string::npos);
  std::map<uint32_t, Words> floats;
  for (const Words& each : code.of(22)) floats[each[0]] = Words(each.begin() + 1, each.end());
  for (const Words& type : code.of(4456))
    EXPECT_EQ(floats.at(type[1]), code.number(type[5]) == 2 ? Words{32} : (Words{16, 0}));
}

TEST(KhrMatrices, EachFormHasItsPlaceInTheCache) {
  auto module = kernels(kKernel);
  ASSERT_TRUE(module);
  Target target = *targetByName("gpu-coopmat");
  auto khr = printGlsl(verified(*module), target);
  target.matrices = "nv";
  auto nv = printGlsl(verified(*module), target);
  ASSERT_TRUE(khr && nv);
  EXPECT_EQ(khr->text, nv->text);
  const TempFolder folder;
  ShaderCache cache(folder.path("cache"));
  auto first = compileGlsl(*khr, "k", &cache), second = compileGlsl(*nv, "k", &cache);
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  EXPECT_EQ(*first, *compileGlsl(*khr, "k", &cache));
}

}  // namespace
}  // namespace tg::test
