// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoint_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "ir/text.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTitle = "tensorgrad checkpoint 1";
constexpr std::string_view kTemporary = ".tmp-";

std::string_view nextLine(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

void removeTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
}

/// Exchanges two names atomically if the file system can; otherwise there is a moment without `to`.
Result<void> swapNames(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return systemError(to, "replace");
  const std::string aside = from + "-old";
  if (::rename(to.c_str(), aside.c_str()) != 0) return systemError(to, "replace");
  if (::rename(from.c_str(), to.c_str()) != 0) {
    Error error = systemError(to, "replace");
    return ::rename(aside.c_str(), to.c_str()) == 0 ? error : systemError(to, "restore");
  }
  if (::rename(aside.c_str(), from.c_str()) != 0) removeTree(aside);
  return {};
}

/// Removes a temporary folder if the process that made it is gone. Its lock shows that, even if a process in another
/// container has the same number. If locks do not work, the process number in the name is used.
void removeIfStale(const std::string& path) {
  const Descriptor folder = Descriptor::ofFolder(path);
  if (!folder) return;
  const bool locked = ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno == EWOULDBLOCK) return;
  if (!locked) {
    std::string_view name(path);
    name.remove_prefix(name.rfind('-') + 1);
    if (const size_t dot = name.find('.'); dot != std::string_view::npos) name = name.substr(0, dot);
    const auto process = numberIn<pid_t>(name);
    if (!process || ::kill(*process, 0) == 0 || errno != ESRCH) return;
  }
  removeTree(path);
}

std::string temporaryPath(const std::string& parent, const std::string& name) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}/{}{}-{}.{}", parent, kTemporary, name, ::getpid(), counter++);
}

/// The last line of COMPLETE: the hash of the lines before it, which are `text`.
std::string endLine(std::string_view text) {
  return fmt::format("end {:016x}\n", XXH3_64bits(text.data(), text.size()));
}

}  // namespace

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
  return writeAll(file_.get(), asText(bytes)) ? Result<void>() : systemError(path_, "write");
}

Result<FileDigest> NewFile::finish() {
  if (::fsync(file_.get()) != 0 || !file_.close()) return systemError(path_, "write");
  return hash_->digest();
}

Result<FileDigest> digestFile(const std::string& path) {
  TG_CHECK(expectFile(path));
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return systemError(path, "open");
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

std::string formatComplete(const FileDigests& files) {
  std::string text = fmt::format("{}\n", kTitle);
  uint64_t total = 0;
  for (const auto& [name, digest] : files) {
    text += fmt::format("{:016x}  {}  {}\n", digest.xxh3, digest.bytes, name);
    total += digest.bytes;
  }
  text += fmt::format("total {}\n", total);
  return text + endLine(text);
}

Result<FileDigests> parseComplete(std::string_view text) {
  const auto broken = [](std::string_view why) { return fail("{} {}", kCompleteFile, why); };
  const size_t last = text.rfind("end ");
  if (last == std::string_view::npos || !text.ends_with('\n'))
    return broken("is cut off or not of this program");
  if (text.substr(last) != endLine(text.substr(0, last))) return broken("was changed");
  text = text.substr(0, last);
  if (nextLine(text) != kTitle) return broken("is of another version of this program");
  FileDigests files;
  uint64_t sum = 0;
  while (!text.empty() && !text.starts_with("total ")) {
    std::string_view line = nextLine(text);
    const size_t middle = line.find("  "), second = line.find("  ", middle + 2);
    if (middle == std::string_view::npos || second == std::string_view::npos) return broken("is malformed");
    const auto xxh3 = numberIn<uint64_t>(line.substr(0, middle), 16),
               bytes = numberIn<uint64_t>(line.substr(middle + 2, second - middle - 2));
    if (!xxh3 || !bytes) return broken("is malformed");
    files.emplace_back(line.substr(second + 2), FileDigest{*xxh3, *bytes});
    sum += *bytes;
  }
  std::string_view line = nextLine(text);
  if (!line.starts_with("total ") || numberIn<uint64_t>(line.substr(6)) != sum || !text.empty())
    return broken("is malformed");
  return files;
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : parent_(std::move(other.parent_)), name_(std::move(other.name_)), path_(std::exchange(other.path_, {})),
      lock_(std::move(other.lock_)) {}

StagedFolder::~StagedFolder() {
  if (!path_.empty()) removeTree(path_);
}

Result<StagedFolder> StagedFolder::create(const std::string& parent, const std::string& name) {
  StagedFolder folder;
  folder.parent_ = parent;
  folder.name_ = name;
  do {
    const std::string path = temporaryPath(parent, name);
    removeTree(path);  // left by a process that ended long ago and had the same number
    std::error_code error;
    if (!fs::create_directory(path, error))
      return fail("{}: cannot make a folder: {}", parent,
                  error ? error.message() : std::string("it appeared meanwhile"));
    folder.path_ = path;
    folder.lock_ = Descriptor::ofFolder(path);
    if (!folder.lock_ && errno != ENOENT) return systemError(path, "open");
    // If locks do not work, the number in the name is used. Until it is locked, another process may take the folder for
    // a stale one: that process holds the lock, or has removed the folder.
    const bool taken =
        folder.lock_ && ::flock(folder.lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (taken) folder.lock_ = Descriptor();
  } while (!folder.lock_ || !isFileAt(folder.lock_.get(), folder.path_));
  return folder;
}

Error StagedFolder::named(const Error& error) const {
  std::string message = error.message();
  if (message.starts_with(path_)) message.replace(0, path_.size(), parent_ + "/" + name_);
  return fail(std::move(message));
}

Result<void> StagedFolder::commit() {
  if (auto synced = syncFolder(path_); !synced) return named(synced.error());
  const std::string target = parent_ + "/" + name_;
  if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) {
    path_.clear();
  } else if (errno == EEXIST) {
    TG_CHECK(swapNames(path_, target));  // the destructor removes the old folder
  } else if (errno == EINVAL || errno == ENOSYS) {
    if (isNamed(target)) {
      TG_CHECK(swapNames(path_, target));
    } else {
      if (::rename(path_.c_str(), target.c_str()) != 0) return systemError(target, "make");
      path_.clear();
    }
  } else {
    return systemError(target, "make");
  }
  return syncFolder(parent_);
}

std::shared_ptr<const FolderHold> FolderHold::take(const std::string& path) {
  Descriptor opened = Descriptor::ofFolder(path);
  if (!opened) return nullptr;
  std::shared_ptr<const FolderHold> hold(new FolderHold(std::move(opened)));
  const int folder = hold->folder_.get();
  // Who saves or removes it holds it only for a moment. On a file system without locks nothing is held.
  constexpr int kAttempts = 20;
  for (int i = 0; ::flock(folder, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++i) {
    if (i == kAttempts) return nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // Before it was locked, it may have been renamed for removal.
  return isFileAt(folder, path) ? hold : nullptr;
}

Result<void> removeFolder(const std::string& parent, const std::string& name) {
  const std::string aside = temporaryPath(parent, name), path = parent + "/" + name;
  {
    const Descriptor folder = Descriptor::ofFolder(path);
    if (folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return {};
    if (::rename(path.c_str(), aside.c_str()) != 0) return systemError(path, "remove");
  }
  std::error_code failed;
  fs::remove_all(aside, failed);
  if (failed) return fail("{}: cannot remove: {}", path, failed.message());
  return {};
}

void removeStaleFolders(const std::string& parent, const std::string& name) {
  // The name is .tmp-NAME-PROCESS.NUMBER.
  auto isOurs = [&](std::string_view file) {
    return file.starts_with(kTemporary) &&
           (name.empty() || file.substr(0, file.rfind('-')).substr(kTemporary.size()) == name);
  };
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error))
    if (isOurs(at->path().filename().native())) found.push_back(at->path());
  for (const std::string& path : found) removeIfStale(path);
}

}  // namespace tg
