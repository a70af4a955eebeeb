// The primal side of a VJP: the forward sweep, what it keeps, and how a backward step gets at a value of the
// kernel again.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/kernel/builder.h"
#include "ir/kernel/kernel.h"

namespace tg {

/// Facts about a kernel that never change while it is differentiated.
class KernelFacts {
 public:
  explicit KernelFacts(const Item& kernel);
  const Item& kernel() const { return kernel_; }
  /// The block whose op or argument the value is.
  const Block* owner(const Value* value) const { return owner_.at(value); }
  /// The loops around a value, outermost first.
  std::vector<const Op*> loopsAround(const Value* value) const;
  /// Whether the value stands nowhere but in the kernel's body and bodies of `if`.
  bool outsideLoops(const Value* value) const { return loopsAround(value).empty(); }
  /// Whether anything is written to the buffer.
  bool isMutable(const Value* buffer) const { return mutable_.contains(buffer); }
  /// Whether the value comes from memory that changes: it can only be kept, not computed again.
  bool isMemory(const Value* value) const;
  /// Results of memory in a block and its ifs, but not in loops.
  std::vector<const Value*> memoryIn(const Block& block) const;
  /// Whether invocations meet inside an if or loop, which then must stay uniform.
  bool meetsInside() const { return meetsInside_; }
  const Uniformity& uniformity() const { return uniformity_; }
  /// Whether all invocations of a workgroup enter an op's bodies, and equally often.
  bool entersUniformly(const Op& op) const;
  /// The trips of a loop whose bounds are literals, else -1.
  static int64_t staticTrips(const Op& loop);

 private:
  void visit(const Block& block, const Op* parent);

  const Item& kernel_;
  Uniformity uniformity_;
  std::unordered_map<const Value*, const Block*> owner_;
  std::unordered_map<const Block*, const Op*> parent_;
  std::unordered_map<const Block*, const Block*> outer_;
  std::unordered_set<const Value*> mutable_;
  bool meetsInside_ = false;
};

/// What a reversed loop needs to know of its primal.
struct LoopBounds {
  KV from, step, trips;
};

class Replay {
 public:
  /// Builds into `builder`; `buffers` maps the kernel's parameters to those of the VJP.
  Replay(const KernelFacts& facts, KernelBuilder& builder, std::unordered_map<const Value*, Value*> buffers);

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

  /// The launch axes that are not 1, whose global ids tell invocations apart.
  const std::vector<int>& launchAxes() const { return launchAxes_; }
  /// The trips that the axes of a kept buffer count.
  const std::unordered_map<const Value*, std::vector<const Op*>>& tapes() const { return tapes_; }
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

  const KernelFacts& facts_;
  KernelBuilder& builder_;
  std::unordered_map<const Value*, Value*> buffers_;
  std::vector<Frame> frames_;
  std::unordered_map<const Value*, KV> held_;  ///< memory outside of loops, as values of the body
  std::unordered_map<const Value*, Slot> slots_;
  std::unordered_map<const Value*, std::vector<const Op*>> tapes_;
  std::unordered_set<const Op*> keptForward_;
  std::vector<int> launchAxes_;
  int loopDepth_ = 0;
  bool rankExceeded_ = false;
};

}  // namespace tg
