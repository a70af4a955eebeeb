// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "ir/file_io.h"
#include "ir/text.h"
#include "runtime/data/elements.h"

namespace tg {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NpyHeader {
  std::string descr;
  bool fortranOrder = false;
  std::vector<int64_t> dims;
};

/// Parses the Python dictionary literal of a header. Each step returns false if it meets anything unexpected.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::optional<NpyHeader> parse() {
    NpyHeader header;
    unsigned seen = 0;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      std::string key;
      if (!parseString(key) || !take(':') || !parseEntry(key, header, seen)) return std::nullopt;
      if (take(',')) continue;
      if (!take('}')) return std::nullopt;
      break;
    }
    skipSpace();
    if (seen != 7 || !text_.empty()) return std::nullopt;
    return header;
  }

 private:
  bool parseEntry(const std::string& key, NpyHeader& header, unsigned& seen) {
    if (key == "descr") {
      seen |= 1;
      return parseString(header.descr);
    }
    if (key == "fortran_order") {
      seen |= 2;
      header.fortranOrder = takeWord("True");
      return header.fortranOrder || takeWord("False");
    }
    seen |= 4;
    return key == "shape" && parseTuple(header.dims);
  }

  void skipSpace() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  bool take(char wanted) {
    skipSpace();
    if (text_.empty() || text_.front() != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool takeWord(std::string_view word) {
    skipSpace();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  bool parseString(std::string& out) {
    skipSpace();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return false;
    const size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return false;
    out = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return true;
  }
  bool parseTuple(std::vector<int64_t>& dims) {
    dims.clear();
    if (!take('(')) return false;
    while (!take(')')) {
      skipSpace();
      int64_t dim = 0;
      const auto [end, status] = std::from_chars(text_.data(), text_.data() + text_.size(), dim);
      if (status != std::errc()) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      dims.push_back(dim);
      if (take(',')) continue;
      return take(')');
    }
    return true;
  }

  std::string_view text_;
};

std::optional<FileType> fileTypeOf(std::string_view descr) {
  if (descr.size() != 3) return std::nullopt;
  for (const FileTypeInfo& row : kFileTypes) {
    if (descr.substr(1) != row.npy) continue;
    // Only single bytes and void (the type of bf16 in NumPy) have no byte order.
    const bool ordered = descr[0] == '<' || descr[0] == '=';
    if (ordered || (descr[0] == '|' && (row.bytes == 1 || row.npy[0] == 'V'))) return row.type;
  }
  return std::nullopt;
}

/// The header's text, and the offset of its end.
struct NpyHeaderText {
  std::string_view header;
  size_t end;
};

size_t headerLength(std::span<const std::byte> bytes, int version) {
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, version == 1 ? 2 : 4);
  return length;
}

Result<NpyHeaderText> npyHeader(std::span<const std::byte> bytes, std::string_view where) {
  const std::string_view text = asText(bytes);
  if (!text.starts_with(kMagic)) return fail("{}: expected a .npy array, got another format", where);
  if (text.size() < 10) return fail("{}: the .npy header is cut off", where);
  const int version = static_cast<uint8_t>(text[6]);
  if (version != 1 && version != 2) return fail("{}: expected .npy version 1 or 2, got {}", where, version);
  const size_t start = version == 1 ? 10 : kNpyStart;
  if (text.size() < start) return fail("{}: the .npy header is cut off", where);
  const size_t length = headerLength(bytes, version);
  if (text.size() - start < length)
    return fail("{}: the .npy header is cut off: expected {} bytes, got {}", where, length,
                text.size() - start);
  return NpyHeaderText{text.substr(start, length), start + length};
}

}  // namespace

size_t npyHeaderEnd(std::span<const std::byte> first) {
  if (first.size() < kNpyStart) return kNpyStart;
  const int version = first[6] == std::byte{1} ? 1 : 2;
  return (version == 1 ? 10 : kNpyStart) + headerLength(first, version);
}

Result<NpyLayout> parseNpyLayout(std::span<const std::byte> first, size_t size, std::string_view where) {
  TG_TRY(const NpyHeaderText text, npyHeader(first, where));
  const auto header = HeaderParser(text.header).parse();
  if (!header)
    return fail("{}: expected a .npy header with descr, fortran_order and shape of a plain array", where);
  const auto type = fileTypeOf(header->descr);
  if (!type)
    return fail("{}: expected one of the dtypes <f4 <f8 <f2 <i4 <i8 <i2 <u4 <u8 <u2 <V2 |i1 |u1 |b1, got {}",
                where, header->descr);
  if (header->fortranOrder)
    return fail("{}: expected an array in C order, got Fortran order (save numpy.ascontiguousarray(a))",
                where);
  auto shape = checkedShape(header->dims);
  if (!shape) return fail("{}: {}", where, shape.error().message());
  const auto expected = static_cast<size_t>(shape->elements() * byteSize(*type));
  if (expected != size - text.end)
    return fail("{}: expected {} of elements, got {}", where, countText(expected, "byte"), size - text.end);
  return NpyLayout{*type, *shape, text.end};
}

std::vector<std::byte> formatNpy(const HostArray& array) {
  const FileType type = tg::fileTypeOf(array.dtype);
  // A tuple of one element ends in a comma; longer ones are written as NumPy writes them.
  const std::string dims =
      fmt::format("{}{}", fmt::join(array.shape, ", "), array.shape.rank() == 1 ? "," : "");
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   byteSize(type) == 1 ? '|' : '<', info(type).npy, dims);
  // The elements start at a multiple of 64 bytes.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string start(kMagic);
  start += {'\1', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  start += header;
  std::vector<std::byte> bytes(start.size());
  std::memcpy(bytes.data(), start.data(), start.size());
  const auto elements = toFileElements(array);
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

Result<void> writeNpy(const std::string& path, const HostArray& array) {
  TG_CHECK(array.checkBytes(path));
  return writeFile(path, formatNpy(array));
}

}  // namespace tg
