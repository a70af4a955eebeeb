// SPDX-License-Identifier: Apache-2.0
// gen-cli DIR: writes man pages into DIR/man1, bash completion into DIR/bash and zsh completion into DIR/zsh,
// from the options of the tools.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/driver/io.h"
#include "tools/manual/manual.h"

namespace {

bool write(const std::string& path, const std::string& text) {
  auto written = tg::writeOutput(path, text);
  if (!written) std::fprintf(stderr, "gen-cli: %s", written.error().str().c_str());
  return bool(written);
}

bool writeAll(const std::string& folder) {
  std::vector<tg::ToolCard> verbs;
  bool good = true;
  for (const tg::VerbInfo& verb : tg::verbs()) {
    const tg::ToolCard& card = verbs.emplace_back(tg::cardOf(verb));
    good = good && write(folder + "/man1/" + card.page + ".1", tg::manOfVerb(card));
  }
  good = good && write(folder + "/man1/tg-run.1", tg::manOfRun(verbs)) &&
         write(folder + "/bash/tg-run", tg::bashOfRun(verbs)) &&
         write(folder + "/zsh/_tg-run", tg::zshOfRun(verbs));
  for (const tg::ToolCard& tool : tg::passTools())
    good = good && write(folder + "/man1/" + tool.page + ".1", tg::manOfPassTool(tool)) &&
           write(folder + "/bash/" + tool.name, tg::bashOf(tool)) &&
           write(folder + "/zsh/_" + tool.name, tg::zshOf(tool));
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: gen-cli DIR\n", stderr), 2;
  for (const char* name : {"man1", "bash", "zsh"}) {
    std::error_code wrong;
    std::filesystem::create_directories(std::filesystem::path(argv[1]) / name, wrong);
    if (wrong) return std::fprintf(stderr, "gen-cli: cannot make %s/%s\n", argv[1], name), 1;
  }
  return writeAll(argv[1]) ? 0 : 1;
}
