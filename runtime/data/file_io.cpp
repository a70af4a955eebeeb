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

namespace tg {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp.";

void syncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  // The rename is already done. A file system that cannot sync directories is no failure.
  if (const Descriptor folder = Descriptor::ofFolder(directory)) ::fsync(folder.get());
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
  file = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | (pipes ? 0 : O_NONBLOCK)));
  if (!file) return systemError(path, "open");
  if (::fstat(file.get(), &status) != 0) return systemError(path, "read");
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
    const ssize_t got = ::read(file.get(), bytes.data() + used, bytes.size() - used);
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
    file.file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.file_) return systemError(path, "write");
    return file;
  }
  // A symbolic link, such as /dev/stdout, stays: its target is replaced.
  std::error_code error;
  if (const fs::path target = fs::canonical(path, error); !error && fs::is_symlink(path, error))
    file.path_ = target.string();
  do {
    // Processes in two containers may have the same number, so a killed process may have left a file of this name.
    file.temporary_ = fmt::format("{}{}{}.{}", file.path_, kTemporary, ::getpid(), counter++);
    file.file_ = Descriptor(::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  } while (!file.file_ && errno == EEXIST);
  if (!file.file_) return systemError(path, "write");
  ::flock(file.file_.get(), LOCK_EX | LOCK_NB);  // marks the file as in use for removeStaleFiles
  return file;
}

void removeStaleFiles(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().native().find(kTemporary) != std::string::npos) found.push_back(at->path());
  for (const std::string& path : found) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
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

AtomicFile::~AtomicFile() {
  if (file_ && !temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  return writeAll(file_.get(), path_, bytes);
}

Result<void> AtomicFile::commit() {
  if (temporary_.empty()) return file_.close() ? Result<void>() : systemError(path_, "write");
  if (::fsync(file_.get()) != 0) return systemError(path_, "write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return systemError(path_, "replace");
  file_.close();
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
NewFile::NewFile(NewFile&&) noexcept = default;
NewFile::~NewFile() = default;

Result<NewFile> NewFile::create(const std::string& path) {
  NewFile file;
  file.path_ = path;
  file.file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.file_) return systemError(path, "write");
  return file;
}

Result<void> NewFile::write(std::span<const std::byte> bytes) {
  hash_->add(bytes);
  return writeAll(file_.get(), path_, bytes);
}

Result<FileDigest> NewFile::finish() {
  if (::fsync(file_.get()) != 0 || !file_.close()) return systemError(path_, "write");
  return hash_->digest();
}

Result<FileDigest> digestFile(const std::string& path) {
  Descriptor file;
  struct stat status {};
  TG_CHECK(openForReading(path, /*pipes=*/false, file, status));
  std::vector<std::byte> chunk(size_t{1} << 20);
  FileHash hash;
  while (true) {
    const ssize_t got = ::read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return systemError(path, "read");
    if (got == 0) break;
    hash.add(std::span(chunk).first(static_cast<size_t>(got)));
  }
  return hash.digest();
}

Result<void> syncFolder(const std::string& path) {
  const Descriptor folder = Descriptor::ofFolder(path);
  if (!folder) return systemError(path, "open");
  if (::fsync(folder.get()) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS) return {};
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
  path_ = path;
  file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | flags, 0666));
  struct stat status {};
  if (!file_ || ::fstat(file_.get(), &status) != 0) return systemError(path_, "write");
  size_ = status.st_size;
  return {};
}

Result<void> AppendFile::append(std::string_view text) {
  if (!writeAll(file_.get(), text)) {
    Error error = systemError(path_, "write");
    if (::ftruncate(file_.get(), size_) != 0) error.addNote(nullptr, "the last line may be cut off");
    return error;
  }
  size_ += static_cast<off_t>(text.size());
  return {};
}

std::string DamagedRows::text() const {
  if (count == 0) return "";
  const std::string more = count > 1 ? fmt::format(", and {} more", count - 1) : "";
  return fmt::format("{}:{}: the row is damaged{}; all rows are kept as {}, the good ones are taken over",
                     path, first, more, aside);
}

}  // namespace tg
