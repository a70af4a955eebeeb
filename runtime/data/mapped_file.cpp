// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/data/file_io.h"

namespace tg {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    TG_TRY(file->read_, readFile(path));
    file->bytes_ = file->read_;
    return std::shared_ptr<const MappedFile>(std::move(file));
  }
  const auto failed = [&](const char* doing) {
    return fail(fmt::format("{}: cannot {}: {}", path, doing, std::strerror(errno)));
  };
  file->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file->descriptor_ < 0) return failed("open");
  // The size of what was opened, should the name mean another file by now.
  if (::fstat(file->descriptor_, &status) != 0) return failed("read");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(std::move(file));
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->descriptor_, 0);
  if (start == MAP_FAILED) return failed("map");
  file->bytes_ = {static_cast<const std::byte*>(start), size};
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (descriptor_ < 0) return;
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  ::close(descriptor_);
}

Result<void> MappedFile::read(size_t offset, std::span<std::byte> to) const {
  if (descriptor_ < 0) {
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
    return {};
  }
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(fmt::format("{}: cannot read: {}", path_, std::strerror(errno)));
    if (got == 0) {
      TG_CHECK(checkSize());
      return fail(fmt::format("{}: the file changed while in use", path_));
    }
    to = to.subspan(static_cast<size_t>(got));
    offset += static_cast<size_t>(got);
  }
  return {};
}

Result<void> MappedFile::checkSize() const {
  if (descriptor_ < 0) return {};
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0)
    return fail(fmt::format("{}: cannot read: {}", path_, std::strerror(errno)));
  if (static_cast<size_t>(status.st_size) == bytes_.size()) return {};
  return fail(fmt::format("{}: the file changed while in use: it had {} bytes and has {} now", path_,
                          bytes_.size(), status.st_size));
}

}  // namespace tg
