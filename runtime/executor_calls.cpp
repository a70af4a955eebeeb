// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor_calls.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "runtime/executor_program.h"
#include "runtime/nccl_travel.h"

namespace tg {

using vulkan::Buffer;

bool Executor::fitsLane(const Slot& slot) {
  const int64_t bytes = spanBytes(slot.type, slot.pitch);
  return bytes > 0 && bytes <= kLaneValueBytes;
}

int64_t Executor::strideInLane(const Slot& slot) {
  constexpr int64_t kAlignment = 16;
  return (spanBytes(slot.type, slot.pitch) + kAlignment - 1) / kAlignment * kAlignment;
}

Result<RunOutputs> Executor::Call::take() {
  TG_CHECK(fetch());
  return std::move(outputs_);
}

Result<void> Executor::Call::fetch() {
  if (lane_) {
    TG_CHECK(device_->waitFor(submission_));
    TG_TRY(outputs_.results, read(*device_, results_, lane_.get()));
    lane_.reset();
    if (auto whole = checkLoops(watched_.get(), outputs_.results); !whole) cut_ = whole.takeError();
  }
  if (!cut_.empty()) return cut_;
  return {};
}

std::vector<const std::byte*> Executor::valuesOf(std::span<const Slot> slots, const Inputs& inputs) {
  std::vector<const std::byte*> values;
  for (const Slot& slot : slots) values.push_back(inputs.find(slot.name)->second.bytes.data());
  return values;
}

// What lies in the lane is copied at once: the caller has waited for the lane's last call.
Result<void> Executor::write(vulkan::Device& device, std::span<const Slot> slots,
                             std::span<const std::byte* const> values, const Buffer* lane) {
  std::vector<vulkan::HostWrite> writes;
  std::vector<std::vector<std::byte>> spread;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    const std::byte* data = values[i];
    if (slot.pitch) {
      auto& rows = spread.emplace_back(static_cast<size_t>(spanBytes(slot.type, slot.pitch)));
      eachRow(slot.type, slot.pitch, [&](int64_t dense, int64_t apart, size_t bytes) {
        std::memcpy(&rows[apart], data + dense, bytes);
      });
      data = rows.data();
    }
    const int64_t bytes = spanBytes(slot.type, slot.pitch);
    if (slot.buffer == lane)
      std::memcpy(lane->mapped() + slot.offset, data, static_cast<size_t>(bytes));
    else
      writes.push_back({slot.buffer, slot.offset, bytes, data});
  }
  return writes.empty() ? Result<void>() : vulkan::transfer(device, writes, {});
}

Result<void> Executor::readInto(vulkan::Device& device, std::span<const Slot> slots,
                                std::span<std::byte* const> values, const Buffer* lane) {
  std::vector<vulkan::HostRead> reads;
  std::vector<std::vector<std::byte>> spread(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    std::byte* data = values[i];
    if (slot.pitch) {
      spread[i].resize(static_cast<size_t>(spanBytes(slot.type, slot.pitch)));
      data = spread[i].data();
    }
    const int64_t bytes = spanBytes(slot.type, slot.pitch);
    if (slot.buffer == lane)
      std::memcpy(data, lane->mapped() + slot.offset, static_cast<size_t>(bytes));
    else
      reads.push_back({slot.buffer, slot.offset, bytes, data});
  }
  if (!reads.empty()) TG_CHECK(vulkan::transfer(device, {}, reads));
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].pitch) continue;
    eachRow(slots[i].type, slots[i].pitch, [&](int64_t dense, int64_t apart, size_t bytes) {
      std::memcpy(values[i] + dense, &spread[i][apart], bytes);
    });
  }
  return {};
}

Result<NamedArrays> Executor::read(vulkan::Device& device, std::span<const Slot> slots, const Buffer* lane) {
  NamedArrays out;
  std::vector<std::byte*> values;
  for (const Slot& slot : slots) out.emplace_back(slot.name, HostArray::zeros(slot.type));
  for (auto& [name, array] : out) values.push_back(array.bytes.data());
  TG_CHECK(readInto(device, slots, values, lane));
  return out;
}

namespace {

/// The same commands on another buffer in place of one.
std::vector<vulkan::Command> moved(std::vector<vulkan::Command> commands, Buffer* from, Buffer* to) {
  auto move = [&](Buffer*& buffer) {
    if (buffer == from) buffer = to;
  };
  for (vulkan::Command& command : commands) {
    if (auto* dispatch = std::get_if<vulkan::Dispatch>(&command))
      for (vulkan::Binding& binding : dispatch->bindings) move(binding.buffer);
    if (auto* fill = std::get_if<vulkan::Fill>(&command)) move(fill->buffer);
    if (auto* copy = std::get_if<vulkan::Copy>(&command)) move(copy->source), move(copy->target);
  }
  return commands;
}

}  // namespace

int64_t Executor::laneBytes(const Values& values) {
  int64_t bytes = 0;
  for (const auto* slots : {&values.inputs, &values.results})
    for (const Slot& slot : *slots)
      if (fitsLane(slot)) bytes += strideInLane(slot);
  return bytes;
}

/// Gives the values that fit places in the lane and makes the copies between these and their own ones.
std::vector<vulkan::Copy> Executor::stage(std::vector<Slot>& slots, Buffer& lane, int64_t& offset,
                                          bool toDevice) {
  std::vector<vulkan::Copy> copies;
  for (Slot& slot : slots) {
    if (!fitsLane(slot)) continue;
    vulkan::Copy& copy = copies.emplace_back(
        vulkan::Copy{&lane, offset, slot.buffer, slot.offset, spanBytes(slot.type, slot.pitch)});
    if (!toDevice) {
      std::swap(copy.source, copy.target);
      std::swap(copy.sourceOffset, copy.targetOffset);
    }
    slot.buffer = &lane;
    slot.offset = std::exchange(offset, offset + strideInLane(slot));
  }
  return copies;
}

Result<void> Executor::makePassage(Function& function, size_t index) {
  Port& port = *function.port;
  Lane& lane = port.lanes[index];
  if (!lane.buffer) {
    TG_TRY(lane.buffer,
           Buffer::create(*device_, {function.name + ".lane", port.bytes, vulkan::MemoryKind::host}));
  }
  Passage passage;
  passage.values = function.values;
  Values& values = passage.values;
  std::vector<vulkan::Command> commands;
  std::vector<Meeting> meetings = function.meetings;
  if (port.io) {
    for (auto* slots : {&values.inputs, &values.results, &values.captures, &values.grads})
      for (Slot& slot : *slots)
        if (slot.buffer == port.io.get()) slot.buffer = lane.buffer.get();
    commands = moved(function.commands, port.io.get(), lane.buffer.get());
    for (Meeting& meeting : meetings)
      for (auto* ranges : {&meeting.cargo.from, &meeting.cargo.to})
        for (vulkan::Binding& range : *ranges)
          if (range.buffer == port.io.get()) range.buffer = lane.buffer.get();
  } else {
    int64_t offset = 0;
    const auto in = stage(values.inputs, *lane.buffer, offset, true);
    const auto out = stage(values.results, *lane.buffer, offset, false);
    commands.assign(in.begin(), in.end());
    commands.emplace_back(vulkan::Barrier{});
    for (Meeting& meeting : meetings) meeting.at += commands.size();
    commands.insert(commands.end(), function.commands.begin(), function.commands.end());
    commands.emplace_back(vulkan::Barrier{});
    commands.insert(commands.end(), out.begin(), out.end());
  }
  size_t done = 0;
  for (Meeting& meeting : meetings) {
    const auto begin = commands.begin() + static_cast<std::ptrdiff_t>(std::exchange(done, meeting.at));
    TG_CHECK(makeLeg(function, passage, {begin, commands.begin() + static_cast<std::ptrdiff_t>(meeting.at)},
                     meeting));
  }
  commands.erase(commands.begin(), commands.begin() + static_cast<std::ptrdiff_t>(done));
  TG_TRY(passage.recording, vulkan::Recording::create(*device_, std::move(commands), {function.name}));
  function.passages[index] = std::move(passage);
  return {};
}

Result<void> Executor::makeLeg(Function& function, Passage& passage, std::vector<vulkan::Command> commands,
                               const Meeting& meeting) {
  std::unique_ptr<Travel>& travel = passage.travels[meeting.id];
  if (meeting.begins) {
    TG_TRY(travel, makeTravel(function, meeting));
  }
  Leg leg{nullptr, travel.get(), meeting.begins};
  if (!commands.empty()) {
    TG_TRY(leg.recording, vulkan::Recording::create(*device_, std::move(commands), {function.name}));
  }
  passage.legs.push_back(std::move(leg));
  return {};
}

Result<std::unique_ptr<Travel>> Executor::makeTravel(Function& function, const Meeting& meeting) {
  collective::NcclEngine* gpus = ranks_->onGpus();
  if (!gpus)
    return HostTravel::create(*device_, fmt::format("{}.ranks{}", function.name, meeting.id), meeting.id,
                              meeting.cargo, *ranks_, function.rooms[meeting.id]);
  if (!gpu_) {
    TG_TRY(gpu_, NcclDevice::create(*device_, *gpus));
  }
  return NcclTravel::create(gpu_, meeting.id, meeting.cargo);
}

/// A lane whose results somebody has; where there is none, those of the older call are fetched.
Result<size_t> Executor::freeLane(Port& port) {
  size_t oldest = 0;
  for (size_t i = 0; i < kLanes; ++i) {
    const std::shared_ptr<Call> call = port.lanes[i].call.lock();
    if (!call || !call->holdsLane()) return i;
    if (port.lanes[i].submission < port.lanes[oldest].submission) oldest = i;
  }
  TG_CHECK(port.lanes[oldest].call.lock()->fetch());
  return oldest;
}

Result<std::shared_ptr<PendingCall>> Executor::begin(const std::string& key, const Inputs& inputs,
                                                     bool captures) {
  TG_TRY(Function * function, find(key));
  std::vector<std::pair<std::string, Type>> arguments;
  for (const Slot& slot : function->values.inputs) arguments.emplace_back(slot.name, slot.type);
  TG_CHECK(checkInputs(function->name, arguments, inputs));
  if (timestamps_ != vulkan::Timestamps::none) {
    TG_TRY(RunOutputs out, runTimed(key, *function, inputs, captures));
    return std::shared_ptr<PendingCall>(std::make_shared<DoneCall>(std::move(out)));
  }
  TG_TRY(const size_t index, freeLane(*function->port));
  Lane& lane = function->port->lanes[index];
  TG_CHECK(device_->waitFor(lane.submission));
  Passage& passage = function->passages[index];
  if (!passage.recording) TG_CHECK(makePassage(*function, index));
  TG_CHECK(
      write(*device_, passage.values.inputs, valuesOf(passage.values.inputs, inputs), lane.buffer.get()));
  for (Leg& leg : passage.legs) {
    if (leg.recording) TG_CHECK(leg.recording->submit());
    TG_CHECK(leg.begins ? leg.travel->begin(*ranks_) : leg.travel->wait(*ranks_));
  }
  TG_CHECK(passage.recording->submit());
  function->lane = index;
  lane.submission = passage.recording->lastSubmission();
  auto call = std::make_shared<Call>(device_, lane.buffer, lane.submission, passage.values.results,
                                     function->watched);
  lane.call = call;
  const bool elsewhere = std::any_of(passage.values.results.begin(), passage.values.results.end(),
                                     [&](const Slot& slot) { return slot.buffer != lane.buffer.get(); });
  if (captures || elsewhere) TG_CHECK(call->fetch());
  if (captures) {
    TG_TRY(call->outputs().captures, captured(key));
  }
  return std::shared_ptr<PendingCall>(std::move(call));
}

Result<NamedArrays> Executor::captured(const std::string& key) {
  TG_TRY(Function * function, find(key));
  return read(*device_, function->passages[function->lane].values.captures);
}

Result<NamedArrays> Executor::paramGrads(const std::string& key) {
  TG_TRY(Function * function, find(key));
  return read(*device_, function->passages[function->lane].values.grads);
}

}  // namespace tg
