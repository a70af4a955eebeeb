// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/bindings.h"

#include <algorithm>

#include "ir/needs.h"

namespace tg::fuse {

Bindings::Bindings(const Target& target, const Op& fused, const Value& without) : Bindings(target) {
  write(fused.results.size());
  for (const Operand& operand : fused.operands)
    if (!operand.bindsValue())
      write(1);
    else if (operand.items[0].value != &without)
      read(*operand.items[0].value);
}

void Bindings::read(const Value& value) {
  if (contains(read_, &value)) return;
  read_.push_back(&value);
  // f16 and bf16, and values with more texels than a view may have, are read as storage.
  views_ += target_.reads == "texel" && !isNarrow(value.type.dtype) &&
            gives(target_, LimitId::texelElements, value.type.elements());
}

bool Bindings::fit() const {
  const size_t twice = target_.reads == "texel" ? 0 : kReadTwice;  // a texel view serves both ways of reading
  return !exceeded() && gives(target_, LimitId::bindings, static_cast<int64_t>(storage() + twice));
}

bool Bindings::fitOnce() const {
  return views_ <= kTexelViews && gives(target_, LimitId::bindings, static_cast<int64_t>(storage()));
}

}  // namespace tg::fuse
