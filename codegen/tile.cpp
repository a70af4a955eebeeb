// SPDX-License-Identifier: Apache-2.0
// See tile.h.
#include "codegen/tile.h"

#include <algorithm>
#include <utility>

namespace tg {

// A subgroup of 32 invocations has a patch of 4 x 8 places. Neighbours take the two rows of one column, and the
// next two the next column: shared memory then serves each pair with one vector (7 % of a product's time on an H200,
// against rows of 16).
TilePlace placeOf(IndexSpace& space, const Index& number, int64_t down, int64_t across) {
  constexpr int64_t kRows = 4, kColumns = 8, kPatch = kRows * kColumns;
  if (across % kColumns != 0 || down % kRows != 0)
    return {space.div(number, across), space.mod(number, across)};
  int64_t patches = across / kColumns;
  Index patch = space.div(number, kPatch), within = space.mod(number, kPatch);
  Index row = space.add(space.scale(space.div(within, 2 * kColumns), 2), space.mod(within, 2));
  Index column = space.mod(space.div(within, 2), kColumns);
  return {space.add(space.scale(space.div(patch, patches), kRows), row),
          space.add(space.scale(space.mod(patch, patches), kColumns), column)};
}

std::vector<Index> StagingTasks::tasks() const {
  std::vector<Index> out;
  for (int64_t first = 0; first < count_; first += invocations_)
    out.push_back(c_.space.add(lane_, IndexSpace::constant(first)));
  return out;
}

void StagingTasks::load(const std::function<void(const Index&)>& body) const {
  for (const Index& task : tasks()) body(c_.emitter.below(task, count_).second);
}

void StagingTasks::store(const std::function<void(const Index&)>& body) const {
  for (const Index& task : tasks())
    c_.emitter.whereInside(task, count_, IndexSpace::constant(0), 1,
                           [&](const Index& at, const Index&) { body(at); });
}

SharedTile SharedTile::make(LowerContext& c, int64_t rows, int64_t pitch, const char* name) {
  return {c.kernel.sharedBuffer(Type::buffer(DType::f32, kLanes, {rows * pitch}, BufMode::shared), name),
          pitch};
}

KV SharedTile::read(LowerContext& c, const Index& row, const Index& column) const {
  return c.kernel.loadHere(buffer, c.space.materialize(c.space.add(c.space.scale(row, pitch), column)));
}

void SharedTile::write(LowerContext& c, const Index& row, const Index& column, const KV& value) const {
  c.kernel.store(value, buffer, c.space.materialize(c.space.add(c.space.scale(row, pitch), column)));
}

std::vector<KV> SharedTile::vectors(LowerContext& c, const Index& row, const Index& column, int64_t count,
                                    int64_t apart) const {
  std::vector<KV> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(read(c, row, c.space.add(column, IndexSpace::constant(i * apart))));
  return out;
}

void addOuterProduct(KernelBuilder& kernel, std::span<const KV> column, std::span<const KV> row,
                     std::span<KV> sums) {
  for (size_t i = 0; i < column.size() * kLanes; ++i)
    for (size_t j = 0; j < row.size(); ++j) {
      KV& sum = sums[i * row.size() + j];
      sum = kernel.fma(kernel.extract(column[i / kLanes], static_cast<int>(i % kLanes)), row[j], sum);
    }
}

Pipeline::Pipeline(LowerContext& c, int64_t tiles, const KV& first, Load load, Store store)
    : Pipeline(c, tiles, std::vector<KV>{}, std::move(load), std::move(store)) {
  carried_ = load_(index(first));
  loads_ = carried_.size();
}

Pipeline::Pipeline(LowerContext& c, int64_t tiles, std::vector<KV> loaded, Load load, Store store)
    : c_(c), kernel_(c.kernel), tiles_(tiles), load_(std::move(load)), store_(std::move(store)),
      carried_(std::move(loaded)), loads_(carried_.size()) {}

std::vector<KV> Pipeline::emitStep(const Index& tile, std::span<KV> now, const Body& body, const Next& next) {
  store_(now.first(loads_));
  kernel_.barrier();
  std::vector<KV> loaded = next();
  body(tile, now.subspan(loads_));
  kernel_.barrier();
  return loaded;
}

KernelBuilder::LoopBody Pipeline::step(const Body& body) {
  return [this, &body](const KV& tile, std::vector<KV> now) {
    if (loads_ == 0) {
      body(index(tile), now);
      return now;
    }
    const std::vector<KV> loaded = emitStep(index(tile), now, body, [&] {
      const KV last = KernelBuilder::u32(tiles_ - 1);
      return load_(
          index(kernel_.op(Opcode::k_min, {kernel_.add(tile, KernelBuilder::u32(1)), last}, DType::u32)));
    });
    std::ranges::copy(loaded, now.begin());
    return now;
  };
}

void Pipeline::run(const char* name, const KV& from, const KV& to, const Body& body) {
  kernel_.hint(name);
  carried_ = kernel_.loop(kernel_.depth(), from, to, 1, carried_, step(body));
}

std::vector<KV> Pipeline::runThen(const char* name, const Body& body, const Next& next) {
  if (tiles_ > 1) run(name, KernelBuilder::u32(0), KernelBuilder::u32(tiles_ - 1), body);
  return emitStep(IndexSpace::constant(tiles_ - 1), carried_, body, next);
}

void Pipeline::runInBlocks(const KV& from, const KV& to, int64_t block, const Body& body) {
  const std::vector<KV> zeros(state().begin(), state().end());
  kernel_.hint("block");
  carried_ = kernel_.loop(
      kernel_.depth(), from, to, block, carried_, [&](const KV& begin, const std::vector<KV>& in) {
        const KV end =
            kernel_.op(Opcode::k_min, {kernel_.add(begin, KernelBuilder::u32(block)), to}, DType::u32);
        std::vector<KV> start = in;
        std::ranges::copy(zeros, start.begin() + static_cast<std::ptrdiff_t>(loads_));
        kernel_.hint("step");
        std::vector<KV> out = kernel_.loop(kernel_.depth(), begin, end, 1, start, step(body));
        for (size_t i = loads_; i < out.size(); ++i) out[i] = kernel_.add(in[i], out[i]);
        return out;
      });
}

}  // namespace tg
