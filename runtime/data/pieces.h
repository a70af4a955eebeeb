// SPDX-License-Identifier: Apache-2.0
// Tensors that are read and written piece by piece, so that nobody holds the whole of a large one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/result.h"
#include "ir/type.h"
#include "runtime/data/array.h"

namespace tg {

/// Bytes of a piece, where a row is not longer.
constexpr int64_t kPieceBytes = int64_t(16) << 20;

/// Elements in one piece of a tensor: whole rows of its last axis, at least one; any number where there is one
/// axis.
int64_t pieceElements(const Type& type);

/// Calls `each(first, count)`, which gives Result<void>, for the pieces of a tensor in order.
template <class Each>
Result<void> eachPiece(const Type& type, Each each) {
  const int64_t all = type.elements(), piece = pieceElements(type);
  for (int64_t first = 0; first < all; first += piece) TG_CHECK(each(first, std::min(piece, all - first)));
  return {};
}

/// Tensors that can be read by pieces: arrays, or what a device holds.
struct TensorSource {
  std::vector<std::pair<std::string, Type>> tensors;
  /// Reads elements of a tensor, by number, from `first` on into as many bytes as there are.
  std::function<Result<void>(size_t tensor, int64_t first, std::span<std::byte> out)> read;
  /// The same; an error where `read` is empty.
  Result<void> piece(size_t tensor, int64_t first, std::span<std::byte> out) const;
};
/// `arrays` must outlive it.
TensorSource sourceOf(const std::vector<std::pair<std::string, HostArray>>& arrays);

/// The tensors of a source whose names `takes` accepts.
TensorSource someOf(const TensorSource& source, const std::function<bool(const std::string& name)>& takes);

/// All of them as arrays.
Result<std::vector<std::pair<std::string, HostArray>>> readAll(const TensorSource& source);

/// Calls `use` for each piece of each tensor, in order; its first error ends the work.
using UsePiece = std::function<Result<void>(size_t tensor, int64_t first, std::span<const std::byte> piece)>;
Result<void> eachPieceOf(const TensorSource& source, const UsePiece& use);

}  // namespace tg
