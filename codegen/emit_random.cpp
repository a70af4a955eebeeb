// SPDX-License-Identifier: Apache-2.0
// Emission rules of random ops: Philox4x32-10 in kernel code, one call for four neighbouring elements. Values of
// the normal distribution come by Box-Muller from operations that are exact or correctly rounded on every device.
#include <numbers>

#include "codegen/emit_region.h"
#include "ir/kernel/expr.h"
#include "ir/op_view.h"
#include "ir/scalar_expr.h"

namespace tg {

using Words = std::array<KV, kLanes>;

namespace {

/// u32 arithmetic; the builder folds literals.
struct WordMath {
  KernelBuilder& kernel;
  KV op(Opcode code, const KV& a, const KV& b) const { return kernel.op(code, {a, b}, DType::u32); }
  KV low(uint32_t factor, const KV& x) const { return op(Opcode::k_mul, x, KernelBuilder::u32(factor)); }
  KV high(uint32_t factor, const KV& x) const { return op(Opcode::k_mulhi, x, KernelBuilder::u32(factor)); }
  KV mix(const KV& a, const KV& b, const KV& c) const {
    return op(Opcode::k_xor, op(Opcode::k_xor, a, b), c);
  }
};

/// Ten rounds of Philox4x32, as in ir/philox.h.
Words philoxOf(KernelBuilder& kernel, Words counter, KV key0, KV key1) {
  const WordMath math{kernel};
  for (int round = 0; round < 10; ++round) {
    counter = {
        math.mix(math.high(0xCD9E8D57u, counter[2]), counter[1], key0), math.low(0xCD9E8D57u, counter[2]),
        math.mix(math.high(0xD2511F53u, counter[0]), counter[3], key1), math.low(0xD2511F53u, counter[0])};
    key0 = kernel.add(key0, KernelBuilder::u32(0x9E3779B9u));
    key1 = kernel.add(key1, KernelBuilder::u32(0xBB67AE85u));
  }
  return counter;
}

/// ln v for normal f32 v in (0, 1], as in Cephes logf. A device's own log may be less accurate near 1, from where
/// the radii of small normal values come.
KExpr lnUnit(const KExpr& v) {
  static constexpr double kTerms[] = {7.0376836292e-2,  -1.1514610310e-1, 1.1676998740e-1,
                                      -1.2420140846e-1, 1.4249322787e-1,  -1.6668057665e-1,
                                      2.0000714765e-1,  -2.4999993993e-1, 3.3333331174e-1};
  constexpr uint32_t kOne = 0x3f800000u, kRootHalf = 0x3f3504f3u;  // 1 and √½ as bits
  KernelBuilder& kernel = *v.kernel;
  auto word = [&](Opcode code, const KV& a, uint32_t b) {
    return kernel.op(code, {a, KernelBuilder::u32(b)}, DType::u32);
  };
  // v = m·2^e with m in [√½, √2)
  KV bits = kernel.op(Opcode::k_bitcast, {v.v}, DType::u32);
  KV moved = word(Opcode::k_add, bits, kOne - kRootHalf);
  KV exponent = kernel.cast(word(Opcode::k_shr, moved, 23), DType::f32);
  KV mantissa = word(Opcode::k_add, word(Opcode::k_and, moved, 0x007fffffu), kRootHalf);
  KExpr e = KExpr{&kernel, exponent} - 127.0;
  KExpr f = KExpr{&kernel, kernel.op(Opcode::k_bitcast, {mantissa}, DType::f32)} - 1.0;
  KExpr z = f * f;
  KExpr rest = polynomial(f, kTerms) * f * z + e * -2.12194440e-4 - z * 0.5;
  return f + rest + e * 0.693359375;
}

/// cos 2πt for t = word/2^32, of which the upper 24 bits count. It is computed as sin 2π(¼ - |t|) with t in [-½,
/// ½), so that the argument is exact and the cosine is exactly 0 where it should be.
KExpr cosTurn(KernelBuilder& kernel, const KV& word) {
  constexpr double kTau = 2 * std::numbers::pi;
  double terms[7];  // of sin(2πs)/s in s², the last first: ±(2π)^(2k+1)/(2k+1)!; the next is 7e-10
  double term = kTau;
  for (int k = 0; k < 7; ++k) {
    terms[6 - k] = term;
    term *= -kTau * kTau / ((2 * k + 2) * (2 * k + 3));
  }
  KV bits = kernel.op(Opcode::k_shr, {kernel.cast(word, DType::i32), KernelBuilder::literal(DType::i32, 8)},
                      DType::i32);
  KExpr turn = KExpr{&kernel, kernel.cast(bits, DType::f32)} * 0x1p-24;
  KExpr s = 0.25 - abs(turn);
  return s * polynomial(KExpr(s * s), terms);
}

/// √(-2 ln v) with v = (word/2^8 + 1)·2^-24.
KExpr radiusOf(KernelBuilder& kernel, const KV& word) {
  KV bits = kernel.op(Opcode::k_shr, {word, KernelBuilder::u32(8)}, DType::u32);
  KExpr v = KExpr{&kernel, kernel.cast(kernel.add(bits, KernelBuilder::u32(1)), DType::f32)} * 0x1p-24;
  return sqrt(-2.0 * lnUnit(v));
}

/// The word whose cosine is the sine of the given word: a quarter turn back.
KV sineBranch(KernelBuilder& kernel, const KV& word) {
  return kernel.op(Opcode::k_sub, {word, KernelBuilder::u32(0x40000000u)}, DType::u32);
}

/// The number of an element of a random op.
Index drawnAt(IndexSpace& space, const Op& op, const Indices& at) {
  return space.add(space.linear(at, op.result()->type.shape),
                   IndexSpace::constant(as::random_uniform(op).first()));
}

/// Whether an offset's four lanes are the four elements of one Philox call.
bool isQuad(const IndexSpace& space, const Index& offset) {
  return IndexSpace::factor(offset, kLane) == 1 && space.align(IndexSpace::atLane(offset, 0)) % kLanes == 0;
}

/// The word with a number 0…3; selected at run time if the number is no literal.
KV chosen(KernelBuilder& kernel, const KV& number, const Words& words) {
  if (number.isLiteral()) return words[static_cast<size_t>(number.number)];
  KV out = words[3];
  for (int at = 2; at >= 0; --at) {
    KV here = kernel.op(Opcode::k_eq, {number, KernelBuilder::u32(at)}, DType::i1);
    out = kernel.select(here, words[static_cast<size_t>(at)], out);
  }
  return out;
}

}  // namespace

Words RegionEmitter::randomQuad(const Op& op, const Index& quad) {
  KV key0 = kernel_.cast(emit(op.in(0), {IndexSpace::constant(0)}), DType::u32);
  KV key1 = kernel_.cast(emit(op.in(0), {IndexSpace::constant(1)}), DType::u32);
  // Offsets are u32 in kernels, so the counter's second word is 0.
  return philoxOf(kernel_,
                  {space_.materialize(quad), KernelBuilder::u32(0),
                   KernelBuilder::u32(as::random_uniform(op).salt()), KernelBuilder::u32(0)},
                  key0, key1);
}

KV RegionEmitter::element(at::random_uniform, const Op& op, const Indices& at) {
  Index offset = drawnAt(space_, op, at);
  const bool lanes = IndexSpace::usesLane(offset);
  if (lanes && !isQuad(space_, offset)) return lanewise(op.result(), at);
  Index base = IndexSpace::atLane(offset, 0);
  Words words = randomQuad(op, space_.div(base, kLanes));
  KV word = lanes ? kernel_.vec({words.begin(), words.end()})
                  : chosen(kernel_, space_.materialize(space_.mod(base, kLanes)), words);
  KV bits = kernel_.op(Opcode::k_shr, {word, KernelBuilder::u32(8)}, DType::u32);
  const double low = as::random_uniform(op).low();
  KExpr u = KExpr{&kernel_, kernel_.cast(bits, DType::f32)} * 0x1p-24 * (as::random_uniform(op).high() - low);
  return low == 0 ? u.v : (u + low).v;
}

KV RegionEmitter::element(at::random_normal, const Op& op, const Indices& at) {
  Index offset = drawnAt(space_, op, at);
  const bool lanes = IndexSpace::usesLane(offset);
  if (lanes && !isQuad(space_, offset)) return lanewise(op.result(), at);
  Index base = IndexSpace::atLane(offset, 0);
  Words words = randomQuad(op, space_.div(base, kLanes));
  // Two words make two values: one radius, its cosine branch, its sine branch.
  Words radii{words[0], words[0], words[2], words[2]};
  Words turns{words[1], sineBranch(kernel_, words[1]), words[3], sineBranch(kernel_, words[3])};
  KExpr z{&kernel_, {}};
  if (lanes) {
    std::vector<KV> values;
    for (size_t i = 0; i < turns.size(); ++i)
      values.push_back((radiusOf(kernel_, radii[i]) * cosTurn(kernel_, turns[i])).v);
    z.v = kernel_.vec(values);
  } else {
    KV number = space_.materialize(space_.mod(base, kLanes));
    z = radiusOf(kernel_, chosen(kernel_, number, radii)) * cosTurn(kernel_, chosen(kernel_, number, turns));
  }
  const double mean = as::random_normal(op).mean();
  z = z * as::random_normal(op).std();
  return mean == 0 ? z.v : (z + mean).v;
}

}  // namespace tg
