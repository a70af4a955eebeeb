// SPDX-License-Identifier: Apache-2.0
// Plans one function: live ranges, buffers and offsets of its values.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/access.h"
#include "ir/divide.h"
#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"
#include "ir/verify.h"
#include "passes/plan/groups.h"
#include "passes/plan/offsets.h"
#include "passes/plan/order.h"
#include "passes/plan/recompute.h"

namespace tg::plan {

/// The values that must be contiguous: `%a`, a lone value, or `[%a, %b, …]`, the run of a group or of a tg.adjoin. Each
/// member of a run keeps its bytes only from its own first write to its own last read, with the padding behind it.
struct Unit {
  enum class Room { home, io, arena };
  std::vector<Value*> members;
  std::vector<int64_t> offsets;  ///< of the members, from the unit's start
  int64_t bytes = 0;
  bool group = false;
  const Value* whole = nullptr;  ///< the result of the tg.adjoin of the members
  Room room = Room::arena;
  int first = 0, last = 0;  ///< the op that writes it first, and the one that reads it last
  int firstBlock = 0;       ///< the first of its blocks: one for each member if inParts(), otherwise one
  int from = 0,
      to = 0;  ///< first op of the first interval and last op of the last one that it keeps its bytes for
  int64_t offset = 0;        ///< in its buffer
  int takesOver = -1;        ///< the unit whose bytes it takes, in place
  bool taken = false;        ///< whether another unit takes its bytes
  Value* inplace = nullptr;  ///< the first member of the unit whose bytes it takes
  /// A range of bytes that is zeroed in front of an op: the padding behind a member that is written by itself. In @io, where
  /// no bytes are freed meanwhile, one fill may extend over members that are not written yet, but never over an argument.
  struct Fill {
    int64_t from = 0, to = 0;  ///< from the unit's start
    size_t member = 0;         ///< the member whose padding it begins with
    int before = 0;            ///< the op
  };
  std::vector<Fill> fills;

  /// Whether each member has bytes of its own, which other units may use while the member is not alive.
  bool inParts() const { return group && room == Room::arena; }
  int blocks() const { return inParts() ? static_cast<int>(members.size()) : 1; }
  /// The bytes from a member's start to the next member's, or to the unit's end.
  int64_t bytesOf(size_t member) const {
    return (member + 1 < offsets.size() ? offsets[member + 1] : bytes) - offsets[member];
  }
};

/// A unit that is alive at an op, and how many of its bytes are.
struct LiveUnit {
  const Unit* unit = nullptr;
  int64_t bytes = 0;
};

/// A unit as text for messages: `%a : TYPE`, or the first member of a group and their number.
std::string describe(const Unit& unit);

struct SlotOf;

/// Live ranges, buffers and offsets of one function of a fused module. Requires: parameters and states have homes.
class FunctionPlan {
 public:
  FunctionPlan(const Module& module, Item& func, const Target& target)
      : module_(module), func_(func), target_(target) {}

  /// Finds units, live ranges and rooms, chooses results that are in place, and packs the arena. With `slack`, first puts
  /// the kernels into an order of few barriers, unless the arena would then exceed `room`, or its lower bound by more than
  /// `slack` and more than a twentieth (48 MiB at most).
  Result<void> analyse(std::optional<int64_t> slack, int64_t room = kMaxBytes);
  /// The kernels in text order; sets `bytes` to the size of each block. The last element stands for the reads of the host.
  Result<std::vector<Kernel>> kernelsOfText(std::vector<int64_t>* bytes);
  /// Writes places and fills into the function; units in @io start at `ioOffset`. Returns the new end of @io.
  int64_t apply(int64_t ioOffset);
  /// The end of @io that `apply` would return.
  int64_t ioEnd(int64_t ioOffset) const;

  int64_t arenaBytes() const { return arenaBytes_; }
  int64_t arenaBound() const { return arenaBound_; }
  int kernels() const { return kernels_; }
  /// Barriers that dependences between values need: in the chosen order, and in text order.
  int barriers() const { return barriers_; }
  int barriersOfText() const { return barriersOfText_; }
  /// The units of the arena alive at the peak of live bytes, in order of definition; sets `at` to the op there. Call it
  /// before apply.
  std::vector<LiveUnit> livePeak(const Op** at) const;

 private:
  struct Reading {
    int op;       ///< index into ops_
    int binding;  ///< index of the binding of a tg.fused, otherwise -1
  };
  /// What is known of an argument or result.
  struct Facts {
    int unit = -1;    ///< the unit that holds it; -1 for reads of symbols
    int member = 0;   ///< its index among the unit's members
    int defined = 0;  ///< the index of the op that defines it; 0 for arguments
    std::vector<Reading> readings;
    /// A result of tg.all_reduce is in the bytes of its operand: the operand's result, and the result's operand.
    Value *takenOverBy = nullptr, *source = nullptr;
    const Op* update = nullptr;     ///< the first update that commits it, or a value to which it is a step
    const Value* stepTo = nullptr;  ///< of a step of an update: the value computed from it (findSteps)
  };
  /// The op that writes a value first, and the one that reads it last.
  struct Life {
    int first = 0, last = 0;
  };
  const Facts& factsOf(const Value& value) const { return facts_.at(&value); }
  const Unit* unitOf(const Value& value) const {
    const int unit = factsOf(value).unit;
    return unit < 0 ? nullptr : &units_[unit];
  }
  Result<void> findPlaces();
  std::vector<Value*> ownValues() const;
  Result<std::vector<Sequence>> findSequences(const std::unordered_map<const Value*, int>& keyOf) const;
  Result<void> findUnits();
  void findReadings();
  const Value* stepTo(const Op& op, const ResultSlot& slot, int slotIndex) const;
  void findSteps();
  const Reading* firstReading(const Value& value) const;
  void chooseHeld();
  void holdSources();
  Value* takenOverBy(Value* value) const;
  /// Calls `use` with each op that defines or reads a member of a unit, or a value that collectives reduce into it.
  template <class Function>
  void eachAccess(const Value* member, Function use) const {
    for (; member; member = factsOf(*member).source) {
      use(factsOf(*member).defined);
      for (const Reading& reading : factsOf(*member).readings) use(reading.op);
    }
  }
  void addUnit(std::vector<Value*> members, bool group);
  Life lifeOf(const Value& member) const;
  void setLifetimes();
  void setBlocks();
  int blockOf(const Value& value) const;
  void setIntervals();
  std::vector<Task> makeTasks() const;
  struct Added;
  void addDependences(Task& task, int op, const std::vector<int>& taskAt, Added& added) const;
  void addTakeOvers(Task& task, int op) const;
  std::vector<int64_t> blockBytes() const;
  Result<void> arrange(const std::vector<Op*>& regions, const std::vector<int>& starts);
  Result<void> order(std::optional<int64_t> slack, int64_t room);
  int intervalStart(int op) const;
  int intervalEnd(int op) const;
  int lastOther(const Unit& unit, int op) const;
  void setRooms();
  void setFills();
  bool fitsHome(const Unit& unit, int64_t* home) const;
  Place homeOf(const Op& symbolOp) const {
    return rowsHome(symbolOp, *module_.storage(symbolOp.operands[0].text));
  }
  bool homeIsFree(const Value& successor, const SlotOf& slot, int64_t start,
                  std::vector<Reading>& shared) const;
  void chooseInPlace();
  void tryInPlace(int op, const ResultSlot& slot, int slotIndex);
  bool mayShare(int op, int binding, int slotIndex, const Unit& unit) const;
  bool mayTakeOver(const Unit& unit, const Op& op, const ResultSlot& slot) const;
  void dropNeedlessInPlace();
  std::vector<Piece> piecesOf(const Unit& unit, bool intervals) const;
  /// One allocation for each chain of units in place of each other. With `intervals` it is alive for whole intervals,
  /// otherwise only from first write to last read.
  std::vector<Alloc> allocations(bool intervals = true) const;
  void pack();
  bool defines(const Unit& unit, const Op& op, const ResultSlot& slot) const;
  bool mayRunAgain(const Op& op) const;
  void findRepeats(std::vector<Kernel>& kernels) const;
  Result<void> checkRanges() const;
  void markHomesInPlace();
  void insertFills();

  const Module& module_;
  Item& func_;
  std::vector<Op*> ops_;  ///< of the function, in order
  const Target& target_;
  std::vector<Unit> units_;
  std::unordered_map<const Value*, Facts> facts_;  ///< of all arguments and results
  std::unordered_set<const Op*>
      holds_;  ///< tg.reduce_scatter whose operands stay alive until a result is read
  std::unordered_map<int, std::vector<const Value*>>
      held_;  ///< these operands, by the first op that reads the result
  std::unordered_map<std::string, std::vector<const Value*>>
      reads_;  ///< symbol -> results of its param/state ops
  /// The first op of each interval between barriers. Empty: every op is an interval of its own.
  std::vector<int> intervals_;
  int blocks_ = 0;
  int64_t arenaBytes_ = 0, arenaBound_ = 0;
  int kernels_ = 0, barriers_ = 0, barriersOfText_ = 0;
};

/// Whether a value is a read of a parameter or state.
inline bool isSymbolRead(const Value& value) { return value.def && readsSymbol(*value.def); }
/// Whether a value has its place from a symbol or an argument.
inline bool isEntry(const Value& value) { return value.def && readsEntry(*value.def); }

}  // namespace tg::plan
