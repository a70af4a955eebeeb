// SPDX-License-Identifier: Apache-2.0
#include "runtime/nccl_init.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "runtime/collective/nccl_library.h"
#include "runtime/nccl_collective.h"

namespace tg {

namespace {

using collective::CudaGpu;
using collective::Engine;
using collective::NcclEngine;
using collective::NcclLibrary;

/// The first letter of each rank's status text, which all ranks gather. A UUID or a reason follows it.
constexpr char kOk = 'y', kFailed = 'n', kNotNvidia = 'e';
constexpr size_t kUuidLength = 36;

std::string hostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Does the steps of initNccl. After each step all ranks exchange whether it succeeded; if one failed, all stop.
class NcclInitializer {
 public:
  NcclInitializer(std::shared_ptr<Engine> host, vulkan::DeviceOptions options)
      : host_(std::move(host)), options_(std::move(options)) {
    options_.shared = true;
  }

  Result<NcclInit> run() {
    auto found = findGpu();
    const std::string own =
        found ? kOk + info_.uuid + hostName() : (nvidia_ ? kFailed : kNotNvidia) + found.error().message();
    TG_TRY(std::vector<std::string> all, exchangeStatus(own));
    if (out_.why.empty()) compareGpus(all);
    if (!out_.why.empty()) return out_;

    std::string id;
    auto opened = open(id);
    TG_TRY(all, exchangeStatus(opened ? kOk + id : kFailed + opened.error().message()));
    if (!out_.why.empty()) return out_;

    auto connected = connect(all[0].substr(1));
    if (hangs_ || host_->failed()) return connected.takeError();
    TG_TRY(all, exchangeStatus(connected ? std::string(1, kOk) : kFailed + connected.error().message()));
    if (!out_.why.empty()) {
      if (engine_) engine_->quit();
      return out_;
    }
    out_.ranks = engine_;
    out_.device = device_;
    return out_;
  }

 private:
  /// Gathers all ranks' status texts. Sets `why` to the reason of the first rank that failed.
  Result<std::vector<std::string>> exchangeStatus(const std::string& own) {
    TG_TRY(std::vector<std::string> all, host_->allGather(own));
    bool notNvidia = false;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank][0] == kOk) continue;
      notNvidia = notNvidia || all[rank][0] == kNotNvidia;
      const std::string why = all[rank].substr(1);
      if (out_.why.empty()) out_.why = rank == 0 ? why : fmt::format("rank {}: {}", rank, why);
    }
    out_.expected = !notNvidia;
    return all;
  }

  /// Sets `oneHost_`, and sets `why` if two ranks use the same GPU.
  void compareGpus(const std::vector<std::string>& all) {
    std::map<std::string, size_t> first;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const std::string uuid = all[rank].substr(1, kUuidLength), host = all[rank].substr(1 + kUuidLength);
      oneHost_ = oneHost_ && host == all[0].substr(1 + kUuidLength);
      if (const auto [other, isNew] = first.emplace(uuid, rank); !isNew && out_.why.empty())
        out_.why = fmt::format("ranks {} and {} share a GPU, and each needs its own", other->second, rank);
    }
  }

  /// Loads the libraries and opens the GPU.
  Result<void> findGpu() {
    if (options_.select == "interp") return fail("the interpreter runs on no GPU");
    TG_TRY(library_, NcclLibrary::open());
    TG_TRY(const std::vector<vulkan::DeviceInfo> devices, vulkan::listDevices());
    TG_TRY(const vulkan::Selection selection, vulkan::selectDevice(devices, options_.select));
    info_ = devices[static_cast<size_t>(selection.index)];
    nvidia_ = info_.driver.starts_with("NVIDIA");
    if (!nvidia_) return fail("{} is not a GPU of NVIDIA's driver", info_.name);
    TG_CHECK(library_->openNccl());
    if (!info_.shares) return fail("{} shares no memory with CUDA", info_.name);
    TG_TRY(gpu_, CudaGpu::open(library_, info_.uuid));
    return {};
  }

  Result<void> open(std::string& id) {
    TG_TRY(device_, vulkan::Device::open(options_));
    if (host_->rank() > 0) return {};
    TG_TRY(id, NcclEngine::makeId(*library_));
    return {};
  }

  /// Initializes the communicator and tests an all-reduce of a Vulkan buffer.
  Result<void> connect(const std::string& id) {
    TG_TRY(engine_, NcclEngine::join(host_, gpu_, id, oneHost_));
    constexpr size_t kCount = 1000;
    std::vector<float> values(kCount, static_cast<float>(host_->rank()));
    const auto bytes = static_cast<int64_t>(kCount * sizeof(float));
    TG_TRY(const auto buffer, vulkan::Buffer::create(*device_, {"sum", bytes, vulkan::MemoryKind::device}));
    TG_CHECK(buffer->write(0, bytes, values.data()));
    TG_TRY(const auto shared, NcclDevice::create(*device_, *engine_));
    CollectiveArgs args;
    args.send = {{buffer.get(), 0, bytes}};
    TG_TRY(const auto allReduce, NcclCollective::create(shared, 0, args));
    TG_CHECK(allReduce->begin(*engine_));
    TG_CHECK(allReduce->wait(*engine_));
    TG_CHECK(waitForTest(*shared));
    TG_CHECK(buffer->read(0, bytes, values.data()));
    const float mean = static_cast<float>(host_->ranks() - 1) / 2;
    for (const float value : values)
      if (value < mean * 0.999F || value > mean * 1.001F)
        return fail("the mean of 0 to {} came back as {}", host_->ranks() - 1, value);
    return {};
  }

  Result<void> waitForTest(const NcclDevice& shared) {
    constexpr auto kTimeout = std::chrono::seconds(60);
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (;;) {
      TG_TRY(const uint64_t finished, shared.finished());
      if (finished > 0) return {};
      if (host_->failed()) return engine_->failure();
      if (Clock::now() - begin > kTimeout) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    hangs_ = true;
    return fail("nccl: the first all-reduce is not done after 60 s; --collective=mpi does without NCCL");
  }

  std::shared_ptr<Engine> host_;
  vulkan::DeviceOptions options_;
  NcclInit out_;
  std::shared_ptr<NcclLibrary> library_;
  vulkan::DeviceInfo info_;
  bool nvidia_ = false, oneHost_ = true, hangs_ = false;
  std::shared_ptr<CudaGpu> gpu_;
  std::shared_ptr<vulkan::Device> device_;
  std::shared_ptr<NcclEngine> engine_;
};

}  // namespace

Result<NcclInit> initNccl(const std::shared_ptr<Engine>& host, vulkan::DeviceOptions device) {
  return NcclInitializer(host, std::move(device)).run();
}

}  // namespace tg
