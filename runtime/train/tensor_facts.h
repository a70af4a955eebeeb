// SPDX-License-Identifier: Apache-2.0
// Statistics of a tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/result.h"
#include "runtime/data/array.h"
#include "runtime/runner.h"

namespace tg {

struct TensorFacts {
  std::string name;
  std::string dtype;  ///< as the file spells it, such as "F32"
  Shape shape;
  int64_t bytes = 0;      ///< in the file
  int64_t nonFinite = 0;  ///< elements that are infinite or NaN
  /// Over the finite elements, in f64; an i1 counts as 0 or 1. All 0 if there are none.
  double min = 0, max = 0, mean = 0;
  double std = 0;  ///< of the population, without Bessel's correction
};

/// The index of the first element that is infinite or NaN; elements() if all are finite.
int64_t firstNotFinite(const HostArray& array);
/// The same for one piece of a tensor, as text such as `w[0, 3] is nan`; "" if all are finite.
std::string notFiniteIn(const std::string& name, const Type& type, int64_t first,
                        std::span<const std::byte> piece);

struct FileFacts {
  std::vector<TensorFacts> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};
/// Reads a safetensors file piece by piece and computes the statistics of its tensors.
Result<FileFacts> fileFacts(const std::string& path);

}  // namespace tg
