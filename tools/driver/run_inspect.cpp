// SPDX-License-Identifier: Apache-2.0
// tg-run inspect: shows what a file or folder is, and whether it is intact.
#include <cstdio>

#include <fmt/format.h>

#include "ir/json_text.h"
#include "tools/driver/inspect_facts.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

struct Inspect : Verb {
  std::vector<std::string> paths;
  bool json = false;

  void describe(CLI::App& app) override {
    app.description("Describes what each path holds: a run, a checkpoint, a safetensors file, a module or a "
                    "bundle. Verifies all hashes. Needs no device. Exit 1 if something is damaged.");
    addValue(app, "PATH", "...", paths, "runs, checkpoints, files, bundles")->required();
    app.add_flag("--json", json, "print JSON");
  }

  Result<int> run(CLI::App& app, const Arguments&) override {
    int code = exitOk;
    Facts all = Facts::array();
    for (const std::string& path : paths) {
      auto facts = inspectPath(path);
      if (!facts) {
        code = report(app, facts.error());
        continue;
      }
      const std::string damage = facts->value("damage", std::string());
      if (!json) {
        if (&path != &paths.front()) fmt::print("\n");
        printFacts(*facts);
      }
      if (!damage.empty()) {
        std::fflush(stdout);
        // Damage of one of its files begins with that file's path.
        const bool located = damage.starts_with(facts->at("path").get<std::string>() + "/");
        code = report(app, fail("{}{}", located ? "" : path + ": ", damage));
      }
      all.push_back(std::move(*facts));
    }
    if (json) fmt::print("{}\n", jsonText(Facts{{"inspected", all}}, 2));
    return code;
  }
};

}  // namespace

std::unique_ptr<Verb> makeInspect() { return std::make_unique<Inspect>(); }

}  // namespace tg
