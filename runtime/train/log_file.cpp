// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "ir/file_io.h"

namespace tg {

Result<std::string> setAside(const std::string& path) {
  if (!isNamed(path)) return std::string();
  std::string aside = path + ".old";
  for (int i = 2; isNamed(aside); ++i) aside = fmt::format("{}.old.{}", path, i);
  if (::rename(path.c_str(), aside.c_str()) != 0) return systemError(path, "move aside");
  return aside;
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
