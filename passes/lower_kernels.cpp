// SPDX-License-Identifier: Apache-2.0
// lower-kernels: lowers regions to kernels, and functions to lists of commands.
//
//   %h = tg.fused (%a = %x) {schedule = map{}} : tensor<64xf32> -> @arena[0] { … tg.relu … }
//   return %h : tensor<64xf32>
// becomes
//   tg.dispatch @k0_relu grid(1, 1, 1) args(in(@io[0:256]), out(@arena[0:256])) {label = "h: relu"}
//   %h = tg.home : tensor<64xf32> -> @arena[0]
//   return %h : tensor<64xf32>
//   …
//   kernel @k0_relu(…) workgroup(64, 1, 1) grid(1, 1, 1) { … }
//
// Requires: stage(planned).
// Ensures: functions hold only dispatches, fills, copies, barriers, collectives and, for values that the host reads,
//   tg.home. There is a barrier exactly where a command reads or writes bytes that an earlier one since the last barrier
//   wrote, or writes bytes that one read. Equal kernels become one, also if they read other slices of their values
//   (trimReads). The kernel of a tg.custom is made static; before its dispatch a fill zeroes the results that it only adds
//   to, and a copy initialises an inout that is not in place. If the target ends loops early and the number of iterations
//   depends on data, the kernel gets one more parameter, a word of @loops: a fill clears it, and the kernel sets it if a
//   loop was cut.
// Where: after plan, because ranges are places; before the shader compiler, because kernels are the last form that can be
//   read and run without a device.

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "codegen/lower.h"
#include "codegen/triangle.h"
#include "ir/access.h"
#include "ir/builder.h"
#include "ir/byte_range.h"
#include "ir/divide.h"
#include "ir/kernel/cost.h"
#include "ir/kernel/custom.h"
#include "ir/kernel/rewrites.h"
#include "ir/needs.h"
#include "ir/op_bytes.h"
#include "ir/op_view.h"
#include "ir/schedule.h"
#include "passes/pass.h"

namespace tg {
namespace {

using RangesOfBuffers = std::unordered_map<std::string, std::vector<ByteRange>>;  // by buffer

ByteRange placeOf(const std::vector<Value*>& values, bool group) {
  const Place& place = *values[0]->place;
  return {place.buffer, place.offset, group ? groupBytes(typesOf(values)) : values[0]->type.bytes()};
}

ByteRange bindingRange(const Op& op, int binding) {
  return placeOf(bindingSources(op, binding), op.operands[binding].bindsGroup());
}

ByteRange slotRange(const Op& op, const ResultSlot& slot) { return placeOf(valuesOf(op, slot), slot.group); }

/// The op that a kernel is named after: one of the heaviest class, the last of these in the text.
const Op* mainOp(const Op& fused) {
  auto weight = [](const Op& op) {
    switch (op.info().fusion) {
    case table::Fusion::attention: return 7;
    case table::Fusion::contraction: return 6;
    case table::Fusion::row: return 5;
    case table::Fusion::scatter:
    case table::Fusion::window: return 4;
    case table::Fusion::reduce: return 3;
    case table::Fusion::map: return op.info().has(table::composite) ? 2 : 1;
    default: return 0;
    }
  };
  const Op* best = nullptr;
  for (Op* op : fused.regions[0]->ops)
    if (op->code != Opcode::yield && (!best || weight(*op) >= weight(*best))) best = op;
  return best;
}

std::string mainWord(const Op& fused) {
  const Op* op = mainOp(fused);
  if (!op) return "copy";
  std::string_view name = op->info().name;
  return std::string(name.substr(name.find('.') + 1));
}

/// The properties of a kernel in the table that its dispatches need.
struct KnownKernel {
  std::string name;
  std::vector<Type> types;  ///< of the parameters
  std::vector<LoweredKernel::Param> params;
  std::array<int64_t, 3> grid;
  bool watched = false;  ///< whether its last parameter tells that a loop was cut
};

/// The kernels of the module so far. Kernels that differ only in names are kept once, under the first one's name. Of equal
/// regions, which layers repeat, only the first is lowered.
class KernelTable {
 public:
  /// The kernel that a region with this key was lowered to, or null.
  const KnownKernel* find(const std::string& key) const { return valueIn(known_, key); }
  const KnownKernel* remember(const std::string& key, KnownKernel kernel) {
    return &known_.insert_or_assign(key, std::move(kernel)).first->second;
  }
  /// Adds a kernel, unless an equal one is there; returns its name.
  std::string add(std::unique_ptr<Item> kernel, const std::string& word) {
    const size_t next = kernels_.size();
    auto [like, fresh] = byHash_.try_emplace(quickHash(*kernel), First{next, false});
    if (!fresh) {  // keys are long, so they are made only for equal hashes
      if (!std::exchange(like->second.hasKey, true))
        byKey_.emplace(kernelKey(*kernels_[like->second.index]), like->second.index);
      const auto [same, isNew] = byKey_.emplace(kernelKey(*kernel), next);
      if (!isNew) return kernels_[same->second]->name;
    }
    kernel->name = fmt::format("k{}_{}", kernels_.size(), word);
    kernels_.push_back(std::move(kernel));
    return kernels_.back()->name;
  }
  std::vector<std::unique_ptr<Item>> take() { return std::move(kernels_); }

 private:
  /// The first kernel of a hash, an index into kernels_, and whether byKey_ has it.
  struct First {
    size_t index;
    bool hasKey;
  };
  std::unordered_map<uint64_t, First> byHash_;
  std::unordered_map<std::string, size_t> byKey_;  ///< only kernels whose hash was met again
  std::unordered_map<std::string, KnownKernel> known_;
  std::vector<std::unique_ptr<Item>> kernels_;
};

class FunctionLowering {
 public:
  FunctionLowering(Module& module, Item& func, const Target& target, KernelTable& kernels,
                   int64_t& loopsBytes)
      : module_(module), func_(func), target_(target), kernels_(kernels), loopsBytes_(loopsBytes) {}
  Result<void> run();

 private:
  struct Access {
    ByteRange range;
    std::string mode;  ///< in, out, inout, texel
  };

  Result<void> dispatch(const Op& fused);
  Result<const KnownKernel*> kernelOf(const Op& fused, const std::string& word);
  std::vector<bool> sharedReads(const Op& fused) const;
  std::vector<bool> texelReads(const Op& fused, const std::vector<bool>& shared) const;
  Result<LoweredKernel> lower(const Op& fused, const std::vector<bool>& texels) const;
  Result<void> checkRanges(const Op& fused, const KnownKernel& kernel,
                           const std::vector<Access>& accesses) const;
  std::vector<Access> accessesOf(const Op& fused, const KnownKernel& kernel) const;
  void fill(const Op& op);
  void zero(const ByteRange& range, const Loc& loc);
  void copy(const ByteRange& from, const ByteRange& to, const Loc& loc);
  void startValues(const Op& fused, const KnownKernel& kernel, const std::vector<Access>& accesses);
  Access watchWord(const Loc& loc);
  void begin(const Op& op);
  void beginShards(const Op& op);
  void beginWith(const Op& op, OperandList args, std::vector<ByteRange> ranges, const std::string& reduction);
  void waitFor(const std::vector<Access>& accesses, bool all = false);
  void copies();
  void homes();
  void command(Opcode code, OperandList operands, AttrList attrs, const std::vector<Access>& accesses,
               const Loc& loc);
  void order(const std::vector<Access>& accesses, const Loc& loc);

  static Operand argument(const Access& access) {
    return Operand::keyword(access.mode,
                            {Operand::range(access.range.buffer, access.range.offset, access.range.bytes)});
  }

  Module& module_;
  Item& func_;
  const Target& target_;
  KernelTable& kernels_;
  int64_t& loopsBytes_;  ///< bytes of @loops so far
  OpList out_;
  Builder build_{out_};
  RangesOfBuffers read_, written_;  ///< since the last barrier
  /// A collective that was begun and not waited for; inFlight_ has them in order.
  struct InFlight {
    int64_t id;
    std::vector<ByteRange> ranges;
    Loc loc;
  };
  std::vector<InFlight> inFlight_;
  int64_t collectives_ = 0;
};

bool overlapsAny(const RangesOfBuffers& ranges, const ByteRange& range) {
  const auto* others = valueIn(ranges, range.buffer);
  return others &&
         std::ranges::any_of(*others, [&](const ByteRange& other) { return overlap(other, range); });
}

/// Inserts a barrier if a command reads or writes bytes written since the last one, or writes bytes read since then.
void FunctionLowering::order(const std::vector<Access>& accesses, const Loc& loc) {
  bool hazard = false;
  for (const Access& access : accesses) {
    hazard |= overlapsAny(written_, access.range);
    hazard |= (access.mode == "out" || access.mode == "inout") && overlapsAny(read_, access.range);
  }
  if (hazard) {
    build_.setLoc(loc).create(Opcode::barrier, {});
    read_.clear();
    written_.clear();
  }
  for (const Access& access : accesses) {
    if (access.mode != "out") read_[access.range.buffer].push_back(access.range);
    if (access.mode == "out" || access.mode == "inout") written_[access.range.buffer].push_back(access.range);
  }
}

void FunctionLowering::command(Opcode code, OperandList operands, AttrList attrs,
                               const std::vector<Access>& accesses, const Loc& loc) {
  waitFor(accesses);
  order(accesses, loc);
  OperandList args;
  for (const Access& access : accesses) args.push_back(argument(access));
  operands.push_back(Operand::keyword("args", std::move(args)));
  build_.setLoc(loc).create(code, std::move(operands), std::move(attrs));
}

/// For each binding, whether a result shares bytes with it.
std::vector<bool> FunctionLowering::sharedReads(const Op& fused) const {
  std::vector<bool> shared(fused.operands.size());
  for (int binding = 0; binding < fused.numOperands(); ++binding)
    for (const ResultSlot& slot : resultSlots(fused))
      if (overlap(bindingRange(fused, binding), slotRange(fused, slot))) shared[binding] = true;
  return shared;
}

/// For each binding, whether it is read through a texel view: not if the schedule says storage, if a result shares its
/// bytes, or if its elements have 16 bits.
std::vector<bool> FunctionLowering::texelReads(const Op& fused, const std::vector<bool>& shared) const {
  std::vector<bool> texel(fused.operands.size(), target_.reads == "texel");
  const Schedule schedule = scheduleOf(fused);
  for (int64_t binding : storageReads(schedule)) texel[static_cast<size_t>(binding)] = false;
  if (target_.reads != "texel") return texel;
  for (int binding = 0; binding < fused.numOperands(); ++binding)
    if (shared[binding] || isNarrow(fused.operands[binding].value->type.dtype)) texel[binding] = false;
  return texel;
}

/// The kernel of a region; lowers it unless an equal region was lowered before.
Result<const KnownKernel*> FunctionLowering::kernelOf(const Op& fused, const std::string& word) {
  const std::vector<bool> shared = sharedReads(fused), texels = texelReads(fused, shared);
  TG_CHECK(checkSkips(fused));
  std::string key = regionKey(fused) + fused.attr("schedule").str() + '\n';
  for (size_t i = 0; i < shared.size(); ++i) key += texels[i] ? 't' : shared[i] ? 'w' : 's';
  for (const auto& result : fused.results)  // stores of a result in place wait for the operand's loads
    key += result->place && result->place->inplace ? 'i' : 'o';
  if (const KnownKernel* known = kernels_.find(key)) return known;
  TG_TRY(LoweredKernel lowered, lower(fused, texels));
  if (!customOf(fused)) {
    std::vector<bool> whole;  // an operand that a result is written over is bound with the result's bytes
    for (const LoweredKernel::Param& param : lowered.params)
      whole.push_back(!param.isResult && shared[static_cast<size_t>(param.index)]);
    const std::vector<int64_t> first = trimReads(*lowered.kernel, target_.alignment, whole);
    for (size_t i = 0; i < first.size(); ++i) lowered.params[i].first = first[i];
  }
  KnownKernel known{{}, {}, std::move(lowered.params), lowered.grid};
  for (const auto& arg : lowered.kernel->body.args) known.types.push_back(arg->type);
  lowered.kernel->kind = ItemKind::kernel;
  lowered.kernel->grid.clear();
  for (int64_t extent : lowered.grid) lowered.kernel->grid.push_back(Operand::literal(extent));
  lowered.kernel->loc = fused.loc;
  lowered.kernel->name = word;  // for errors; the table names it
  legalize(&module_, *lowered.kernel);
  TG_CHECK(checkFeatures(*lowered.kernel, target_));
  endLoops(*lowered.kernel, target_);
  TG_TRY(const bool bounded, fitLoops(*lowered.kernel, target_));
  known.watched = !bounded;
  if (known.watched) watchLoops(*lowered.kernel);
  known.name = kernels_.add(std::move(lowered.kernel), word);
  return kernels_.remember(key, std::move(known));
}

Result<LoweredKernel> FunctionLowering::lower(const Op& fused, const std::vector<bool>& texels) const {
  if (customOf(fused)) return lowerCustom(module_, fused, target_);
  TG_TRY(LoweredKernel lowered, lowerRegion(fused, target_, texels));
  for (size_t index = 0; index < lowered.params.size(); ++index) {
    const Type& type = lowered.kernel->body.args[index]->type;
    const int binding = lowered.params[index].index;
    if (type.texel && !gives(target_, LimitId::texelElements, type.elements()))
      return failAt(fused.loc,
                    "schedule {} reads %{} through a view of {} texels, target '{}' has {}; its `storage` "
                    "lists operands that are read without, as {}",
                    fused.attr("schedule").str(), bindingSources(fused, binding)[0]->name, type.elements(),
                    target_.name, target_.texelElements, binding);
  }
  return lowered;
}

/// The ranges that a kernel's parameters access: the place of the value, extended to the size of the parameter's type, as a
/// view of whole texels may end in the padding behind the value; or the part of it that the kernel reads.
std::vector<FunctionLowering::Access> FunctionLowering::accessesOf(const Op& fused,
                                                                   const KnownKernel& kernel) const {
  std::vector<ResultSlot> slots = resultSlots(fused);
  std::vector<Access> accesses;
  for (size_t index = 0; index < kernel.params.size(); ++index) {
    const LoweredKernel::Param& param = kernel.params[index];
    const Type& type = kernel.types[index];
    ByteRange range =
        param.isResult ? slotRange(fused, slots[param.index]) : bindingRange(fused, param.index);
    range.offset += param.first;
    range.bytes = param.first ? type.bytes() : std::max(range.bytes, type.bytes());
    std::string mode = type.texel                  ? "texel"
                       : type.mode == BufMode::in  ? "in"
                       : type.mode == BufMode::out ? "out"
                                                   : "inout";
    accesses.push_back({std::move(range), std::move(mode)});
  }
  return accesses;
}

Result<void> FunctionLowering::checkRanges(const Op& fused, const KnownKernel& kernel,
                                           const std::vector<Access>& accesses) const {
  std::vector<ResultSlot> slots = resultSlots(fused);
  const bool planned = find(module_.attrs, "target") != nullptr;  // for this target
  for (size_t index = 0; index < accesses.size(); ++index) {
    const ByteRange& range = accesses[index].range;
    const LoweredKernel::Param& param = kernel.params[index];
    const Value* value =
        param.isResult ? fused.result(slots[param.index].first) : bindingSources(fused, param.index)[0];
    if (planned && range.offset % target_.alignment != 0)
      return failAt(
          fused.loc,
          "the kernel of %{}: %{} begins at byte {} of @{}, no multiple of {}, the alignment of target '{}'",
          fused.result()->name, value->name, range.offset, range.buffer, target_.alignment, target_.name);
    if (accesses[index].mode == "texel" || gives(target_, LimitId::storageRange, range.bytes)) continue;
    return overBinding(fused.loc, fmt::format("the kernel of %{}: %{}", fused.result()->name, value->name),
                       accesses[index].range.bytes, limitOf(target_, LimitId::storageRange), target_)
        .note(value->loc, "%{} is defined here", value->name);
  }
  return {};
}

Result<void> FunctionLowering::dispatch(const Op& fused) {
  const Op* custom = customOf(fused);
  std::string word = custom ? custom->operands[0].text : mainWord(fused);
  TG_TRY(const KnownKernel* kernel, kernelOf(fused, word));
  std::vector<Access> accesses = accessesOf(fused, *kernel);
  TG_CHECK(checkRanges(fused, *kernel, accesses));
  startValues(fused, *kernel, accesses);
  if (kernel->watched) accesses.push_back(watchWord(fused.loc));
  OperandList grid;
  for (int64_t extent : kernel->grid) grid.push_back(Operand::literal(extent));
  command(Opcode::dispatch, {Operand::symbol(kernel->name), Operand::keyword("grid", std::move(grid))},
          {{"label", Attr::string(fmt::format("{}: {}", fused.result()->name, word))}}, accesses, fused.loc);
  return {};
}

void FunctionLowering::zero(const ByteRange& range, const Loc& loc) {
  command(Opcode::fill, {}, {}, {{range, "out"}}, loc);
}

void FunctionLowering::copy(const ByteRange& from, const ByteRange& to, const Loc& loc) {
  command(Opcode::copy, {}, {}, {{from, "in"}, {to, "out"}}, loc);
}

void FunctionLowering::fill(const Op& op) { zero(byteRangeOf(op.keyword("args")->items[0]), op.loc); }

/// Initialises the results of a custom kernel: zeros for those that it adds to, and the value of an inout that is not in
/// place.
void FunctionLowering::startValues(const Op& fused, const KnownKernel& kernel,
                                   const std::vector<Access>& accesses) {
  for (size_t index = 0; index < kernel.params.size(); ++index) {
    const LoweredKernel::Param& param = kernel.params[index];
    const ByteRange& to = accesses[index].range;
    if (kernel.types[index].mode == BufMode::accum) zero(to, fused.loc);
    if (param.binding < 0) continue;
    ByteRange from = bindingRange(fused, param.binding);
    if (!(from == to)) copy(from, to, fused.loc);
  }
}

/// A word of @loops, zeroed, for a dispatch whose kernel watches its loops.
FunctionLowering::Access FunctionLowering::watchWord(const Loc& loc) {
  ByteRange word{std::string(kLoopsBuffer), loopsBytes_, byteSize(DType::u32)};
  loopsBytes_ += std::max(target_.alignment, word.bytes);
  zero(word, loc);
  return {std::move(word), "inout"};
}

/// Begins an all_reduce. Neighbours in memory are merged into one range with the padding between them, whose zeros stay
/// zero. Like a barrier, it waits for all earlier commands.
void FunctionLowering::begin(const Op& op) {
  std::vector<ByteRange> ranges;
  for (const auto& result : op.results) ranges.push_back(placeOf({result.get()}, false));
  std::ranges::sort(ranges, {}, [](const ByteRange& each) { return std::tie(each.buffer, each.offset); });
  std::vector<ByteRange> merged;
  for (const ByteRange& range : ranges) {
    ByteRange* last = merged.empty() ? nullptr : &merged.back();
    const bool adjoins = last && last->buffer == range.buffer &&
                         alignTo(last->offset + last->bytes, kMemberAlignment) == range.offset;
    const int64_t bytes = adjoins ? range.offset + range.bytes - last->offset : 0;
    if (adjoins && target_.fit(last->offset, bytes) == last->offset)
      last->bytes = bytes;
    else
      merged.push_back(range);
  }
  OperandList args;
  for (const ByteRange& range : merged) args.push_back(argument({range, "inout"}));
  beginWith(op, std::move(args), std::move(merged), as::all_reduce(op).reduction());
}

/// Begins a reduce_scatter or all_gather: one pair of ranges for each operand and its result.
void FunctionLowering::beginShards(const Op& op) {
  OperandList args;
  std::vector<ByteRange> ranges;
  std::vector<Access> accesses;
  for (int i = 0; i < op.numOperands(); ++i) {
    accesses.push_back({placeOf({op.in(i)}, false), "in"});
    accesses.push_back({placeOf({op.results[static_cast<size_t>(i)].get()}, false), "out"});
  }
  for (const Access& access : accesses) {
    args.push_back(argument(access));
    ranges.push_back(access.range);
  }
  waitFor(accesses, false);
  const bool scatters = op.code == Opcode::reduce_scatter;
  beginWith(op, std::move(args), std::move(ranges), scatters ? as::reduce_scatter(op).reduction() : "same");
}

void FunctionLowering::beginWith(const Op& op, OperandList args, std::vector<ByteRange> ranges,
                                 const std::string& reduction) {
  AttrList attrs = {{"id", Attr::of(collectives_)}, {"reduction", Attr::word(reduction)}};
  if (op.code != Opcode::all_reduce)
    attrs.push_back({"kind", Attr::word(std::string(op.info().name.substr(3)))});
  build_.setLoc(op.loc).create(Opcode::collective_begin, {Operand::keyword("args", std::move(args))}, attrs);
  read_.clear();
  written_.clear();
  inFlight_.push_back({collectives_++, std::move(ranges), op.loc});
}

/// Waits for the collectives in flight that use bytes of these accesses, or for all of them.
void FunctionLowering::waitFor(const std::vector<Access>& accesses, bool all) {
  std::erase_if(inFlight_, [&](const InFlight& begun) {
    bool touched = all;
    for (const Access& access : accesses)
      for (const ByteRange& range : begun.ranges) touched = touched || overlap(access.range, range);
    if (touched) build_.setLoc(begun.loc).create(Opcode::collective_wait, {}, {{"id", Attr::of(begun.id)}});
    return touched;
  });
}

/// Copies updated values to their homes unless they are there. The verifier has checked that no reader follows.
void FunctionLowering::copies() {
  for (Op* op : func_.body.ops) {
    if (op->code != Opcode::update) continue;
    const Item& symbol = *module_.storage(op->operands[0].text);
    ByteRange from = placeOf({as::update(*op).value()}, false);
    ByteRange to{symbol.place->buffer, rowsHome(*op, symbol).offset, rowsType(*op, symbol.type).bytes()};
    if (!(from == to)) copy(from, to, op->loc);
  }
}

/// Adds a tg.home for each value that the host reads; it keeps the value's name and place.
void FunctionLowering::homes() {
  for (Op* op : func_.body.ops) {
    if (!hostReads(*op)) continue;
    forEachUse(std::as_const(*op), [&](Value* value) {
      if (!value->def || value->def->code == Opcode::home) return;
      auto named = Op::create(Opcode::home, value->loc);
      named->results.push_back(std::make_unique<Value>(*value));
      Value* home = named->result();
      home->def = named.get();
      home->place->inplace = nullptr;
      out_.push_back(std::move(named));
      value->uses.replaceAll(home);
    });
  }
  OpList& ops = func_.body.ops;
  for (Op* op : ops.all())
    if (hostReads(*op)) out_.push_back(ops.take(op));
}

Result<void> FunctionLowering::run() {
  Error errors;
  for (Op* op : func_.body.ops) {
    if (op->code == Opcode::fill) fill(*op);
    if (op->code == Opcode::all_reduce) begin(*op);
    if (op->code == Opcode::reduce_scatter || op->code == Opcode::all_gather) beginShards(*op);
    if (op->code != Opcode::fused) continue;
    if (auto lowered = dispatch(*op); !lowered) errors.append(lowered.takeError());
  }
  if (!errors.empty()) return errors;
  copies();
  waitFor({}, true);  // the host reads results
  homes();
  func_.body.ops = std::move(out_);
  return {};
}

}  // namespace

Result<void> run_lower_kernels(Module& module, const NoOptions&, const PassContext& context) {
  TG_TRY(Target target, targetOf(module.attrs));
  KernelTable kernels;
  Error errors;
  int64_t loopsBytes = 0;
  for (Item* func : module.all(ItemKind::func))
    if (auto lowered = FunctionLowering(module, *func, target, kernels, loopsBytes).run(); !lowered)
      errors.append(lowered.takeError());
  if (!errors.empty()) return errors;
  // Custom kernels and the funcs they call have become static kernels where they are called.
  module.items.eraseIf(
      [](const auto& item) { return item->kind == ItemKind::kernel || isKernelFunc(*item); });
  for (auto& kernel : kernels.take()) module.items.push_back(std::move(kernel));
  if (loopsBytes > 0) module.addBuffer(std::string(kLoopsBuffer), loopsBytes);
  for (const Item* kernel : module.all(ItemKind::kernel)) {
    if (const int64_t size = codeSize(*kernel); size > target.kernelOps)
      context.remark(
          kernel->loc,
          "kernel @{} has {} operations, more than the {} that target '{}' compiles in a few seconds",
          kernel->name, size, target.kernelOps, target.name);
  }
  module.stage = Stage::kernel;
  return {};
}

}  // namespace tg
