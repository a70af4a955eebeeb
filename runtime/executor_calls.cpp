// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor_calls.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "ir/all_cores.h"
#include "ir/divide.h"
#include "runtime/executor_program.h"
#include "runtime/nccl_collective.h"

namespace tg {

using vulkan::Buffer;

bool Executor::fitsLane(const Slot& slot) {
  const int64_t bytes = slot.type.bytes();
  return bytes > 0 && bytes <= kLaneValueBytes;
}

int64_t Executor::strideInLane(const Slot& slot) {
  constexpr int64_t kAlignment = 16;
  return alignTo(slot.type.bytes(), kAlignment);
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

std::vector<const std::byte*> Executor::valuesOf(std::span<const Slot> slots, const InputViews& inputs) {
  std::vector<const std::byte*> values;
  for (const Slot& slot : slots) values.push_back(inputs.find(slot.name)->second.bytes.data());
  return values;
}

/// Copies bytes, by several threads if there are so many that these take less time.
static void copyBytes(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kPiece = size_t{4} << 20, kThreads = 4;
  const size_t threads = std::clamp(bytes / kPiece, size_t{1}, kThreads), each = divideCeil(bytes, threads);
  onAllCores(threads, [&](size_t index) {
    const size_t first = std::min(index * each, bytes);
    std::memcpy(to + first, from + first, std::min(each, bytes - first));
  });
}

// The caller has waited for the lane's last call, so values in the lane are copied at once.
Result<void> Executor::write(vulkan::Device& device, std::span<const Slot> slots,
                             std::span<const std::byte* const> values, const Buffer* lane) {
  std::vector<vulkan::HostWrite> writes;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    const std::byte* data = values[i];
    const int64_t bytes = slot.type.bytes();
    if (slot.buffer == lane)
      copyBytes(lane->mapped() + slot.offset, data, static_cast<size_t>(bytes));
    else
      writes.push_back({slot.buffer, slot.offset, bytes, data});
  }
  return writes.empty() ? Result<void>() : vulkan::transfer(device, writes, {});
}

Result<void> Executor::readInto(vulkan::Device& device, std::span<const Slot> slots,
                                std::span<std::byte* const> values, const Buffer* lane) {
  std::vector<vulkan::HostRead> reads;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    std::byte* data = values[i];
    const int64_t bytes = slot.type.bytes();
    if (slot.buffer == lane)
      std::memcpy(data, lane->mapped() + slot.offset, static_cast<size_t>(bytes));
    else
      reads.push_back({slot.buffer, slot.offset, bytes, data});
  }
  return reads.empty() ? Result<void>() : vulkan::transfer(device, {}, reads);
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

/// The commands, with every use of buffer `from` replaced by `to`.
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

/// Moves the slots that fit to places in the lane. Returns the copies between the lane and their places on the device.
std::vector<vulkan::Copy> Executor::stage(std::vector<Slot>& slots, Buffer& lane, int64_t& offset,
                                          bool toDevice) {
  std::vector<vulkan::Copy> copies;
  for (Slot& slot : slots) {
    if (!fitsLane(slot)) continue;
    vulkan::Copy& copy =
        copies.emplace_back(vulkan::Copy{&lane, offset, slot.buffer, slot.offset, slot.type.bytes()});
    if (!toDevice) {
      std::swap(copy.source, copy.target);
      std::swap(copy.sourceOffset, copy.targetOffset);
    }
    slot.buffer = &lane;
    slot.offset = std::exchange(offset, offset + strideInLane(slot));
  }
  return copies;
}

Result<void> Executor::recordLane(Function& function, size_t index) {
  LaneSet& set = *function.laneSet;
  Lane& lane = set.lanes[index];
  if (!lane.buffer) {
    TG_TRY(lane.buffer,
           Buffer::create(*device_, {function.name + ".lane", set.bytes, vulkan::MemoryKind::host}));
  }
  LaneRecording out;
  out.values = function.values;
  Values& values = out.values;
  std::vector<vulkan::Command> commands;
  std::vector<CollectivePoint> points = function.collectivePoints;
  if (set.io) {
    for (auto* slots : {&values.inputs, &values.results, &values.captures, &values.grads})
      for (Slot& slot : *slots)
        if (slot.buffer == set.io.get()) slot.buffer = lane.buffer.get();
    commands = moved(function.commands, set.io.get(), lane.buffer.get());
    for (CollectivePoint& point : points)
      for (auto* ranges : {&point.args.send, &point.args.receive})
        for (vulkan::Binding& range : *ranges)
          if (range.buffer == set.io.get()) range.buffer = lane.buffer.get();
  } else {
    int64_t offset = 0;
    auto toDevice = stage(values.inputs, *lane.buffer, offset, true);
    TG_CHECK(uploadBeside(function, lane, offset, toDevice, out));
    const auto toHost = stage(values.results, *lane.buffer, offset, false);
    commands.assign(toDevice.begin(), toDevice.end());
    commands.emplace_back(vulkan::Barrier{});
    for (CollectivePoint& point : points) point.at += commands.size();
    commands.insert(commands.end(), function.commands.begin(), function.commands.end());
    commands.emplace_back(vulkan::Barrier{});
    commands.insert(commands.end(), toHost.begin(), toHost.end());
  }
  size_t done = 0;
  for (CollectivePoint& point : points) {
    const auto begin = commands.begin() + static_cast<std::ptrdiff_t>(std::exchange(done, point.at));
    TG_CHECK(
        addChunk(function, out, {begin, commands.begin() + static_cast<std::ptrdiff_t>(point.at)}, point));
  }
  commands.erase(commands.begin(), commands.begin() + static_cast<std::ptrdiff_t>(done));
  TG_TRY(out.recording, vulkan::Recording::create(*device_, std::move(commands), {function.name}));
  function.recordings[index] = std::move(out);
  return {};
}

/// If the first `bytes` bytes of the lane, its inputs, are to be uploaded beside other work: records that, and makes the
/// copies to @io read the uploaded bytes.
Result<void> Executor::uploadBeside(const Function& function, Lane& lane, int64_t bytes,
                                    std::span<vulkan::Copy> copies, LaneRecording& out) {
  constexpr int64_t kRoom = 16;  // so many times the bytes must be free: uploads do not take the last memory
  if (bytes < kLeastUpload || savesMemory_ || !device_->uploadsBeside()) return {};
  if (!lane.inputs) {
    if (device_->freeBytes() / kRoom < bytes) return {};
    TG_TRY(lane.inputs, Buffer::create(*device_, {function.name + ".inputs", bytes}));
  }
  TG_TRY(out.upload, vulkan::Upload::create(*device_, {lane.buffer.get(), 0, lane.inputs.get(), 0, bytes},
                                            function.name + ".upload"));
  for (vulkan::Copy& copy : copies) copy.source = lane.inputs.get();
  return {};
}

Result<void> Executor::addChunk(Function& function, LaneRecording& out, std::vector<vulkan::Command> commands,
                                const CollectivePoint& point) {
  std::unique_ptr<DeviceCollective>& collective = out.collectives[point.id];
  if (point.begins) {
    TG_TRY(collective, makeCollective(function, point));
  }
  Chunk chunk{nullptr, collective.get(), point.begins};
  if (!commands.empty()) {
    TG_TRY(chunk.recording, vulkan::Recording::create(*device_, std::move(commands), {function.name}));
  }
  out.chunks.push_back(std::move(chunk));
  return {};
}

Result<std::unique_ptr<DeviceCollective>> Executor::makeCollective(Function& function,
                                                                   const CollectivePoint& point) {
  collective::NcclEngine* engine = ranks_->nccl();
  if (!engine)
    return StagedCollective::create(*device_, fmt::format("{}.collective{}", function.name, point.id),
                                    point.id, point.args, *ranks_, function.staging[point.id]);
  if (!nccl_) {
    TG_TRY(nccl_, NcclDevice::create(*device_, *engine));
  }
  return NcclCollective::create(nccl_, point.id, point.args);
}

/// A lane whose results nobody has to take. If there is none, fetches the results of the oldest call to free its lane.
Result<size_t> Executor::freeLane(LaneSet& set) {
  size_t oldest = 0;
  for (size_t i = 0; i < kLanes; ++i) {
    const std::shared_ptr<Call> call = set.lanes[i].call.lock();
    if (!call || !call->holdsLane()) return i;
    if (set.lanes[i].submission < set.lanes[oldest].submission) oldest = i;
  }
  TG_CHECK(set.lanes[oldest].call.lock()->fetch());
  return oldest;
}

Result<std::shared_ptr<PendingCall>> Executor::begin(const std::string& key, const InputViews& inputs,
                                                     bool captures) {
  TG_TRY(Function * function, find(key));
  std::vector<std::pair<std::string, Type>> arguments;
  for (const Slot& slot : function->values.inputs) arguments.emplace_back(slot.name, slot.type);
  TG_CHECK(checkInputs(function->name, arguments, inputs));
  if (timestamps_ != vulkan::Timestamps::none) {
    TG_TRY(RunOutputs out, runTimed(key, *function, inputs, captures));
    return std::shared_ptr<PendingCall>(std::make_shared<DoneCall>(std::move(out)));
  }
  TG_TRY(const size_t index, freeLane(*function->laneSet));
  Lane& lane = function->laneSet->lanes[index];
  TG_CHECK(device_->waitFor(lane.submission));
  LaneRecording& recorded = function->recordings[index];
  if (!recorded.recording) TG_CHECK(recordLane(*function, index));
  const Values& values = recorded.values;
  TG_CHECK(write(*device_, values.inputs, valuesOf(values.inputs, inputs), lane.buffer.get()));
  if (recorded.upload) TG_CHECK(recorded.upload->submit());
  for (Chunk& chunk : recorded.chunks) {
    if (chunk.recording) TG_CHECK(chunk.recording->submit());
    TG_CHECK(chunk.begins ? chunk.collective->begin(*ranks_) : chunk.collective->wait(*ranks_));
  }
  TG_CHECK(recorded.recording->submit());
  function->lane = index;
  lane.submission = recorded.recording->lastSubmission();
  auto call =
      std::make_shared<Call>(device_, lane.buffer, lane.submission, values.results, function->watched);
  lane.call = call;
  const bool elsewhere =
      std::ranges::any_of(values.results, [&](const Slot& slot) { return slot.buffer != lane.buffer.get(); });
  if (captures || elsewhere) TG_CHECK(call->fetch());
  if (captures) {
    TG_TRY(call->outputs().captures, captured(key));
  }
  return std::shared_ptr<PendingCall>(std::move(call));
}

Result<NamedArrays> Executor::captured(const std::string& key) {
  TG_TRY(Function * function, find(key));
  return read(*device_, function->recordings[function->lane].values.captures);
}

Result<NamedArrays> Executor::paramGrads(const std::string& key) {
  TG_TRY(Function * function, find(key));
  return read(*device_, function->recordings[function->lane].values.grads);
}

}  // namespace tg
