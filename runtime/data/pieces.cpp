// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/pieces.h"

#include <cstring>

namespace tg {

Result<void> TensorSource::piece(size_t tensor, int64_t first, std::span<std::byte> out) const {
  if (read) return read(tensor, first, out);
  return fail("the function that reads @{} is empty", tensors[tensor].first);
}

int64_t pieceElements(const Type& type) {
  const int64_t most = kPieceBytes / byteSize(type.dtype);
  const int64_t row = type.rank() > 1 ? type.shape.back() : 1;
  return std::max<int64_t>(1, row ? most / row : 0) * std::max<int64_t>(1, row);
}

TensorSource sourceOf(const std::vector<std::pair<std::string, HostArray>>& arrays) {
  TensorSource source;
  for (const auto& [name, array] : arrays) source.tensors.emplace_back(name, array.type());
  source.read = [&arrays](size_t tensor, int64_t first, std::span<std::byte> out) -> Result<void> {
    const auto& [name, array] = arrays[tensor];
    TG_CHECK(array.checkBytes(name));
    std::memcpy(out.data(), array.bytes.data() + first * byteSize(array.dtype), out.size());
    return {};
  };
  return source;
}

TensorSource someOf(const TensorSource& source, const std::function<bool(const std::string& name)>& takes) {
  TensorSource out;
  std::vector<size_t> places;
  for (size_t tensor = 0; tensor < source.tensors.size(); ++tensor) {
    if (!takes(source.tensors[tensor].first)) continue;
    out.tensors.push_back(source.tensors[tensor]);
    places.push_back(tensor);
  }
  out.read = [places = std::move(places), source](size_t tensor, int64_t first, std::span<std::byte> piece) {
    return source.piece(places[tensor], first, piece);
  };
  return out;
}

Result<std::vector<std::pair<std::string, HostArray>>> readAll(const TensorSource& source) {
  std::vector<std::pair<std::string, HostArray>> arrays;
  for (size_t tensor = 0; tensor < source.tensors.size(); ++tensor) {
    const auto& [name, type] = source.tensors[tensor];
    const auto element = static_cast<size_t>(byteSize(type.dtype));
    HostArray array = HostArray::zeros(type);
    const std::span<std::byte> all(array.bytes);
    TG_CHECK(eachPiece(type, [&](int64_t first, int64_t count) {
      const auto at = static_cast<size_t>(first) * element;
      return source.piece(tensor, first, all.subspan(at, static_cast<size_t>(count) * element));
    }));
    arrays.emplace_back(name, std::move(array));
  }
  return arrays;
}

Result<void> eachPieceOf(const TensorSource& source, const UsePiece& use) {
  std::vector<std::byte> piece;
  for (size_t tensor = 0; tensor < source.tensors.size(); ++tensor) {
    const Type& type = source.tensors[tensor].second;
    TG_CHECK(eachPiece(type, [&](int64_t first, int64_t count) -> Result<void> {
      const auto bytes = static_cast<size_t>(count * byteSize(type.dtype));
      if (piece.size() < bytes) piece.resize(bytes);
      const std::span rows(piece.data(), bytes);
      TG_CHECK(source.piece(tensor, first, rows));
      return use(tensor, first, rows);
    }));
  }
  return {};
}

}  // namespace tg
