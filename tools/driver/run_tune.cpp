// SPDX-License-Identifier: Apache-2.0
// tg-run tune: measures which schedules are fastest on a device, and stores them in a file for --tuning.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/file_io.h"
#include "ir/json_text.h"
#include "ir/op_view.h"
#include "ir/text.h"
#include "passes/tuning.h"
#include "runtime/compile.h"
#include "runtime/matrix_units.h"
#include "runtime/tune.h"
#include "tools/driver/bench_models.h"
#include "tools/driver/cache_folder.h"
#include "tools/driver/io.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/train_open.h"

namespace tg {

namespace {

namespace fs = std::filesystem;
bool beginsTuning(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && bytes[first] == '{';
}

/// The time of the whole module, in microseconds.
struct Totals {
  int64_t places = 0, replaced = 0;
  double chosen = 0, best = 0;
  explicit Totals(const std::vector<TunedRegion>& regions) {
    for (const TunedRegion& region : regions) {
      places += region.count;
      replaced += region.best != 0;
      chosen += static_cast<double>(region.count) * region.schedules[0].least;
      best += static_cast<double>(region.count) * region.schedules[region.best].least;
    }
  }
};

void printHead() {
  fmt::print("{:<36} {:>6} {:>11} {:>11} {:>6}  {}\n", "kernel", "places", "by rule us", "best us", "ratio",
             "faster schedule");
}

void printRow(const TunedRegion& region) {
  const TimedSchedule &chosen = region.schedules[0], &best = region.schedules[region.best];
  fmt::print("{:<36} {:>6} {:>11.2f} {:>11.2f} {:>6.2f}  {}\n", cut(region.label, 36), region.count,
             chosen.least, best.least, chosen.least / best.least, region.best ? best.schedule.str() : "");
  for (const TimedSchedule& each : region.schedules)
    if (const std::string told = sentence(each.statistics); !told.empty())
      fmt::print("  {:>9.2f} us  {}: {}\n", each.least, each.schedule.str(), told);
  std::fflush(stdout);
}

/// Whether the driver has given statistics on any kernel.
bool tellsAny(const std::vector<TunedRegion>& regions) {
  return std::ranges::any_of(
      regions, [](const TunedRegion& region) { return !region.schedules.front().statistics.told.empty(); });
}

/// Whether any product reads f32 operands and multiplies them in f32.
bool hasWideProducts(const Module& module) {
  auto isWide = [](const Op& op) {
    return op.code == Opcode::matmul && as::matmul(op).precision() == "f32" &&
           op.in(0)->type.dtype == DType::f32;
  };
  return std::ranges::any_of(module.all(ItemKind::func),
                             [&](const Item* func) { return anyOp(func->body, isWide); });
}

/// Advice on whether to use products of f16 (f32x3) for f32 on this device.
std::string adviceOf(const MatrixFigures& figures) {
  return fmt::format(
      "f32 products by mixed-precision{{precision=f32x3}}: {:.1f} GFLOP/s, {:.1f} as they are: {}",
      figures.matrices, figures.scalars, matricesPay(figures) ? "worth choosing" : "not worth choosing");
}

Json toJson(const std::vector<TunedRegion>& regions) {
  Json out = Json::array();
  for (const TunedRegion& region : regions) {
    Json schedules = Json::array();
    for (const TimedSchedule& each : region.schedules) {
      Json row = {{"schedule", each.schedule.str()}, {"us", each.least}, {"median_us", each.median}};
      row.update(toJson(each.statistics));
      schedules.push_back(std::move(row));
    }
    out.push_back({{"key", region.key},
                   {"kernel", region.label},
                   {"source", region.source},
                   {"places", region.count},
                   {"best", region.best},
                   {"schedules", std::move(schedules)}});
  }
  return out;
}

struct TuneVerb : Verb {
  ModelFlags model;
  std::string out;
  bool ofCache = false;  ///< `out` is the device's file in the cache; it is rewritten if damaged
  TuneOptions options;
  bool json = false;

  void describe(CLI::App& app) override {
    app.description(
        "Times each kernel of a module with several schedules on the device, on random\ndata, and adds those "
        "that are clearly faster to a file that --tuning reads. Where the device\nmultiplies f16 on matrix "
        "units, it also says whether f32 by products of these is faster. FILE\nmay be a run or a workload: " +
        fmt::format("{}.", fmt::join(benchModelNames(), ", ")));
    addValue(app, "FILE", " ", model.file,
             "a module of stage tensor or fused; - or nothing is standard input");
    addValue(app, "--device", "DEVICE", model.device,
             "auto (default), gpu, cpu, an index, a UUID, a part of the name");
    addPassFlags(app, model);
    addValue(app, "-o,--out", "FILE", out,
             "the tuning file (default: the device's, which --tuning=auto reads)");
    addValue(app, "--rounds", "N", options.rounds, "least number of timings of each schedule")
        ->capture_default_str()
        ->check(between(1, 10000));
    addValue(app, "--seed", "N", options.seed, "seed of the random data (default: 0)");
    app.add_flag("--no-cache", model.noCache, "do not use or write the caches of shaders and pipelines");
    app.add_flag("--json", json, "print JSON with the times of each schedule");
  }

  Result<std::unique_ptr<Module>> load(const CLI::App& app) {
    TG_TRY(std::unique_ptr<Module> module, loadSource(app, model));
    if (module->func(kTrain)) takeOwnPipeline(*module, model, kTrain);
    if (module->stage > Stage::fused)
      return fail("{} is of stage {}, whose schedules are made use of already: give a module of stage tensor "
                  "or fused",
                  model.file, name(module->stage));
    TG_CHECK(runFirst(model.pipeline, module, toldOn(model)));
    return module;
  }

  /// Chooses the output file before anything is timed.
  Result<void> openOutput(const vulkan::DeviceInfo& device) {
    ofCache = out.empty();
    if (ofCache) {
      const std::string folder = model.noCache ? "" : userCacheFolder();
      out = tuningFile(folder, device);
      if (out.empty()) return usageError("there is no folder for caches to keep the file in: give -o FILE");
      TG_CHECK(makeFolder(folder));
    }
    TG_CHECK(withCode(exitUsage, ofCache ? mayWrite("--out", out)
                                         : mayReplace("--out", out, beginsTuning, filesRead(model))));
    if (!fs::is_regular_file(out)) return {};
    auto before = readTuning(out);
    if (before) return {};
    if (!ofCache) return before.takeError();
    fmt::print(stderr, "warning: {} is damaged and is made anew\n", out);
    return {};
  }

  Result<void> write(const std::vector<TunedRegion>& regions) {
    const Totals totals(regions);
    size_t entries = 0;
    TG_CHECK(updateOutput(out, [&](const std::optional<std::string>& held) -> Result<std::string> {
      AttrList tuning;
      if (held) {
        auto before = parseTuning(*held, out);
        if (!before && !ofCache) return before.takeError();
        if (before) tuning = std::move(*before);
      }
      mergeTuning(tuning, regions);
      entries = tuning.size();
      return printTuning(std::move(tuning));
    }));
    if (json) return {};
    if (!regions.empty() && !tellsAny(regions)) fmt::print("{}\n", kNoStatistics);
    fmt::print("{} at {}: {:.3f} ms by rule, {:.3f} ms by the fastest, {:.2f} times as fast\n",
               countText(regions.size(), "kernel"), countText(totals.places, "place"), totals.chosen * 1e-3,
               totals.best * 1e-3, totals.best > 0 ? totals.chosen / totals.best : 1.0);
    fmt::print("wrote {}: {}, {} of this module\n", out, countText(entries, "schedule"), totals.replaced);
    return {};
  }

  /// The rates of f32 products with and without f32x3, if the module has such products and the device the matrix units.
  Result<std::optional<MatrixFigures>> halves(const Module& fused,
                                              const std::shared_ptr<vulkan::Device>& device) const {
    const Target& target = device->info().target;
    if (!target.multiplies(DType::f16) || !hasWideProducts(fused)) return std::optional<MatrixFigures>();
    return measureProduct(device, "f32x3", matrixSchedules(target), options.shaders);
  }

  Result<int> run(CLI::App& app, const Arguments&) override {
    if (model.device == "interp")
      return usageError("tune times kernels on a Vulkan device; --device=interp has none");
    const std::string given = model.file;
    TG_TRY(std::unique_ptr<Module> module, load(app));
    model.statistics = true;
    TG_TRY(const SessionOptions opened, openDevice(model, *module));
    const std::shared_ptr<vulkan::Device>& device = opened.device.open;
    TG_CHECK(openOutput(device->info()));
    CompileOptions until;
    until.until = Stage::fused;
    const Target target = targetOn(*module, device, opened.cache, model.notes);
    TG_TRY(const Compiled fused, compile(std::move(module), target, until));
    TG_CHECK(checkTunable(*fused.module, device->info()));
    if (!json) {
      fmt::print("{} on {}{}\n", given == "-" ? "standard input" : given, device->info().name,
                 device->info().type == "cpu" ? ", a CPU: what else it does shows in the times" : "");
      printHead();
      options.onRegion = printRow;
    }
    options.shaders = shaderFolder(opened.cache);
    TG_TRY(const std::vector<TunedRegion> regions,
           withCode(exitDevice, tune(*fused.module, device, options)));
    TG_TRY(const std::optional<MatrixFigures> wide, withCode(exitDevice, halves(*fused.module, device)));
    if (json) {
      Json all{
          {"device", device->info().name}, {"driver", device->info().driver}, {"kernels", toJson(regions)}};
      if (wide)
        all["f32x3"] = {
            {"gflops", wide->matrices}, {"f32_gflops", wide->scalars}, {"pays", matricesPay(*wide)}};
      fmt::print("{}\n", jsonText(all, 2));
    } else if (wide) {
      fmt::print("{}\n", adviceOf(*wide));
    }
    TG_CHECK(write(regions));
    return exitOk;
  }
};

}  // namespace

std::unique_ptr<Verb> makeTune() { return std::make_unique<TuneVerb>(); }

}  // namespace tg
