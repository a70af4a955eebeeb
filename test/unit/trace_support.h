// What the tests of the C++ front end share.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/result.h"
#include "ir/verify.h"

namespace trace_user {

/// The traced module, after its text was parsed again to the same text; null after an error.
inline std::unique_ptr<tg::Module> traced(tg::Result<std::unique_ptr<tg::Module>> result) {
  if (!result) {
    ADD_FAILURE() << result.error().str();
    return nullptr;
  }
  std::string text = tg::print(**result);
  auto again = tg::parse(text, "traced.tgir");
  if (!again) {
    ADD_FAILURE() << again.error().str() << text;
    return nullptr;
  }
  if (auto checked = tg::verify(**again); !checked) ADD_FAILURE() << checked.error().str() << text;
  EXPECT_EQ(tg::print(**again), text);
  return *std::move(result);
}

}  // namespace trace_user
