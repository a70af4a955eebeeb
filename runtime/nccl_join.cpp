// SPDX-License-Identifier: Apache-2.0
#include "runtime/nccl_join.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "runtime/nccl_travel.h"

namespace tg {

namespace {

using collective::CudaGpu;
using collective::Engine;
using collective::NcclEngine;
using collective::NcclLibrary;

/// What a rank tells in a meeting: a letter and a text, of which a UUID may come first.
constexpr char kFit = 'y', kUnfit = 'n', kElsewhere = 'e';
constexpr size_t kUuid = 36;

std::string hostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// A rank's way to the others. Each step is made by all ranks or by none.
class Joining {
 public:
  Joining(std::shared_ptr<Engine> host, vulkan::DeviceOptions options)
      : host_(std::move(host)), options_(std::move(options)) {
    options_.shared = true;
  }

  Result<NcclJoined> run(const collective::NcclNames& names) {
    auto found = findGpu(names);
    const std::string own =
        found ? kFit + info_.uuid + hostName() : (nvidia_ ? kUnfit : kElsewhere) + found.error().message();
    TG_TRY(std::vector<std::string> all, meet(own));
    if (out_.why.empty()) findShared(all);
    if (!out_.why.empty()) return out_;

    std::string id;
    auto opened = open(id);
    TG_TRY(all, meet(opened ? kFit + id : kUnfit + opened.error().message()));
    if (!out_.why.empty()) return out_;

    auto joined = join(all[0].substr(1));
    if (stuck_ || host_->failed()) return joined.takeError();
    TG_TRY(all, meet(joined ? std::string(1, kFit) : kUnfit + joined.error().message()));
    if (!out_.why.empty()) {
      if (engine_) engine_->quit();
      return out_;
    }
    out_.ranks = engine_;
    out_.device = device_;
    return out_;
  }

 private:
  /// Takes the first rank's reason why not.
  Result<std::vector<std::string>> meet(const std::string& own) {
    TG_TRY(std::vector<std::string> all, host_->gather(own));
    bool elsewhere = false;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank][0] == kFit) continue;
      elsewhere = elsewhere || all[rank][0] == kElsewhere;
      const std::string why = all[rank].substr(1);
      if (out_.why.empty()) out_.why = rank == 0 ? why : fmt::format("rank {}: {}", rank, why);
    }
    out_.expected = !elsewhere;
    return all;
  }

  /// What ranks share: a GPU, which they may not, and a host.
  void findShared(const std::vector<std::string>& all) {
    std::map<std::string, size_t> first;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const std::string uuid = all[rank].substr(1, kUuid), host = all[rank].substr(1 + kUuid);
      oneHost_ = oneHost_ && host == all[0].substr(1 + kUuid);
      if (const auto [other, isNew] = first.emplace(uuid, rank); !isNew && out_.why.empty())
        out_.why = fmt::format("ranks {} and {} share a GPU, and each needs its own", other->second, rank);
    }
  }

  /// The libraries and the GPU, or why a rank has none.
  Result<void> findGpu(const collective::NcclNames& names) {
    if (options_.select == "interp") return fail("the interpreter runs on no GPU");
    TG_TRY(library_, NcclLibrary::open(names));
    TG_TRY(const std::vector<vulkan::DeviceInfo> devices, vulkan::listDevices());
    TG_TRY(const vulkan::Selection selection, vulkan::selectDevice(devices, options_.select));
    info_ = devices[static_cast<size_t>(selection.index)];
    nvidia_ = info_.driver.starts_with("NVIDIA");
    if (!nvidia_) return fail(fmt::format("{} is no GPU of NVIDIA's driver", info_.name));
    TG_CHECK(library_->openNccl(names));
    if (!info_.shares) return fail(fmt::format("{} shares no memory with CUDA", info_.name));
    TG_TRY(gpu_, CudaGpu::open(library_, info_.uuid));
    return {};
  }

  Result<void> open(std::string& id) {
    TG_TRY(device_, vulkan::Device::open(options_));
    if (host_->rank() > 0) return {};
    TG_TRY(id, NcclEngine::makeId(*library_));
    return {};
  }

  /// Joins the ranks, and sees that a mean of all comes back from Vulkan to Vulkan.
  Result<void> join(const std::string& id) {
    TG_TRY(engine_, NcclEngine::join(host_, gpu_, id, oneHost_));
    constexpr size_t kCount = 1000;
    std::vector<float> values(kCount, static_cast<float>(host_->rank()));
    const auto bytes = static_cast<int64_t>(kCount * sizeof(float));
    TG_TRY(const auto buffer, vulkan::Buffer::create(*device_, {"sum", bytes, vulkan::MemoryKind::device}));
    TG_CHECK(buffer->write(0, bytes, values.data()));
    TG_TRY(const auto shared, NcclDevice::create(*device_, *engine_));
    Cargo cargo;
    cargo.from = {{buffer.get(), 0, bytes}};
    TG_TRY(const auto travel, NcclTravel::create(shared, 0, cargo));
    TG_CHECK(travel->begin(*engine_));
    TG_CHECK(travel->wait(*engine_));
    TG_CHECK(awaitSum(*shared));
    TG_CHECK(buffer->read(0, bytes, values.data()));
    const float mean = static_cast<float>(host_->ranks() - 1) / 2;
    for (const float value : values)
      if (value < mean * 0.999F || value > mean * 1.001F)
        return fail(fmt::format("the mean of 0 to {} came back as {}", host_->ranks() - 1, value));
    return {};
  }

  Result<void> awaitSum(const NcclDevice& shared) {
    constexpr auto kLong = std::chrono::seconds(60);
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (;;) {
      TG_TRY(const uint64_t arrived, shared.arrived());
      if (arrived > 0) return {};
      if (host_->failed()) return engine_->failure();
      if (Clock::now() - begin > kLong) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    stuck_ = true;
    return fail("nccl: a first sum has not come back after 60 s; --collective=mpi does without");
  }

  std::shared_ptr<Engine> host_;
  vulkan::DeviceOptions options_;
  NcclJoined out_;
  std::shared_ptr<NcclLibrary> library_;
  vulkan::DeviceInfo info_;
  bool nvidia_ = false, oneHost_ = true, stuck_ = false;
  std::shared_ptr<CudaGpu> gpu_;
  std::shared_ptr<vulkan::Device> device_;
  std::shared_ptr<NcclEngine> engine_;
};

}  // namespace

Result<NcclJoined> joinNccl(const std::shared_ptr<Engine>& host, vulkan::DeviceOptions device,
                            const collective::NcclNames& names) {
  return Joining(host, std::move(device)).run(names);
}

}  // namespace tg
