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

#include "ir/file_io.h"

namespace tg {

namespace fs = std::filesystem;

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
  while (!isNamed(at) && at.has_relative_path()) at = at.parent_path();
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
    if (path.empty() || path == "-" || (isThere(path) && !fs::is_regular_file(path, error))) continue;
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

static Result<AtomicFile> fileOf(const std::string& path, const std::string& text) {
  TG_TRY(AtomicFile file, AtomicFile::create(path));
  TG_CHECK(file.write(std::as_bytes(std::span(text))));
  return file;
}

Result<void> writeOutput(const std::string& path, const std::string& text) {
  if (path == "-" || isFileAt(STDOUT_FILENO, path)) {  // such as /dev/stdout
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};  // runTool reports failures of standard output
  }
  TG_TRY(AtomicFile file, fileOf(path, text));
  return file.commit();
}

Result<void> updateOutput(const std::string& path, const ChangeText& change) {
  std::error_code error;
  for (;;) {
    const fs::file_status there = fs::status(path, error);  // once: another may make the file meanwhile
    if (!fs::is_regular_file(there)) {
      TG_TRY(const std::string text, change({}));
      if (fs::exists(there) || path == "-") return writeOutput(path, text);
      TG_TRY(AtomicFile file, fileOf(path, text));
      TG_TRY(const bool added, file.commitIfAbsent());
      if (added) return {};
      continue;
    }
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file && errno == ENOENT) continue;
    if (!file) return systemError(path, "open");
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
