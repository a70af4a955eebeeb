// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/token_stream.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ir/file_io.h"
#include "ir/philox.h"
#include "ir/text.h"
#include "runtime/data/table.h"

namespace tg {

namespace {

/// Keeps these draws independent of other draws with the same seed.
constexpr uint32_t kWindowStream = 0x74657874;

constexpr int32_t kTokenMagic = 20240520, kTokenVersion = 1;
constexpr size_t kTokenHeader = 256 * sizeof(int32_t);

/// The number of tokens in a file of llm.c.
Result<int64_t> tokensIn(const DataFile& file) {
  std::array<int32_t, 3> header{};
  if (file.size() >= kTokenHeader) TG_CHECK(file.read(0, std::as_writable_bytes(std::span(header))));
  if (header[0] != kTokenMagic)
    return fail("{}: expected a token file of llm.c, whose first word is {}, got another format", file.path(),
                kTokenMagic);
  if (header[1] != kTokenVersion)
    return fail("{}: expected version {} of token files, 16 bits a token, got {}", file.path(), kTokenVersion,
                header[1]);
  const size_t size = file.size() - kTokenHeader;
  if (header[2] < 0 || size != static_cast<size_t>(header[2]) * 2)
    return fail("{}: the header declares {}, but {} of tokens follow it", file.path(),
                countText(header[2], "token"), countText(size, "byte"));
  return header[2];
}

/// The files that a shell pattern matches, sorted by name. A name without a match is kept as it is.
std::vector<std::string> expand(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> out;
  if (::glob(pattern.c_str(), GLOB_NOCHECK, nullptr, &found) == 0)
    out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (out.empty()) out.push_back(pattern);
  return out;
}

Result<Shape> windowShape(int64_t count, int64_t needed, int64_t batch, int64_t length) {
  if (batch < 1 || length < 1)
    return fail("expected windows of 1 token and more, got {} of {} tokens", batch, length);
  if (count < needed)
    return fail("expected a text of at least {} tokens for windows of {} and their targets, got {}", needed,
                length, std::max<int64_t>(count, 0));
  return checkedShape(std::array{batch, length});
}

/// Fills each row with the window that begins at `start(row)`. One read serves inputs and targets.
template <class Start>
Result<Windows> readWindows(const TokenStream& tokens, const Shape& shape, Start start) {
  Windows windows{HostArray::zeros(DType::i32, shape), HostArray::zeros(DType::i32, shape)};
  const auto length = static_cast<size_t>(shape[1]);
  std::vector<int32_t> ids(length + 1);
  for (int64_t row = 0; row < shape[0]; ++row) {
    TG_CHECK(tokens.read(start(row), ids));
    const auto at = static_cast<size_t>(row) * length;
    std::copy_n(ids.begin(), length, windows.x.i32().subspan(at).begin());
    std::copy_n(ids.begin() + 1, length, windows.y.i32().subspan(at).begin());
  }
  return windows;
}

}  // namespace

void TokenStream::append(Part part, int64_t count) {
  part.first = size_;
  part.count = count;
  size_ += count;
  parts_.push_back(std::move(part));
}

Result<TokenStream> TokenStream::ofText(const std::string& path, const std::optional<Vocabulary>& given) {
  TG_TRY(auto file, DataFile::open(path));
  if (file->size() == 0) return fail("{}: expected a text, got an empty file", path);
  TG_TRY(const auto beginning, file->beginning(16));
  if (isGzip(beginning))
    return fail("{}: expected a text, got one packed by gzip; unpack it first: gunzip -k {}", path, path);
  std::string symbols;
  const auto read = [&](size_t offset, std::span<std::byte> to) { return file->read(offset, to); };
  TG_CHECK(inPieces(read, 0, file->size(), [&](std::span<const std::byte> piece, size_t at) -> Result<void> {
    if (!given) {
      symbols = Vocabulary::ofText(symbols + Vocabulary::ofText(asText(piece)).symbols()).symbols();
      return {};
    }
    auto known = given->check(asText(piece), at);
    if (!known) return fail("{}: {}", path, known.error().message());
    return {};
  }));
  TokenStream stream;
  stream.vocabulary_ = given ? *given : Vocabulary::ofText(symbols);
  const auto count = static_cast<int64_t>(file->size());
  stream.append({path, std::move(file)}, count);
  return stream;
}

Result<TokenStream> TokenStream::ofTokenFiles(std::string_view paths) {
  TokenStream stream;
  for (const std::string& pattern : splitText(paths, ','))
    for (const std::string& path : expand(pattern)) {
      TG_TRY(auto file, DataFile::open(path));
      TG_TRY(const int64_t count, tokensIn(*file));
      stream.append({path, std::move(file), kTokenHeader}, count);
    }
  return stream;
}

Result<void> TokenStream::readPart(const Part& part, int64_t at, std::span<int32_t> to) const {
  TG_CHECK(part.file->checkSize());
  const size_t each = tokenBytes();
  std::vector<std::byte> raw(to.size() * each);
  TG_CHECK(part.file->read(part.start + static_cast<size_t>(at) * each, raw));
  for (size_t index = 0; index < to.size(); ++index) {
    if (vocabulary_) {
      to[index] = vocabulary_->idOf(static_cast<char>(raw[index]));
      if (to[index] < 0) return fail("{}: the file changed while in use", part.path);
    } else {
      uint16_t token;
      std::memcpy(&token, raw.data() + index * each, each);
      to[index] = token;
    }
  }
  return {};
}

Result<void> TokenStream::read(int64_t first, std::span<int32_t> to) const {
  auto part =
      std::ranges::upper_bound(parts_, first, {}, [](const Part& each) { return each.first + each.count; });
  for (; !to.empty(); ++part) {
    const int64_t at = first - part->first;
    const auto count = std::min(to.size(), static_cast<size_t>(part->count - at));
    TG_CHECK(readPart(*part, at, to.first(count)));
    to = to.subspan(count);
    first += static_cast<int64_t>(count);
  }
  return {};
}

std::string TokenStream::describe() const {
  const std::string& first = parts_.front().path;
  if (vocabulary_) return fmt::format("{}: {} bytes of text, {} distinct", first, size_, vocabulary_->size());
  if (parts_.size() == 1) return fmt::format("{}: {} tokens", first, size_);
  return fmt::format("{} … {}: {} tokens in {} files", first, parts_.back().path, size_, parts_.size());
}

Result<Windows> sampleWindows(const TokenStream& tokens, int64_t count, uint64_t seed, uint64_t step,
                              int64_t batch, int64_t length) {
  TG_TRY(const Shape shape, windowShape(count, length + 1, batch, length));
  const PhiloxKey key{lowWord(seed), highWord(seed)};
  return readWindows(tokens, shape, [&](int64_t row) {
    const auto words =
        philox({static_cast<uint32_t>(row), lowWord(step), highWord(step), kWindowStream}, key);
    // A 64-bit draw, so that the remainder has no measurable bias.
    const uint64_t bits = uint64_t{words[1]} << 32 | words[0];
    return static_cast<int64_t>(bits % static_cast<uint64_t>(count - length));
  });
}

Result<Windows> windowsFrom(const TokenStream& tokens, int64_t first, int64_t batch, int64_t length) {
  TG_TRY(const Shape shape, windowShape(tokens.size() - first, batch * length + 1, batch, length));
  return readWindows(tokens, shape, [&](int64_t row) { return first + row * length; });
}

}  // namespace tg
