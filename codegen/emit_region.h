// SPDX-License-Identifier: Apache-2.0
// Emits the kernel code for one element (or four) of any value of a region, by pulling: a value's
// code is its op's code over its operands' codes at the mapped indices. Whatever stands in a region
// can be pulled; schedules only decide which elements are pulled where.
#pragma once

#include <array>
#include <functional>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "codegen/index.h"
#include "codegen/lower.h"
#include "codegen/plain_region.h"
#include "ir/kernel/builder.h"
#include "ir/op_view.h"

namespace tg {

/// How reductions that depend on nothing finer than the row are computed.
struct RowLanes {
  int64_t width = 1;     ///< invocations that share a row; 1 leaves every reduction to one invocation
  Index row;             ///< the row, the same for all of them
  Index lane;            ///< this invocation's number among them
  int level = 0;         ///< scopes up to this depth are the same for all of them
  int64_t vec = 1;       ///< elements of the row that an invocation takes at once
  int64_t subgroup = 1;  ///< subgroup width that combining relies on; 1 for none
  /// Rows side by side in a workgroup, lane by lane: invocation lane·side + i works on the i-th row. With 0 a
  /// workgroup has one row, or each of its subgroups has.
  int64_t side = 0;
};

class RegionEmitter {
 public:
  RegionEmitter(KernelBuilder& kernel, IndexSpace& space, const Op& fused, const PlainRegion& region,
                const std::vector<bool>& mayTexel);

  /// The element of v at the indices; a vector of four where the lane variable takes part.
  KV emit(const Value* v, const Indices& at);
  /// Element `offset` of v in row-major order.
  KV emitLinear(const Value* v, const Index& offset);
  /// Declares the code of v at these indices, as a tiled contraction does.
  void define(const Value* v, const Indices& at, const KV& value);
  /// Stores the element(s) of result slot `slot` at a row-major offset; four when offset has lanes.
  void store(int slot, const Index& offset);
  /// Stores eight elements of a result of 16 bits, from four at an offset and the four behind, in one access.
  void storeWords(int slot, const Index& offset);
  /// The buffer of a result, or of a binding, as rows that matrices are loaded from and stored to: of f32 elements,
  /// or of 16-bit ones as vectors of four words. Null where the value is not a binding in a storage buffer.
  Value* resultRows(int slot, int64_t rows, int64_t columns);
  Value* bindingRows(const Value* v, int64_t rows, int64_t columns);
  /// The buffer of a binding as scalars; null where the value is not a binding in a storage buffer.
  Value* bindingElements(const Value* v);
  /// Eight neighbours as memory holds them, the four at `first` and the four at `second`: their bits in four
  /// words. Nothing where v is no binding of the type behind casts and views, or the eight lie apart.
  std::optional<KV> words(const Value* v, DType narrow, Indices first, Indices second);
  /// The same of a value that is known without the region's ops.
  void store(int slot, const Index& offset, KV element);

  /// From now on storage buffers are read by element alone, so that none is bound a second time as vectors.
  void readByElement() { byElement_ = true; }
  void shareRows(RowLanes rows) { rows_ = rows; }
  /// Begins with workgroups of their own: no rows are shared, and the shared memory of the others is free.
  void startPart() {
    rows_ = {};
    slotsTaken_.assign(slots_.size(), false);
  }
  /// Computes every reduction among `ops` along rows of the given length at a row, so that later uses find
  /// it.
  void pullRowReductions(const Index& row, int64_t length, const std::unordered_set<const Op*>& ops);
  /// Loads every binding of rank 0 that some of `ops` read, so that later uses find it.
  void pullNumbers(const std::unordered_set<const Op*>& ops);

  using AtTwo = std::function<KV(const Index&, const Index&)>;
  /// body(a, b) where a < countA and b < countB, else 0; the body sees indices that are always inside.
  KV within(const Index& a, int64_t countA, const Index& b, int64_t countB, const AtTwo& body);
  /// Whether an index is below a count, and an index that always is, equal to it there.
  std::pair<KV, Index> below(const Index& at, int64_t count) {
    Hit part = hit(at, 0, count);
    return {part.cond, part.inside};
  }
  /// Whether an element of a shared row is one, and an index that always is, equal to it there. Elsewhere the
  /// invocation reads what is its own, or nothing: another invocation may store what it would read.
  std::pair<KV, Index> ofRow(const Index& at, int64_t count);
  /// Runs body(a, b) only where a < countA and b < countB.
  void whereInside(const Index& a, int64_t countA, const Index& b, int64_t countB,
                   const std::function<void(const Index&, const Index&)>& body);

  const std::vector<LoweredKernel::Param>& params() const { return params_; }
  /// Loads of scalars where a vector was asked for; a schedule compares trials by it.
  int splitLoads() const { return splitLoads_; }
  const std::string& problem() const { return problem_; }

  KernelBuilder& kernel() { return kernel_; }
  IndexSpace& space() { return space_; }

 private:
  void remember(std::string_view key, const KV& value);
  KV compute(const Value* v, const Indices& at);
  KV pull(const Value* v, const Indices& at);
  template <class Row, Scalar scalar, table::Fusion fusion, unsigned traits, unsigned where>
  KV pullRow(const Op& op, const Indices& at);
  /// Element `offset` of a binding in row-major order.
  KV load(int binding, const Index& offset);
  KV loadOne(int binding, const Index& offset);
  /// A load at an index that was made of an offset, where its invocation is not idle.
  KV loadWhere(Value* buffer, const Index& index, const Index& offset);
  KV lanewise(const Value* v, const Indices& at);
  KV elementwise(const Op& op, const Indices& at);
  /// The code of one element of what a row's op gives, from the codes of its operands'. A row of regions that is
  /// neither elementwise nor composite has a definition, in the file of its family; a program without it does not
  /// link, and says which row it lacks.
#define OP(id, ...) KV element(at::id, const Op& op, const Indices& at);
#include "ir/ops.def"
#undef OP
  KV broadcastOperand(const Value* v, const Shape& to, const Indices& at);
  Index windowOffset(const Index& k, int64_t size, int64_t dilation);
  /// Where an element of the windows of tg.unfold stands in its operand.
  Indices unfolded(const Op& op, const Indices& at);
  KV reduction(const Op& op, const Indices& at);
  KV argExtremum(const Op& op, const Indices& at);
  /// The four words of a quad of a random op's elements.
  std::array<KV, kLanes> randomQuad(const Op& op, const Index& quad);
  KV sharedReduction(const Op& op, Indices in, const std::vector<int>& axes, int level);
  /// Where a sum at a place begins: a number, or a vector where the place is a lane's.
  KV zeroAt(int level, const Indices& at, DType dtype);
  /// A row of a scatter whose third operand says which blocks of ids are near which rows.
  KV scatterByBuckets(const Op& op, const Indices& at, const KV& row, int level, const KV& start);
  /// Σ select(iota = id, x, 0) over an axis has one term: the element of x at the id, or 0 where the id is out of
  /// range. Nothing for any other reduction.
  std::optional<KV> soleTerm(const Op& op, Indices in, const std::vector<int>& axes);
  /// What the invocations that share a row have found, combined; all of them get it.
  KV combined(const KV& partial, Opcode combine);
  KV combinedSides(const KV& partial, Opcode combine);
  /// Shared memory that nothing else in this part uses.
  Value* slotsFor(const Type& type);
  /// Whether the row's invocations share a reduction at these indices of its result.
  bool isShared(const Indices& at) const;
  /// The operand's indices with those of the reduced axes left open.
  static Indices keptIndices(const Op& op, const Indices& at);

  /// Where a part [low, low + extent) of an axis is hit: the condition and an index that is always inside, beside
  /// `elsewhere` where the part is not hit. `split` asks to go lane by lane.
  struct Hit {
    KV cond;
    Index inside;
    bool split = false;
  };
  Hit hit(const Index& at, int64_t low, int64_t extent, const Index& elsewhere = {});
  KV quotient(Index index, int64_t number, int64_t step);
  /// An id as an index: whether it is in [0, extent), and an index that always is.
  Hit idHit(const KV& id, int64_t extent);
  /// The window of a fold that holds an element of the axis in a round, and its place k in the window; the
  /// rounds together meet every window once.
  Hit hitWindow(const Op& fold, const Index& element, const Index& trip, Index* k);
  KV horizontal(const KV& vector, Opcode combine);
  static constexpr int64_t kInlined = 4;  ///< pieces of an axis that are no loop
  /// Carries `init` over an axis in pieces of `step`, unrolled; placed at `level`. `sums` says that the
  /// carried values are sums, which begin as zero where the pieces are more than two blocks.
  std::vector<KV> over(int level, int64_t extent, int64_t step, const std::vector<KV>& init,
                       const std::function<std::vector<KV>(const Index&, const std::vector<KV>&)>& body,
                       int64_t inlined = kInlined, bool sums = false);
  /// The same of one sum.
  KV sumOver(int level, int64_t extent, int64_t step, const KV& zero,
             const std::function<KV(const Index&, const KV&)>& body, int64_t inlined = kInlined);
  int levelOf(const Indices& at) const;
  Value* parameterFor(bool isResult, int slot, bool vector);
  /// The parameter of a slot in a form, which is a letter for each type that a slot is bound as.
  Value* parameterAs(bool isResult, int slot, char form, const Type& type);

  KernelBuilder& kernel_;
  IndexSpace& space_;
  const Op& fused_;
  const PlainRegion& region_;
  const std::vector<bool>& mayTexel_;
  RowLanes rows_;
  std::unordered_map<int, KV>
      busy_;                      ///< variables of IndexSpace that only some invocations have an element for
  std::vector<Value*> slots_;     ///< shared memory in which reductions combine
  std::vector<bool> slotsTaken_;  ///< by this part
  std::vector<LoweredKernel::Param> params_;
  std::unordered_map<std::string, Value*> buffers_;
  std::unordered_map<const Value*, int> bindingOf_;
  struct Known {
    KV value;
    int scope;
  };
  std::pmr::monotonic_buffer_resource memory_;
  std::pmr::unordered_map<std::pmr::string, Known, NameHash, std::equal_to<>> known_{&memory_};
  int splitLoads_ = 0;
  bool isFirstLane_ = false;    ///< of what is emitted lane by lane
  int depth_ = 0, pulled_ = 0;  ///< elements being computed, each for the one before; elements computed
  bool byElement_ = false;
  std::string problem_;
};

constexpr int64_t kEight = 8;  ///< scalars of 16 bits that one access of 16 bytes moves

/// What a store to a narrow real would round again.
KV beforeRounding(const KV& element, DType dtype);
/// Eight reals in two vectors as four words of 16-bit ones.
KV packedWords(KernelBuilder& kernel, DType narrow, const KV& low, const KV& high);
/// Eight f32 as the words of their high halves and of their low ones, these times `lowScale`. A high half has the 11
/// leading digits, rounded, and what f16 holds of the rest is the low one; that of what is not finite is no number.
std::array<KV, 2> halvedWords(KernelBuilder& kernel, const KV& first, const KV& second, double lowScale = 1);

}  // namespace tg
