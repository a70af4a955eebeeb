// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "codegen/schedule.h"
#include "ir/access.h"
#include "ir/builder.h"
#include "ir/kernel/inline.h"
#include "ir/needs.h"
#include "ir/op_view.h"
#include "ir/stopwatch.h"
#include "ir/verify.h"
#include "passes/tuning.h"
#include "runtime/compile.h"
#include "runtime/data/init.h"
#include "runtime/executor.h"
#include "runtime/matrix_units.h"
#include "runtime/train/feed.h"

namespace tg {

namespace {

/// A region of the module that is worth timing, with its candidates.
struct Subject {
  const Op* fused = nullptr;
  TunedRegion region;
};

std::string mainOp(const Op& fused) {
  const Op* main = fused.regions[0]->ops.front();
  for (Op* op : fused.regions[0]->ops) {
    using table::Fusion;
    const Fusion kind = op->info().fusion;
    const bool reads =
        std::ranges::any_of(op->operands, [](const Operand& operand) { return operand.value != nullptr; });
    if (kind == Fusion::view || !reads || op->code == Opcode::yield) continue;
    main = op;
    if (kind != Fusion::map) break;
  }
  return std::string(main->info().name);
}

bool spansBindings(const Op& fused, const Target& target) {
  return everyUse(fused, [&](const Value* source) { return source->type.bytes() <= mostBytes(target); });
}

std::vector<Subject> subjectsOf(const Module& module, const Target& target) {
  std::vector<Subject> out;
  std::map<std::string, size_t> known;
  for (const Item* func : module.all(ItemKind::func))
    for (Op* op : func->body.ops) {
      if (op->code != Opcode::fused) continue;
      const std::string key = tuningKey(*op);
      if (auto found = known.find(key); found != known.end()) {
        ++out[found->second].region.count;
        continue;
      }
      const std::vector<Schedule> schedules = scheduleCandidates(*op, target);
      if (schedules.size() < 2 || !spansBindings(*op, target)) continue;
      known.emplace(key, out.size());
      Subject subject{op, {}};
      subject.region.key = key;
      subject.region.label = fmt::format("{}: {}", op->result()->name, mainOp(*op));
      subject.region.source = locString(op->loc);
      subject.region.count = 1;
      for (const Schedule& each : schedules) subject.region.schedules.push_back({scheduleAttr(each), 0, 0});
      out.push_back(std::move(subject));
    }
  return out;
}

/// A function f that computes the region with every schedule in sequence, from states in<i>. Nobody reads the results,
/// so all results share one place in the arena, and no two kernels overlap. The first schedule runs twice, because the
/// first run fills the caches.
std::unique_ptr<Module> moduleOf(const Op& fused, const std::vector<TimedSchedule>& schedules,
                                 const Target& target) {
  auto module = std::make_unique<Module>();
  module->name = "tune";
  module->stage = Stage::fused;
  set(module->attrs, "target", targetToAttr(target));
  std::unordered_map<const Value*, Value*> inputs;
  std::vector<const Value*> sources;
  forEachUse(fused, [&](const Value* source) {
    if (inputs.try_emplace(source, nullptr).second) sources.push_back(source);
  });
  for (size_t i = 0; i < sources.size(); ++i)
    module->add(ItemKind::state, fmt::format("in{}", i))->type = sources[i]->type;
  Item* func = module->add(ItemKind::func, "f");
  Builder builder(module.get(), func);
  for (size_t i = 0; i < sources.size(); ++i)
    inputs[sources[i]] =
        builder.create(Opcode::state, {Operand::symbol(fmt::format("in{}", i))}, {}, {sources[i]->type})
            ->result();
  auto add = [&](const Attr& schedule) {
    std::unordered_map<const Value*, Value*> map = inputs;
    std::unique_ptr<Op> op = cloneOp(fused, map);
    op->setAttr("schedule", schedule);
    rename(*op, builder.names());
    builder.append(std::move(op));
  };
  add(schedules[0].schedule);
  for (const TimedSchedule& each : schedules) add(each.schedule);
  builder.create(Opcode::return_, {});
  return module;
}

/// The number of values, from 0 on, that the integers of a region's operand may have; 0 if nothing in the region limits
/// them.
int64_t idsOf(const Item& body, const Value* operand) {
  int64_t limit = idLimit(body, operand);
  auto note = [&](const Value* ids, int64_t rows) {
    while (ids->def && ids->def->info().fusion == table::Fusion::view) ids = ids->def->in(0);
    if (ids == operand) limit = limit ? std::min(limit, rows) : rows;
  };
  for (Op* op : body.body.ops) {
    if (op->code == Opcode::scatter_add) {
      const as::scatter_add scatter(*op);
      note(scatter.ids(), scatter.rows());
      if (scatter.order()) note(scatter.order(), scatter.ids()->type.elements());
    }
    if (op->code == Opcode::cross_entropy_grad)
      note(as::cross_entropy_grad(*op).targets(), as::cross_entropy_grad(*op).logits()->type.shape.back());
  }
  return limit;
}

/// The ids of a sorted scatter whose offsets an operand holds; 0 for other operands.
int64_t sortedIds(const Item& body, const Value* operand) {
  for (const Op* op : body.body.ops)
    if (op->code == Opcode::scatter_add && as::scatter_add(*op).offsets() == operand)
      return as::scatter_add(*op).ids()->type.elements();
  return 0;
}

/// Normally distributed floats of any width, flags that are 0 or 1, or ids that are in range for what the region reads.
/// Offsets of sorted ids give each row as many.
Result<HostArray> randomPattern(const Op& fused, int binding, const Type& type, uint64_t seed) {
  const std::string name = fmt::format("in{}", binding);
  if (isFloat(type.dtype)) return initialValue(name, type, "randn", {}, seed);
  std::unordered_map<const Value*, Value*> map;
  std::unique_ptr<Op> copy = cloneOp(fused, map);
  Item body;
  body.kind = ItemKind::func;
  body.body = std::move(*copy->regions[0]);
  const Value* operand = body.body.args[static_cast<size_t>(binding)].get();
  HostArray out = HostArray::zeros(type);
  if (const int64_t ids = sortedIds(body, operand)) {
    const int64_t rows = type.elements() - 1;
    for (int64_t i = 0; i <= rows; ++i) out.set(i, static_cast<double>(i * ids / rows));
    return out;
  }
  const int64_t bound = idsOf(body, operand);
  const int64_t limit = bound ? bound : 2;
  TG_TRY(const HostArray drawn, initialValue(name, Type::tensor(DType::f32, type.shape), "uniform",
                                             std::array{0.0, static_cast<double>(limit)}, seed));
  for (int64_t i = 0; i < type.elements(); ++i) {
    const int64_t id = std::min(static_cast<int64_t>(drawn.at(i)), limit - 1);
    out.set(i, type.dtype == DType::i1 ? static_cast<double>(id % 2) : static_cast<double>(id));
  }
  return out;
}

Result<void> fillInputs(Executor& executor, const Op& fused, uint64_t seed) {
  std::unordered_map<const Value*, int> seen;
  for (int binding = 0; binding < fused.numOperands(); ++binding) {
    const Value* source = bindingSources(fused, binding)[0];
    const int number = static_cast<int>(seen.size());
    if (!seen.try_emplace(source, number).second) continue;
    TG_TRY(HostArray data, randomData(fused, binding, source->type, seed));
    TG_CHECK(executor.setStorage(fmt::format("in{}", number), data));
  }
  return {};
}

/// Runs f until every schedule has been timed often enough.
Result<void> time(Executor& executor, std::vector<TimedSchedule>& schedules, const TuneOptions& options) {
  executor.measure(vulkan::Timestamps::commands);
  std::vector<std::vector<double>> times(schedules.size());
  // Runs f for at least `rounds` rounds and `seconds` seconds.
  auto repeat = [&](int rounds, double seconds, auto take) -> Result<void> {
    const Stopwatch watch;
    for (int round = 0; round < rounds || watch.seconds() < seconds; ++round) {
      TG_CHECK(executor.run("f", {}, false));
      TG_TRY(std::vector<RunTimes> runs, executor.takeTimes());
      const std::vector<vulkan::DeviceTime>& commands = runs.front().device;
      if (commands.size() != times.size() + 1)
        return fail("{} commands for {} schedules", commands.size(), times.size() + 1);
      take(commands);
    }
    return {};
  };
  // In the first run drivers compile and map memory, and the clocks of an idle device rise slowly.
  TG_CHECK(repeat(1, options.warmSeconds, [](const auto&) {}));
  TG_CHECK(repeat(options.rounds, options.leastSeconds, [&](const std::vector<vulkan::DeviceTime>& commands) {
    for (size_t i = 0; i < times.size(); ++i) times[i].push_back(commands[i + 1].microseconds());
  }));
  for (size_t i = 0; i < times.size(); ++i) {
    schedules[i].least = *std::ranges::min_element(times[i]);
    schedules[i].median = median(std::move(times[i]));
  }
  TG_TRY(std::vector<vulkan::KernelStatistics> told, executor.statistics("f"));
  for (size_t i = 0; i < schedules.size(); ++i) schedules[i].statistics = std::move(told[i + 1]);
  return {};
}

}  // namespace

// Repeats a short pattern: while the host drew all the numbers, the idle device would lower its clocks.
Result<HostArray> randomData(const Op& fused, int binding, const Type& type, uint64_t seed) {
  constexpr int64_t kPattern = 65521;  // prime, so that neighbouring rows differ
  HostArray out = HostArray::zeros(type);
  if (type.elements() == 0) return out;
  const Type few = Type::tensor(type.dtype, {std::min(type.elements(), kPattern)});
  TG_TRY(const HostArray pattern, randomPattern(fused, binding, few, seed));
  for (size_t at = 0; at < out.bytes.size(); at += pattern.bytes.size())
    std::memcpy(&out.bytes[at], pattern.bytes.data(), std::min(pattern.bytes.size(), out.bytes.size() - at));
  return out;
}

size_t fastest(const std::vector<TimedSchedule>& schedules) {
  const TimedSchedule& chosen = schedules.front();
  size_t best = 0;
  for (size_t i = 1; i < schedules.size(); ++i) {
    const TimedSchedule& other = schedules[i];
    const bool clearly = other.least <= chosen.least * (1 - kClearlyFaster) &&
                         other.median <= chosen.median * (1 - kClearlyFaster);
    if (clearly && other.least < schedules[best].least) best = i;
  }
  return best;
}

Result<void> timeSchedules(const Op& fused, std::vector<TimedSchedule>& schedules, const Target& target,
                           const std::shared_ptr<vulkan::Device>& device, const TuneOptions& options) {
  TG_CHECK(checkDuration("warmSeconds", options.warmSeconds));
  TG_CHECK(checkDuration("leastSeconds", options.leastSeconds));
  std::unique_ptr<Module> module = moduleOf(fused, schedules, target);
  TG_CHECK(verify(*module));
  CompileOptions rest;
  rest.textOrder = true;
  rest.shaders = options.shaders;
  TG_TRY(Compiled done, compile(std::move(module), target, rest));
  TG_TRY(std::unique_ptr<Executor> executor, Executor::create(*done.module, device));
  TG_CHECK(fillInputs(*executor, fused, options.seed));
  return time(*executor, schedules, options);
}

Result<void> checkTunable(const Module& fused, const vulkan::DeviceInfo& device) {
  if (fused.stage != Stage::fused)
    return failAt(fused.loc, "schedules are chosen at stage fused; this module is of stage {}",
                  name(fused.stage));
  TG_TRY(const Target target, targetOf(fused.attrs));
  const Target& own = device.target;
  if (targetToJson(target) == targetToJson(own) || targetToJson(target) == targetToJson(withoutMatrices(own)))
    return {};
  return failAt(fused.loc, "the module is made for target '{}', which is not that of {}", target.name,
                device.name);
}

Result<std::vector<TunedRegion>> tune(const Module& fused, const std::shared_ptr<vulkan::Device>& device,
                                      const TuneOptions& options) {
  if (!device->info().timestamps)
    return fail("{} has no timestamps, by which kernels are timed", device->info().name);
  TG_CHECK(checkTunable(fused, device->info()));
  TG_TRY(const Target target, targetOf(fused.attrs));
  std::vector<Subject> subjects = subjectsOf(fused, target);
  std::vector<TunedRegion> out;
  for (Subject& subject : subjects) {
    TG_CHECK(timeSchedules(*subject.fused, subject.region.schedules, target, device, options));
    subject.region.best = fastest(subject.region.schedules);
    out.push_back(std::move(subject.region));
    if (options.onRegion) options.onRegion(out.back());
  }
  return out;
}

std::string tuningFile(const std::string& cache, const vulkan::DeviceInfo& device) {
  return cache.empty() ? "" : cache + "/tuning-" + device.cacheKey + ".txt";
}

void mergeTuning(AttrList& tuning, const std::vector<TunedRegion>& measured) {
  for (const TunedRegion& region : measured) {
    tg::erase(tuning, region.key);
    if (region.best != 0) set(tuning, region.key, region.schedules[region.best].schedule);
  }
}

}  // namespace tg
