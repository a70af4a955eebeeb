// SPDX-License-Identifier: Apache-2.0
// Kernels written as text in tests, and running them under every schedule.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/parser.h"
#include "ir/verify.h"
#include "runtime/interp/kernel_interp.h"

namespace tg::test {

/// A module holding the given kernel items, or null with the parser's complaint as a test failure.
inline std::unique_ptr<Module> kernels(const std::string& items) {
  auto module = parse("module @m stage(kernel) {\n" + items + "\n}\n", "kernel_test.tgir");
  EXPECT_TRUE(module) << module.error().str() << items;
  return module ? *std::move(module) : nullptr;
}

/// A kernel of a module that verifies.
inline const Item& verified(const Module& module, std::string_view name = "k") {
  const Item* item = module.find(ItemKind::kernel, name);
  auto checked = verifyKernel(*item);
  EXPECT_TRUE(checked) << checked.error().str();
  return *item;
}

/// Bytes of 4-byte elements.
template <class T>
std::vector<std::byte> bytesOf(const std::vector<T>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}
template <class T>
std::vector<T> valuesOf(const std::vector<std::byte>& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

using Memory = std::vector<std::vector<std::byte>>;

inline std::vector<KernelRunOptions> schedules() {
  std::vector<KernelRunOptions> out;
  for (LaneOrder order : {LaneOrder::roundRobin, LaneOrder::wholeLane, LaneOrder::lockstep})
    for (bool reversed : {false, true}) out.push_back({order, reversed, true});
  for (uint64_t seed : {1, 2}) out.push_back({LaneOrder::shuffled, false, true, seed});
  return out;
}

/// Runs a kernel on a copy of the memory; `grid` defaults to the kernel's own literals.
inline KernelCounters run(const Item& kernel, Memory& memory, const KernelRunOptions& options = {}) {
  std::vector<KernelBuffer> buffers;
  for (auto& bytes : memory) buffers.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
  std::array<int64_t, 3> grid{1, 1, 1};
  for (size_t axis = 0; axis < kernel.grid.size(); ++axis) grid[axis] = kernel.grid[axis].integer;
  auto counters = runKernel(kernel, buffers, grid, options);
  EXPECT_TRUE(counters) << counters.error().str();
  return counters ? *counters : KernelCounters{};
}

/// Runs under every schedule, each from the same memory, expecting no finding; `check` sees each result.
inline void runAll(const Item& kernel, const Memory& memory,
                   const std::function<void(const Memory&)>& check) {
  for (const KernelRunOptions& options : schedules()) {
    Memory copy = memory;
    KernelCounters counters = run(kernel, copy, options);
    EXPECT_TRUE(counters.findings.empty()) << counters.findings.front();
    EXPECT_EQ(counters.outOfRange + counters.races + counters.rewrites + counters.uninitialised, 0);
    check(copy);
  }
}

}  // namespace tg::test
