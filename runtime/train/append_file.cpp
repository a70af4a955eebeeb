// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace tg {

Result<void> AppendFile::open(const std::string& path, int flags) {
  close();
  path_ = path;
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | flags, 0666);
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) return systemError();
  size_ = status.st_size;
  return {};
}

Result<void> AppendFile::append(std::string_view text) {
  off_t put = 0;
  while (put < static_cast<off_t>(text.size())) {
    const ssize_t got = ::write(descriptor_, text.data() + put, text.size() - static_cast<size_t>(put));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      Error error = systemError();
      if (::ftruncate(descriptor_, size_) != 0) error.addNote(nullptr, "the last line may be cut off");
      return error;
    }
    put += got;
  }
  size_ += put;
  return {};
}

Error AppendFile::systemError() const {
  return fail(fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
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
