// SPDX-License-Identifier: Apache-2.0
// The forward part of a VJP: runs the kernel forward, keeps values that cannot be computed again, and gives the backward
// sweep any value of the kernel.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/kernel/builder.h"
#include "ir/kernel/kernel.h"
#include "passes/kernel/kernel_facts.h"

namespace tg {

/// The bounds of a loop's forward run, for its reversal.
struct LoopBounds {
  KV from, step, trips;
};

/// Holds a stack of frames, one for each open block of the kernel. A frame's memo has the values of its block that were
/// computed here already.
class Replay {
 public:
  /// Builds into `builder`; `buffers` maps the kernel's parameters to those of the VJP. Shared buffers that are filled again
  /// take at most `sharedBytes` of shared memory; the rest of them become tapes.
  Replay(const KernelFacts& facts, KernelBuilder& builder, std::unordered_map<const Value*, Value*> buffers,
         int64_t sharedBytes);

  /// Runs the kernel's body forward, without its stores to out and accum buffers, and keeps values read from memory.
  void sweep();

  /// A value of the kernel, whose block must be open. It is computed or fetched at most once for each opening of the block.
  KV primal(const Value* value);
  /// An operand; a literal gets the type `wanted`.
  KV primal(const Operand& operand, DType wanted);
  /// Operand `index` of an op, which is a value or a literal.
  KV operand(const Op& op, int index);
  /// An if on the condition of `op`: body(0), and body(1) where `op` has another region or there are results, of `types`.
  std::vector<KV> branch(const Op& op, const std::vector<Type>& types,
                         const std::function<std::vector<KV>(size_t region)>& body);
  /// The indices of an element.
  std::vector<KV> indices(const Operand& element);
  Value* buffer(const Value* primal) const { return buffers_.at(primal); }

  LoopBounds bounds(const Op& loop);
  /// Runs a loop forward here to keep its carried values, unless they are kept already.
  void keepCarried(const Op& loop);

  /// Opens a block for the backward sweep. For a loop, `index` is the loop's index and `trip` its number from 0; null for an
  /// if.
  void open(const Block& block, bool uniform, const KV* index = nullptr, const KV* trip = nullptr);
  void close() { frames_.pop_back(); }
  /// Whether all invocations of the workgroup reach the current place.
  bool uniformFlow() const { return frames_.back().uniform; }

  /// The axes of a tape: the trips of loops, then invocations (or workgroups) along the launch axes; the extents of the
  /// value follow.
  struct TapeAxes {
    std::vector<const Op*> loops;
    std::vector<int> launch;
    bool ofGroups = false;
  };
  const std::unordered_map<const Value*, TapeAxes>& tapes() const { return tapes_; }
  bool rankExceeded() const { return rankExceeded_; }

 private:
  enum class Kind : uint8_t { forward, backward, again };
  struct Frame {
    const Block* block;
    int level;
    Kind kind;
    bool uniform;
    KV trip;  ///< for a loop's body: the number of the trip
    std::unordered_map<const Value*, KV> memo;
    std::unordered_set<const Op*> kept;  ///< loops whose carried values were kept since the block was opened
    bool filled = false;  ///< whether the block's buffers were filled again since it was opened
  };
  struct Slot {
    Value* buffer = nullptr;
    std::vector<const Op*> loops;
    bool local = false;
    Type type;
  };
  using Body = std::function<void()>;

  void enter(const Block& block, Kind kind, bool uniform, const KV& trip = {}) {
    frames_.push_back({&block, builder_.depth(), kind, uniform, trip, {}, {}});
  }
  void forward(const Block& block);
  void forwardOp(const Op& op);
  void forwardWrite(const Op& op);
  void forwardIf(const Op& op);
  void forwardLoop(const Op& op);
  void run(size_t frame, const Body& body);
  void make(const Value* value);
  KV compute(const Op& op);
  void branchAgain(const Op& op);
  void loopAgain(const Op& op, bool keep);
  std::vector<KV> runLoop(const Op& op, Kind kind, bool keep, const std::function<void(const Block&)>& body);
  std::vector<KV> yields(const Block& block, const std::vector<Type>& types);
  Slot& slotOf(const Value* value, std::vector<const Op*> loops);
  std::vector<KV> place(const Slot& slot);
  void keep(const Value* value, const KV& held, std::vector<const Op*> loops);
  KV fetch(const Value* value);

  // replay_refill.cpp
  struct FilledAgain {
    Value* buffer = nullptr;
    std::vector<int> groups;  ///< for a tape: the launch axes, whose workgroup ids precede the indices
  };
  void declareRefills(int64_t sharedBytes);
  FilledAgain tapeFor(const Value& primal);
  KV loaded(const Op& op);
  void fill(const Block& block);
  bool stays(const Refill& refill) const;
  bool fills(const Op& op, const Block& block) const;
  void fillBy(const Op& op, const Block& block);
  std::vector<KV> placeAgain(const FilledAgain& target, const Operand& element);

  const KernelFacts& facts_;
  KernelBuilder& builder_;
  std::unordered_map<const Value*, Value*> buffers_;
  std::vector<Frame> frames_;
  std::unordered_map<const Value*, KV> held_;  ///< values from memory outside of loops, as values of the body
  std::unordered_map<const Value*, Slot> slots_;
  std::unordered_map<const Value*, TapeAxes> tapes_;
  std::unordered_map<const Refill*, FilledAgain> refills_;
  std::unordered_set<const Op*> keptForward_;
  std::vector<int> launchAxes_;
  int loopDepth_ = 0;
  bool sweeping_ = false;  ///< whether the forward sweep is running
  bool rankExceeded_ = false;
};

}  // namespace tg
