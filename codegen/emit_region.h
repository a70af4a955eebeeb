// SPDX-License-Identifier: Apache-2.0
// Emits kernel code for the values of a fused region. Code is generated on demand, from the results back to the
// bindings ("pulling"): the code of an element of a value is the code of its defining op, applied to the code of
// the operands' elements at the indices that the op maps to. Every op that a region may hold can be pulled at any
// index; a schedule's lowering only decides which invocation pulls which elements, and where it stores them.
//
// An element that was emitted once is reused while its definition dominates the point of use (see `known_`).
// Indices are symbolic (codegen/index.h), so that views cost index arithmetic alone, and four neighbouring elements
// are one vector operation where their addresses allow it.
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

/// How the invocations that share a row divide its reductions. A reduction is shared if its indices depend on
/// nothing but the row.
struct RowLanes {
  int64_t width = 1;     ///< invocations that share a row; 1: each invocation computes its reductions alone
  Index row;             ///< the row, the same in all of these invocations
  Index lane;            ///< this invocation's number among them, 0 … width-1
  int level = 0;         ///< values defined in scopes up to this depth are the same in all of them
  int64_t vec = 1;       ///< neighbouring elements of the row that an invocation takes at a time
  int64_t subgroup = 1;  ///< subgroup width that the combining step relies on; 1: it relies on none
  /// If not 0, the workgroup works on `side` rows at a time and invocation lane·side + i works on row i. If 0, a
  /// workgroup has one row, or each of its subgroups has one.
  int64_t side = 0;
};

class RegionEmitter {
 public:
  RegionEmitter(KernelBuilder& kernel, IndexSpace& space, const Op& fused, const PlainRegion& region,
                const std::vector<bool>& mayTexel);

  /// The element of v at the indices; a vector of four elements if an index has the lane variable.
  KV emit(const Value* v, const Indices& at);
  /// Element `offset` of v in row-major order.
  KV emitLinear(const Value* v, const Index& offset);
  /// Declares that `value` is the element of v at these indices, as a tiled contraction does with its sums.
  void define(const Value* v, const Indices& at, const KV& value);
  /// Stores the element of result `slot` at a row-major offset; four elements if the offset has the lane variable.
  void store(int slot, const Index& offset);
  /// Stores eight neighbouring elements of a 16-bit result in one access of 16 bytes: the four at `offset`, which
  /// has the lane variable, and the four behind them.
  void storeWords(int slot, const Index& offset);
  /// The buffer of a result, or of a binding, as a matrix of `rows` x `columns` that cooperative matrices are
  /// loaded from and stored to: f32 elements, or, for 16-bit types, vectors of four words with eight elements each.
  /// `bindingRows` gives null if the value is not a binding in a storage buffer.
  Value* resultRows(int slot, int64_t rows, int64_t columns);
  Value* bindingRows(const Value* v, int64_t rows, int64_t columns);
  /// The buffer of a binding as scalars; null where the value is not a binding in a storage buffer.
  Value* bindingElements(const Value* v);
  /// Loads eight neighbouring 16-bit elements of v without converting them: the four at `first` and the four at
  /// `second`, as four words. Gives nothing unless v is a binding of type `narrow` behind views and casts from it,
  /// read from storage, and the eight are contiguous and aligned.
  std::optional<KV> words(const Value* v, DType narrow, Indices first, Indices second);
  /// Stores a given element of result `slot`, in place of the one that the region's ops would compute.
  void store(int slot, const Index& offset, KV element);

  /// From now on reads storage buffers one scalar at a time, so that none is bound a second time as vectors.
  void readByElement() { byElement_ = true; }
  void shareRows(RowLanes rows) { rows_ = rows; }
  /// Begins a part of a kernel, which has workgroups of its own: no rows are shared yet, and the part may reuse the
  /// shared memory of the parts before it.
  void startPart() {
    rows_ = {};
    slotsTaken_.assign(slots_.size(), false);
  }
  /// Emits every reduction among `ops` along rows of `length` elements, for one row, so that later uses reuse it.
  void pullRowReductions(const Index& row, int64_t length, const std::unordered_set<const Op*>& ops);
  /// Emits a load of every binding of rank 0 that `ops` read, so that later uses reuse it.
  void pullNumbers(const std::unordered_set<const Op*>& ops);

  using AtTwo = std::function<KV(const Index&, const Index&)>;
  /// body(a, b) where a < countA and b < countB, else 0. The body is evaluated in either case, at indices that are
  /// clamped into range.
  KV within(const Index& a, int64_t countA, const Index& b, int64_t countB, const AtTwo& body);
  /// The predicate index < count, and an index that is always below count and equals `at` where the predicate
  /// holds.
  std::pair<KV, Index> below(const Index& at, int64_t count) {
    Hit part = hit(at, 0, count);
    return {part.cond, part.inside};
  }
  /// The same for an element of a shared row. Where the predicate is false, the invocation reads an element of its
  /// own or loads nothing: in an in-place kernel another invocation may already have overwritten any other element.
  std::pair<KV, Index> ofRow(const Index& at, int64_t count);
  /// Runs body(a, b) only where a < countA and b < countB.
  void whereInside(const Index& a, int64_t countA, const Index& b, int64_t countB,
                   const std::function<void(const Index&, const Index&)>& body);

  const std::vector<LoweredKernel::Param>& params() const { return params_; }
  /// Number of scalar loads emitted where a vector was asked for. Schedules compare trial lowerings by it.
  int splitLoads() const { return splitLoads_; }
  /// What makes the kernel wrong; empty if nothing does.
  const Error& problem() const { return problem_; }

  KernelBuilder& kernel() { return kernel_; }
  IndexSpace& space() { return space_; }

 private:
  /// Caches an emitted element under a key made of its value and indices.
  void remember(std::string_view key, const KV& value);
  /// Emits an element that is not cached, unless the region exceeds a limit (see `problem`).
  KV compute(const Value* v, const Indices& at);
  /// Dispatches to a load if v is a binding, else to the rule of its op.
  KV pull(const Value* v, const Indices& at);
  template <class Row, Scalar scalar, table::Fusion fusion, unsigned traits, unsigned where>
  KV pullRow(const Op& op, const Indices& at);
  /// Loads element `offset` of a binding, in row-major order.
  KV load(int binding, const Index& offset);
  /// The same for an offset without the lane variable.
  KV loadOne(int binding, const Index& offset);
  /// Loads buffer[index], which holds element `offset`. Guarded where the element belongs to an idle invocation.
  KV loadWhere(Value* buffer, const Index& index, const Index& offset);
  /// The vector of v at the four lanes, emitted one by one: for ops and views that would tear a vector apart.
  KV lanewise(const Value* v, const Indices& at);
  KV elementwise(const Op& op, const Indices& at);
  /// The code of one element of an op's result. Each row of ops.def that is neither elementwise nor composite has a
  /// definition in the file of its family; a program that lacks one does not link, and the linker names the row.
#define OP(id, ...) KV element(at::id, const Op& op, const Indices& at);
#include "ir/ops.def"
#undef OP
  /// The element of an operand that is broadcast to shape `to`.
  KV broadcastOperand(const Value* v, const Shape& to, const Indices& at);
  Index windowOffset(const Index& k, int64_t size, int64_t dilation);
  /// Maps indices of the result of tg.unfold to indices of its operand.
  Indices unfolded(const Op& op, const Indices& at);
  KV reduction(const Op& op, const Indices& at);
  KV argExtremum(const Op& op, const Indices& at);
  /// The four random words of four neighbouring elements, from one call of Philox.
  std::array<KV, kLanes> randomQuad(const Op& op, const Index& quad);
  KV sharedReduction(const Op& op, Indices in, const std::vector<int>& axes, int level);
  /// The zero that a sum at these indices starts from: a scalar, or a vector if an index has the lane variable.
  KV zeroAt(int level, const Indices& at, DType dtype);
  /// An element of a tg.scatter_add with `order` and `offsets`.
  KV sortedScatter(const Op& op, const Indices& at);
  /// Recognises sum(select(iota == id, x, 0)) along one axis, which has a single term: the element of x at the id,
  /// or 0 if the id is out of range. Gives nothing for any other reduction.
  std::optional<KV> soleTerm(const Op& op, Indices in, const std::vector<int>& axes);
  /// Combines the partial results of the invocations that share a row; all of them get the total.
  KV combined(const KV& partial, Opcode combine);
  KV combinedSides(const KV& partial, Opcode combine);
  /// A shared buffer of this type that no other reduction of this part uses.
  Value* slotsFor(const Type& type);
  /// Whether the invocations of a row share a reduction whose result has these indices.
  bool isShared(const Indices& at) const;
  /// The operand's indices for indices of a reduction's result; those of the reduced axes are left for the caller.
  static Indices keptIndices(const Op& op, const Indices& at);

  /// The test whether an index lies in [low, low + extent) of an axis: the predicate, and the index relative to
  /// low, clamped so that it is always in [0, extent). Where the predicate is false the latter is near `elsewhere`.
  /// `split` asks the caller to emit the four lanes one by one, because the predicate may differ between them.
  struct Hit {
    KV cond;
    Index inside;
    bool split = false;
  };
  Hit hit(const Index& at, int64_t low, int64_t extent, const Index& elsewhere = {});
  KV quotient(Index index, int64_t number, int64_t step);
  /// The predicate that an id is in [0, extent), and an index that always is.
  Hit idHit(const KV& id, int64_t extent);
  /// For an element of the axis that tg.fold sums into: the window that round `trip` adds to it, with its
  /// predicate, and the element's place k in that window. The rounds together visit every window once.
  Hit hitWindow(const Op& fold, const Index& element, const Index& trip, Index* k);
  KV horizontal(const KV& vector, Opcode combine);
  static constexpr int64_t kInlined = 4;  ///< default of `over`: so many pieces or fewer are unrolled
  /// Carries `init` through body(index, carried) over an axis in pieces of `step`, as straight code for up to
  /// `inlined` pieces, else as a loop that is unrolled up to `inlined` times. The code is placed at scope `level`.
  /// `sums` says that the carried values are sums: a long loop then adds up blocks (KernelBuilder::sumLoop), and
  /// `init` must be zero if there are more than two blocks.
  std::vector<KV> over(int level, int64_t extent, int64_t step, const std::vector<KV>& init,
                       const std::function<std::vector<KV>(const Index&, const std::vector<KV>&)>& body,
                       int64_t inlined = kInlined, bool sums = false);
  /// The same for one carried sum.
  KV sumOver(int level, int64_t extent, int64_t step, const KV& zero,
             const std::function<KV(const Index&, const KV&)>& body, int64_t inlined = kInlined);
  /// The depth of the innermost scope that the indices depend on, where the element's code is placed.
  int levelOf(const Indices& at) const;
  Value* parameterFor(bool isResult, int slot, bool vector);
  /// The parameter for a binding or result slot, made on first use. A slot may be bound once for each `form`, a
  /// letter for the type: s for scalars, v for vectors of four, w for words of eight 16-bit elements, m for matrix
  /// rows.
  Value* parameterAs(bool isResult, int slot, char form, const Type& type);

  KernelBuilder& kernel_;
  IndexSpace& space_;
  const Op& fused_;
  const PlainRegion& region_;
  const std::vector<bool>& mayTexel_;
  RowLanes rows_;
  std::unordered_map<int, KV>
      busy_;  ///< index variables of which not every invocation has an element, and their predicates
  std::vector<Value*> slots_;     ///< shared memory in which reductions combine
  std::vector<bool> slotsTaken_;  ///< whether this part uses them
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
  bool isFirstLane_ = false;    ///< while the first lane of a vector is emitted lane by lane
  int depth_ = 0, pulled_ = 0;  ///< nesting of `compute`; elements computed so far
  bool byElement_ = false;
  Error problem_;
};

constexpr int64_t kEight = 8;  ///< 16-bit scalars that one access of 16 bytes moves

/// The value before a rounding to `dtype`, if the element is such a rounding: the store rounds it anyway.
KV beforeRounding(const KV& element, DType dtype);
/// Eight reals in two vectors as four words of two 16-bit reals each.
KV packedWords(KernelBuilder& kernel, DType narrow, const KV& low, const KV& high);
/// Splits eight f32, for f32x3: the words of their high halves and of their low halves times `lowScale`. The high
/// half is x rounded to 11 digits, the low half is what f16 holds of x - high. Low is NaN where x is not finite.
std::array<KV, 2> halvedWords(KernelBuilder& kernel, const KV& first, const KV& second, double lowScale = 1);

}  // namespace tg
