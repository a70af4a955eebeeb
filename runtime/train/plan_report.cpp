// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/plan_report.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "ir/access.h"
#include "ir/byte_range.h"
#include "ir/divide.h"
#include "ir/json_text.h"
#include "ir/kernel/cost.h"
#include "ir/target.h"

namespace tg {

namespace {

const OperandList& argumentsOf(const Op& op) {
  static const OperandList none;
  const Operand* args = op.keyword("args");
  return args ? args->items : none;
}

/// Tracks what is in memory during the commands.
class MemoryTrace {
 public:
  MemoryTrace(const Module& module, MemoryReport& out) : out_(out) {
    if (auto target = targetOf(module.attrs)) alignment_ = std::max<int64_t>(target->alignment, 1);
  }
  void step(std::string label, std::string source) {
    out_.steps.push_back({std::move(label), std::move(source), 0});
  }
  void read(const ByteRange& range);
  /// Must be called after the step's reads.
  void write(MemoryValue value);
  void fixed(MemoryValue value) { out_.values.push_back(std::move(value)); }
  void finish();
  int now() const { return static_cast<int>(out_.steps.size()) - 1; }

 private:
  ByteRange rangeOfEntry(size_t entry) const {
    const MemoryValue& value = entries_[entry];
    return {value.room, value.offset, value.bytes};
  }

  MemoryReport& out_;
  int64_t alignment_ = 1;
  std::vector<MemoryValue> entries_;  ///< in the arena, by birth
  std::vector<size_t> live_;          ///< entries that have not been overwritten
};

void MemoryTrace::read(const ByteRange& range) {
  for (size_t entry : live_)
    if (overlap(range, rangeOfEntry(entry))) entries_[entry].last = now();
}

void MemoryTrace::write(MemoryValue value) {
  if (value.room != "arena") return;
  const ByteRange range{value.room, value.offset, value.bytes};
  std::erase_if(
      live_, [&](size_t old) { return entries_[old].first != now() && overlap(range, rangeOfEntry(old)); });
  value.first = value.last = now();
  live_.push_back(entries_.size());
  entries_.push_back(std::move(value));
}

void MemoryTrace::finish() {
  for (MemoryValue& value : out_.values) value.last = now();
  // If one live value is in place of another, their common bytes count once.
  for (int i = 0; i <= now(); ++i) {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (const MemoryValue& value : entries_)
      if (value.first <= i && i <= value.last)
        ranges.emplace_back(value.offset / alignment_ * alignment_,
                            alignTo(value.offset + value.bytes, alignment_));
    std::ranges::sort(ranges);
    int64_t end = 0, &live = out_.steps[static_cast<size_t>(i)].liveBytes;
    for (const auto& [from, to] : ranges) {
      live += std::max<int64_t>(0, to - std::max(from, end));
      end = std::max(end, to);
    }
    if (out_.peak < 0 || live > out_.peakBytes()) out_.peak = i;
  }
  std::ranges::stable_sort(entries_, {}, &MemoryValue::first);
  std::move(entries_.begin(), entries_.end(), std::back_inserter(out_.values));
}

MemoryValue placed(const Value& value) {
  return {value.name,          value.type.str(),    locString(value.loc),
          value.place->buffer, value.place->offset, value.type.bytes()};
}

/// The range from the first to the last of these values, which lie in one buffer, with padding after it.
ByteRange spanOf(const std::vector<Value*>& values) {
  ByteRange span{values[0]->place->buffer, values[0]->place->offset, values[0]->type.bytes()};
  for (const Value* value : values) {
    const int64_t end = std::max(span.offset + span.bytes, value->place->offset + value->type.bytes());
    span.offset = std::min(span.offset, value->place->offset);
    span.bytes = end - span.offset;
  }
  span.bytes = alignTo(span.bytes, kMemberAlignment);
  return span;
}

void readOperands(const Op& op, MemoryTrace& memory) {
  if (op.code == Opcode::fused) {
    for (int binding = 0; binding < op.numOperands(); ++binding) {
      const std::vector<Value*> sources = bindingSources(op, binding);
      if (!sources.empty() && sources[0]->place) memory.read(spanOf(sources));
    }
    return;
  }
  forEachUse(op, [&](Value* value) {
    if (value->place) memory.read(spanOf({value}));
  });
}

/// Whether a value is a part of one that the host reads, under that value's name.
bool isAdjoined(const Value& value) {
  return std::ranges::any_of(value.uses, [](const Use& use) { return use.user()->code == Opcode::adjoin; });
}

/// Traces one op of a planned function.
void plannedStep(const Op& op, MemoryTrace& memory) {
  if (readsEntry(op)) return;
  if (op.code == Opcode::adjoin) return memory.fixed(placed(*op.result()));
  bool moves = op.code == Opcode::fused || op.code == Opcode::fill || op.code == Opcode::copy;
  if (!moves && op.results.empty() && op.code != Opcode::update) return;
  std::string label = op.results.empty() ? std::string(op.info().name) : "%" + op.result()->name;
  if (op.code == Opcode::update) label += " @" + op.operands[0].text;
  memory.step(std::move(label), locString(op.loc));
  readOperands(op, memory);
  if (op.code == Opcode::fill)
    for (const Operand& argument : argumentsOf(op)) {
      ByteRange range = byteRangeOf(argument);
      memory.write({"padding", "bytes", locString(op.loc), range.buffer, range.offset, range.bytes});
    }
  for (const auto& result : op.results) {
    if (!result->place) continue;
    if (result->place->buffer == "arena") memory.write(placed(*result));
    if (result->place->buffer == "io" && !isAdjoined(*result)) memory.fixed(placed(*result));
  }
}

std::string labelOf(const Op& op) {
  std::string label = op.code == Opcode::dispatch ? op.word("label") : "";
  if (label.empty() && op.code == Opcode::dispatch) label = op.operands[0].text;
  return label.empty() ? std::string(op.info().name) : label;
}

/// Traces one command of a function of stage kernel or spirv.
void commandStep(const Module& module, const Op& op, MemoryTrace& memory) {
  const std::string source = locString(op.loc);
  if (op.code == Opcode::home) {
    if (op.result()->place && op.result()->place->buffer == "io") memory.fixed(placed(*op.result()));
    return;
  }
  if (op.code != Opcode::dispatch && op.code != Opcode::fill && op.code != Opcode::copy) return;
  memory.step(labelOf(op), source);
  const Item* kernel =
      op.code == Opcode::dispatch ? module.find(ItemKind::kernel, op.operands[0].text) : nullptr;
  const auto& args = argumentsOf(op);
  auto writes = [&](size_t i) {
    if (op.code == Opcode::fill) return true;
    return op.code == Opcode::copy ? i == 1 : args[i].text != "in" && !args[i].text.starts_with("texel");
  };
  for (size_t i = 0; i < args.size(); ++i)
    if (op.code != Opcode::fill && args[i].text != "out") memory.read(byteRangeOf(args[i]));
  for (size_t i = 0; i < args.size(); ++i) {
    if (!writes(i)) continue;
    ByteRange range = byteRangeOf(args[i]);
    const Value* param = kernel && i < kernel->body.args.size() ? kernel->body.args[i].get() : nullptr;
    memory.write({param ? param->name : labelOf(op), param ? param->type.str() : "bytes", source,
                  range.buffer, range.offset, range.bytes});
  }
}

/// Each byte of the range once for loads and once for stores, or fewer if fewer are accessed.
double leastBytes(int64_t range, const ParamTraffic& traffic) {
  double whole = static_cast<double>(range);
  return std::min(whole, traffic.loaded) + std::min(whole, traffic.stored);
}

CommandReport dispatchReport(const Module& module, const Op& op,
                             std::map<std::pair<std::string, std::array<int64_t, 3>>, KernelCost>& costs) {
  CommandReport out{"dispatch", op.operands[0].text, op.word("label"), locString(op.loc)};
  const std::array<int64_t, 3> grid = gridOf(op);
  const auto& args = argumentsOf(op);
  const Item* kernel = module.find(ItemKind::kernel, out.kernel);
  if (!kernel || kernel->body.args.size() != args.size()) {
    out.counted = false;
    for (const Operand& argument : args)
      out.bytes += static_cast<double>(byteRangeOf(argument).bytes) * (argument.text == "inout" ? 2 : 1);
    return out;
  }
  auto [cost, fresh] = costs.try_emplace({out.kernel, grid});
  if (fresh) cost->second = kernelCost(module, *kernel, grid);
  out.flops = cost->second.flops;
  for (size_t i = 0; i < args.size(); ++i) {
    const ParamTraffic& traffic = cost->second.params[i];
    out.bytes += leastBytes(byteRangeOf(args[i]).bytes, traffic);
  }
  return out;
}

}  // namespace

std::vector<MemoryValue> MemoryReport::liveAtPeak() const {
  std::vector<MemoryValue> out;
  for (const MemoryValue& value : values)
    if (value.room == "arena" && value.first <= peak && peak <= value.last) out.push_back(value);
  std::ranges::stable_sort(out, std::greater(), &MemoryValue::bytes);
  return out;
}

std::vector<CommandReport> commandReports(const Module& module, const Item& func) {
  std::map<std::pair<std::string, std::array<int64_t, 3>>, KernelCost> costs;
  std::vector<CommandReport> out;
  for (Op* op : func.body.ops) {
    if (op->code == Opcode::dispatch) out.push_back(dispatchReport(module, *op, costs));
    if (op->code != Opcode::fill && op->code != Opcode::copy) continue;
    bool copies = op->code == Opcode::copy;
    double bytes = static_cast<double>(byteRangeOf(argumentsOf(*op)[0]).bytes) * (copies ? 2 : 1);
    out.push_back({copies ? "copy" : "fill", "", "", locString(op->loc), bytes, 0, true});
  }
  return out;
}

MemoryReport memoryReport(const Module& module, const Item& func) {
  MemoryReport out;
  out.function = func.name;
  takePlan(module, out);
  MemoryTrace memory(module, out);
  for (const auto& item : module.items)
    if (isStorage(item->kind) && item->place)
      memory.fixed({"@" + item->name, item->type.str(), locString(item->loc), item->place->buffer,
                    item->place->offset, item->type.bytes()});
  for (const auto& arg : func.body.args)
    if (arg->place) memory.fixed(placed(*arg));
  for (Op* op : func.body.ops) {
    if (module.stage == Stage::planned)
      plannedStep(*op, memory);
    else
      commandStep(module, *op, memory);
  }
  memory.finish();
  return out;
}

PlanReport planReport(const Module& module, const std::string& function) {
  PlanReport out;
  bool chosen = false;
  for (const Item* func : module.all(ItemKind::func)) {
    MemoryReport memory = memoryReport(module, *func);
    bool named = func->name == function;
    if (named || (!chosen && (out.memory.function.empty() || memory.peakBytes() > out.memory.peakBytes())))
      out.memory = std::move(memory);
    chosen = chosen || named;
    if (module.stage < Stage::kernel) continue;
    std::map<std::string, size_t> rows;
    for (const CommandReport& command : commandReports(module, *func)) {
      if (command.kind != "dispatch") continue;
      auto [row, fresh] = rows.try_emplace(command.kernel, out.kernels.size());
      if (fresh) out.kernels.push_back({func->name, command.kernel, command.label, command.source, 0, 0, 0});
      KernelReport& kernel = out.kernels[row->second];
      ++kernel.dispatches;
      kernel.bytes += command.bytes;
      kernel.flops += command.flops;
    }
  }
  return out;
}

std::string toJson(const PlanReport& report) {
  const MemoryReport& memory = report.memory;
  Json live = Json::array(), kernels = Json::array();
  for (const MemoryValue& value : memory.liveAtPeak())
    live.push_back(
        {{"value", value.name}, {"bytes", value.bytes}, {"type", value.type}, {"source", value.source}});
  for (const KernelReport& kernel : report.kernels)
    kernels.push_back({{"function", kernel.function},
                       {"kernel", kernel.kernel},
                       {"label", kernel.label},
                       {"dispatches", kernel.dispatches},
                       {"bytes", kernel.bytes},
                       {"flops", kernel.flops},
                       {"source", kernel.source}});
  std::string at = memory.peak < 0 ? "" : memory.steps[static_cast<size_t>(memory.peak)].label;
  Json out = {{"memory",
               {{"function", memory.function},
                {"persistent_bytes", memory.persistentBytes},
                {"io_bytes", memory.ioBytes},
                {"arena_bytes", memory.arenaBytes},
                {"lower_bound_bytes", memory.lowerBoundBytes},
                {"peak", {{"bytes", memory.peakBytes()}, {"at", at}, {"live", live}}}}},
              {"kernels", kernels}};
  return jsonText(out, 2) + "\n";
}

}  // namespace tg
