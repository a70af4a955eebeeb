// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "ir/text_file.h"
#include "runtime/data/file_io.h"

namespace tg {

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
