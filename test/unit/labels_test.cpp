// SPDX-License-Identifier: Apache-2.0
// Every constraint a row of the op table states is provoked by a text test that expects its label.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "ir/op_info.h"

namespace tg::test {
namespace {

/// The labels, `matmul.c2`, of the errors that the files below test/ir and test/passes expect.
std::set<std::string> expectedLabels() {
  std::set<std::string> labels;
  for (const char* folder : {"/test/ir", "/test/passes"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(TG_SOURCE_DIR) + folder)) {
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        if (line.find("expected-error") == std::string::npos) continue;
        for (size_t at = line.find('['); at != std::string::npos; at = line.find('[', at + 1))
          if (size_t end = line.find(']', at); end != std::string::npos)
            labels.insert(line.substr(at + 1, end - at - 1));
      }
    }
  return labels;
}

TEST(Labels, EveryConstraintIsProvoked) {
  std::set<std::string> labels = expectedLabels();
  int constraints = 0;
  for (int i = 0; i < kOpcodeCount; ++i) {
    const OpInfo& row = info(static_cast<Opcode>(i));
    // Those of kernel ops begin with k_, so that matmul.c1 and k_load.c1 never meet.
    std::string name((row.mayStand(table::inKernel) ? "k_" : "") +
                     std::string(row.name.substr(row.name.find('.') + 1)));
    for (int number = 1; row.constraints.find(fmt::format("c{}: ", number)) != std::string_view::npos;
         ++number, ++constraints)
      EXPECT_TRUE(labels.count(fmt::format("{}.c{}", name, number)))
          << "no *-errors.tgir of test/ir or test/passes expects [" << name << ".c" << number
          << "]: " << row.constraints;
  }
  EXPECT_GT(constraints, 200);
}

/// The names of ops in the texts of test/ir/ops that are no errors.
std::set<std::string> writtenOps() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TG_SOURCE_DIR) + "/test/ir/ops")) {
    if (entry.path().filename().string().ends_with("-errors.tgir")) continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      for (std::string word; words >> word && word != "//";) names.insert(word);
    }
  }
  return names;
}

TEST(Labels, EveryOpIsReadAndPrinted) {
  const std::set<std::string> names = writtenOps();
  for (int i = 0; i < kOpcodeCount; ++i) {
    const OpInfo& row = info(static_cast<Opcode>(i));
    EXPECT_TRUE(names.contains(std::string(row.name)))
        << row.name << " stands in no round trip of test/ir/ops";
  }
}

}  // namespace
}  // namespace tg::test
