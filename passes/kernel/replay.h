// SPDX-License-Identifier: Apache-2.0
// The primal side of a VJP: the forward sweep, what it keeps, and how a backward step gets at a value of the
// kernel again.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/kernel/builder.h"
#include "ir/kernel/kernel.h"
#include "passes/kernel/kernel_facts.h"

namespace tg {

/// What a reversed loop needs to know of its primal.
struct LoopBounds {
  KV from, step, trips;
};

class Replay {
 public:
  /// Builds into `builder`; `buffers` maps the kernel's parameters to those of the VJP. Shared buffers that
  /// are filled again take at most `sharedBytes` of shared memory; the others are filled in tapes.
  Replay(const KernelFacts& facts, KernelBuilder& builder, std::unordered_map<const Value*, Value*> buffers,
         int64_t sharedBytes);

  /// Runs the kernel's body without its stores to out and accum buffers, keeping what memory holds.
  void sweep();

  /// A value of the kernel here, where it belongs to an open block: computed or fetched at most once for
  /// each block.
  KV primal(const Value* value);
  /// An operand, of which a literal has type `wanted`.
  KV primal(const Operand& operand, DType wanted);
  /// Operand `index` of an op that is a value or a literal.
  KV operand(const Op& op, int index);
  /// The indices of an element.
  std::vector<KV> indices(const Operand& element);
  Value* buffer(const Value* primal) const { return buffers_.at(primal); }

  LoopBounds bounds(const Op& loop);
  /// Runs a loop forward here to keep its carried values, unless they are kept already.
  void keepCarried(const Op& loop);

  /// Opens a block for a backward step: `index` is the loop's index and `trip` counts from 0; null of an if.
  void open(const Block& block, bool uniform, const KV* index = nullptr, const KV* trip = nullptr);
  void close() { frames_.pop_back(); }
  /// Whether all invocations of the workgroup are where we are.
  bool uniformFlow() const { return frames_.back().uniform; }

  /// What the axes of a tape count: the trips of loops, then invocations (or workgroups) along launch axes;
  /// its own extents follow.
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
    KV trip;  ///< of a loop's body
    std::unordered_map<const Value*, KV> memo;
    std::unordered_set<const Op*> kept;  ///< loops whose carried values were kept since the block opened
    bool filled = false;                 ///< the block's buffers were filled again since it opened
  };
  struct Slot {
    Value* buffer = nullptr;
    std::vector<const Op*> loops;
    bool local = false;
    Type type;
  };
  using Body = std::function<void()>;

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
    std::vector<int> groups;  ///< a tape's launch axes, whose workgroup ids come before the indices
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
  std::unordered_map<const Value*, KV> held_;  ///< memory outside of loops, as values of the body
  std::unordered_map<const Value*, Slot> slots_;
  std::unordered_map<const Value*, TapeAxes> tapes_;
  std::unordered_map<const Refill*, FilledAgain> refills_;
  std::unordered_set<const Op*> keptForward_;
  std::vector<int> launchAxes_;
  int loopDepth_ = 0;
  bool sweeping_ = false;  ///< forward
  bool rankExceeded_ = false;
};

}  // namespace tg
