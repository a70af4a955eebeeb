// SPDX-License-Identifier: Apache-2.0
#include "runtime/collective/add_up.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tg::collective {

/// Block by block, so that the inner loops are over neighbouring elements.
template <class T>
static void addUp(Reduction reduction, const std::vector<const std::byte*>& parts, int64_t count,
                  const std::vector<std::byte*>& sums) {
  constexpr int64_t kBlock = 1024;
  std::array<T, kBlock> total;
  const auto ranks = static_cast<T>(parts.size());
  for (int64_t first = 0; first < count; first += kBlock) {
    const auto length = static_cast<size_t>(std::min(kBlock, count - first));
    const size_t at = static_cast<size_t>(first) * sizeof(T);
    std::memcpy(total.data(), parts[0] + at, length * sizeof(T));
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      const T* terms = reinterpret_cast<const T*>(parts[rank] + at);
      for (size_t i = 0; i < length; ++i) total[i] += terms[i];
    }
    if (reduction == Reduction::mean)
      for (size_t i = 0; i < length; ++i) total[i] /= ranks;
    for (std::byte* sum : sums) std::memcpy(sum + at, total.data(), length * sizeof(T));
  }
}

int64_t sizeOf(Element element) { return element == Element::f32 ? 4 : 8; }

void addUp(Element element, Reduction reduction, const std::vector<const std::byte*>& parts, int64_t count,
           const std::vector<std::byte*>& sums) {
  if (element == Element::f32)
    addUp<float>(reduction, parts, count, sums);
  else
    addUp<double>(reduction, parts, count, sums);
}

}  // namespace tg::collective
