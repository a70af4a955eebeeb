#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "passes/pass.h"
#include "tools/driver/listings.h"
#include "tools/driver/run.h"

namespace tg {

namespace {

struct Verb {
  std::string_view name, summary;
  int (*run)(const Arguments&);
};
constexpr Verb kVerbs[] = {
    {"exec", "call a function once and print its results (the default)", runExec},
    {"train", "run training steps on data and save the parameters", runTrain},
    {"sample", "continue a text with a trained language model", runSample},
    {"bench", "time training steps", runBench},
    {"check-grad", "compare gradients with finite differences in f64", runCheckGrad},
    {"devices", "list the Vulkan devices", runDevices},
};

std::string usage() {
  std::string text =
      "Runs a module of any stage: one of an earlier stage is finished for the device at hand.\n"
      "Usage: tg-run [VERB] FILE [OPTIONS]\n\nVerbs:\n";
  for (const Verb& verb : kVerbs) text += fmt::format("  {:<12}{}\n", verb.name, verb.summary);
  return text + "\ntg-run VERB --help prints a verb's options.\n";
}

}  // namespace

int runMain(int argc, char** argv) {
  Arguments args(argv + 1, argv + argc);
  if (!args.empty() && (args[0] == "--help" || args[0] == "-h")) return fmt::print("{}", usage()), 0;
  if (!args.empty() && args[0] == "--version") return fmt::print("{}", versionText()), 0;
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
    if (!args.empty() && args[0] == verb.name) return verb.run({args.begin() + 1, args.end()});
    names.emplace_back(verb.name);
  }
  // A first word that is neither a file nor a flag is most likely a misspelt verb.
  if (args.size() > 1 && args[0][0] != '-' && args[0].find_first_of("./") == std::string::npos) {
    std::string near = nearestName(args[0], names);
    if (!near.empty())
      return fmt::print(stderr, "tg-run: error: no verb '{}'; did you mean {}?\n", args[0], near), 2;
  }
  return runExec(args);
}

}  // namespace tg
