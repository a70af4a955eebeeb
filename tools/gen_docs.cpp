// SPDX-License-Identifier: Apache-2.0
// gen-docs DIR: generates pages of the documentation from the tables (tools/driver/listings.h, tools/manual/manual.h), and
// the shipped targets as JSON files.
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "ir/target.h"
#include "tools/driver/io.h"
#include "tools/driver/listings.h"
#include "tools/manual/manual.h"

/// Writes the shipped targets as files, as a starting point for the user's own.
static bool writeTargets(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directory(folder, failed);
  for (std::string_view name : tg::targetNames()) {
    const auto path = fmt::format("{}/{}.json", folder, name);
    if (failed || !tg::writeOutput(path, tg::targetToJson(*tg::targetByName(name)))) return false;
  }
  return true;
}

int main(int argc, char** argv) {
  std::string folder = argc == 2 ? argv[1] : "";
  bool good = !folder.empty() && tg::writeOutput(folder + "/ops.md", tg::opsPage()) &&
              tg::writeOutput(folder + "/passes.md", tg::passesPage()) &&
              tg::writeOutput(folder + "/schedules.md", tg::schedulesPage()) &&
              tg::writeOutput(folder + "/traits.md", tg::traitsPage()) && writeTargets(folder + "/targets") &&
              tg::writeOutput(folder + "/tg-run.md", tg::runPage()) &&
              tg::writeOutput(folder + "/from-typescript.md", tg::mappingPage()) &&
              tg::writeOutput(folder + "/from-kernel-ir.md", tg::kernelMappingPage());
  if (!good) std::fputs("usage: gen-docs DIR, an existing folder\n", stderr);
  return good ? 0 : 2;
}
