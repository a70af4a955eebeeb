// SPDX-License-Identifier: Apache-2.0
#include "runtime/ceilings.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "codegen/glsl.h"
#include "codegen/shader.h"
#include "ir/kernel/rewrites.h"
#include "ir/parser.h"
#include "ir/stopwatch.h"
#include "ir/verify.h"
#include "runtime/vulkan/recording.h"

namespace tg {

namespace {

using vulkan::Binding;
using vulkan::Buffer;

constexpr int64_t kGroup = 128;  // invocations of a workgroup; every device allows as many
constexpr int64_t kMoves = 8;    // vec4s that an invocation copies
constexpr int64_t kCopyGroupBytes = kGroup * kMoves * 16;
constexpr int kChains = 4, kRounds = 4;  // vec4 chains of an invocation, and their steps in one iteration
constexpr double kFlopsPerIteration = double(kGroup) * kChains * kRounds * 4 * 2;  // of a workgroup
constexpr double kWarmSeconds = 0.1;

/// How to measure a kind of device. A GPU needs dispatches large enough to fill it. A CPU is filled by short ones, and
/// out of many short ones some run without an interruption by other processes.
struct MeasureOptions {
  int64_t copyBytes, slices;  ///< of a buffer; the number of dispatches that copy it
  int64_t fmaGroups;
  double fmaMicroseconds;  ///< least time of a dispatch
  int runs;
};
constexpr MeasureOptions kGpu = {int64_t(256) << 20, 1, 4096, 5000, 10};
constexpr MeasureOptions kCpu = {int64_t(128) << 20, 64, 256, 300, 5};

const MeasureOptions& optionsFor(const vulkan::Device& device) {
  return device.info().type == "cpu" ? kCpu : kGpu;
}

/// Neighbouring invocations copy neighbouring vec4s. Each invocation copies several, one workgroup's width apart.
std::string copyKernel(int64_t vectors) {
  std::string body;
  for (int64_t i = 0; i < kMoves; ++i)
    body += fmt::format("    %i{0} = tgk.add %at, {1} : u32\n"
                        "    %v{0} = tgk.load %x[%i{0}] : vec4<f32>\n"
                        "    tgk.store %v{0}, %y[%i{0}]\n",
                        i, i * kGroup);
  return fmt::format("  kernel @k(%x: buf<{0}xvec4<f32>, in>, %y: buf<{0}xvec4<f32>, out>)\n"
                     "      workgroup({1}) grid({2}) {{\n"
                     "    %g = tgk.workgroup_id 0 : u32\n"
                     "    %l = tgk.local_id 0 : u32\n"
                     "    %first = tgk.mul %g, {3} : u32\n"
                     "    %at = tgk.add %first, %l : u32\n{4}  }}\n",
                     vectors, kGroup, vectors / (kGroup * kMoves), kGroup * kMoves, body);
}

/// Independent chains x = a·x + b. The shader reads a and b from memory, so that no compiler can evaluate the chains.
/// It reads the number of iterations too, so that one shader serves every device.
std::string fmaKernel(int64_t groups) {
  std::string starts, first, steps, last, sum;
  for (int c = 0; c < kChains; ++c) {
    starts += fmt::format("    %s{} = tgk.vec %id : vec4<f32>\n", c);
    first += fmt::format("{}%x{}_0 = %s{}", c ? ", " : "", c, c);
    for (int r = 0; r < kRounds; ++r)
      steps += fmt::format("      %x{0}_{1} = tgk.fma %x{0}_{2}, %a, %b : vec4<f32>\n", c, r + 1, r);
    last += fmt::format("{}%x{}_{}", c ? ", " : "", c, kRounds);
  }
  std::string types, results;
  for (int c = 0; c < kChains; ++c) {
    types += c ? ", vec4<f32>" : "vec4<f32>";
    results += fmt::format("{}%r{}", c ? ", " : "", c);
    if (c)
      sum += fmt::format("    %t{} = tgk.add {}, %r{} : vec4<f32>\n", c,
                         c == 1 ? "%r0" : fmt::format("%t{}", c - 1), c);
  }
  return fmt::format("  kernel @k(%n: buf<2xf32, in>, %times: buf<1xu32, in>, %y: buf<{0}xvec4<f32>, out>)\n"
                     "      workgroup({1}) grid({2}) {{\n"
                     "    %i = tgk.global_id 0 : u32\n"
                     "    %id = tgk.cast %i : f32\n"
                     "    %a0 = tgk.load %n[0] : f32\n"
                     "    %b0 = tgk.load %n[1] : f32\n"
                     "    %a = tgk.vec %a0 : vec4<f32>\n"
                     "    %b = tgk.vec %b0 : vec4<f32>\n"
                     "    %end = tgk.load %times[0] : u32\n{3}"
                     "    {4} = tgk.for %k = 0 to(%end) iter_args({5}) : {6} {{\n{7}"
                     "      tgk.yield {8} : {6}\n    }}\n{9}"
                     "    tgk.store %t{10}, %y[%i]\n  }}\n",
                     groups * kGroup, kGroup, groups, starts, results, first, types, steps, last, sum,
                     kChains - 1);
}

Result<std::shared_ptr<vulkan::Pipeline>> pipelineOf(vulkan::Device& device, const std::string& name,
                                                     const std::string& kernel) {
  TG_TRY(auto module, parse("module @ceilings stage(kernel) {\n" + kernel + "}\n", name));
  Item* item = module->find(ItemKind::kernel, "k");
  TG_CHECK(verifyKernel(*item));
  legalize(module.get(), *item);
  TG_TRY(GlslText glsl, printGlsl(*item, device.info().target));
  TG_TRY(auto words, compileGlsl(glsl, name));
  std::vector<vulkan::BindingKind> bindings(item->body.args.size(), vulkan::BindingKind::storage);
  vulkan::KernelCode code{name, std::move(words), std::move(bindings), 0};
  TG_TRY(auto made, vulkan::createPipelines(device, {&code, 1}));
  return made.front();
}

/// The time of the recording's shortest dispatch.
Result<double> microseconds(vulkan::Recording& recording) {
  TG_CHECK(recording.submit());
  TG_TRY(auto times, recording.times());
  double least = std::numeric_limits<double>::infinity();
  for (const vulkan::DeviceTime& time : times) least = std::min(least, time.microseconds());
  return least;
}

/// The shortest dispatch of several runs, after a warm-up.
Result<double> best(vulkan::Recording& recording, int runs) {
  const Stopwatch watch;
  while (watch.seconds() < kWarmSeconds) TG_CHECK(microseconds(recording));
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    TG_TRY(double one, microseconds(recording));
    least = std::min(least, one);
  }
  return least;
}

/// A recording with dispatches of one kernel in sequence, each with its own bindings and timestamps.
Result<std::unique_ptr<vulkan::Recording>> recorded(vulkan::Device& device, const std::string& name,
                                                    const std::string& kernel, int64_t groups,
                                                    const std::vector<std::vector<Binding>>& dispatches) {
  TG_TRY(auto pipeline, pipelineOf(device, name, kernel));
  std::vector<vulkan::Command> commands;
  for (const auto& bindings : dispatches) {
    if (!commands.empty()) commands.emplace_back(vulkan::Barrier{});
    commands.emplace_back(vulkan::Dispatch{pipeline, {static_cast<uint32_t>(groups), 1, 1}, bindings, name});
  }
  return vulkan::Recording::create(device, std::move(commands), {name, vulkan::Timestamps::commands});
}

Result<void> measureCopy(vulkan::Device& device, Ceilings& out) {
  const vulkan::DeviceInfo& info = device.info();
  const MeasureOptions& options = optionsFor(device);
  int64_t most = std::min({options.copyBytes, info.target.storageRange, info.maxAllocationBytes,
                           info.heapBytes / 8, info.target.maxGrid * kCopyGroupBytes});
  const int64_t groups = std::max<int64_t>(most / options.slices / kCopyGroupBytes, 1);
  const int64_t slice = groups * kCopyGroupBytes;
  out.copyBytes = slice * options.slices;
  TG_TRY(auto x, Buffer::create(device, {"copy.x", out.copyBytes, vulkan::MemoryKind::device}));
  TG_TRY(auto y, Buffer::create(device, {"copy.y", out.copyBytes, vulkan::MemoryKind::device}));
  std::vector<std::vector<Binding>> dispatches;
  for (int64_t at = 0; at < out.copyBytes; at += slice)
    dispatches.push_back({Binding{x.get(), at, slice}, Binding{y.get(), at, slice}});
  TG_TRY(auto recording, recorded(device, "copy", copyKernel(slice / 16), groups, dispatches));
  TG_TRY(double least, best(*recording, options.runs));
  out.gigabytesPerSecond = 2 * static_cast<double>(slice) / least * 1e-3;
  return {};
}

Result<void> measureFma(vulkan::Device& device, Ceilings& out) {
  const MeasureOptions& options = optionsFor(device);
  const int64_t bytes = options.fmaGroups * kGroup * 16;
  TG_TRY(auto numbers, Buffer::create(device, {"fma.n", 8, vulkan::MemoryKind::device}));
  TG_TRY(auto times, Buffer::create(device, {"fma.times", 4, vulkan::MemoryKind::device}));
  TG_TRY(auto y, Buffer::create(device, {"fma.y", bytes, vulkan::MemoryKind::device}));
  const std::array<float, 2> values = {0.5f, 1.0f};  // the chains converge to 2, and never get near 0
  TG_CHECK(numbers->write(0, 8, values.data()));
  const std::vector<std::vector<Binding>> dispatches(
      8, {Binding{numbers.get()}, Binding{times.get()}, Binding{y.get()}});
  TG_TRY(auto recording,
         recorded(device, "fma", fmaKernel(options.fmaGroups), options.fmaGroups, dispatches));
  for (uint32_t iterations = 8;; iterations *= 2) {
    TG_CHECK(times->write(0, 4, &iterations));
    TG_TRY(double one, microseconds(*recording));
    if (one < options.fmaMicroseconds && iterations < (1u << 20)) continue;
    TG_TRY(double least, best(*recording, options.runs));
    out.gigaflopsPerSecond =
        kFlopsPerIteration * static_cast<double>(options.fmaGroups) * iterations / least * 1e-3;
    return {};
  }
}

}  // namespace

Result<Ceilings> measureCeilings(const std::shared_ptr<vulkan::Device>& device) {
  Ceilings out;
  TG_CHECK(measureCopy(*device, out));
  TG_CHECK(measureFma(*device, out));
  return out;
}

}  // namespace tg
