// SPDX-License-Identifier: Apache-2.0
// The bias and the keep of an attention on matrix units.
//
//   bias   if it differs by key alone: one number for each key, repeated along the queries of a matrix of scores
//          else: one number for each score, staged as rows of queries
//   keep   one number w for each query and 16 keys, repeated along these keys; bit i of w says whether key i stays
//
//                   own side: queries                own side: keys
//   bias by key     of the block, for each step      of the own rows, once
//   bias by score   own rows x block, for each step  block x own rows, for each step
//   keep            block / 16 rows of own queries   own rows / 16 rows of the block's queries
//
// Matrices have f32 elements, so bit i is taken from w by arithmetic. With c = 2^-(i+1), x = (w + 1/2)·c = n + bit/2 + r,
// where n is whole and 0 < r < 1/2. Rounded to a whole number, x is n + bit, which is above x if and only if the bit is 1.
// All of this is exact: w has 16 bits. x is rounded by an fma with a large number, since a device's compiler may simplify
// x + y - y.
#include <numbers>

#include "codegen/lower_attention_coopmat.h"

namespace tg {

namespace {

/// The least bias: far below all scores, and far above what hides keys behind the query.
constexpr double kLeastBias = -1e29;
/// Floats behind each staged row of biases, so that rows start in other banks.
constexpr int64_t kPadding = 4;

}  // namespace

bool differsByQuery(const Op& attention) {
  const Value* bias = biasOf(attention);
  return bias && bias->type.rank() > 1 && bias->type.shape[bias->type.rank() - 2] != 1;
}

int64_t AttentionFragments::bytesOfMore(const Op& attention) const {
  const bool forKeys = attention.code == Opcode::attention_grad_kv;
  const int64_t queries = forKeys ? block : rows, keys = forKeys ? rows : block;
  const int64_t bias = differsByQuery(attention) ? queries * (keys + kPadding) : biasOf(attention) ? keys : 0;
  return 4 * (bias + (keepOf(attention) ? rows * block / kSide : 0));
}

void CoopmatAttention::shareMore() {
  auto buffer = [&](DType dtype, int64_t lanes, const Shape& shape, const char* name) {
    return kernel_.sharedBuffer(Type::buffer(dtype, static_cast<int>(lanes), shape, BufMode::shared), name);
  };
  const int64_t lanes = biasLanes();
  if (byScore_)
    biases_ = buffer(DType::u32, lanes, {stagedQueries(), (stagedKeys() + kPadding) / lanes}, "bias");
  else if (r_.bias)
    biases_ = buffer(DType::f32, 1, {stagedKeys()}, "bias");
  if (r_.keep) keeps_ = buffer(DType::f32, 1, {f_.rows * f_.block / kSide}, "keep");
}

/// The biases of a query and of group `keys` of biasLanes() keys. Indices behind the last are clamped.
KV CoopmatAttention::biasesAt(const Index& query, const Index& keys) {
  const Shape& shape = r_.bias->type.shape;
  const auto lanes = static_cast<int>(biasLanes());
  Index key = c_.space.scale(inside(keys, r_.keys / lanes), lanes);
  if (lanes > 1) key = c_.space.add(key, IndexSpace::lane());
  Indices all = lead_;
  all.insert(all.end(), {inside(query, r_.queries), key});
  all.erase(all.begin(), all.end() - shape.rank());
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] == 1) all[static_cast<size_t>(axis)] = IndexSpace::constant(0);
  return kernel_.widened(c_.emitter.emit(r_.bias, all), Type::scalar(DType::f32, lanes));
}

/// Stages biases, times log₂e. They are multiplied here and not as they are loaded, so that no invocation waits for a load
/// before the products of its step.
void CoopmatAttention::stageBiases(const KV& loaded, const Index& query, const Index& group) {
  auto number = [&](double x) { return kernel_.splat(KernelBuilder::f32(x), loaded.lanes()); };
  const KV biases = larger(kernel_.mul(loaded, number(std::numbers::log2e)), number(kLeastBias));
  if (byScore_)
    kernel_.store(kernel_.bitcast(biases, DType::u32), biases_, std::vector<KV>{at(query), at(group)});
  else
    kernel_.store(biases, biases_, at(group));
}

/// The bias of own keys, and 2^-(i+1) for key i of a matrix.
void CoopmatAttention::beginMore() {
  if (r_.keep) {
    const KV key = kernel_.coopmatIndex(matrix(MatrixUse::acc), !r_.forKeys);
    bitUnit_ = kernel_.op(Opcode::k_exp2, {sub(KernelBuilder::f32(-1), key)}, DType::f32);
  }
  if (!r_.bias || byScore_ || !r_.forKeys) return;
  tasks(f_.rows).store([&](const Index& task) {
    const KV bias = biasesAt(IndexSpace::constant(0), c_.space.add(first_, task));
    stageBiases(bias, {}, task);
  });
  kernel_.barrier();
}

/// The tasks of a block's keep, one for each number.
StagingTasks CoopmatAttention::keepTasks() { return tasks(f_.rows * f_.block / kSide); }

/// The tasks of a bias that is staged in each step, one for each group of keys of each staged query.
StagingTasks CoopmatAttention::biasTasks() {
  return tasks(byScore_ ? f_.rows * f_.block / biasLanes() : stagedKeys());
}

/// The query and the group of a task, among those that are staged.
std::pair<Index, Index> CoopmatAttention::stagedPlace(const Index& task) {
  if (!byScore_) return {IndexSpace::constant(0), task};
  const int64_t perRow = stagedKeys() / biasLanes();
  return {c_.space.div(task, perRow), c_.space.mod(task, perRow)};
}

void CoopmatAttention::loadMore(const Index& block, std::vector<KV>& out) {
  const Index queries = r_.forKeys ? firstOf(block) : first_, keys = r_.forKeys ? first_ : firstOf(block);
  if (byScore_ || stagesKeys())
    biasTasks().load([&](const Index& task) {
      const auto [query, group] = stagedPlace(task);
      const Index firstGroup = c_.space.div(keys, biasLanes());
      out.push_back(biasesAt(c_.space.add(queries, query), c_.space.add(firstGroup, group)));
    });
  if (!r_.keep) return;
  const int64_t count = stagedQueries();
  keepTasks().load([&](const Index& task) {
    Indices place = lead_;
    place.push_back(inside(c_.space.add(queries, c_.space.mod(task, count)), r_.queries));
    place.push_back(
        inside(c_.space.add(c_.space.div(keys, kSide), c_.space.div(task, count)), r_.keys / kSide));
    out.push_back(c_.emitter.emit(r_.keep, place));
  });
}

std::span<const KV> CoopmatAttention::storeMore(std::span<const KV> loaded) {
  auto next = [&] {
    const KV first = loaded[0];
    loaded = loaded.subspan(1);
    return first;
  };
  if (byScore_ || stagesKeys())
    biasTasks().store([&](const Index& task) {
      const auto [query, group] = stagedPlace(task);
      stageBiases(next(), query, group);
    });
  if (r_.keep)
    keepTasks().store([&](const Index& task) {
      kernel_.store(kernel_.add(next(), KernelBuilder::f32(0.5)), keeps_, at(task));
    });
  return loaded;
}

KV CoopmatAttention::biased(const KV& score, int64_t row, int64_t column) {
  if (!r_.bias) return score;
  const Index own = plus(warpRow_, row * kSide), other = IndexSpace::constant(column * kSide);
  const Index query = r_.forKeys ? other : own, key = r_.forKeys ? own : other;
  const Type type = matrix(MatrixUse::acc);
  const KV bias = byScore_ ? kernel_.coopmatLoad(biases_, {at(query), at(c_.space.div(key, biasLanes()))},
                                                 type, r_.forKeys)
                           : kernel_.coopmatRepeat(biases_, at(key), type, !r_.forKeys);
  return kernel_.fma(score, KernelBuilder::f32(exponent_), bias);
}

KV CoopmatAttention::kept(const KV& weights, int64_t row, int64_t column) {
  if (!r_.keep) return weights;
  constexpr double kWhole = 0x1.8p23;  // numbers of this size have no digits behind the point
  const Index own = plus(warpRow_, row * kSide);
  const Index start = r_.forKeys ? plus(c_.space.scale(c_.space.div(own, kSide), f_.block), column * kSide)
                                 : plus(own, column * f_.rows);
  const KV number = kernel_.coopmatRepeat(keeps_, at(start), matrix(MatrixUse::acc), r_.forKeys);
  const KV below = sub(KernelBuilder::f32(kWhole), kernel_.fma(number, bitUnit_, KernelBuilder::f32(kWhole)));
  const KV stays =
      kernel_.op(Opcode::k_lt, {kernel_.fma(number, bitUnit_, below), KernelBuilder::f32(0)}, DType::i1);
  return kernel_.select(stays, weights, zero());
}

}  // namespace tg
