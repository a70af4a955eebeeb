// SPDX-License-Identifier: Apache-2.0
#include "runtime/nccl_travel.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace tg {

using collective::Journey;
using collective::Kind;
using collective::NcclEngine;
using Clock = Journey::Clock;

namespace {

constexpr auto kElement = static_cast<int64_t>(sizeof(float));

double secondsFrom(Clock::time_point begin, Clock::time_point end) {
  return std::max(0.0, std::chrono::duration<double>(end - begin).count());
}

}  // namespace

Result<std::shared_ptr<NcclDevice>> NcclDevice::create(vulkan::Device& device, NcclEngine& ranks) {
  std::shared_ptr<NcclDevice> made(new NcclDevice(ranks));
  made->device_ = device.shared_from_this();
  TG_TRY(made->arrivals_, vulkan::Arrivals::create(device));
  TG_TRY(const int arrivals, made->arrivals_->share());
  TG_TRY(made->arriving_, collective::CudaTimeline::create(ranks.gpu(), arrivals));
  TG_TRY(const int submissions, vulkan::shareSubmissions(device));
  TG_TRY(made->submissions_, collective::CudaTimeline::create(ranks.gpu(), submissions));
  // Whoever waits for a batch that never comes back would wait for ever.
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

Result<std::shared_ptr<NcclDevice::Batch>> NcclDevice::begin(std::span<const NcclEngine::Load> loads,
                                                             int64_t bytes) {
  if (!next_) next_ = std::make_shared<Batch>();
  const std::shared_ptr<Batch> batch = next_;
  batch->loads.insert(batch->loads.end(), loads.begin(), loads.end());
  batch->bytes += bytes;
  if (!ranks_.onOneHost()) TG_CHECK(send());
  return batch;
}

Result<void> NcclDevice::wait(Batch& batch) {
  if (batch.arrival == 0) TG_CHECK(send());
  if (std::exchange(batch.awaited, true)) return {};
  {
    std::lock_guard lock(batch.mutex);
    batch.behind = std::max<uint64_t>(device_->submitted(), 1);
  }
  arrivals_->await(batch.arrival);
  return {};
}

// The host learns when all this happens by looking, up to 0.1 ms late.
Result<void> NcclDevice::send() {
  const std::shared_ptr<Batch> batch = std::exchange(next_, nullptr);
  const uint64_t sent = device_->submitted();
  TG_CHECK(submissions_->await(sent));
  TG_CHECK(ranks_.run(batch->loads));
  TG_CHECK(arriving_->signal(++last_));
  batch->arrival = last_;
  auto observer = [self = shared_from_this(), batch, sent, arrival = last_, first = Clock::time_point(),
                   idle = Clock::time_point()](Clock::time_point before) mutable -> std::optional<Journey> {
    const auto done = self->device_->completed();
    const auto arrived = self->arrivals_->reached();
    const Clock::time_point now = Clock::now(), never;
    std::lock_guard lock(batch->mutex);
    if (first == never && done && *done >= sent) first = std::max(now, before);
    if (idle == never && done && batch->behind && *done >= batch->behind) idle = now;
    if (done && arrived && *arrived < arrival) return {};
    const Journey journey{first == never ? now : first, now};
    batch->between = secondsFrom(journey.begin, now);
    if (idle != never) batch->waited = secondsFrom(std::max(idle, journey.begin), now);
    batch->back = true;
    return journey;
  };
  ranks_.observe(std::move(observer));
  return {};
}

Result<std::unique_ptr<Travel>> NcclTravel::create(std::shared_ptr<NcclDevice> device, int64_t id,
                                                   const Cargo& cargo) {
  std::unique_ptr<NcclTravel> travel(new NcclTravel);
  travel->device_ = std::move(device);
  travel->times_.id = id;
  for (size_t i = 0; i < cargo.from.size(); ++i)
    TG_CHECK(travel->add(cargo.from[i], cargo.kind == Kind::allReduce ? cargo.from[i] : cargo.to[i], cargo));
  int64_t bytes = 0;
  for (const vulkan::Binding& whole : cargo.kind == Kind::allGather ? cargo.to : cargo.from)
    bytes += whole.bytes;
  travel->times_.bytes = collective::sentBytes(cargo.kind, bytes, travel->device_->ranks());
  return std::unique_ptr<Travel>(std::move(travel));
}

Result<void> NcclTravel::add(const vulkan::Binding& from, const vulkan::Binding& to, const Cargo& cargo) {
  TG_TRY(auto source, device_->memoryOf(*from.buffer));
  TG_TRY(auto target, device_->memoryOf(*to.buffer));
  loads_.push_back({cargo.kind, cargo.reduction, source->address() + static_cast<uint64_t>(from.offset),
                    target->address() + static_cast<uint64_t>(to.offset),
                    std::min(from.bytes, to.bytes) / kElement});
  memories_.push_back(std::move(source));
  memories_.push_back(std::move(target));
  return {};
}

Result<void> NcclTravel::begin(collective::Engine&) {
  TG_CHECK(addTimes());
  TG_TRY(batch_, device_->begin(loads_, times_.bytes));
  return {};
}

Result<void> NcclTravel::wait(collective::Engine&) { return device_->wait(*batch_); }

/// Adds what was seen of the last batch: this travel's part of it, by its bytes.
Result<void> NcclTravel::addTimes() {
  if (!batch_) return {};
  for (;;) {
    {
      std::lock_guard lock(batch_->mutex);
      if (batch_->back) break;
    }
    TG_CHECK(device_->device().waitIdle());
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  const std::shared_ptr<NcclDevice::Batch> batch = std::exchange(batch_, nullptr);
  const double share =
      static_cast<double>(times_.bytes) / static_cast<double>(std::max<int64_t>(batch->bytes, 1));
  times_.between += share * batch->between;
  times_.waited += share * batch->waited;
  ++times_.times;
  return {};
}

Result<TravelTimes> NcclTravel::times() {
  TG_CHECK(addTimes());
  return times_;
}

}  // namespace tg
