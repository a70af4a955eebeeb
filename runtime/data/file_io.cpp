// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/file_io.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <xxhash.h>

#include "ir/text_file.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp.";

/// A file descriptor, closed by the destructor.
struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

void syncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  // The rename is already done. A file system that cannot sync directories is no failure.
  Descriptor file{::open(directory.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.value >= 0) ::fsync(file.value);
}

Result<void> writeAll(int descriptor, const std::string& path, std::span<const std::byte> bytes) {
  return tg::writeAll(descriptor, asText(bytes)) ? Result<void>() : systemError(path, "write");
}

/// The error that says what is at a path instead of a file.
Error noFile(const std::string& path, mode_t mode) {
  const char* kind = S_ISDIR(mode)    ? "directory"
                     : S_ISFIFO(mode) ? "pipe"
                     : S_ISSOCK(mode) ? "socket"
                                      : "device";
  return fail("{}: expected a file, got a {}", path, kind);
}

/// Opens a regular file, or with `pipes` a pipe. Other things are errors: reading a device such as /dev/zero never
/// ends.
Result<void> openForReading(const std::string& path, bool pipes, Descriptor& file, struct stat& status) {
  file.value = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (pipes ? 0 : O_NONBLOCK));
  if (file.value < 0) return systemError(path, "open");
  if (::fstat(file.value, &status) != 0) return systemError(path, "read");
  if (S_ISREG(status.st_mode) || (pipes && S_ISFIFO(status.st_mode))) return {};
  return noFile(path, status.st_mode);
}

Result<std::vector<std::byte>> readWhole(const std::string& path, bool pipes) {
  Descriptor file;
  struct stat status {};
  TG_CHECK(openForReading(path, pipes, file, status));

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

}  // namespace

Error systemError(const std::string& path, const char* doing) {
  return fail("{}: cannot {}: {}", path, doing, std::strerror(errno));
}

Result<void> expectFile(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return {};
  return noFile(path, status.st_mode);
}

Result<std::vector<std::byte>> readFile(const std::string& path) { return readWhole(path, /*pipes=*/false); }

Result<std::vector<std::byte>> readFileOrPipe(const std::string& path) {
  return readWhole(path, /*pipes=*/true);
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  AtomicFile file;
  file.path_ = path;
  // A rename would replace a device or a pipe by a file, so those are written directly.
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file.descriptor_ < 0) return systemError(path, "write");
    return file;
  }
  // A symbolic link, such as /dev/stdout, stays: its target is replaced.
  std::error_code error;
  if (const fs::path target = fs::canonical(path, error); !error && fs::is_symlink(path, error))
    file.path_ = target.string();
  do {
    // Processes in two containers may have the same number, so a killed process may have left a file of this name.
    file.temporary_ = fmt::format("{}{}{}.{}", file.path_, kTemporary, ::getpid(), counter++);
    file.descriptor_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file.descriptor_ < 0 && errno == EEXIST);
  if (file.descriptor_ < 0) return systemError(path, "write");
  ::flock(file.descriptor_, LOCK_EX | LOCK_NB);  // marks the file as in use for removeStaleFiles
  return file;
}

void removeStaleFiles(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().native().find(kTemporary) != std::string::npos) found.push_back(at->path());
  for (const std::string& path : found) {
    Descriptor file{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    if (file.value >= 0 && ::flock(file.value, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  }
}

Result<std::string> setAside(const std::string& path) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return std::string();
  std::string aside = path + ".old";
  for (int i = 2; fs::exists(fs::symlink_status(aside, error)); ++i)
    aside = fmt::format("{}.old.{}", path, i);
  if (::rename(path.c_str(), aside.c_str()) != 0) return systemError(path, "move aside");
  return aside;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  return writeAll(descriptor_, path_, bytes);
}

Result<void> AtomicFile::commit() {
  if (temporary_.empty()) {
    if (::close(std::exchange(descriptor_, -1)) != 0) return systemError(path_, "write");
    return {};
  }
  if (::fsync(descriptor_) != 0) return systemError(path_, "write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return systemError(path_, "replace");
  ::close(std::exchange(descriptor_, -1));
  syncDirectoryOf(path_);
  return {};
}

struct FileHash {
  XXH3_state_t* state = XXH3_createState();
  uint64_t bytes = 0;
  FileHash() { XXH3_64bits_reset(state); }
  ~FileHash() { XXH3_freeState(state); }
  void add(std::span<const std::byte> more) {
    XXH3_64bits_update(state, more.data(), more.size());
    bytes += more.size();
  }
  FileDigest digest() const { return {XXH3_64bits_digest(state), bytes}; }
};

NewFile::NewFile() : hash_(std::make_unique<FileHash>()) {}
NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)), hash_(std::move(other.hash_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}
NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<NewFile> NewFile::create(const std::string& path) {
  NewFile file;
  file.path_ = path;
  file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) return systemError(path, "write");
  return file;
}

Result<void> NewFile::write(std::span<const std::byte> bytes) {
  hash_->add(bytes);
  return writeAll(descriptor_, path_, bytes);
}

Result<FileDigest> NewFile::finish() {
  if (::fsync(descriptor_) != 0) return systemError(path_, "write");
  // Some network file systems report a full disk only at close.
  if (::close(std::exchange(descriptor_, -1)) != 0) return systemError(path_, "write");
  return hash_->digest();
}

Result<FileDigest> digestFile(const std::string& path) {
  Descriptor file;
  struct stat status {};
  TG_CHECK(openForReading(path, /*pipes=*/false, file, status));
  std::vector<std::byte> chunk(size_t{1} << 20);
  FileHash hash;
  while (true) {
    const ssize_t got = ::read(file.value, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return systemError(path, "read");
    if (got == 0) break;
    hash.add(std::span(chunk).first(static_cast<size_t>(got)));
  }
  return hash.digest();
}

Result<void> syncFolder(const std::string& path) {
  Descriptor folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.value < 0) return systemError(path, "open");
  if (::fsync(folder.value) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS) return {};
  return systemError(path, "write");
}

Result<void> writeFile(const std::string& path, std::string_view text) {
  return writeFile(path, std::as_bytes(std::span(text)));
}

Result<void> writeFile(const std::string& path, std::span<const std::byte> bytes) {
  TG_TRY(AtomicFile file, AtomicFile::create(path));
  TG_CHECK(file.write(bytes));
  return file.commit();
}

Result<void> AppendFile::open(const std::string& path, int flags) {
  close();
  path_ = path;
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | flags, 0666);
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) return systemError(path_, "write");
  size_ = status.st_size;
  return {};
}

Result<void> AppendFile::append(std::string_view text) {
  if (!writeAll(descriptor_, text)) {
    Error error = systemError(path_, "write");
    if (::ftruncate(descriptor_, size_) != 0) error.addNote(nullptr, "the last line may be cut off");
    return error;
  }
  size_ += static_cast<off_t>(text.size());
  return {};
}

void AppendFile::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

std::string DamagedRows::text() const {
  if (count == 0) return "";
  const std::string more = count > 1 ? fmt::format(", and {} more", count - 1) : "";
  return fmt::format("{}:{}: the row is damaged{}; all rows are kept as {}, the good ones are taken over",
                     path, first, more, aside);
}

}  // namespace tg
