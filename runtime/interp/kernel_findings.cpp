// SPDX-License-Identifier: Apache-2.0
// Counts and describes what is wrong with a kernel's accesses.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/divide.h"
#include "runtime/interp/kernel_memory.h"

namespace tg {
void KernelFindings::add(const Op& op, std::string_view buffer, const Visit& visit, const std::string& what) {
  if (full()) return;
  std::string at = locString(op.loc);
  counters_.findings.push_back(fmt::format("{}{}{}{}{}: {}, invocation {}", at, at.empty() ? "" : ": ",
                                           op.info().name, buffer.empty() ? "" : " on %", buffer, what,
                                           visit.global));
}

void KernelFindings::outOfRange(const Access& access, const Visit& visit, const std::vector<int64_t>& index) {
  if (access.ofSum) return;  // the store that follows reports it
  ++counters_.outOfRange;
  add(*access.op, access.buffer->name, visit,
      fmt::format("index [{}] is out of range", fmt::join(index, ", ")));
}

void KernelFindings::race(const Access& access, const Visit& visit, int64_t element,
                          RaceShadow::Touch other) {
  ++counters_.races;
  const Op& with = *program_.accesses[other.access].op;
  std::string at = locString(with.loc);
  add(*access.op, access.buffer->name, visit,
      fmt::format("element {} races with {}{}{}, invocation {}", element, with.info().name,
                  at.empty() ? "" : " at ", at, other.lane));
}

void KernelFindings::rewrite(const Access& access, const Visit& visit, int64_t element) {
  ++counters_.rewrites;
  add(*access.op, access.buffer->name, visit, fmt::format("element {} is written again", element));
}

void KernelFindings::uninitialised(const Access& access, const Visit& visit, int64_t element) {
  ++counters_.uninitialised;
  add(*access.op, access.buffer->name, visit, fmt::format("element {} was never written", element));
}

void KernelFindings::checkWritten(const std::vector<Region>& regions, const std::vector<bool>& complete) {
  for (size_t index = 0; index < std::min(regions.size(), complete.size()); ++index) {
    const Memory& memory = program_.memories[index];
    const Region& region = regions[index];
    if (memory.mode != BufMode::out || !complete[index]) continue;
    for (int64_t word = 0; word < memory.words; ++word) {
      if (!region.shadow->unwritten(region.shadowStart + word * region.cells, 0)) continue;
      ++counters_.uninitialised;
      counters_.findings.push_back(fmt::format("no invocation stores element {} of %{}",
                                               word / memory.buffer->type.lanes, memory.buffer->name));
      break;
    }
  }
}

void KernelFindings::absentLane(const Op& op, const Visit& visit, uint32_t lane) {
  ++counters_.uninitialised;
  add(op, {}, visit, fmt::format("lane {} of the subgroup has not arrived", lane));
}

void KernelFindings::bind(std::span<const KernelBuffer> buffers, std::vector<Region>& regions) {
  std::vector<size_t> byAddress(buffers.size());
  for (size_t index = 0; index < buffers.size(); ++index) byAddress[index] = index;
  std::ranges::sort(byAddress, [&](size_t a, size_t b) { return buffers[a].data < buffers[b].data; });
  shadows_.reserve(buffers.size() + 1);
  for (size_t first = 0, last; first < byAddress.size(); first = last) {
    std::byte* start = buffers[byAddress[first]].data;
    std::byte* end = start;
    bool written = false;
    int64_t unit = INT64_MAX;  // bytes of a cell
    for (last = first; last < byAddress.size() && (last == first || buffers[byAddress[last]].data < end);
         ++last) {
      const KernelBuffer& buffer = buffers[byAddress[last]];
      end = std::max(end, buffer.data + buffer.bytes);
      written |= program_.memories[byAddress[last]].mode != BufMode::in;
      unit = std::min(unit, regions[byAddress[last]].stride);
    }
    if (!written) continue;
    shadows_.emplace_back(divideCeil(end - start, unit), true);
    for (size_t at = first; at < last; ++at) {
      Region& region = regions[byAddress[at]];
      region.shadow = &shadows_.back();
      region.shadowStart = (region.data - start) / unit;
      region.cells = region.stride / unit;
    }
  }
  shadows_.emplace_back(program_.sharedWords, false);
  for (size_t index = buffers.size(); index < regions.size(); ++index) {
    if (program_.memories[index].mode != BufMode::shared) continue;
    regions[index].shadow = &shadows_.back();
    regions[index].shadowStart = program_.memories[index].start;
  }
}

void KernelFindings::checkLocal(const Access& access, int64_t word, const Visit& visit, RaceShadow::Kind kind,
                                bool looks) {
  bool missing = false;
  for (uint32_t part = 0; part < access.width; ++part) {
    auto written = localWritten_[static_cast<size_t>(word + part)];
    missing |= looks && !written;
    if (kind != RaceShadow::Kind::read) written = true;
  }
  if (!missing) return;
  const Memory& memory = program_.memories[access.memory];
  int64_t start = static_cast<int64_t>(visit.lane) * program_.localWords + memory.start;
  uninitialised(access, visit, (word - start) / access.width);
}

void KernelFindings::forgetLocals(uint32_t lanes) {
  localWritten_.assign(static_cast<size_t>(lanes) * program_.localWords, false);
}

}  // namespace tg
