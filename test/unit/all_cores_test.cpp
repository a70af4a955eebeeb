// SPDX-License-Identifier: Apache-2.0
// Jobs on all cores: each is done once, and what one throws reaches the caller.
#include <atomic>
#include <new>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "ir/all_cores.h"

namespace tg {
namespace {

TEST(AllCores, EveryJobIsDoneOnce) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}}) {
    std::vector<std::atomic<int>> done(count);
    onAllCores(count, [&](size_t i) { ++done[i]; });
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
}

TEST(AllCores, AnExceptionOfAnyJobIsTheCallers) {
  EXPECT_THROW(onAllCores(1000, [](size_t) { throw std::bad_alloc(); }), std::bad_alloc);
  for (const size_t bad : {size_t{0}, size_t{57}, size_t{999}})
    EXPECT_THROW(onAllCores(1000,
                            [&](size_t i) {
                              if (i == bad) throw std::length_error("vector");
                            }),
                 std::length_error);
}

}  // namespace
}  // namespace tg
