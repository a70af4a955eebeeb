// SPDX-License-Identifier: Apache-2.0
// The memory of a running kernel: finds the bytes of an element, and checks accesses.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "runtime/interp/kernel_interp.h"
#include "runtime/interp/kernel_program.h"
#include "runtime/interp/race_shadow.h"

namespace tg {

/// The location of a memory's words while the kernel runs.
struct Region {
  std::byte* data = nullptr;  ///< the bytes of a buffer; null for shared and local memory
  int64_t stride = 0;         ///< size of a word in bytes
  RaceShadow* shadow = nullptr;
  int64_t shadowStart = 0;  ///< index in the shadow of the region's first cell
  int64_t cells = 1;        ///< shadow cells of one word
};

/// The invocation that accesses memory, and the time of the access: epochs and turns as in RaceShadow.
struct Visit {
  uint32_t lane = 0;    ///< in the workgroup
  uint32_t global = 0;  ///< in the grid
  uint32_t epoch = 0, groupStart = 0;
  uint32_t subgroup = 0;  ///< in the grid
  uint32_t turn = 0;
};

/// Counts and describes findings: the part that does not depend on the real type.
class KernelFindings {
 public:
  explicit KernelFindings(const Program& program) : program_(program) {}
  void outOfRange(const Access& access, const Visit& visit, const std::vector<int64_t>& index);
  void race(const Access& access, const Visit& visit, int64_t element, RaceShadow::Touch other);
  void rewrite(const Access& access, const Visit& visit, int64_t element);
  void uninitialised(const Access& access, const Visit& visit, int64_t element);
  void absentLane(const Op& op, const Visit& visit, uint32_t lane);
  /// At the end: finds elements of `out` buffers that no invocation wrote, one for each buffer.
  void checkWritten(const std::vector<Region>& regions, const std::vector<bool>& complete);
  KernelCounters take() { return std::move(counters_); }
  /// Whether the list is full.
  bool full() const { return counters_.findings.size() >= KernelCounters::kMostFindings; }

  /// Sets the bytes of the parameters' regions, and gives shadows to those that are written and to shared memory.
  /// Buffers that overlap share a shadow, so that a race through two names of the same bytes is found.
  void bind(std::span<const KernelBuffer> buffers, std::vector<Region>& regions);
  /// Checks an access against the shadow of its region. `looks`: the old contents matter to the kernel.
  void check(const Access& access, const Region& region, int64_t word, const Visit& visit,
             RaceShadow::Kind kind, bool looks) {
    const Memory& memory = program_.memories[access.memory];
    int64_t element = word / access.width;
    int64_t first = region.shadowStart + word * region.cells, last = first + access.width * region.cells;
    if (looks && memory.startsUndefined()) {
      bool missing = false;
      for (int64_t at = first; at < last; ++at) missing |= region.shadow->unwritten(at, visit.groupStart);
      if (missing) uninitialised(access, visit, element);
    }
    if (access.ofSum) return;
    bool raced = false, again = false, once = kind == RaceShadow::Kind::write && memory.mode == BufMode::out;
    const RaceShadow::Touch by{visit.global, static_cast<uint32_t>(&access - program_.accesses.data()),
                               visit.subgroup, visit.turn};
    RaceShadow::Touch other, unused;
    for (int64_t at = first; at < last; ++at) {
      raced |= region.shadow->touch(at, kind, by, visit.epoch, visit.groupStart, raced ? unused : other);
      if (once) again |= region.shadow->rewritten(at);
    }
    if (raced) race(access, visit, element, other);
    if (again) rewrite(access, visit, element);
  }
  /// Checks an access to local memory, which no other invocation sees.
  void checkLocal(const Access& access, int64_t word, const Visit& visit, RaceShadow::Kind kind, bool looks);
  /// Marks local memory as undefined, for a new workgroup.
  void forgetLocals(uint32_t lanes);

 private:
  void add(const Op& op, std::string_view buffer, const Visit& visit, const std::string& what);

  const Program& program_;
  KernelCounters counters_;
  std::vector<RaceShadow> shadows_;
  std::vector<bool> localWritten_;
};

template <class Real>
class KernelMemory {
 public:
  using Word = LaneWord<Real>;
  using Kind = RaceShadow::Kind;
  static constexpr bool kWide = std::is_same_v<Real, double>;

  KernelMemory(const Program& program, std::span<const KernelBuffer> buffers, uint32_t lanes, bool checks)
      : program_(program), lanes_(lanes), checks_(checks), shared_(program.sharedWords),
        local_(static_cast<size_t>(lanes) * program.localWords), regions_(program.memories.size()),
        findings_(program) {
    for (size_t index = 0; index < regions_.size(); ++index) {
      const Memory& memory = program.memories[index];
      bool given = index < buffers.size();
      regions_[index].data = given ? buffers[index].data : nullptr;
      regions_[index].stride = given ? kernelElementBytes(memory.buffer->type.dtype, kWide) : sizeof(Word);
    }
    if (checks) findings_.bind(buffers, regions_);
  }

  KernelFindings& findings() { return findings_; }
  void checkWritten(const std::vector<bool>& complete) {
    if (checks_) findings_.checkWritten(regions_, complete);
  }

  /// Begins a workgroup: its shared and local memory hold NaN patterns that no arithmetic produces.
  void startGroup() {
    std::ranges::fill(shared_, poison());
    std::ranges::fill(local_, poison());
    if (checks_ && program_.localWords) findings_.forgetLocals(lanes_);
  }
  static Word poison() {
    Word out{};
    if constexpr (kWide)
      out.f = std::bit_cast<double>(uint64_t{0x7ff800007fc0dead});
    else
      out.u = 0x7fc0dead;
    return out;
  }

  /// The first byte of the element that an access names, or null if it is out of range. `looks`: the old contents
  /// matter to the kernel.
  std::byte* locate(const Access& access, const Word* regs, const Visit& visit, Kind kind, bool looks) {
    const Memory& memory = program_.memories[access.memory];
    int64_t element = 0;
    for (size_t axis = 0; axis < access.index.size(); ++axis) {
      Word at = regs[access.index[axis]];
      int64_t index = access.isSigned[axis] ? int64_t{at.i} : int64_t{at.u};
      if (index < 0 || index >= memory.extents[axis]) {
        outside(access, regs, visit);
        return nullptr;
      }
      element = element * memory.extents[axis] + index;
    }
    int64_t word = element * access.width;
    const Region& region = regions_[access.memory];
    if (region.shadow) findings_.check(access, region, word, visit, kind, looks);
    if (region.data) return region.data + region.stride * word;
    if (memory.mode == BufMode::shared) return bytes(shared_[static_cast<size_t>(memory.start + word)]);
    int64_t local = static_cast<int64_t>(visit.lane) * program_.localWords + memory.start + word;
    if (checks_) findings_.checkLocal(access, local, visit, kind, looks);
    return bytes(local_[static_cast<size_t>(local)]);
  }

  void load(const Access& access, const Word* regs, const Visit& visit, Word* to) {
    const std::byte* from = locate(access, regs, visit, Kind::read, true);
    if (!from) {
      std::memset(to, 0, sizeof(Word) * access.width);
      return;
    }
    if (plain(access)) {
      if (access.width == 1)
        std::memcpy(to, from, sizeof(Word));  // inlined, while the other case is a call
      else
        std::memcpy(to, from, sizeof(Word) * access.width);
      return;
    }
    loadParts(access, from, to);
  }

  void store(const Access& access, const Word* regs, const Visit& visit, const Word* value) {
    std::byte* to = locate(access, regs, visit, Kind::write, false);
    if (!to) return;
    if (plain(access)) {
      if (access.width == 1)
        std::memcpy(to, value, sizeof(Word));
      else
        std::memcpy(to, value, sizeof(Word) * access.width);
      return;
    }
    storeParts(access, to, value);
  }

  /// One word of an element that `locate` has found.
  Word get(const Access& access, const std::byte* from, uint32_t part) const {
    int64_t stride = regions_[access.memory].stride;
    from += stride * part;
    Word out{};
    if (stride == sizeof(Word)) {
      std::memcpy(&out, from, sizeof(Word));
    } else if (stride == 2) {  // a 16-bit real
      uint16_t bits;
      std::memcpy(&bits, from, 2);
      out.f = static_cast<Real>(narrowValue(program_.memories[access.memory].buffer->type.dtype, bits));
    } else {
      std::memcpy(&out.u, from, 4);
    }
    return out;
  }
  void put(const Access& access, std::byte* to, uint32_t part, Word value) const {
    int64_t stride = regions_[access.memory].stride;
    to += stride * part;
    if (stride == 2) {
      uint16_t bits = narrowBits(program_.memories[access.memory].buffer->type.dtype, double{value.f});
      std::memcpy(to, &bits, 2);
      return;
    }
    // An integer has only 4 bytes even if reals are f64.
    std::memcpy(to, &value, static_cast<size_t>(stride));
  }

 private:
  /// Whether memory holds elements in the same form as registers.
  bool plain(const Access& access) const { return regions_[access.memory].stride == sizeof(Word); }
  [[gnu::noinline]] void loadParts(const Access& access, const std::byte* from, Word* to) const {
    for (uint32_t part = 0; part < access.width; ++part) to[part] = get(access, from, part);
  }
  [[gnu::noinline]] void storeParts(const Access& access, std::byte* to, const Word* value) const {
    for (uint32_t part = 0; part < access.width; ++part) put(access, to, part, value[part]);
  }
  static std::byte* bytes(Word& word) { return reinterpret_cast<std::byte*>(&word); }
  void outside(const Access& access, const Word* regs, const Visit& visit) {
    std::vector<int64_t> index;
    for (size_t axis = 0; axis < access.index.size(); ++axis) {
      Word at = regs[access.index[axis]];
      index.push_back(access.isSigned[axis] ? int64_t{at.i} : int64_t{at.u});
    }
    findings_.outOfRange(access, visit, index);
  }

  const Program& program_;
  uint32_t lanes_;
  bool checks_;
  std::vector<Word> shared_, local_;
  std::vector<Region> regions_;
  KernelFindings findings_;
};

}  // namespace tg
