// Who touched each word of memory last, to tell accesses that nothing orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tg {

/// One cell of shadow for each word of memory. Time runs in epochs: a barrier or a new workgroup begins
/// one, so that two accesses of a workgroup are ordered when their epochs differ. Nothing orders the
/// accesses of two workgroups to the same storage.
class RaceShadow {
 public:
  enum class Kind : uint8_t { read, write, atomic };

  /// `acrossGroups` is false for shared memory, which every workgroup has anew.
  RaceShadow(int64_t words, bool acrossGroups)
      : cells_(static_cast<size_t>(words)), acrossGroups_(acrossGroups) {}

  /// Notes an access by an invocation (numbered over the whole grid) and says whether it races; then `other`
  /// becomes the invocation that last wrote, or else read, the word.
  /// `groupStart` is the first epoch of the current workgroup; epochs start at 1.
  bool touch(int64_t word, Kind kind, uint32_t lane, uint32_t epoch, uint32_t groupStart, uint32_t& other) {
    Cell& cell = cells_[static_cast<size_t>(word)];
    uint32_t last = cell.writeEpoch ? cell.writer : cell.reader;
    age(cell, groupStart);
    bool raced = races(cell, kind, lane, epoch);
    if (raced) other = last;
    note(cell, kind, lane, epoch);
    return raced;
  }
  /// Marks a word as written; true when it was before.
  bool rewritten(int64_t word) {
    Cell& cell = cells_[static_cast<size_t>(word)];
    bool before = cell.written;
    cell.written = true;
    return before;
  }
  /// Whether nobody wrote a word: in this workgroup if every workgroup has it anew, else in the dispatch.
  bool unwritten(int64_t word, uint32_t groupStart) const {
    const Cell& cell = cells_[static_cast<size_t>(word)];
    return acrossGroups_ ? !cell.everWritten : cell.writeEpoch < groupStart;
  }

 private:
  struct Cell {
    uint32_t writer = 0, writeEpoch = 0, reader = 0, readEpoch = 0;  // epoch 0: never
    bool manyWriters : 1 = false;                                    // in writeEpoch
    bool manyReaders : 1 = false;                                    // in readEpoch
    bool onlyAtomics : 1 = true;                                     // among the writes in writeEpoch
    bool anyPlain : 1 = false;                                       // among all writes so far
    bool foreignWrite : 1 = false;                                   // by an earlier workgroup
    bool foreignRead : 1 = false;
    bool everWritten : 1 = false;  // atomics included
    bool written : 1 = false;      // noted by rewritten()
  };

  /// What an earlier workgroup did becomes foreign.
  void age(Cell& cell, uint32_t groupStart) {
    if (cell.writeEpoch && cell.writeEpoch < groupStart) {
      cell.foreignWrite = acrossGroups_;
      cell.writeEpoch = 0;
    }
    if (cell.readEpoch && cell.readEpoch < groupStart) {
      cell.foreignRead = acrossGroups_;
      cell.readEpoch = 0;
    }
  }
  static bool races(const Cell& cell, Kind kind, uint32_t lane, uint32_t epoch) {
    bool atomic = kind == Kind::atomic;
    if (cell.foreignWrite && !(atomic && !cell.anyPlain)) return true;
    bool sharedWrite = cell.writeEpoch == epoch && (cell.writer != lane || cell.manyWriters);
    if (sharedWrite && !(atomic && cell.onlyAtomics)) return true;
    if (kind == Kind::read) return false;
    return cell.foreignRead || (cell.readEpoch == epoch && (cell.reader != lane || cell.manyReaders));
  }
  static void note(Cell& cell, Kind kind, uint32_t lane, uint32_t epoch) {
    if (kind == Kind::read) {
      cell.manyReaders = cell.readEpoch == epoch && (cell.manyReaders || cell.reader != lane);
      cell.reader = lane;
      cell.readEpoch = epoch;
      return;
    }
    bool again = cell.writeEpoch == epoch;
    cell.manyWriters = again && (cell.manyWriters || cell.writer != lane);
    cell.onlyAtomics = kind == Kind::atomic && (!again || cell.onlyAtomics);
    cell.anyPlain |= kind == Kind::write;
    cell.everWritten = true;
    cell.writer = lane;
    cell.writeEpoch = epoch;
  }

  std::vector<Cell> cells_;
  bool acrossGroups_;
};

}  // namespace tg
