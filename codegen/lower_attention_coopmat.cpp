// SPDX-License-Identifier: Apache-2.0
// coopmat_attention: attention of 16 bits, or of f32x3, by matrix units. Each subgroup holds some own rows as
// matrices; the workgroup stages the other side's rows in shared memory. Scores stay in registers: the accumulator
// of a part of the scores, in 16 bits, becomes operand A of the next product. 16-bit attention uses powers of 2:
//
//   forward    p = 2^(s·c - m), m a maximum of the row's s·c so far, c = scale·log₂e
//   gradients  p = 2^(s·c - lse·log₂e), ds = p·(do·vᵀ·scale - delta·scale)
//
// Weights become bf16 by truncation, which makes them smaller by kMeanCut on average. So their exponents are raised by
// `lift` = log₂(1 + kMeanCut). The forward pass divides its results by sums of raised weights, and multiplies them by
// 1 + kMeanCut for that.
//
// If rows are wide, two subgroups have the same own rows, and each takes half of the columns (`share`): of the
// factors of the scores, so that they add up their scores, and of the results. Both then have the same weights.
//
// The blocks that a causal mask cuts, and an incomplete last block, are a loop of their own, in which hidden scores
// are replaced by a large negative number.
//
// For f32x3 every factor of a product is two matrices of f16: x = high + 2^-11·low. The factor 2^-11 makes low as
// large as high, so that it loses no digits where high has all of its own. A product is high·high + 2^-11·(low·high
// + high·low); the second sum is kept apart. Matrix units truncate when they add to a sum, so the products of
// high·high start from zero for every 16 terms and are added up in f32.
//
// Operands are multiplied by their scales, so that |x| is 2^14 at most. Below, ' marks scaled numbers:
//
//   s = q'·k'ᵀ·scale/(q_scale·k_scale)       dv' = (p·2^15)ᵀ·do', as all p of a key may be small
//   ds' = p·(do'·v'ᵀ - δ·do_scale·v_scale)·2^-21, 2^14 at most with heads of 64, which f16 holds
//
// Results are divided by the scales. Powers are of e, as in f32: scores in units of log₂ would be rounded once
// more.

#include "codegen/lower_attention_coopmat.h"

#include <cmath>
#include <numbers>

#include "ir/op_view.h"

namespace tg {
namespace {

constexpr double kHidden = 1e30;  ///< minus a masked score
/// How far above 0 an exponent may rise before the row's sums are rescaled: weights are 2^8 at most, which f16
/// holds. f32x3 rescales at once and has weights up to 1, since they are multiplied by kWeights.
constexpr double kRoom = 8;
/// The mean relative error of truncation to bf16. It takes 2^-8 on average from a significand m in [1, 2). Relative to
/// m, and with m distributed as 1/m, that is 2^-8 / (2 ln 2).
constexpr double kMeanCut = 0x1p-8 / (2 * std::numbers::ln2);
// For f32x3: the factors of low halves, of p where it is a factor in a gradient, and of do·vᵀ and δ.
constexpr double kLow = 0x1p11, kWeights = 0x1p15, kGradients = 0x1p-21;

/// Columns of matrices whose scores are computed, weighed and multiplied at a time. With 16 bits it is one, which
/// keeps few scores in registers: 260 TFLOP/s forward at heads of 64 on an H200, 227 with two at a time. In the
/// gradient of queries, two of a step's four columns take 4 % less time.
int64_t columnsAtOnce(const Op& attention, const AttentionFragments& fragments) {
  if (isSplit(attention)) return fragments.pairs();
  return attention.code == Opcode::attention_grad_q && fragments.warp > kSide && fragments.block == 64 ? 2
                                                                                                       : 1;
}

}  // namespace

CoopmatAttention::CoopmatAttention(LowerContext& c, const AttentionRegion& region,
                                   const AttentionFragments& fragments)
    : AttentionWalk(c, region,
                    {.rows = fragments.rows,
                     .block = fragments.block,
                     .invocations = fragments.invocations(),
                     .down = fragments.warp / kSide,
                     .across = fragments.block / kSide,
                     .weighed = columnsAtOnce(*region.op, fragments),
                     .atOnce = columnsAtOnce(*region.op, fragments),
                     .vector = kEight,
                     .powersOfTwo = !isSplit(*region.op),
                     .lift = factorType(*region.op) == DType::bf16 ? std::log2(1 + kMeanCut) : 0,
                     .rolled = true,
                     .values = isSplit(*region.op) ? size_t{2} : size_t{1}}),
      f_(fragments), split_(isSplit(*region.op)), narrow_(factorType(*region.op)),
      byScore_(differsByQuery(*region.op)) {
  subgroup_ = kernel_.subgroup(Opcode::k_subgroup_id);
  const Index subgroup = c.space.variable(subgroup_, f_.subgroups());
  pair_ = c.space.div(subgroup, f_.share);
  part_ = c.space.mod(subgroup, f_.share);
  warpRow_ = c.space.scale(pair_, f_.warp);
  rows_ = kernel_.sharedBuffer(
      Type::buffer(DType::u32, kLanes, {f_.staged() * (split_ ? 2 : 1), f_.pitch(*r_.op)}, BufMode::shared),
      "rows");
  patch_ = kernel_.sharedBuffer(
      Type::buffer(DType::f32, 1, {f_.subgroups() * kSide, AttentionFragments::kPatch}, BufMode::shared),
      "patch");
  shareMore();
  if (r_.isForward()) return;
  const int64_t count = r_.forKeys ? f_.block : f_.rows;
  lses_ = kernel_.sharedBuffer(Type::buffer(DType::f32, 1, {count}, BufMode::shared), "lse");
  deltas_ = kernel_.sharedBuffer(Type::buffer(DType::f32, 1, {count}, BufMode::shared), "delta");
}

/// The scale of an operand, a power of two; and its reciprocal, computed by negating the exponent.
KV CoopmatAttention::scaleOf(int operand) {
  return c_.emitter.emit(scaleOperand(*r_.op, operand == Of::dout ? Of::v + 1 : operand), {});
}

KV CoopmatAttention::unscaleOf(int operand) {
  constexpr int64_t kOne = 0x3f800000;
  const KV bits = kernel_.bitcast(scaleOf(operand), DType::u32);
  return kernel_.bitcast(kernel_.op(Opcode::k_sub, {KernelBuilder::u32(2 * kOne), bits}, DType::u32),
                         DType::f32);
}

/// Loads eight neighbouring elements of a row: as 16-bit words, or for f32x3 as two vectors of f32.
AttentionWalk::Parts CoopmatAttention::vectorOf(int operand, const Index& row, const Index& column) {
  Indices first = lead_;
  first.push_back(row);
  first.push_back(c_.space.add(c_.space.scale(column, kEight), IndexSpace::lane()));
  Indices second = first;
  second.back() = plus(first.back(), kLanes);
  const Value* value = r_.op->in(operand);
  if (!split_)
    if (auto whole = c_.emitter.words(value, narrow_, first, second)) return {*whole};
  const Type four = Type::scalar(DType::f32, kLanes);
  const Parts fours{kernel_.widened(c_.emitter.emit(value, first), four),
                    kernel_.widened(c_.emitter.emit(value, second), four)};
  return split_ ? fours : Parts{packedWords(kernel_, narrow_, fours[0], fours[1])};
}

/// The rows of the second operand of the other side lie behind those of the first.
void CoopmatAttention::stage(int operand, const Index& row, const Index& column, std::span<const KV> vector) {
  const Index place = plus(row, operand == r_.other[1] ? f_.block : 0);
  if (!split_) return kernel_.store(vector[0], rows_, std::vector<KV>{at(place), at(column)});
  const KV scale = kernel_.splat(scaleOf(operand));
  const auto [high, low] =
      halvedWords(kernel_, kernel_.mul(vector[0], scale), kernel_.mul(vector[1], scale), kLow);
  kernel_.store(high, rows_, std::vector<KV>{at(place), at(column)});
  kernel_.store(low, rows_, std::vector<KV>{at(plus(place, f_.staged())), at(column)});
}

/// Splits a matrix in registers into halves. The high half is first rounded to f16's 11 digits in f32, by two fma:
/// a device's compiler may remove a conversion to f16 and back, and without the rounding the low half would then be
/// zero. If it does, low halves lack only what f16 rounds off below 2^-14.
CoopmatAttention::Factor CoopmatAttention::halved(const KV& given, bool isP) {
  constexpr double kDigits = 0x1p13;  // 2^13: f32 has 13 more significant bits than f16
  const KV weights = isP ? kernel_.mul(given, KernelBuilder::f32(kWeights)) : given;
  const KV near = kernel_.fma(weights, KernelBuilder::f32(-kDigits), weights);
  const KV high = converted(kernel_.fma(weights, KernelBuilder::f32(kDigits), near));
  const KV rest = sub(weights, kernel_.coopmatConvert(high, matrix(MatrixUse::acc)));
  return {high, converted(kernel_.mul(rest, KernelBuilder::f32(kLow)))};
}

/// Loads a matrix of an operand's staged rows from `row` on, `number` counting the matrices of the subgroup's
/// columns. `turned` transposes it.
CoopmatAttention::Factor CoopmatAttention::loaded(const KV& row, int operand, int64_t number, MatrixUse use,
                                                  bool turned) {
  const KV column = at(c_.space.div(columnOf(part_, r_.width(operand), number), kEight));
  auto matrixAt = [&](const KV& from) {
    return kernel_.coopmatLoad(rows_, {from, column}, matrix(use), turned);
  };
  return {matrixAt(row), split_ ? matrixAt(kernel_.add(row, KernelBuilder::u32(f_.staged()))) : KV{}};
}

/// Adds the product of two factors to the sums. For f32x3, high·high is formed from zero and added in f32.
void CoopmatAttention::multiply(const Factor& a, const Factor& b, Sums& sums) {
  if (!split_) {
    sums.high = kernel_.coopmatMma(a.high, b.high, sums.high);
    return;
  }
  sums.low = kernel_.coopmatMma(a.low, b.high, sums.low);
  sums.low = kernel_.coopmatMma(a.high, b.low, sums.low);
  const KV fresh = kernel_.coopmatMma(a.high, b.high, zero());
  sums.high = sums.high.value ? kernel_.add(sums.high, fresh) : fresh;
}

/// For a query, the log-sum-exp times log₂e less the lift, or δ times the scale. For f32x3, the log-sum-exp, or δ in the
/// unit of ds'.
KV CoopmatAttention::scaledNumber(int operand, const Index& row) {
  const KV x = number(operand, row);
  if (!split_ && operand == Of::lse)
    return kernel_.fma(x, KernelBuilder::f32(std::numbers::log2e), KernelBuilder::f32(-d_.lift));
  if (!split_) return scaled(x, r_.scale);
  if (operand == Of::lse) return x;
  return kernel_.mul(kernel_.mul(x, scaleOf(Of::dout)),
                     kernel_.mul(scaleOf(Of::v), KernelBuilder::f32(kGradients)));
}

/// Stages zeros behind rows of an operand if its last subgroup has more columns than the operand.
void CoopmatAttention::padRows(int operand, int64_t from, int64_t count) {
  const int64_t width = r_.width(operand), lack = (f_.share * f_.part(width) - width) / kEight;
  if (lack == 0) return;
  const KV zeros = kernel_.splat(KernelBuilder::u32(0), kLanes);
  tasks(count * lack).store([&](const Index& task) {
    const KV column = at(plus(c_.space.mod(task, lack), width / kEight));
    for (int64_t half = 0; half < (split_ ? 2 : 1); ++half)
      kernel_.store(zeros, rows_,
                    std::vector<KV>{at(plus(c_.space.div(task, lack), from + half * f_.staged())), column});
  });
}

/// The subgroup's matrices of an operand of its own side, loaded through shared memory.
std::vector<CoopmatAttention::Factor> CoopmatAttention::ownMatrices(int operand) {
  storeRows(loadRows(operand, first_, f_.rows, r_.ownRows()), operand, f_.rows);
  padRows(operand, 0, f_.rows);
  kernel_.barrier();
  std::vector<Factor> out;
  for (int64_t i = 0; i < d_.down; ++i)
    for (int64_t number = 0; number < f_.part(r_.width(operand)) / kSide; ++number)
      out.push_back(loaded(at(plus(warpRow_, i * kSide)), operand, number, MatrixUse::a, false));
  kernel_.barrier();
  return out;
}

void CoopmatAttention::begin() {
  if (split_) {
    const KV unit = kernel_.mul(unscaleOf(Of::q), KernelBuilder::f32(r_.scale));
    scoreScale_[0] = kernel_.mul(unit, unscaleOf(Of::k));
    scoreScale_[1] = KernelBuilder::f32(kGradients);
  }
  own_[0] = ownMatrices(r_.own[0]);
  if (!r_.isForward()) own_[1] = ownMatrices(r_.own[1]);
  for (const int which : {0, 1}) padRows(r_.other[which], which * f_.block, f_.block);
  beginMore();
  if (r_.isForward() || r_.forKeys) return;
  tasks(f_.rows).store([&](const Index& task) {
    const Index row = inside(c_.space.add(first_, task), r_.ownRows());
    kernel_.store(scaledNumber(Of::lse, row), lses_, at(task));
    kernel_.store(scaledNumber(Of::delta, row), deltas_, at(task));
  });
  kernel_.barrier();
  for (int64_t i = 0; i < d_.down; ++i) {
    const auto [lse, delta] = stagedStatistics(at(plus(warpRow_, i * kSide)), false);
    lse_.push_back(lse);
    delta_.push_back(delta);
  }
}

/// If the other side are queries, also loads their log-sum-exp and δ.
std::vector<KV> CoopmatAttention::loadBlock(const Index& block) {
  std::vector<KV> out = AttentionWalk::loadBlock(block);
  loadMore(block, out);
  if (!r_.forKeys) return out;
  tasks(f_.block).load([&](const Index& task) {
    const auto [there, row] = c_.emitter.below(c_.space.add(firstOf(block), task), r_.otherRows());
    out.push_back(kernel_.select(there, scaledNumber(Of::lse, row), KernelBuilder::f32(kHidden)));
    out.push_back(scaledNumber(Of::delta, row));
  });
  return out;
}

std::span<const KV> CoopmatAttention::storeBlock(std::span<const KV> loaded) {
  loaded = storeMore(AttentionWalk::storeBlock(loaded));
  if (r_.forKeys)
    tasks(f_.block).store([&](const Index& task) {
      kernel_.store(loaded[0], lses_, at(task));
      kernel_.store(loaded[1], deltas_, at(task));
      loaded = loaded.subspan(2);
    });
  return loaded;
}

/// Adds up the scores of the subgroups that share rows. As a + b equals b + a, all of them get the same number.
KV CoopmatAttention::addedUp(const KV& scores) {
  if (f_.share == 1) return scores;
  auto patchOf = [&](const Index& part) {
    const Index subgroup = c_.space.add(c_.space.scale(pair_, f_.share), part);
    return std::vector<KV>{at(c_.space.scale(subgroup, kSide)), KernelBuilder::u32(0)};
  };
  kernel_.coopmatStore(scores, patch_, patchOf(part_));
  kernel_.barrier();
  const Index other = plus(c_.space.scale(part_, -1), 1);
  const KV rest = kernel_.coopmatLoad(patch_, patchOf(other), matrix(MatrixUse::acc), false);
  kernel_.barrier();
  return kernel_.add(scores, rest);
}

AttentionWalk::Parts CoopmatAttention::scores(int which, int64_t column) {
  const std::vector<Factor>& own = own_[which];
  const int64_t steps = std::ssize(own) / d_.down;
  std::vector<Sums> sums(static_cast<size_t>(d_.down * d_.atOnce), startFrom(zero()));
  for (int64_t deep = 0; deep < steps; ++deep)
    for (int64_t j = 0; j < d_.atOnce; ++j) {
      const Factor factor = loaded(KernelBuilder::u32(which * f_.block + (column + j) * kSide),
                                   r_.other[which], deep, MatrixUse::b, true);
      for (int64_t i = 0; i < d_.down; ++i) multiply(own[i * steps + deep], factor, sums[j * d_.down + i]);
    }
  Parts out;
  for (const Sums& each : sums) {
    if (!split_) {
      out.push_back(addedUp(each.high));
      continue;
    }
    const KV unit = scoreScale_[which], lowUnit = kernel_.mul(unit, KernelBuilder::f32(1 / kLow));
    out.push_back(addedUp(kernel_.fma(each.high, unit, kernel_.mul(each.low, lowUnit))));
  }
  return out;
}

/// Replaces the scores of keys behind the query, if causal, and of keys behind the last, which may be NaN.
KV CoopmatAttention::hide(const KV& given, int64_t i, int64_t column) {
  KV score = given;
  const KV hidden = kernel_.coopmatSplat(-kHidden, matrix(MatrixUse::acc));
  const Index other = plus(firstOf(block_), column * kSide);
  const Index own = plus(c_.space.add(first_, warpRow_), i * kSide);
  const Type type = matrix(MatrixUse::acc);
  auto real = [&](const Index& index) { return kernel_.cast(at(index), DType::f32); };
  auto below = [&](const KV& slack) {
    const KV isBehind = kernel_.op(Opcode::k_lt, {slack, KernelBuilder::f32(0)}, DType::i1);
    score = kernel_.select(isBehind, hidden, score);
  };
  if (r_.causal) {  // key <= query + ahead
    const KV ahead = KernelBuilder::f32(static_cast<double>(r_.keys - r_.queries));
    const KV from = sub(real(r_.forKeys ? other : own), real(r_.forKeys ? own : other));
    const KV within = sub(kernel_.coopmatIndex(type, r_.forKeys), kernel_.coopmatIndex(type, !r_.forKeys));
    below(kernel_.add(within, kernel_.add(from, ahead)));
  }
  if (r_.otherRows() % f_.block != 0 && !r_.forKeys)
    below(sub(sub(KernelBuilder::f32(static_cast<double>(r_.otherRows() - 1)), real(other)),
              kernel_.coopmatIndex(type, true)));
  return score;
}

/// The largest of a row's scores.
KV CoopmatAttention::mostOf(size_t row, const Parts& scores) {
  // All in one reduction, so that the compiler sees that a row has one number. A NaN that max ignores remains a NaN
  // among the weights.
  Parts all;
  for (size_t k = row; k < scores.size(); k += static_cast<size_t>(d_.down)) all.push_back(scores[k]);
  return kernel_.coopmatRowReduce(all, "max");
}

/// Raises the maximum of a row and subtracts it from the row's scores, which have become exponents score + shift. `whole`
/// are the exponents without the shift, given if there is a bias: if the shift is that of masked scores, which is as large
/// as their bias, the sum has lost the digits of other scores.
void CoopmatAttention::raise(size_t row, const KV& least, const Parts& whole, Parts& scores,
                             std::span<KV> shift, std::span<KV> total, std::span<KV> sums) {
  const auto rows = static_cast<size_t>(d_.down);
  const KV before = scaled(shift[row], -1);
  const KV most = lowered(mostOf(row, whole.empty() ? scores : Parts(whole)));
  const KV top = larger(most, whole.empty() ? least : before);
  for (size_t k = row; k < scores.size(); k += rows)
    scores[k] = sub(whole.empty() ? scores[k] : whole[k], top);
  shift[row] = whole.empty() ? sub(shift[row], top) : scaled(top, -1);
  // A negative top comes with the first scores, when there are no sums yet.
  const KV fall = whole.empty() ? scaled(top, -1) : sub(before, top);
  const KV shrink = power(f32(Opcode::k_min, fall, KernelBuilder::f32(0)));
  total[row] = kernel_.mul(total[row], shrink);
  rescale(row, shrink, sums);
}

/// Weights are powers of the exponents score + shift, where lift - shift is a maximum of the row so far. The first scores
/// set shift. It changes, and the sums are rescaled, only if an exponent of any row of the subgroup exceeds kRoom.
void CoopmatAttention::weigh(int64_t from, Parts& scores, std::span<KV> shift, std::span<KV> total,
                             std::span<KV> sums) {
  const auto rows = static_cast<size_t>(d_.down);
  const Parts given = scores;
  for (size_t k = 0; k < scores.size(); ++k) {
    KV& each = scores[k];
    each = split_ || r_.bias ? kernel_.add(each, shift[k % rows])
                             : kernel_.fma(each, KernelBuilder::f32(exponent_), shift[k % rows]);
  }
  const KV isFirst = from == 0 ? kernel_.op(Opcode::k_eq, {at(block_), KernelBuilder::u32(0)}, DType::i1)
                               : KernelBuilder::literal(DType::i1, 0);
  auto unlessFirst = [&](double x) {
    return r_.bias ? KernelBuilder::f32(x)
                   : kernel_.select(isFirst, KernelBuilder::f32(-kHidden), KernelBuilder::f32(x));
  };
  const KV raises = kernel_.coopmatAnyAbove(unlessFirst(split_ ? 0 : kRoom), scores), least = unlessFirst(0);
  const std::span<KV> changed[] = {scores, shift, total, sums};
  auto all = [&] {
    Parts out;
    for (const std::span<KV>& some : changed) out.insert(out.end(), some.begin(), some.end());
    return out;
  };
  const Parts before = all();
  auto raised = [&] {
    const Parts whole = r_.bias ? given : Parts{};
    for (size_t i = 0; i < rows; ++i) raise(i, least, whole, scores, shift, total, sums);
    return all();
  };
  const std::vector<Type> types(before.size(), matrix(MatrixUse::acc));
  const Parts after = kernel_.branch(raises, types, raised, [&] { return before; });
  auto next = after.begin();
  for (const std::span<KV>& some : changed)
    for (KV& each : some) each = *next++;
  for (size_t k = 0; k < scores.size(); ++k) {
    scores[k] = power(scores[k]);
    total[k % rows] = kernel_.add(total[k % rows], scores[k]);
  }
}

/// The staged statistics from `start` on: of a matrix's columns, or of its rows.
std::pair<KV, KV> CoopmatAttention::stagedStatistics(const KV& start, bool ofColumns) {
  const KV lse = kernel_.coopmatRepeat(lses_, start, matrix(MatrixUse::acc), ofColumns);
  return {lse, kernel_.coopmatRepeat(deltas_, start, matrix(MatrixUse::acc), ofColumns)};
}

void CoopmatAttention::addProducts(int64_t column, const Parts& p, const Parts& ds, std::span<KV> sums) {
  for (const auto& sum : r_.sums) {
    const int which = sum.ofP ? 1 : 0;
    const int64_t across = f_.part(r_.width(sum)) / kSide;
    std::vector<Factor> weights;
    for (const KV& each : sum.ofP ? p : ds)
      weights.push_back(split_ ? halved(each, sum.ofP) : Factor{each, {}});
    for (int64_t j = 0; j < across; ++j) {
      std::vector<Factor> factors;
      for (int64_t k = 0; k < d_.atOnce; ++k)
        factors.push_back(loaded(KernelBuilder::u32(which * f_.block + (column + k) * kSide), r_.other[which],
                                 j, MatrixUse::b, false));
      for (int64_t i = 0; i < d_.down; ++i) {
        KV& each = sums[i * across + j];
        Sums products = startFrom(each);
        for (int64_t k = 0; k < d_.atOnce; ++k) multiply(weights[k * d_.down + i], factors[k], products);
        each = split_
                   ? kernel_.add(each, kernel_.fma(products.low, KernelBuilder::f32(1 / kLow), products.high))
                   : products.high;
      }
    }
    sums = sums.subspan(partsOf(sum));
  }
}

/// Splits from..to into the blocks that the mask leaves whole, in a loop without masking, and the others. The whole
/// blocks come first; if own rows are keys, they come last.
std::vector<AttentionWalk::Range> CoopmatAttention::ranges(const KV& from, const KV& to) {
  auto u32 = [&](Opcode code, const KV& a, int64_t b) {
    return kernel_.op(code, {a, KernelBuilder::u32(b)}, DType::u32);
  };
  auto between = [&](const KV& x) {
    return kernel_.op(Opcode::k_max, {from, kernel_.op(Opcode::k_min, {x, to}, DType::u32)}, DType::u32);
  };
  const int64_t ahead = r_.keys - r_.queries;
  if (r_.forKeys) {
    if (!r_.causal) return {{from, to, false}};
    // The first block of queries that see the tile's last key.
    const KV key = at(plus(first_, f_.rows - 1));
    const KV query = u32(Opcode::k_sub, u32(Opcode::k_max, key, ahead), ahead);
    const KV begin = between(u32(Opcode::k_div, u32(Opcode::k_add, query, f_.block - 1), f_.block));
    return {{from, begin, true}, {begin, to, false}};
  }
  KV whole = KernelBuilder::u32(r_.otherRows() / f_.block);
  if (r_.causal) {  // keys that the tile's first query sees
    const KV seen = u32(Opcode::k_div, at(plus(first_, 1 + ahead)), f_.block);
    whole = kernel_.op(Opcode::k_min, {whole, seen}, DType::u32);
  }
  const KV end = between(whole);
  std::vector<Range> out{{from, end, false}};
  if (r_.causal || r_.otherRows() % f_.block != 0) out.push_back({end, to, true});
  return out;
}

/// Stores a matrix of the subgroup to its patch and calls body(row, part, half) in every invocation. The invocation
/// has the left or right eight columns (half) of a row of its own side, in a subgroup's part of the columns. Rows
/// behind the end are skipped.
void CoopmatAttention::storeMatrix(
    const KV& matrix, int64_t i,
    const std::function<void(const Index& row, const Index& part, const Index& half)>& body) {
  kernel_.coopmatStore(matrix, patch_,
                       {kernel_.mul(subgroup_, KernelBuilder::u32(kSide)), KernelBuilder::u32(0)});
  kernel_.barrier();
  const Index own = c_.space.mod(lane_, f_.subgroup), subgroup = c_.space.div(lane_, f_.subgroup);
  const Index pair = c_.space.div(subgroup, f_.share), row = c_.space.div(own, 2);
  const Index place = plus(c_.space.add(first_, c_.space.add(c_.space.scale(pair, f_.warp), row)), i * kSide);
  whereOwn(place, [&](const Index& in) { body(in, c_.space.mod(subgroup, f_.share), c_.space.mod(own, 2)); });
  kernel_.barrier();
}

/// Divides a result's sums by the scales of what was multiplied.
void CoopmatAttention::unscale(const AttentionRegion::Sum& sum, std::span<KV> parts) {
  std::vector<KV> by{unscaleOf(r_.other[sum.ofP ? 1 : 0])};
  if (sum.ofP) {
    by.push_back(KernelBuilder::f32(1 / kWeights));
  } else {
    by.push_back(KernelBuilder::f32(1 / kGradients));
    by.push_back(unscaleOf(Of::v));
    by.push_back(unscaleOf(Of::dout));
  }
  for (KV& each : parts)
    for (const KV& factor : by) each = kernel_.mul(each, factor);
}

/// Emits body for eight columns, under the predicate that the result has them.
void CoopmatAttention::whereThere(const Index& column, int64_t width,
                                  const std::function<void(const Index&)>& body) {
  if (c_.space.max(column) < width) return body(column);
  const KV first = at(column);
  kernel_.guard(kernel_.op(Opcode::k_lt, {first, KernelBuilder::u32(width)}, DType::i1),
                [&] { body(c_.space.variable(first, width, kEight)); });
}

void CoopmatAttention::storeSum(size_t number, std::span<KV> parts) {
  const Value* value = r_.op->result(r_.sums[number].result);
  if (split_) unscale(r_.sums[number], parts);
  if (r_.keep && r_.forKeys && r_.sums[number].ofP)
    for (KV& each : parts) each = scaled(each, 1 / r_.keepShare);
  const int64_t width = r_.width(r_.sums[number]), across = f_.part(width) / kSide;
  const KV patchRow = at(c_.space.div(lane_, 2));
  for (int64_t i = 0; i < d_.down; ++i)
    for (int64_t j = 0; j < across; ++j)
      storeMatrix(parts[i * across + j], i, [&](const Index& row, const Index& part, const Index& half) {
        const Index patchColumn = c_.space.scale(half, kEight);
        whereThere(c_.space.add(columnOf(part, width, j), patchColumn), width, [&](const Index& column) {
          KV fours[2];
          for (int64_t four = 0; four < 2; ++four) {
            std::vector<KV> lanes;
            for (int64_t lane = 0; lane < kLanes; ++lane)
              lanes.push_back(
                  kernel_.loadHere(patch_, {patchRow, at(plus(patchColumn, four * kLanes + lane))}));
            fours[four] = kernel_.vec(lanes);
          }
          const Index start = c_.space.add(c_.space.scale(overBatches(row), width), column);
          storeAttention(c_, value, c_.space.add(start, IndexSpace::lane()), fours[0], &fours[1]);
        });
      });
}

/// Every column has the row's number, and so has every subgroup that shares the row; one invocation stores it.
void CoopmatAttention::storeStatistics(std::span<const KV> lse) {
  const KV patchRow = at(c_.space.div(lane_, 2));
  for (int64_t i = 0; i < d_.down; ++i)
    storeMatrix(lse[i], i, [&](const Index& row, const Index& part, const Index& half) {
      const Index place = c_.space.add(c_.space.scale(part, 2), half);
      const KV first = kernel_.op(Opcode::k_eq, {at(place), KernelBuilder::u32(0)}, DType::i1);
      kernel_.guard(first, [&] {
        const KV number = kernel_.loadHere(patch_, {patchRow, KernelBuilder::u32(0)});
        storeAttention(c_, r_.op->result(1), overBatches(row), number);
      });
    });
}

/// 2^lift, or 1 for a row whose shift is so large that f32 rounded the lift away, as with masked scores only.
KV CoopmatAttention::liftOf(const KV& shift) {
  const KV size = kernel_.op(Opcode::k_abs, {shift}, DType::f32);
  const KV isSmall = kernel_.op(Opcode::k_lt, {size, KernelBuilder::f32(0x1p16)}, DType::i1);
  return kernel_.select(isSmall, KernelBuilder::f32(std::exp2(d_.lift)), KernelBuilder::f32(1));
}

void CoopmatAttention::finishForward(std::span<KV> shift, std::span<KV> total, std::span<KV> sums) {
  std::vector<KV> lse;
  for (size_t i = 0; i < shift.size(); ++i) {
    const KV whole = kernel_.coopmatRowReduce(total.subspan(i, 1), "add");
    const KV share = kernel_.op(Opcode::k_reciprocal, {whole}, DType::f32);
    const KV kept = r_.keep ? scaled(share, 1 / r_.keepShare) : share;
    rescale(i, d_.lift == 0 ? kept : kernel_.mul(kept, liftOf(shift[i])), sums);
    lse.push_back(kernel_.fma(shift[i], KernelBuilder::f32(split_ ? -1 : -std::numbers::ln2),
                              kernel_.op(Opcode::k_log, {whole}, DType::f32)));
  }
  storeSum(0, sums);
  if (r_.op->results.size() > 1) storeStatistics(lse);
}

Result<void> lowerKernel(LowerContext& c, const CoopmatAttentionSchedule& schedule) {
  return lowerByGroups<CoopmatAttention>(c, AttentionFragments(schedule, c.target));
}

}  // namespace tg
