// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/io.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "ir/text_file.h"

namespace tg {

namespace fs = std::filesystem;

static Error cannot(std::string_view what, const std::string& path) {
  return fail("cannot {} {}: {}", what, path, std::strerror(errno));
}

Result<std::string> readInput(const std::string& path) {
  if (path != "-") return readTextFile(path);
  if (::isatty(0)) fmt::print(stderr, "reading standard input; end it with Ctrl-D\n");
  return readText(0, "standard input");
}

Result<void> mayWrite(const std::string& flag, const std::string& path) {
  if (path.empty() || path == "-") return {};
  auto refuse = [&](const std::string& why) { return fail("{}={}: {}", flag, path, why); };
  struct stat status {};
  const bool there = ::stat(path.c_str(), &status) == 0;
  if (!there && errno != ENOENT) return refuse(std::strerror(errno));
  if (there && S_ISDIR(status.st_mode)) return refuse("it is a directory");
  if (there && !S_ISREG(status.st_mode))
    return ::access(path.c_str(), W_OK) == 0 ? Result<void>() : refuse(std::strerror(errno));
  // The file is written to a temporary file beside it and renamed, so that it is complete or absent.
  std::error_code error;
  const fs::path named = there ? fs::canonical(path, error) : fs::path(path);
  const std::string folder = named.has_parent_path() ? named.parent_path().string() : ".";
  if (!fs::is_directory(folder, error)) return refuse(fmt::format("there is no folder {}", folder));
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? Result<void>() : refuse(std::strerror(errno));
}

Result<void> mayMakeFolder(const std::string& flag, const std::string& path) {
  std::error_code error;
  auto refuse = [&](const std::string& why) { return fail("{}={}: {}", flag, path, why); };
  fs::path at = fs::absolute(path, error).lexically_normal();
  if (error) return refuse(fmt::format("where this runs: {}", error.message()));
  if (!at.has_filename()) at = at.parent_path();
  while (!fs::exists(fs::symlink_status(at, error)) && at.has_relative_path()) at = at.parent_path();
  if (!fs::is_directory(at, error)) return refuse(fmt::format("{} is not a folder", at.string()));
  return ::access(at.c_str(), W_OK | X_OK) == 0
             ? Result<void>()
             : refuse(fmt::format("{}: {}", at.string(), std::strerror(errno)));
}

Result<void> notOverOther(const std::string& flag, const std::string& path, bool (*begins)(std::string_view),
                          const std::vector<std::string>& read) {
  std::error_code error;
  if (path.empty() || path == "-" || !fs::is_regular_file(path, error)) return {};
  for (const std::string& input : read)
    if (fs::equivalent(path, input, error))
      return fail("{}={} would be written over {}, which is read: choose another name", flag, path, input);
  const std::string start = beginningOf(path, 4096);
  if (start.empty() || begins(start)) return {};
  return fail("{}={} would replace a file of another kind: remove it or choose another name", flag, path);
}

Result<void> notOneFile(const std::vector<OutputFile>& outputs) {
  std::error_code error;
  std::map<fs::path, const OutputFile*> known;
  for (const OutputFile& output : outputs) {
    const std::string& path = output.path;
    if (path.empty() || path == "-" || (fs::exists(path, error) && !fs::is_regular_file(path, error)))
      continue;
    fs::path file = fs::weakly_canonical(fs::absolute(path, error), error);
    const auto [other, added] = known.emplace(std::move(file), &output);
    if (!added)
      return fail("{}={} and {}={} are one file: choose another name for one of them", other->second->flag,
                  other->second->path, output.flag, path);
  }
  return {};
}

std::string beginningOf(const std::string& path, size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string beginning(most, '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(most));
  beginning.resize(static_cast<size_t>(file.gcount()));
  return beginning;
}

bool beginsText(std::string_view bytes) { return bytes.find('\0') == std::string_view::npos; }

static Result<void> writeThrough(const std::string& path, const std::string& text) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file || !writeAll(file.get(), text) || !file.close()) return cannot("write", path);
  return {};
}

/// Gives a finished file its name. False, with errno, on failure.
using GiveName = std::function<bool(const char* temporary, const char* target)>;

static Result<void> writeBeside(const std::string& path, const std::string& text, const GiveName& name) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  // A symbolic link stays: its target is replaced.
  const std::string target = fs::exists(status) ? fs::canonical(path, error).string() : path;
  std::string temporary = target + ".XXXXXX";
  Descriptor file(::mkstemp(temporary.data()));
  if (!file) return cannot("write", path);
  // mkstemp makes the file private; give it the mode of the existing file, or of a new one.
  mode_t mask = ::umask(0);
  ::umask(mask);
  mode_t mode = fs::exists(status) ? static_cast<mode_t>(status.permissions()) & 0777 : 0666 & ~mask;
  const bool good = writeAll(file.get(), text) && ::fchmod(file.get(), mode) == 0 && file.close();
  if (good && name(temporary.c_str(), target.c_str())) return {};
  Error why = cannot("write", path);
  ::unlink(temporary.c_str());
  return why;
}

Result<void> writeOutput(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};  // runTool reports failures of standard output
  }
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return fail("cannot write {}: it is a directory", path);
  if (fs::exists(status) && !fs::is_regular_file(status)) return writeThrough(path, text);
  return writeBeside(
      path, text, [](const char* temporary, const char* target) { return ::rename(temporary, target) == 0; });
}

/// Creates a file with its first text. False if another process has created it first.
static Result<bool> addOutput(const std::string& path, const std::string& text) {
  bool taken = false;
  auto added = writeBeside(path, text, [&](const char* temporary, const char* target) {
    if (::link(temporary, target) == 0) return ::unlink(temporary) == 0;
    taken = errno == EEXIST;
    // A file system without hard links cannot create a name exclusively.
    return (errno == EPERM || errno == EOPNOTSUPP) && ::rename(temporary, target) == 0;
  });
  if (!added && !taken) return added.takeError();
  return !taken;
}

Result<void> updateOutput(const std::string& path, const ChangeText& change) {
  std::error_code error;
  for (;;) {
    const fs::file_status there = fs::status(path, error);  // once: another may make the file meanwhile
    if (!fs::is_regular_file(there)) {
      TG_TRY(const std::string text, change({}));
      if (fs::exists(there) || path == "-") return writeOutput(path, text);
      TG_TRY(const bool added, addOutput(path, text));
      if (added) return {};
      continue;
    }
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file && errno == ENOENT) continue;
    if (!file) return cannot("open", path);
    while (::flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    // The previous holder of the lock has replaced the file.
    if (!isFileAt(file.get(), path)) continue;
    TG_TRY(const std::string before, readText(file.get(), path));
    TG_TRY(const std::string text, change(before));
    return writeOutput(path, text);
  }
}

}  // namespace tg
