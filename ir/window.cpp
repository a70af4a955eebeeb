// SPDX-License-Identifier: Apache-2.0
#include "ir/window.h"

namespace tg {

Window windowOf(const Op& op, std::array<int64_t, 2> sizes) {
  auto given = [&](const char* name) {
    return op.info().attr(name) ? op.ints(name) : std::vector<int64_t>{};
  };
  for (const char* name : {"kernel", "kernel_size"})
    if (std::vector<int64_t> extents = given(name); extents.size() == 2) sizes = {extents[0], extents[1]};
  std::vector<int64_t> stride = given("stride"), padding = given("padding"), dilation = given("dilation");
  Window window;
  for (size_t i = 0; i < 2; ++i) {
    window[i].size = sizes[i];
    window[i].step = stride.empty() ? sizes[i] : stride[i];
    if (!padding.empty()) window[i].padding = padding[i];
    if (!dilation.empty()) window[i].dilation = dilation[i];
  }
  return window;
}

}  // namespace tg
