// SPDX-License-Identifier: Apache-2.0
// Damaged modules through every stage: what comes out is a module or an error that says where, never a crash,
// a hang, or an error that calls itself a bug. The seeds are all modules of test/ and docs/, at the stage
// they stand in and at those that the passes take them to.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "ir/parser.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "test/fuzz/harness.h"

namespace tg::fuzz {
namespace {

constexpr size_t kLongest = 12000;  ///< bytes of a seed: longer ones take the time of many

/// Errors as a finding, unless they are a user's: located, and nobody's bug.
std::string finding(const Error& error, std::string_view where) {
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    if (diagnostic.message.find("a bug in") != std::string::npos)
      return fmt::format("{}: {}", where, error.str());
    if (!placeOf(diagnostic.loc)) return fmt::format("{}: without a place: {}", where, diagnostic.message);
  }
  return "";
}

std::vector<const char*> pipelinesFrom(Stage stage) {
  switch (stage) {
  case Stage::tensor:
    return {"canonicalize,canonicalize-kernels,cse,dce,fuse,plan,spirv-emit{emit=kernel}",
            "append-grad,append-adam{weight-decay=0.1},fuse{target=lavapipe},plan,spirv-emit{emit=kernel}",
            "append-grad{accumulate=2},mixed-precision,append-sgd{momentum=0.9},fuse{target=gpu},plan,"
            "spirv-emit{emit=kernel}"};
  case Stage::fused: return {"plan,spirv-emit{emit=kernel}"};
  case Stage::planned: return {"spirv-emit{emit=kernel}"};
  case Stage::kernel: return {""};
  case Stage::spirv: return {"strip-kernels"};
  }
  return {};
}

Result<void> runPipeline(const char* pipeline, std::unique_ptr<Module>& module,
                         VerifyEach each = VerifyEach::roundtrip) {
  TG_TRY(PassManager passes, PassManager::parse(pipeline));
  return passes.reproducer("").verifyEach(each).run(module);
}

/// Kernels of a module as GLSL.
std::string printed(const Module& module) {
  if (module.stage != Stage::kernel) return "";
  for (const Emitter& emitter : emitters())
    if (auto text = emitter.emit(module); !text) return finding(text.error(), emitter.name);
  return "";
}

std::string runModule(const std::string& input) {
  auto module = parse(input, "fuzz.tgir");
  if (!module) return finding(module.error(), "parse");
  if (auto checked = verify(**module); !checked) return finding(checked.error(), "verify");
  for (const char* pipeline : pipelinesFrom((*module)->stage)) {
    std::unique_ptr<Module> copy = clone(**module);
    if (auto ran = runPipeline(pipeline, copy); !ran) {
      if (std::string found = finding(ran.error(), pipeline); !found.empty()) return found;
      continue;
    }
    if (std::string found = printed(*copy); !found.empty()) return found;
  }
  return "";
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The sections of a file, and of the modules among them what later stages make of them.
void addSeeds(const std::string& text, std::vector<std::string>& seeds) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t mark = std::min(text.find("// -----", begin), text.size());
    std::string section = text.substr(begin, mark - begin);
    begin = mark == text.size() ? mark : text.find('\n', mark);
    if (section.size() > kLongest || section.find("module") == std::string::npos) continue;
    if (section.find("loc(unknown)") != std::string::npos) continue;  // its errors have no place
    auto module = parse(section, "seed.tgir");
    seeds.push_back(std::move(section));
    if (!module || (*module)->stage != Stage::tensor || seeds.size() % 4) continue;
    for (const char* pipeline :
         {"append-grad,append-adam", "fuse{target=lavapipe}", "plan", "lower-kernels"}) {
      std::unique_ptr<Module> next = clone(**module);
      if (!runPipeline(pipeline, next, VerifyEach::off)) continue;  // what comes out is verified as an input
      module = std::move(next);
      if (std::string later = print(**module); later.size() <= kLongest) seeds.push_back(std::move(later));
    }
  }
}

std::vector<std::string> seedFiles(const Options& options) {
  if (!options.seeds.empty()) return options.seeds;
  std::vector<std::string> files;
  for (const char* folder : {"/test", "/docs"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(TG_SOURCE_DIR) + folder))
      if (entry.path().extension() == ".tgir") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

int run(const Options& options) {
  std::vector<std::string> seeds;
  for (const std::string& file : seedFiles(options)) addSeeds(contents(file), seeds);
  fmt::print("{} seeds\n", seeds.size());
  return fuzz(options, seeds, runModule);
}

}  // namespace
}  // namespace tg::fuzz

int main(int argc, char** argv) { return tg::fuzz::run(tg::fuzz::parseOptions(argc, argv)); }
