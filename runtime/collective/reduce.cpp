// SPDX-License-Identifier: Apache-2.0
#include "runtime/collective/reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tg::collective {

/// Works in blocks, so that the inner loops run over contiguous elements.
template <class T>
static void reduceAs(Reduction reduction, const std::vector<const std::byte*>& inputs, int64_t count,
                     const std::vector<std::byte*>& outputs) {
  constexpr int64_t kBlock = 1024;
  std::array<T, kBlock> total;
  const auto ranks = static_cast<T>(inputs.size());
  for (int64_t first = 0; first < count; first += kBlock) {
    const auto length = static_cast<size_t>(std::min(kBlock, count - first));
    const size_t at = static_cast<size_t>(first) * sizeof(T);
    std::memcpy(total.data(), inputs[0] + at, length * sizeof(T));
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      const T* terms = reinterpret_cast<const T*>(inputs[rank] + at);
      for (size_t i = 0; i < length; ++i) total[i] += terms[i];
    }
    if (reduction == Reduction::mean)
      for (size_t i = 0; i < length; ++i) total[i] /= ranks;
    for (std::byte* output : outputs) std::memcpy(output + at, total.data(), length * sizeof(T));
  }
}

int64_t sizeOf(Element element) { return element == Element::f32 ? 4 : 8; }

void reduce(Element element, Reduction reduction, const std::vector<const std::byte*>& inputs, int64_t count,
            const std::vector<std::byte*>& outputs) {
  if (element == Element::f32)
    reduceAs<float>(reduction, inputs, count, outputs);
  else
    reduceAs<double>(reduction, inputs, count, outputs);
}

}  // namespace tg::collective
