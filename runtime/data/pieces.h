// SPDX-License-Identifier: Apache-2.0
// Reads and writes tensors piece by piece, so that a large tensor is never whole in host memory.
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

/// The size of a piece in bytes, unless a single row is longer.
constexpr int64_t kPieceBytes = int64_t(16) << 20;

/// The number of elements in one piece of a tensor: whole rows along its last axis, at least one; any number if there
/// is only one axis.
int64_t pieceElements(const Type& type);

/// Calls `each(first, count)`, which returns Result<void>, for each piece of a tensor in order.
template <class Each>
Result<void> eachPiece(const Type& type, Each each) {
  const int64_t all = type.elements(), piece = pieceElements(type);
  for (int64_t first = 0; first < all; first += piece) TG_CHECK(each(first, std::min(piece, all - first)));
  return {};
}

/// Tensors that can be read in pieces: arrays in memory, or the contents of a device.
struct TensorSource {
  std::vector<std::pair<std::string, Type>> tensors;
  /// Fills `out` with elements of a tensor (given by its index) from `first` on.
  std::function<Result<void>(size_t tensor, int64_t first, std::span<std::byte> out)> read;
  /// The same; an error if `read` is empty.
  Result<void> piece(size_t tensor, int64_t first, std::span<std::byte> out) const;
};
/// `arrays` must outlive it.
TensorSource sourceOf(const std::vector<std::pair<std::string, HostArray>>& arrays);

/// The tensors of a source whose names `takes` accepts.
TensorSource someOf(const TensorSource& source, const std::function<bool(const std::string& name)>& takes);

/// Reads all tensors of a source into arrays.
Result<std::vector<std::pair<std::string, HostArray>>> readAll(const TensorSource& source);

/// Receives each piece of each tensor, in order; its first error ends the work.
using UsePiece = std::function<Result<void>(size_t tensor, int64_t first, std::span<const std::byte> piece)>;
Result<void> eachPieceOf(const TensorSource& source, const UsePiece& use);

}  // namespace tg
