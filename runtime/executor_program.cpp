// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor_program.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/collective.h"

namespace tg {

Result<vulkan::Binding> Executor::Program::range(const std::string& name, int64_t offset,
                                                 int64_t bytes) const {
  const Segments* segments = valueIn(buffers, name);
  if (!segments) return fail("the module has no buffer @{}", name);
  // If there is a single buffer, the recording checks the range.
  for (const Segment& segment : *segments)
    if (segments->size() == 1 || (segment.base <= offset && offset + bytes <= segment.end()))
      return vulkan::Binding{segment.buffer.get(), offset - segment.base, bytes};
  return fail("@{}[{}:{}] does not lie in one of the buffers it is made of", name, offset, offset + bytes);
}

std::vector<std::shared_ptr<vulkan::Buffer>> Executor::Program::allBuffers() const {
  std::vector<std::shared_ptr<vulkan::Buffer>> out;
  for (const auto& [name, segments] : buffers)
    for (const Segment& segment : segments) out.push_back(segment.buffer);
  return out;
}

Result<vulkan::Binding> Executor::Program::binding(const Loc& loc, const ByteRange& named) const {
  auto found = range(named.buffer, named.offset, named.bytes);
  if (!found) return failAt(loc, found.error().message());
  return *found;
}

void Executor::Program::findHomes(const Module& module) {
  for (const auto& item : module.items)
    if (item->place) {
      const int64_t begin = item->place->offset;
      homes[item->place->buffer].push_back({begin, begin + item->type.bytes(), item->name});
    }
  for (auto& [buffer, all] : homes) std::ranges::sort(all, {}, &Home::begin);
}

/// A debugger's label such as `k7 (h: matmul) @fc.w @fc.b`: the kernel, what it computes, and the params and states
/// that it binds. Debuggers show bindings only as offsets.
std::string Executor::Program::labelOf(const DispatchStep& step) const {
  constexpr size_t kNamed = 8;
  std::string label = step.label.empty() ? step.kernel : fmt::format("{} ({})", step.kernel, step.label);
  std::vector<std::string_view> bound;
  for (const ByteRange& range : step.bindings) {
    const std::vector<Home>* all = valueIn(homes, range.buffer);
    if (!all) continue;
    auto home =
        std::ranges::partition_point(*all, [&](const Home& each) { return each.end <= range.offset; });
    for (; home != all->end() && home->begin < range.offset + range.bytes && bound.size() <= kNamed; ++home)
      addOnce(bound, home->name);
  }
  for (size_t i = 0; i < std::min(bound.size(), kNamed); ++i) label += fmt::format(" @{}", bound[i]);
  return bound.size() > kNamed ? label + " …" : label;
}

Result<vulkan::Command> Executor::Program::command(const Loc& loc, const DispatchStep& step) const {
  vulkan::Dispatch dispatch;
  auto pipeline = pipelines.find(step.kernel);
  if (pipeline == pipelines.end()) return failAt(loc, "there is no binary @{}", step.kernel);
  dispatch.pipeline = pipeline->second;
  dispatch.label = labelOf(step);
  dispatch.grid = step.grid;
  for (const ByteRange& named : step.bindings) {
    TG_TRY(vulkan::Binding bound, binding(loc, named));
    dispatch.bindings.push_back(bound);
  }
  return vulkan::Command(std::move(dispatch));
}

Result<vulkan::Command> Executor::Program::command(const Loc&, const BarrierStep&) const {
  return vulkan::Command(vulkan::Barrier{});
}

Result<vulkan::Command> Executor::Program::command(const Loc& loc, const FillStep& step) const {
  TG_TRY(vulkan::Binding at, binding(loc, step.range));
  return vulkan::Command(vulkan::Fill{at.buffer, at.offset, at.bytes, 0});
}

Result<vulkan::Command> Executor::Program::command(const Loc& loc, const CopyStep& step) const {
  TG_TRY(vulkan::Binding source, binding(loc, step.source));
  TG_TRY(vulkan::Binding target, binding(loc, step.target));
  return vulkan::Command(
      vulkan::Copy{source.buffer, source.offset, target.buffer, target.offset, source.bytes});
}

Result<CollectiveArgs> Executor::Program::argsOf(const Loc& loc, const CollectiveStep& step) const {
  CollectiveArgs args{collective::kindOf(step.kind), collective::reductionOf(step.reduction), {}, {}};
  auto bind = [&](const std::vector<ByteRange>& named, std::vector<vulkan::Binding>& ranges) -> Result<void> {
    for (const ByteRange& each : named) {
      TG_TRY(vulkan::Binding at, binding(loc, each));
      ranges.push_back(at);
    }
    return {};
  };
  TG_CHECK(bind(step.send, args.send));
  TG_CHECK(bind(step.receive, args.receive));
  return args;
}

/// An error unless the collective has one shard for each rank.
static Result<void> checkShards(const Loc& loc, const CollectiveArgs& args, int ranks) {
  if (args.kind == collective::Kind::allReduce) return {};
  const bool gathers = args.kind == collective::Kind::allGather;
  const int64_t shards =
      gathers ? args.receive[0].bytes / args.send[0].bytes : args.send[0].bytes / args.receive[0].bytes;
  return shards == ranks ? Result<void>() : otherRanks(loc, shards, ranks);
}

/// A collective that needs data of no other rank: copies this rank's shards, between barriers.
void Executor::Program::copyShards(const CollectiveArgs& args, int rank,
                                   std::vector<vulkan::Command>& commands) {
  commands.emplace_back(vulkan::Barrier{});
  for (size_t i = 0; i < args.receive.size(); ++i) {
    const vulkan::Binding &from = args.send[i], &to = args.receive[i];
    commands.emplace_back(
        vulkan::Copy{from.buffer, from.offset + rank * to.bytes, to.buffer, to.offset, to.bytes});
  }
  commands.emplace_back(vulkan::Barrier{});
}

Result<std::vector<vulkan::Command>>
Executor::Program::commandsOf(const Item& func, const collective::Engine* ranks,
                              std::vector<CollectivePoint>& points) const {
  std::vector<vulkan::Command> commands;
  std::set<int64_t> local;  // collectives that need data of no other rank
  for (const ProgramStep& step : programSteps(func)) {
    if (const auto* begin = std::get_if<CollectiveStep>(&step.what)) {
      TG_TRY(CollectiveArgs args, argsOf(step.loc, *begin));
      TG_CHECK(checkShards(step.loc, args, ranks ? ranks->ranks() : 1));
      const bool same =
          args.kind == collective::Kind::reduceScatter && args.reduction == collective::Reduction::same;
      if (!ranks || same) {
        local.insert(begin->id);
        copyShards(args, ranks ? ranks->rank() : 0, commands);
      } else {
        points.push_back({.at = commands.size(), .id = begin->id, .begins = true, .args = std::move(args)});
      }
      continue;
    }
    if (const auto* wait = std::get_if<WaitStep>(&step.what)) {
      if (!local.contains(wait->id))
        points.push_back({.at = commands.size(), .id = wait->id, .begins = false, .args = {}});
      continue;
    }
    TG_TRY(vulkan::Command made,
           std::visit(
               [&](const auto& what) -> Result<vulkan::Command> {
                 using Step = std::decay_t<decltype(what)>;
                 if constexpr (std::is_same_v<Step, CollectiveStep> || std::is_same_v<Step, WaitStep>)
                   return vulkan::Command(vulkan::Barrier{});
                 else
                   return command(step.loc, what);
               },
               step.what));
    commands.push_back(std::move(made));
  }
  return commands;
}

}  // namespace tg
