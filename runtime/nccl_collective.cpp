// SPDX-License-Identifier: Apache-2.0
#include "runtime/nccl_collective.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "ir/stopwatch.h"

namespace tg {

using collective::Interval;
using collective::Kind;
using collective::NcclEngine;
using Clock = Interval::Clock;

namespace {

constexpr auto kElement = static_cast<int64_t>(sizeof(float));

}  // namespace

Result<std::shared_ptr<NcclDevice>> NcclDevice::create(vulkan::Device& device, NcclEngine& ranks) {
  std::shared_ptr<NcclDevice> made(new NcclDevice(ranks));
  made->device_ = device.shared_from_this();
  TG_TRY(made->finished_, vulkan::ExternalTimeline::create(device));
  TG_TRY(const int finished, made->finished_->share());
  TG_TRY(made->cudaFinished_, collective::CudaTimeline::create(ranks.gpu(), finished));
  TG_TRY(const int submissions, vulkan::shareSubmissions(device));
  TG_TRY(made->cudaSubmissions_, collective::CudaTimeline::create(ranks.gpu(), submissions));
  // Without this, a wait for a group that never completes would hang.
  ranks.onFailure(made.get(), [raw = &device](const Error& why) { raw->abandon(why); });
  return made;
}

NcclDevice::~NcclDevice() { ranks_.onFailure(this, nullptr); }

Result<std::shared_ptr<collective::CudaMemory>> NcclDevice::memoryOf(vulkan::Buffer& buffer) {
  std::weak_ptr<collective::CudaMemory>& known = memories_[&buffer];
  std::shared_ptr<collective::CudaMemory> memory = known.lock();
  if (memory) return memory;
  TG_TRY(const vulkan::SharedMemory shared, vulkan::shareMemory(buffer));
  TG_TRY(memory, collective::CudaMemory::create(ranks_.gpu(), shared.descriptor, shared.bytes));
  known = memory;
  return memory;
}

Result<std::shared_ptr<NcclDevice::Group>>
NcclDevice::begin(std::span<const NcclEngine::Collective> collectives, int64_t bytes) {
  if (!next_) next_ = std::make_shared<Group>();
  const std::shared_ptr<Group> group = next_;
  group->collectives.insert(group->collectives.end(), collectives.begin(), collectives.end());
  group->bytes += bytes;
  if (!ranks_.onOneHost()) TG_CHECK(launch());
  return group;
}

Result<void> NcclDevice::wait(Group& group) {
  if (group.signal == 0) TG_CHECK(launch());
  if (std::exchange(group.awaited, true)) return {};
  {
    std::lock_guard lock(group.mutex);
    group.lastSubmission = std::max<uint64_t>(device_->submitted(), 1);
  }
  finished_->await(group.signal);
  return {};
}

// For the times, the engine's thread polls both timelines; they are up to 0.1 ms late.
Result<void> NcclDevice::launch() {
  const std::shared_ptr<Group> group = std::exchange(next_, nullptr);
  const uint64_t inputs = device_->submitted();
  TG_CHECK(cudaSubmissions_->await(inputs));
  TG_CHECK(ranks_.run(group->collectives));
  TG_CHECK(cudaFinished_->signal(++lastSignal_));
  group->signal = lastSignal_;
  auto observer = [self = shared_from_this(), group, inputs, signal = lastSignal_,
                   begin = Clock::time_point(),
                   idle = Clock::time_point()](Clock::time_point before) mutable -> std::optional<Interval> {
    const auto completed = self->device_->completed();
    const auto finished = self->finished_->reached();
    const Clock::time_point now = Clock::now(), never;
    std::lock_guard lock(group->mutex);
    if (begin == never && completed && *completed >= inputs) begin = std::max(now, before);
    if (idle == never && completed && group->lastSubmission && *completed >= group->lastSubmission)
      idle = now;
    if (completed && finished && *finished < signal) return {};
    const Interval interval{begin == never ? now : begin, now};
    group->exchange = std::max(0.0, inSeconds(now - interval.begin));
    if (idle != never) group->waited = std::max(0.0, inSeconds(now - std::max(idle, interval.begin)));
    group->done = true;
    return interval;
  };
  ranks_.observe(std::move(observer));
  return {};
}

Result<std::unique_ptr<DeviceCollective>> NcclCollective::create(std::shared_ptr<NcclDevice> device,
                                                                 int64_t id, const CollectiveArgs& args) {
  std::unique_ptr<NcclCollective> made(new NcclCollective);
  made->device_ = std::move(device);
  made->times_.id = id;
  for (size_t i = 0; i < args.send.size(); ++i)
    TG_CHECK(made->add(args.send[i], args.kind == Kind::allReduce ? args.send[i] : args.receive[i], args));
  int64_t bytes = 0;
  for (const vulkan::Binding& whole : args.kind == Kind::allGather ? args.receive : args.send)
    bytes += whole.bytes;
  made->times_.bytes = collective::sentBytes(args.kind, bytes, made->device_->ranks());
  return std::unique_ptr<DeviceCollective>(std::move(made));
}

Result<void> NcclCollective::add(const vulkan::Binding& send, const vulkan::Binding& receive,
                                 const CollectiveArgs& args) {
  TG_TRY(auto source, device_->memoryOf(*send.buffer));
  TG_TRY(auto target, device_->memoryOf(*receive.buffer));
  collectives_.push_back({args.kind, args.reduction, source->address() + static_cast<uint64_t>(send.offset),
                          target->address() + static_cast<uint64_t>(receive.offset),
                          std::min(send.bytes, receive.bytes) / kElement});
  memories_.push_back(std::move(source));
  memories_.push_back(std::move(target));
  return {};
}

Result<void> NcclCollective::begin(collective::Engine&) {
  TG_CHECK(addTimes());
  TG_TRY(group_, device_->begin(collectives_, times_.bytes));
  return {};
}

Result<void> NcclCollective::wait(collective::Engine&) { return device_->wait(*group_); }

/// Waits for the last run's group and adds this collective's share of its times, in proportion to its bytes.
Result<void> NcclCollective::addTimes() {
  if (!group_) return {};
  for (;;) {
    {
      std::lock_guard lock(group_->mutex);
      if (group_->done) break;
    }
    TG_CHECK(device_->device().waitIdle());
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  const std::shared_ptr<NcclDevice::Group> group = std::exchange(group_, nullptr);
  const double share =
      static_cast<double>(times_.bytes) / static_cast<double>(std::max<int64_t>(group->bytes, 1));
  times_.exchange += share * group->exchange;
  times_.waited += share * group->waited;
  ++times_.times;
  return {};
}

Result<CollectiveTimes> NcclCollective::times() {
  TG_CHECK(addTimes());
  return times_;
}

}  // namespace tg
