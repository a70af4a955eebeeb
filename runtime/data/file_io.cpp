#include "runtime/data/file_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tg {

namespace {

Error systemError(const std::string& path, const char* doing) {
  return fail(fmt::format("{}: cannot {}: {}", path, doing, std::strerror(errno)));
}

/// A descriptor that closes itself.
struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

void syncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  // The rename is done already; a file system that cannot sync directories is no failure.
  Descriptor file{::open(directory.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.value >= 0) ::fsync(file.value);
}

}  // namespace

Result<std::vector<std::byte>> readFile(const std::string& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.value < 0) return systemError(path, "open");
  struct stat status {};
  if (::fstat(file.value, &status) != 0) return systemError(path, "read");
  // A device such as /dev/zero has no end.
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))
    return fail(fmt::format("{}: expected a file, got {}", path,
                            S_ISDIR(status.st_mode) ? "a directory" : "a device"));

  std::vector<std::byte> bytes(static_cast<size_t>(status.st_size) + 1);
  size_t used = 0;
  while (true) {
    if (used == bytes.size()) bytes.resize(bytes.size() * 2 + 65536);
    const ssize_t got = ::read(file.value, bytes.data() + used, bytes.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return systemError(path, "read");
    if (got == 0) break;
    used += static_cast<size_t>(got);
  }
  bytes.resize(used);
  return bytes;
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  AtomicFile file;
  file.path_ = path;
  file.temporary_ = fmt::format("{}.tmp.{}.{}", path, ::getpid(), counter++);
  file.descriptor_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) return systemError(path, "write");
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return systemError(path_, "write");
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return {};
}

Result<void> AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) return systemError(path_, "write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return systemError(path_, "replace");
  ::close(std::exchange(descriptor_, -1));
  syncDirectoryOf(path_);
  return {};
}

Result<void> writeFile(const std::string& path, std::span<const std::byte> bytes) {
  TG_TRY(AtomicFile file, AtomicFile::create(path));
  TG_CHECK(file.write(bytes));
  return file.commit();
}

}  // namespace tg
