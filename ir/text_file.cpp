// SPDX-License-Identifier: Apache-2.0
#include "ir/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tg {

Descriptor Descriptor::ofFolder(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool Descriptor::close() {
  const int value = std::exchange(value_, -1);
  return value < 0 || ::close(value) == 0;
}

static Error cannot(const char* what, const std::string& name) {
  return fail("cannot {} {}: {}", what, name, std::strerror(errno));
}

Result<std::string> readText(int file, const std::string& name) {
  std::string text;
  std::string buffer(65536, 0);
  for (;;) {
    const ssize_t count = ::read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot("read", name);
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
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return fail("{} is a directory", path);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return cannot("open", path);
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
  return ::fstat(file, &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

}  // namespace tg
