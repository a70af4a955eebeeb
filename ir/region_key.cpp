// SPDX-License-Identifier: Apache-2.0
#include "ir/region_key.h"

#include <bit>

#include "ir/op_bytes.h"

namespace tg {

std::string regionKey(const Op& fused) {
  ValueNumbering numbers;
  OpBytes bytes(numbers);
  bytes.attrs(fused.attrs, "schedule");
  bytes.block(*fused.regions[0]);
  bytes.results(fused);
  return bytes.take();
}

std::string kernelKey(const Item& kernel) {
  ValueNumbering numbers;
  OpBytes bytes(numbers);
  for (int64_t extent : kernel.workgroup) bytes.number(extent);
  bytes.operands(kernel.grid);
  bytes.attrs(kernel.attrs);
  bytes.block(kernel.body);
  return bytes.take();
}

uint64_t quickHash(const Item& kernel) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio: spreads close numbers
  uint64_t hash = 0;
  auto add = [&](uint64_t number) {
    hash = (hash ^ number) * kFactor;
    hash ^= hash >> 32;
  };
  for (int64_t extent : kernel.workgroup) add(static_cast<uint64_t>(extent));
  walk(kernel.body, [&](const Op& op) {
    add(static_cast<uint64_t>(op.code));
    for (const Operand& operand : op.operands) {
      add(static_cast<uint64_t>(operand.kind));
      add(static_cast<uint64_t>(operand.integer));
      add(std::bit_cast<uint64_t>(operand.real));
    }
  });
  return hash;
}

}  // namespace tg
