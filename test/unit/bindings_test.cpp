// SPDX-License-Identifier: Apache-2.0
// What a kernel binds, counted against targets that differ in how kernels read.
#include "passes/fuse/bindings.h"

#include <gtest/gtest.h>

#include <deque>

namespace tg {
namespace {

struct BindingsTest : testing::Test {
  Target target(const char* reads, int64_t bindings) {
    Target made;
    made.reads = reads;
    made.bindings = bindings;
    made.texelElements = 100;
    return made;
  }
  const Value& value(int64_t elements) {
    values.emplace_back();
    values.back().type = Type::tensor(DType::f32, {elements});
    return values.back();
  }
  std::deque<Value> values;
};

TEST_F(BindingsTest, AValueReadTwiceIsBoundOnce) {
  const Target eight = target("storage", 4);
  fuse::Bindings bound(eight);
  const Value& x = value(10);
  bound.write(1);
  for (int i = 0; i < 9; ++i) bound.read(x);
  EXPECT_TRUE(bound.fit() &&
              bound.fitOnce());  // x, its second way of reading and one more of them, the result
}

TEST_F(BindingsTest, StorageCountsResultsReadsAndTwoReadBothWays) {
  const Target eight = target("storage", 8);
  fuse::Bindings bound(eight);
  bound.write(2);
  for (int i = 0; i < 4; ++i) bound.read(value(10));
  EXPECT_TRUE(bound.fit());
  bound.read(value(10));
  EXPECT_FALSE(bound.fit());
  EXPECT_TRUE(bound.fitOnce());
  bound.read(value(10));
  EXPECT_TRUE(bound.fitOnce());
  bound.read(value(10));
  EXPECT_FALSE(bound.fitOnce());
}

TEST_F(BindingsTest, TexelViewsAreNoStorageUnlessTheValueIsLarge) {
  const Target three = target("texel", 3);
  fuse::Bindings bound(three);
  bound.write(1);  // and plan may put it into the bytes of a view
  for (int i = 0; i < 16; ++i) bound.read(value(100));
  EXPECT_TRUE(bound.fit() && bound.fitOnce());
  bound.read(value(101));
  EXPECT_TRUE(bound.fit() && bound.fitOnce());
  bound.read(value(101));
  EXPECT_FALSE(bound.fit());
  EXPECT_FALSE(bound.fitOnce());
}

TEST_F(BindingsTest, EachResultMayMakeStorageOfAView) {
  const Target four = target("texel", 4);
  fuse::Bindings bound(four);
  bound.write(2);
  for (int i = 0; i < 8; ++i) bound.read(value(10));
  EXPECT_TRUE(bound.fit() && bound.fitOnce());  // two results and two of the views
  bound.write(1);
  EXPECT_FALSE(bound.fit() || bound.fitOnce());
  fuse::Bindings few(four);
  few.write(3);
  few.read(value(10));
  EXPECT_TRUE(few.fit());  // there is but one view
}

TEST_F(BindingsTest, ViewsHaveVulkansLeast) {
  const Target many = target("texel", 32);
  fuse::Bindings bound(many);
  for (int i = 0; i < 17; ++i) bound.read(value(10));
  EXPECT_FALSE(bound.fitOnce());
  EXPECT_TRUE(bound.fit() && !bound.exceeded());
  for (int i = 0; i < 7; ++i) bound.read(value(10));
  EXPECT_TRUE(bound.fit());
  bound.write(1);
  EXPECT_TRUE(bound.exceeded() && !bound.fit());
}

}  // namespace
}  // namespace tg
