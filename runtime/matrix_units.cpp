// SPDX-License-Identifier: Apache-2.0
#include "runtime/matrix_units.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "codegen/schedule.h"
#include "ir/file_io.h"
#include "ir/json_text.h"
#include "ir/parser.h"
#include "ir/text.h"
#include "runtime/compile.h"
#include "runtime/tune.h"

namespace tg {

namespace {

/// The version of the timed kernels. Increment it after a change that makes products much faster or slower, with or
/// without matrix units; cached figures of older versions are then measured again.
constexpr int kKernels = 1;

std::unique_ptr<Module> productModule(const std::string& precision, int64_t side) {
  const std::string square = fmt::format("tensor<{0}x{0}x", side);
  const std::string text =
      fmt::format("module @product {{\n"
                  "  func @f(%a: {0}{1}>, %b: {0}{1}>) -> (c: {0}f32>) {{\n"
                  "    %aw = tg.cast %a : {0}f32>\n"
                  "    %bw = tg.cast %b : {0}f32>\n"
                  "    %c = tg.matmul %aw, %bw {{precision = {2}}} : {0}f32>\n"
                  "    return %c : {0}f32>\n"
                  "  }}\n}}\n",
                  square, dtypeNamed(precision).has_value() ? precision : "f32", precision);
  return std::move(*parse(text, "product"));
}

const Op* regionOf(const Module& fused) {
  for (const Op* op : fused.func("f")->body.ops)
    if (op->code == Opcode::fused) return op;
  return nullptr;
}

/// Times both schedules alternately in a few runs, and takes the shortest time of each.
Result<std::optional<std::array<double, 2>>> microseconds(const std::shared_ptr<vulkan::Device>& device,
                                                          const std::string& precision, int64_t side,
                                                          const SchedulePair& pair,
                                                          const std::string& shaders) {
  using Times = std::optional<std::array<double, 2>>;
  const Target& target = device->info().target;
  CompileOptions until;
  until.until = Stage::fused;
  TG_TRY(Compiled done, compile(productModule(precision, side), target, until));
  const Op* region = regionOf(*done.module);
  const auto schedules = region ? pair(*region) : std::nullopt;
  if (!schedules) return Times();
  std::vector<TimedSchedule> timed;
  for (const Schedule& each : *schedules) timed.push_back({scheduleAttr(each), 0, 0});
  TuneOptions options;
  options.rounds = 3;
  options.leastSeconds = 0.05;
  options.shaders = shaders;
  TG_CHECK(timeSchedules(*region, timed, target, device, options));
  return Times({timed[0].least, timed[1].least});
}

/// The figures known to this process, by cache file, or by the device's key if there is no cache.
struct Known {
  std::mutex mutex;
  std::map<std::string, MatrixFigures> figures;
};
Known& known() {
  static Known all;
  return all;
}

/// Writes the figures to the cache. If another process has written figures meanwhile, those are used instead, so that
/// all processes agree. A file that cannot be written only costs another measurement later.
MatrixFigures kept(const std::string& file, const MatrixFigures& measured) {
  if (file.empty()) return measured;
  if (auto others = readMatrixFigures(file)) return *others;
  if (makeFolder(std::filesystem::path(file).parent_path())) (void)writeMatrixFigures(file, measured);
  return measured;
}

std::string noteOf(const vulkan::DeviceInfo& device, const MatrixFigures& figures) {
  if (matricesPay(figures)) return "";
  return fmt::format(
      "products on {} use no matrix units: {:.1f} GFLOP/s were measured by them, {:.1f} without", device.name,
      figures.matrices, figures.scalars);
}

}  // namespace

bool matricesPay(const MatrixFigures& figures) { return figures.matrices >= kMatrixGain * figures.scalars; }

std::string matrixLine(const Target& device, const std::optional<MatrixFigures>& figures) {
  if (device.coopmat.empty()) return "";
  const std::string shapes = listText(device.coopmat, [](const CoopShape& each) {
    return fmt::format("{}x{}x{} {} in {}", each.m, each.n, each.k, name(each.operand), name(each.result));
  });
  const std::string measured =
      figures ? fmt::format("{:.1f} GFLOP/s, {:.1f} without them: {}", figures->matrices, figures->scalars,
                            matricesPay(*figures) ? "used" : "not used")
              : "not measured yet";
  return fmt::format("matrix units, {}: {}; {}", device.matrices, shapes, measured);
}

Target withoutMatrices(Target target) {
  const Target none;
  target.coopmat = none.coopmat;
  target.matrices = none.matrices;
  target.fragments = none.fragments;
  return target;
}

Target targetFrom(const vulkan::DeviceInfo& device, const std::optional<MatrixFigures>& figures) {
  return !figures || matricesPay(*figures) ? device.target : withoutMatrices(device.target);
}

bool choosesMatrices(const Module& module) {
  if (module.stage != Stage::tensor) return false;
  bool narrow = false, own = false;
  for (const auto& item : module.items)
    walk(item->body, [&](const Op& op) {
      own = own || op.code == Opcode::k_coopmat_mma;
      const Attr* precision = find(op.attrs, "precision");
      narrow = narrow || (precision && precision->text != "f32") ||
               anyUse(op, [](const Value* value) { return isNarrow(value->type.dtype); });
    });
  return narrow && !own;
}

std::string matrixFile(const std::string& cache, const vulkan::DeviceInfo& device) {
  return cache.empty() ? "" : cache + "/matrices-" + device.cacheKey + ".json";
}

std::optional<MatrixFigures> readMatrixFigures(const std::string& file) {
  std::error_code absent;
  if (file.empty() || !std::filesystem::is_regular_file(file, absent)) return {};
  auto bytes = readFile(file);
  if (!bytes) return {};
  const Json json = parseJson<Json>(asText(*bytes));
  if (!json.is_object() || json.value("kernels", Json()) != Json(kKernels)) return {};
  MatrixFigures out;
  for (const auto& [key, figure] :
       {std::pair("matrices_gflops", &out.matrices), {"scalars_gflops", &out.scalars}}) {
    const Json given = json.value(key, Json());
    if (!given.is_number() || !(given.get<double>() > 0)) return {};
    *figure = given.get<double>();
  }
  return out;
}

Result<void> writeMatrixFigures(const std::string& file, const MatrixFigures& figures) {
  const std::string text = jsonText(Json{{"kernels", kKernels},
                                         {"matrices_gflops", figures.matrices},
                                         {"scalars_gflops", figures.scalars}},
                                    2) +
                           "\n";
  return writeFile(file, text);
}

SchedulePair matrixSchedules(const Target& target) {
  return [target](const Op& fused) -> std::optional<std::array<Schedule, 2>> {
    Schedule with = chooseSchedule(fused, target);
    if (!std::holds_alternative<CoopmatSchedule>(with)) return {};
    return std::array<Schedule, 2>{chooseSchedule(fused, withoutMatrices(target)), std::move(with)};
  };
}

Result<std::optional<MatrixFigures>> measureProduct(const std::shared_ptr<vulkan::Device>& device,
                                                    const std::string& precision, const SchedulePair& pair,
                                                    const std::string& shaders, const ProductSides& sides) {
  if (!device->info().timestamps) return std::optional<MatrixFigures>();
  for (int64_t side = sides.first;; side *= 2) {
    TG_TRY(const auto times, microseconds(device, precision, side, pair, shaders));
    if (!times) return std::optional<MatrixFigures>();
    const auto [scalars, matrices] = *times;
    if (scalars < sides.leastMicroseconds && side < sides.most) continue;
    const double flops = 2 * std::pow(static_cast<double>(side), 3);
    return std::optional(MatrixFigures{flops / matrices * 1e-3, flops / scalars * 1e-3});
  }
}

ChosenTarget targetFor(const Module& module, const vulkan::DeviceInfo& device, const std::string& cache,
                       const Measure& measure) {
  const bool multiplies = device.target.multiplies(DType::f16) || device.target.multiplies(DType::bf16);
  if (!multiplies || !choosesMatrices(module)) return {device.target, ""};
  const std::string file = matrixFile(cache, device);
  Known& all = known();
  const std::lock_guard lock(all.mutex);  // if several sessions compile at once, only one measures
  const std::string key = file.empty() ? device.cacheKey : file;
  if (auto found = all.figures.find(key); found != all.figures.end())
    return {targetFrom(device, found->second), ""};
  std::optional<MatrixFigures> figures = readMatrixFigures(file);
  if (!figures) {
    auto measured = measure();
    if (!measured)
      return {device.target, fmt::format("the matrix units of {} could not be measured: {}", device.name,
                                         measured.error().message())};
    if (!*measured) return {device.target, ""};
    figures = kept(file, **measured);
  }
  all.figures.emplace(key, *figures);
  return {targetFrom(device, figures), noteOf(device, *figures)};
}

ChosenTarget targetFor(const Module& module, const std::shared_ptr<vulkan::Device>& device,
                       const std::string& cache) {
  const Target& target = device->info().target;
  const std::string precision = target.multiplies(DType::f16) ? "f16" : "bf16";
  return targetFor(module, device->info(), cache, [&] {
    return measureProduct(device, precision, matrixSchedules(target), shaderFolder(cache));
  });
}

Target keptTarget(const Module& module, const vulkan::DeviceInfo& device, const std::string& cache) {
  return choosesMatrices(module) ? targetFrom(device, readMatrixFigures(matrixFile(cache, device)))
                                 : device.target;
}

}  // namespace tg
