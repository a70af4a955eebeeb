// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/table.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ir/text.h"
#include "runtime/data/npy.h"

namespace tg {

namespace {

constexpr size_t kPiece = size_t{1} << 30;  // zlib counts bytes in 32 bits
constexpr size_t kIdxHeader = 4 + 255 * 4;  // at most

std::optional<FileType> idxType(std::byte code) {
  switch (static_cast<int>(code)) {
  case 0x08: return FileType::u8;
  case 0x09: return FileType::i8;
  case 0x0B: return FileType::i16;
  case 0x0C: return FileType::i32;
  case 0x0D: return FileType::f32;
  case 0x0E: return FileType::f64;
  default: return std::nullopt;
  }
}

using IdxLayout = NpyLayout;  // of this format too: what the header says, and where the elements start

/// Parses the header at the beginning of a file.
Result<IdxLayout> parseIdxHeader(std::span<const std::byte> bytes, const std::string& path) {
  const bool zeros = bytes.size() >= 4 && bytes[0] == std::byte{0} && bytes[1] == std::byte{0};
  const auto type = zeros ? idxType(bytes[2]) : std::nullopt;
  if (!type) return fail("{}: expected an IDX array, got another format", path);
  const auto rank = static_cast<size_t>(bytes[3]);
  if (bytes.size() < 4 + rank * 4) return fail("{}: the IDX header is cut off", path);
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t dim = 0;
    for (size_t byte = 0; byte < 4; ++byte) dim = dim << 8 | static_cast<int64_t>(bytes[4 + axis * 4 + byte]);
    dims.push_back(dim);
  }
  auto shape = checkedShape(dims);
  if (!shape) return fail("{}: {}", path, shape.error().message());
  return IdxLayout{*type, *shape, 4 + rank * 4};
}

size_t elementBytes(const IdxLayout& layout) {
  return static_cast<size_t>(layout.shape.elements() * byteSize(layout.type));
}

/// The layout of a file of `size` bytes that begins with `bytes`. An error if the size does not fit the header.
Result<IdxLayout> parseIdx(std::span<const std::byte> bytes, size_t size, const std::string& path) {
  TG_TRY(const IdxLayout layout, parseIdxHeader(bytes, path));
  const size_t expected = elementBytes(layout);
  if (size - layout.start == expected) return layout;
  return fail("{}: expected {} of elements, got {}", path, countText(expected, "byte"), size - layout.start);
}

void swapBytes(std::span<std::byte> bytes, size_t each) {
  for (size_t at = 0; at < bytes.size(); at += each)
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(at),
                 bytes.begin() + static_cast<ptrdiff_t>(at + each));
}

}  // namespace

bool isGzip(std::span<const std::byte> bytes) {
  return bytes.size() > 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Result<std::vector<std::byte>> gunzip(std::span<const std::byte> packed, std::string_view where, size_t most,
                                      bool cuts) {
  z_stream stream{};
  // Adding 16 makes zlib expect a gzip header and checksum.
  if (inflateInit2(&stream, MAX_WBITS + 16) != Z_OK) return fail("{}: cannot unpack the gzip data", where);
  std::vector<std::byte> out;
  size_t used = 0;
  int status = Z_OK;
  while ((status == Z_OK || (status == Z_STREAM_END && isGzip(packed))) && used <= most) {
    if (status == Z_STREAM_END) inflateReset(&stream);
    // One byte more than allowed shows that the result is too long.
    if (used == out.size()) out.resize(std::min(out.size() * 2 + 65536, most == SIZE_MAX ? most : most + 1));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream.avail_in = static_cast<uInt>(std::min(packed.size(), kPiece));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + used);
    stream.avail_out = static_cast<uInt>(std::min(out.size() - used, kPiece));
    const size_t room = stream.avail_out, given = stream.avail_in;
    status = inflate(&stream, Z_NO_FLUSH);
    used += room - stream.avail_out;
    packed = packed.subspan(given - stream.avail_in);
  }
  inflateEnd(&stream);
  if (used > most && !cuts) return fail("{}: it unpacks to more than {} bytes", where, most);
  if (used <= most && status != Z_STREAM_END) return fail("{}: the gzip data is cut off or broken", where);
  out.resize(std::min(used, most));
  return out;
}

/// Unpacks an IDX file, but not further than its header says: a small file may unpack to an unlimited size.
static Result<std::vector<std::byte>> unpackIdx(std::span<const std::byte> packed, const std::string& path) {
  TG_TRY(const auto beginning, gunzip(packed, path, kIdxHeader, /*cuts=*/true));
  TG_TRY(const IdxLayout layout, parseIdxHeader(beginning, path));
  // Deflate expands at most 1032 times, so a larger claim must be false; no memory is allocated for it.
  if (elementBytes(layout) / 1032 > packed.size())
    return fail("{}: the header declares {} bytes of elements, which {} packed ones cannot hold", path,
                elementBytes(layout), packed.size());
  return gunzip(packed, path, layout.start + elementBytes(layout));
}

/// Takes over a header; the file has `size` bytes.
void Table::lay(const NpyLayout& layout, size_t size) {
  type_ = layout.type;
  shape_ = layout.shape;
  start_ = layout.start;
  byteCount_ = size - layout.start;
}

Result<Table> Table::openNpy(const std::string& path) {
  Table table;
  table.path_ = path;
  TG_TRY(table.file_, DataFile::open(path));
  TG_TRY(const auto first, table.file_->beginning(kNpyStart));
  TG_TRY(const auto header, table.file_->beginning(npyHeaderEnd(first)));
  TG_TRY(const NpyLayout layout, parseNpyLayout(header, table.file_->size(), path));
  table.lay(layout, table.file_->size());
  return table;
}

Result<Table> Table::openNpz(const std::string& path, const std::string& key) {
  TG_TRY(auto bytes, readNpzMember(path, key));
  Table table;
  table.path_ = key.empty() ? path : path + ":" + key;
  TG_TRY(const NpyLayout layout, parseNpyLayout(bytes, bytes.size(), table.path_));
  table.lay(layout, bytes.size());
  table.held_ = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return table;
}

Result<Table> Table::openIdx(const std::string& path) {
  Table table;
  table.path_ = path;
  TG_TRY(table.file_, DataFile::open(path));
  size_t size = table.file_->size();
  TG_TRY(auto bytes, table.file_->beginning(kIdxHeader));
  const bool packed = isGzip(bytes);
  if (packed) {
    TG_TRY(const auto all, table.file_->beginning(size));
    TG_TRY(bytes, unpackIdx(all, path));
    size = bytes.size();
  }
  TG_TRY(const IdxLayout layout, parseIdx(bytes, size, path));
  table.lay(layout, size);
  const auto each = static_cast<size_t>(byteSize(layout.type));
  if (!packed && each == 1) return table;
  if (!packed) {
    TG_TRY(bytes, table.file_->beginning(size));
  }
  swapBytes(std::span(bytes).subspan(layout.start), each);
  table.held_ = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  table.file_ = nullptr;
  return table;
}

Result<Table> Table::openRaw(const std::string& path, FileType type, Shape shape) {
  Table table;
  table.path_ = path;
  TG_TRY(table.file_, DataFile::open(path));
  table.type_ = type;
  table.byteCount_ = table.file_->size();
  const auto size = static_cast<int64_t>(table.byteCount_);
  if (shape.rank() && shape[0] == Shape::kDynamic) {
    shape[0] = 1;
    const int64_t row = shape.elements() * byteSize(type);
    if (row == 0 || size % row != 0)
      return fail("{}: expected rows of {}, got {}", path, countText(row, "byte"), countText(size, "byte"));
    shape[0] = size / row;
  }
  table.shape_ = shape;
  const int64_t expected = shape.elements() * byteSize(type);
  if (expected != size)
    return fail("{}: expected {} for {}, got {}{}", path, countText(expected, "byte"), table.str(), size,
                size > expected ? "; '?' as the first extent takes all rows" : "");
  return table;
}

std::string Table::str() const {
  const std::string extents = shape_.str();
  return extents + (extents.empty() ? "" : "x") + std::string(name(type_));
}

Result<void> Table::hold(size_t most) {
  if (held_ || file_->inMemory() || byteCount_ > most) return {};
  TG_TRY(auto bytes, file_->beginning(start_ + byteCount_));
  held_ = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {};
}

Result<void> Table::readBytes(size_t first, std::span<std::byte> to) const {
  if (!held_) return file_->read(start_ + first, to);
  if (!to.empty()) std::memcpy(to.data(), held_->data() + start_ + first, to.size());
  return {};
}

size_t Table::rowBytes() const {
  int64_t elements = 1;
  for (int axis = 1; axis < shape_.rank(); ++axis) elements *= shape_[axis];
  return static_cast<size_t>(elements * byteSize(type_));
}

Result<HostArray> Table::convert(const Shape& shape, std::vector<std::byte> raw, int64_t first,
                                 Beyond beyond) const {
  if (const auto dtype = unconverted(type_, goal_)) return HostArray{*dtype, shape, std::move(raw)};
  auto array = fromFileElements(type_, shape, raw, goal_, first, beyond);
  if (!array) return fail("{}: {}", path_, array.error().message());
  return array;
}

Result<void> Table::readRows(std::span<const int64_t> rows, std::span<std::byte> to) const {
  const size_t each = rowBytes();
  for (size_t at = 0; each && at < rows.size();) {
    size_t next = at + 1;  // consecutive rows are read at once
    while (next < rows.size() && rows[next] == rows[next - 1] + 1) ++next;
    TG_CHECK(readBytes(static_cast<size_t>(rows[at]) * each, to.subspan(at * each, (next - at) * each)));
    at = next;
  }
  return {};
}

Result<HostArray> Table::gather(std::span<const int64_t> rows, std::vector<std::byte> memory) const {
  if (file_) TG_CHECK(file_->checkSize());
  Shape shape = shape_;
  shape[0] = static_cast<int64_t>(rows.size());
  HostArray out{DType::f32, shape, std::move(memory)};
  if (const auto dtype = unconverted(type_, goal_)) {
    out.dtype = *dtype;
    out.bytes.resize(rows.size() * rowBytes());
    TG_CHECK(readRows(rows, out.bytes));
    return out;
  }
  // Converted in pieces that stay in the cache.
  constexpr size_t kPiece = 256 << 10;
  const size_t most = std::max<size_t>(1, kPiece / std::max<size_t>(1, rowBytes()));
  for (size_t first = 0, written = 0; first == 0 || first < rows.size(); first += most) {
    const auto some = rows.subspan(first, std::min(most, rows.size() - first));
    std::vector<std::byte> raw(some.size() * rowBytes());
    TG_CHECK(readRows(some, raw));
    shape[0] = static_cast<int64_t>(some.size());
    const auto before = static_cast<int64_t>(first * rowBytes()) / byteSize(type_);
    TG_TRY(const HostArray piece, convert(shape, std::move(raw), before, Beyond::infinite));
    if (first == 0) {
      out.dtype = piece.dtype;
      out.bytes.resize(static_cast<size_t>(out.type().bytes()));
    }
    if (!piece.bytes.empty()) std::memcpy(out.bytes.data() + written, piece.bytes.data(), piece.bytes.size());
    written += piece.bytes.size();
  }
  return out;
}

Result<HostArray> Table::range(int64_t first, int64_t count, Beyond beyond) const {
  if (file_) TG_CHECK(file_->checkSize());
  const size_t each = rowBytes();
  std::vector<std::byte> raw(static_cast<size_t>(count) * each);
  TG_CHECK(readBytes(static_cast<size_t>(first) * each, raw));
  Shape shape = shape_;
  if (shape.rank()) shape[0] = count;
  return convert(shape, std::move(raw), 0, beyond);
}

}  // namespace tg
