// SPDX-License-Identifier: Apache-2.0
// Each rank creates an anonymous file in memory (memfd_create) and sends the others its path,
// /proc/PROCESS/fd/DESCRIPTOR, and a random number that it has written to its start. They map the file and compare the
// number. The kernel frees the file when the last process that maps it has ended, also after a crash.
#include "runtime/collective/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <random>

#include <fmt/format.h>

#include "ir/divide.h"
#include "runtime/collective/engine.h"

namespace tg::collective {

namespace {

constexpr int64_t kPage = int64_t(64) << 10;

/// Owns a file descriptor.
struct File {
  int descriptor = -1;
  explicit File(int opened) : descriptor(opened) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
};

/// Identifies the PID namespace: the kernel's boot id and the namespace's name. Empty: unknown.
std::string pidNamespace() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> processes{};
  if (boot.empty() || readlink("/proc/self/ns/pid", processes.data(), processes.size() - 1) <= 0) return "";
  return boot + ' ' + processes.data();
}

std::byte* map(const File& file, int64_t bytes) {
  if (file.descriptor < 0) return nullptr;
  void* at =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

}  // namespace

Result<std::shared_ptr<SharedMemory>> SharedMemory::create(Engine& ranks, int64_t bytes) {
  std::shared_ptr<SharedMemory> made(new SharedMemory);
  made->bytes_ = std::max<int64_t>(1, divideCeil(bytes, kPage)) * kPage;
  made->bases_.resize(static_cast<size_t>(ranks.ranks()));
  std::byte*& own = made->bases_[static_cast<size_t>(ranks.rank())];
  File file(memfd_create("tensorgrad", MFD_CLOEXEC));
  if (file.descriptor >= 0 && ftruncate(file.descriptor, made->bytes_) == 0) own = map(file, made->bytes_);
  const uint64_t number = std::random_device()() * uint64_t{0x100000001} + 1;
  const std::string here = pidNamespace();
  std::string place;
  if (own && !here.empty()) {
    std::memcpy(own, &number, sizeof number);
    place = fmt::format("{} /proc/{}/fd/{} {}", here, getpid(), file.descriptor, number);
  }
  TG_TRY(const std::vector<std::string> places, ranks.allGather(place));
  bool all = !place.empty();
  for (int rank = 0; rank < ranks.ranks() && all; ++rank) {
    const std::string& told = places[static_cast<size_t>(rank)];
    // In another PID namespace the path may name any other file.
    all = told.starts_with(here + ' ');
    if (!all || rank == ranks.rank()) continue;
    const size_t path = here.size() + 1, end = told.find(' ', path);
    const File other(open(told.substr(path, end - path).c_str(), O_RDWR | O_CLOEXEC));
    std::byte* base = made->bases_[static_cast<size_t>(rank)] = map(other, made->bytes_);
    uint64_t found = 0;
    if (base) std::memcpy(&found, base, sizeof found);
    all = base && told.substr(end + 1) == std::to_string(found);
  }
  TG_TRY(all, ranks.agree(all));
  if (own) std::memset(own, 0, sizeof number);  // all have compared it
  return all ? std::move(made) : nullptr;
}

SharedMemory::~SharedMemory() {
  for (std::byte* base : bases_)
    if (base) munmap(base, static_cast<size_t>(bytes_));
}

}  // namespace tg::collective
