// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ir/file_io.h"
#include "ir/text.h"

namespace tg {

Result<std::shared_ptr<const DataFile>> DataFile::open(const std::string& path) {
  if (path.empty()) return fail("expected the name of a data file, got an empty one");
  std::shared_ptr<DataFile> file(new DataFile);
  file->path_ = path;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    TG_TRY(file->held_, readFileOrPipe(path));
    file->size_ = file->held_.size();
    return std::shared_ptr<const DataFile>(std::move(file));
  }
  file->file_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file->file_) return systemError(path, "open");
  // The size of the open file, as the name may refer to another file by now.
  if (::fstat(file->file_.get(), &status) != 0) return systemError(path, "read");
  file->size_ = static_cast<size_t>(status.st_size);
  return std::shared_ptr<const DataFile>(std::move(file));
}

Result<void> DataFile::read(size_t offset, std::span<std::byte> to) const {
  if (!file_) {
    if (!to.empty()) std::memcpy(to.data(), held_.data() + offset, to.size());
    return {};
  }
  while (!to.empty()) {
    const ssize_t got = ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return systemError(path_, "read");
    if (got == 0) {
      TG_CHECK(checkSize());
      return fail("{}: the file changed while in use", path_);
    }
    to = to.subspan(static_cast<size_t>(got));
    offset += static_cast<size_t>(got);
  }
  return {};
}

Result<std::vector<std::byte>> DataFile::beginning(size_t most) const {
  std::vector<std::byte> bytes(std::min(most, size_));
  TG_CHECK(read(0, bytes));
  return bytes;
}

Result<void> DataFile::checkSize() const {
  if (!file_) return {};
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) return systemError(path_, "read");
  if (static_cast<size_t>(status.st_size) == size_) return {};
  return fail("{}: the file changed while in use: it had {} and has {} now", path_, countText(size_, "byte"),
              status.st_size);
}

Result<void> inPieces(const ReadBytes& read, size_t first, size_t size,
                      const std::function<Result<void>(std::span<const std::byte> piece, size_t at)>& use) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::vector<std::byte> room(std::min(kPiece, size));
  for (size_t done = 0; done < size; done += kPiece) {
    const auto piece = std::span(room).first(std::min(kPiece, size - done));
    TG_CHECK(read(first + done, piece));
    TG_CHECK(use(piece, first + done));
  }
  return {};
}

}  // namespace tg
