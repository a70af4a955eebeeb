// SPDX-License-Identifier: Apache-2.0
// Records the last accesses to each word of memory, to find data races.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tg {

/// One shadow cell for each word of memory. Time is divided into epochs: a barrier or a new workgroup begins one, so
/// two accesses of a workgroup are ordered if their epochs differ. Accesses of two workgroups to the same storage are
/// never ordered. Within an epoch, an op at which all of a subgroup arrive begins a turn of the subgroup: a later
/// turn's writes are ordered after an earlier turn's reads, and nothing else is.
class RaceShadow {
 public:
  enum class Kind : uint8_t { read, write, atomic };
  /// An access: its invocation and subgroup, numbered over the whole grid, which of the kernel's accesses it is, and
  /// the subgroup's turn.
  struct Touch {
    uint32_t lane = 0, access = 0, subgroup = 0, turn = 0;
  };

  /// `acrossGroups` is false for shared memory, of which each workgroup has its own.
  RaceShadow(int64_t words, bool acrossGroups)
      : cells_(static_cast<size_t>(words)), acrossGroups_(acrossGroups) {}

  /// Records an access and returns whether it races. If so, sets `other` to the last write that it races with, or else
  /// to the last read. `groupStart` is the first epoch of the current workgroup; epochs start at 1.
  bool touch(int64_t word, Kind kind, Touch by, uint32_t epoch, uint32_t groupStart, Touch& other) {
    Cell& cell = cells_[static_cast<size_t>(word)];
    age(cell, groupStart);
    const bool write = racesWithWrite(cell, kind, by.lane, epoch);
    const bool raced = write || racesWithRead(cell, kind, by, epoch);
    if (raced) other = write ? cell.writer : cell.reader;
    note(cell, kind, by, epoch);
    return raced;
  }
  /// Marks a word as written. Returns whether it was already marked.
  bool rewritten(int64_t word) {
    Cell& cell = cells_[static_cast<size_t>(word)];
    bool before = cell.written;
    cell.written = true;
    return before;
  }
  /// Whether a word has not been written: in this workgroup for shared memory, otherwise in the whole dispatch.
  bool unwritten(int64_t word, uint32_t groupStart) const {
    const Cell& cell = cells_[static_cast<size_t>(word)];
    return acrossGroups_ ? !cell.everWritten : cell.writeEpoch < groupStart;
  }

 private:
  /// The last write and the last read of a word, their epochs, and flags about the other accesses.
  struct Cell {
    Touch writer, reader;
    uint32_t writeEpoch = 0, readEpoch = 0;  // 0: never
    bool manyWriters : 1 = false;            // in writeEpoch
    bool manyReaders : 1 = false;            // in readEpoch, and in the last turn if they are of one subgroup
    bool manySubgroups : 1 = false;          // of readers in readEpoch
    bool onlyAtomics : 1 = true;             // among the writes in writeEpoch
    bool anyPlain : 1 = false;               // among all writes so far
    bool foreignWrite : 1 = false;           // by an earlier workgroup
    bool foreignRead : 1 = false;
    bool everWritten : 1 = false;  // atomics included
    bool written : 1 = false;      // noted by rewritten()
  };

  /// Turns the accesses of earlier workgroups into foreign ones.
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
  static bool racesWithWrite(const Cell& cell, Kind kind, uint32_t lane, uint32_t epoch) {
    bool atomic = kind == Kind::atomic;
    if (cell.foreignWrite && !(atomic && !cell.anyPlain)) return true;
    bool sharedWrite = cell.writeEpoch == epoch && (cell.writer.lane != lane || cell.manyWriters);
    return sharedWrite && !(atomic && cell.onlyAtomics);
  }
  static bool racesWithRead(const Cell& cell, Kind kind, Touch by, uint32_t epoch) {
    if (kind == Kind::read) return false;
    if (cell.foreignRead || cell.readEpoch != epoch) return cell.foreignRead;
    if (isLaterTurn(cell, by)) return false;
    return cell.reader.lane != by.lane || cell.manyReaders;
  }
  /// Whether all readers of the cell in this epoch are of the same subgroup as `by`, in earlier turns.
  static bool isLaterTurn(const Cell& cell, Touch by) {
    return !cell.manySubgroups && cell.reader.subgroup == by.subgroup && cell.reader.turn < by.turn;
  }
  static void note(Cell& cell, Kind kind, Touch by, uint32_t epoch) {
    if (kind == Kind::read) {
      const bool again = cell.readEpoch == epoch;
      cell.manyReaders = again && !isLaterTurn(cell, by) && (cell.manyReaders || cell.reader.lane != by.lane);
      cell.manySubgroups = again && (cell.manySubgroups || cell.reader.subgroup != by.subgroup);
      cell.reader = by;
      cell.readEpoch = epoch;
      return;
    }
    bool again = cell.writeEpoch == epoch;
    cell.manyWriters = again && (cell.manyWriters || cell.writer.lane != by.lane);
    cell.onlyAtomics = kind == Kind::atomic && (!again || cell.onlyAtomics);
    cell.anyPlain |= kind == Kind::write;
    cell.everWritten = true;
    cell.writer = by;
    cell.writeEpoch = epoch;
  }

  std::vector<Cell> cells_;
  bool acrossGroups_;
};

}  // namespace tg
