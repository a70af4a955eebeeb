// SPDX-License-Identifier: Apache-2.0
#include "ir/byte_owners.h"

#include <algorithm>

namespace tg {

/// The first piece that ends after `at`.
template <class Pieces>
static auto firstAfter(Pieces& pieces, int64_t at) {
  auto piece = pieces.upper_bound(at);
  if (piece != pieces.begin() && std::prev(piece)->second.end > at) --piece;
  return piece;
}

void ByteOwners::write(const ByteRange& range, int owner) {
  if (range.bytes <= 0) return;
  Pieces& pieces = buffers_[range.buffer];
  const int64_t begin = range.offset, end = range.offset + range.bytes;
  auto piece = firstAfter(pieces, begin);
  while (piece != pieces.end() && piece->second.begin < end) {
    Piece old = piece->second;
    piece = pieces.erase(piece);
    if (old.begin < begin) pieces[old.begin] = {old.begin, begin, old.owner};
    if (old.end > end) pieces[end] = {end, old.end, old.owner};
  }
  pieces[begin] = {begin, end, owner};
}

std::optional<ByteOwners::Piece> ByteOwners::foreign(const ByteRange& range, int owner) const {
  auto pieces = buffers_.find(range.buffer);
  if (pieces == buffers_.end()) return {};
  const int64_t end = range.offset + range.bytes;
  for (auto piece = firstAfter(pieces->second, range.offset);
       piece != pieces->second.end() && piece->second.begin < end; ++piece)
    if (piece->second.owner != owner)
      return Piece{std::max(piece->second.begin, range.offset), std::min(piece->second.end, end),
                   piece->second.owner};
  return {};
}

bool ByteOwners::owns(const ByteRange& range, int owner) const {
  auto pieces = buffers_.find(range.buffer);
  int64_t at = range.offset;
  const int64_t end = range.offset + range.bytes;
  if (pieces == buffers_.end()) return at >= end;
  for (auto piece = firstAfter(pieces->second, at);
       piece != pieces->second.end() && piece->second.begin < end; ++piece) {
    if (piece->second.begin > at || piece->second.owner != owner) return false;
    at = piece->second.end;
  }
  return at >= end;
}

}  // namespace tg
