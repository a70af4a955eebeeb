// SPDX-License-Identifier: Apache-2.0
#include "ir/file_io.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <xxhash.h>

namespace tg {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp.";

/// The error that says what is at a path instead of a file.
Error noFile(const std::string& path, mode_t mode) {
  const char* kind = S_ISDIR(mode)    ? "directory"
                     : S_ISFIFO(mode) ? "pipe"
                     : S_ISSOCK(mode) ? "socket"
                                      : "device";
  return fail("{}: expected a file, got a {}", path, kind);
}

/// Reads a regular file, or with `pipes` a pipe. Other things are errors: reading a device such as /dev/zero never
/// ends.
Result<std::vector<std::byte>> readWhole(const std::string& path, bool pipes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | (pipes ? 0 : O_NONBLOCK)));
  if (!file) return systemError(path, "open");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return systemError(path, "read");
  if (!S_ISREG(status.st_mode) && !(pipes && S_ISFIFO(status.st_mode))) return noFile(path, status.st_mode);

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

bool isSameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void syncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  // The file has its name already. A file system that cannot sync folders is no failure.
  if (const auto folder = Descriptor::ofFolder(slash == std::string::npos ? "." : path.substr(0, slash + 1)))
    ::fsync(folder.get());
}

}  // namespace

Descriptor Descriptor::ofFolder(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool Descriptor::close() {
  const int value = std::exchange(value_, -1);
  return value < 0 || ::close(value) == 0;
}

Error systemError(const std::string& path, const char* doing) {
  return fail("{}: cannot {}: {}", path, doing, std::strerror(errno));
}

bool isThere(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool isNamed(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
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

Result<std::string> readText(int file, const std::string& name) {
  std::string text;
  std::string buffer(65536, 0);
  for (;;) {
    const ssize_t count = ::read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemError(name, "read");
    if (count == 0) break;
    const size_t before = text.size();
    text.append(buffer, 0, static_cast<size_t>(count));
    // Checked while reading: /dev/zero has no end.
    if (const size_t zero = text.find('\0', before); zero != std::string::npos)
      return fail("{} is not text: byte {} is zero", name, zero);
  }
  return text;
}

Result<std::string> readTextFile(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return noFile(path, status.st_mode);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return systemError(path, "open");
  return readText(file.get(), path);
}

bool writeAll(int file, std::string_view text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

bool isFileAt(int file, const std::string& path) {
  struct stat held {
  }, named{};
  return ::fstat(file, &held) == 0 && ::stat(path.c_str(), &named) == 0 && isSameFile(held, named);
}

namespace {

/// The path to which symbolic links lead; a file may not exist there. If the links form a circle, the given path.
std::string throughLinks(const std::string& path) {
  constexpr int kMostLinks = 40;  // as in Linux
  std::error_code error;
  fs::path at = path;
  for (int i = 0; i < kMostLinks && fs::is_symlink(at, error); ++i) {
    const fs::path next = fs::read_symlink(at, error);
    if (error) return path;
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  return fs::is_symlink(at, error) ? path : at.string();
}

/// Whether a link and the name it stands for lead to one file. Another process may replace that file between the two
/// looks, so a difference counts only if the link leads to the same file before and after.
bool leadTogether(const std::string& link, const std::string& name) {
  struct stat before {
  }, named{}, after{};
  do {
    if (::stat(link.c_str(), &before) != 0) return true;  // gone: there is nothing that a rename could lose
    if (::stat(name.c_str(), &named) == 0 && isSameFile(before, named)) return true;
  } while (::stat(link.c_str(), &after) != 0 || !isSameFile(before, after));
  return false;
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  AtomicFile file;
  file.path_ = throughLinks(path);
  struct stat there {};
  const bool exists = ::stat(path.c_str(), &there) == 0;
  // A rename would replace a device or a pipe by a file, so those are written directly. So is an open file that has no
  // name any more, which a link in /proc may stand for.
  const bool hasName = !exists || file.path_ == path || leadTogether(path, file.path_);
  if (exists && (!S_ISREG(there.st_mode) || !hasName)) {
    file.file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC | (hasName ? 0 : O_TRUNC)));
    if (!file.file_) return systemError(path, "write");
    return file;
  }
  const mode_t mode = exists ? there.st_mode & 0777 : 0666;
  do {
    // Processes in two containers may have the same number, so a killed process may have left a file of this name.
    file.temporary_ = fmt::format("{}{}{}.{}", file.path_, kTemporary, ::getpid(), counter++);
    file.file_ = Descriptor(::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!file.file_ && errno != EEXIST) return systemError(path, "write");
    // The lock marks the file as in use for removeStaleFiles, which may have been faster.
    if (file.file_) ::flock(file.file_.get(), LOCK_EX | LOCK_NB);
  } while (!file.file_ || !isFileAt(file.file_.get(), file.temporary_));
  // The process's mask may have taken permissions away. A file system without permissions gives all files the same.
  struct stat made {};
  const bool same = ::fstat(file.file_.get(), &made) == 0 && (made.st_mode & 0777) == mode;
  if (exists && !same && ::fchmod(file.file_.get(), mode) != 0) return systemError(path, "write");
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  return writeAll(file_.get(), asText(bytes)) ? Result<void>() : systemError(path_, "write");
}

Result<void> AtomicFile::rename() {
  if (temporary_.empty()) return {};
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return systemError(path_, "replace");
  temporary_.clear();
  return {};
}

/// Closes the file. The result keeps its lock, so that it does not count as stale before it has its name.
Result<Descriptor> AtomicFile::close() {
  Descriptor lock(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  if (!file_.close()) return systemError(path_, "write");
  return lock;
}

Result<void> AtomicFile::commit() {
  TG_TRY(const Descriptor lock, close());
  return rename();
}

Result<void> AtomicFile::commitDurably() {
  if (temporary_.empty()) return commit();
  if (::fsync(file_.get()) != 0) return systemError(path_, "write");
  TG_CHECK(rename());
  syncFolderOf(path_);
  return {};
}

Result<bool> AtomicFile::commitIfAbsent() {
  TG_TRY(const Descriptor lock, close());
  if (temporary_.empty() || ::link(temporary_.c_str(), path_.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  // A file system without hard links cannot create a name exclusively.
  if (errno != EPERM && errno != EOPNOTSUPP) return systemError(path_, "write");
  TG_CHECK(rename());
  return true;
}

/// Whether a name ends as AtomicFile ends it: .tmp.PROCESS.NUMBER.
static bool isTemporary(std::string_view name) {
  const size_t at = name.rfind(kTemporary);
  if (at == std::string_view::npos) return false;
  name.remove_prefix(at + kTemporary.size());
  const size_t dot = name.find('.');
  return dot != 0 && dot + 1 < name.size() && std::ranges::count(name, '.') == 1 &&
         std::ranges::all_of(name, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

void removeStaleFiles(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (isTemporary(at->path().filename().native())) found.push_back(at->path());
  for (const std::string& path : found) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  }
}

Result<void> writeFile(const std::string& path, std::string_view text) {
  return writeFile(path, std::as_bytes(std::span(text)));
}

Result<void> writeFile(const std::string& path, std::span<const std::byte> bytes) {
  TG_TRY(AtomicFile file, AtomicFile::create(path));
  TG_CHECK(file.write(bytes));
  return file.commitDurably();
}

namespace {

/// What a sealed file begins with.
struct SealHeader {
  char magic[8] = {};
  uint64_t bytes = 0;
  uint64_t checksum = 0;

  SealHeader() = default;
  SealHeader(const Seal& seal, std::span<const std::byte> data)
      : bytes(data.size()), checksum(XXH3_64bits_withSeed(data.data(), data.size(),
                                                          XXH3_64bits(seal.name.data(), seal.name.size()))) {
    seal.magic.copy(magic, sizeof magic);
  }
};

}  // namespace

std::vector<std::byte> readSealed(const std::string& path, const Seal& seal) {
  auto file = readFile(path);
  if (!file || file->size() < sizeof(SealHeader)) return {};
  const SealHeader expected(seal, std::span(*file).subspan(sizeof expected));
  if (std::memcmp(file->data(), &expected, sizeof expected) != 0) return {};
  file->erase(file->begin(), file->begin() + sizeof expected);
  return *std::move(file);
}

Result<void> writeSealed(const std::string& path, const Seal& seal, std::span<const std::byte> bytes) {
  const SealHeader header(seal, bytes);
  TG_TRY(AtomicFile file, AtomicFile::create(path));
  TG_CHECK(file.write(std::as_bytes(std::span(&header, 1))));
  TG_CHECK(file.write(bytes));
  return file.commit();
}

Result<void> makeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return fail("{}: cannot make the folder: {}", path, error.message());
  return {};
}

}  // namespace tg
