// SPDX-License-Identifier: Apache-2.0
// What can be said of a tensor without showing its elements.
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
  std::string dtype;  ///< as the file spells it: "F32"
  Shape shape;
  int64_t bytes = 0;      ///< in the file
  int64_t nonFinite = 0;  ///< elements that are infinite or no number
  /// Over the finite elements, in f64; flags count as 0 and 1. All 0 without any.
  double min = 0, max = 0, mean = 0;
  double std = 0;  ///< of the population: no Bessel correction
};

/// All but `dtype` and `bytes` of one array.
TensorFacts tensorFacts(const std::string& name, const HostArray& array);

/// The place of the first element that is infinite or no number; elements() where all are finite.
int64_t firstNotFinite(const HostArray& array);
/// The same of one piece of a tensor, as `w[0, 3] is nan`; "" where all are finite.
std::string notFiniteIn(const std::string& name, const Type& type, int64_t first,
                        std::span<const std::byte> piece);

struct FileFacts {
  std::vector<TensorFacts> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};
/// Reads a whole safetensors file.
Result<FileFacts> fileFacts(const std::string& path);

}  // namespace tg
