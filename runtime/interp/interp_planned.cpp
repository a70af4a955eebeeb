// SPDX-License-Identifier: Apache-2.0
// Stage planned: a value exists only as the bytes of its place. A region reads its operands from there when it runs, so
// a place that the plan reuses too early gives a wrong number here.

#include <algorithm>

#include "ir/access.h"
#include "ir/byte_range.h"
#include "ir/collective.h"
#include "ir/op_view.h"
#include "runtime/interp/interp_state.h"

namespace tg {

Result<const Place*> homeOf(const Value& value) {
  if (value.place) return &*value.place;
  return failAt(value.loc, "%{} has no place", value.name);
}

Result<std::span<std::byte>> bytesOf(PlannedMemory& memory, const Op& op, const Operand& argument) {
  const ByteRange range = byteRangeOf(argument);
  return memory.range(range.buffer, range.offset, range.bytes, op.loc);
}

Result<void> runFill(PlannedMemory& memory, const Op& op) {
  for (const Operand& argument : op.operands[0].items) {
    TG_TRY(std::span<std::byte> bytes, bytesOf(memory, op, argument));
    std::ranges::fill(bytes, std::byte{0});
  }
  return {};
}

Result<int64_t> beginCollective(InterpCall& call, std::span<std::byte> bytes, std::string_view reduction) {
  collective::Engine* ranks = call.state.options.ranks.get();
  if (!ranks) return int64_t{0};
  return ranks->begin({.elements = bytes.data(),
                       .count = static_cast<int64_t>(bytes.size() / sizeof(float)),
                       .element = collective::Element::f32,
                       .reduction = collective::reductionOf(reduction)});
}

Result<void> runSharded(InterpCall& call, const ShardArgs& args) {
  using collective::Kind;
  const bool gathers = args.kind == "all_gather";
  const auto& whole = gathers ? args.receive : args.send;
  const size_t shard = gathers ? args.send.size() : args.receive.size();
  collective::Engine* ranks = call.state.options.ranks.get();
  const int64_t there = ranks ? ranks->ranks() : 1;
  if (const auto shards = static_cast<int64_t>(whole.size() / shard); shards != there)
    return otherRanks(args.loc, shards, there);
  std::vector<std::byte> all(whole.size());
  std::span<std::byte> own =
      std::span(all).subspan(ranks ? static_cast<size_t>(ranks->rank()) * shard : 0, shard);
  std::ranges::copy(args.send, (gathers ? own : std::span(all)).begin());
  if (ranks && (gathers || args.reduction != "same")) {
    TG_TRY(const int64_t ticket, ranks->begin({.elements = all.data(),
                                               .count = static_cast<int64_t>(all.size()) /
                                                        (args.element == collective::Element::f32 ? 4 : 8),
                                               .element = args.element,
                                               .reduction = collective::reductionOf(args.reduction),
                                               .kind = collective::kindOf(args.kind)}));
    TG_CHECK(ranks->wait(ticket));
  }
  std::ranges::copy(gathers ? std::span(all) : own, args.receive.begin());
  return {};
}

Result<void> waitCollective(InterpCall& call, int64_t ticket) {
  collective::Engine* ranks = call.state.options.ranks.get();
  return ranks ? ranks->wait(ticket) : Result<void>();
}

/// The values that a function shows to its caller, in the order of the text.
static std::vector<const Value*> outputs(const Item& function) {
  std::vector<const Value*> out;
  for (Op* op : function.body.ops)
    if (hostReads(*op))
      for (const Operand& operand : op->operands)
        if (operand.kind == Operand::Kind::value) out.push_back(operand.value);
  return out;
}

Result<void> beginPlannedCall(InterpCall& call) {
  PlannedMemory& memory = call.state.memory;
  memory.poisonArena();
  for (const Value* value : outputs(call.function)) {
    TG_TRY(const Place* place, homeOf(*value));
    if (place->buffer == "io") TG_CHECK(memory.poison(value->type, *place, value->loc));
  }
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Value& arg = *call.function.body.args[i];
    TG_TRY(const Place* place, homeOf(arg));
    TG_CHECK(memory.write(*call.inputs[i], *place, arg.loc));
  }
  return {};
}

Result<void> collectOutputs(InterpCall& call) {
  auto read = [&](const Value& value) -> Result<NdArray> {
    TG_TRY(const Place* place, homeOf(value));
    return call.state.memory.read(value.type, *place, value.loc);
  };
  for (Op* op : call.function.body.ops) {
    if (op->code == Opcode::capture) {
      TG_TRY(call.result.captures[as::capture(*op).name()], read(*as::capture(*op).value()));
    } else if (op->code == Opcode::param_grad) {
      TG_TRY(call.result.paramGrads[as::param_grad(*op).name()], read(*as::param_grad(*op).value()));
    } else if (op->code == Opcode::return_) {
      for (int i = 0; i < op->numOperands(); ++i) {
        TG_TRY(NdArray array, read(*op->in(i)));
        call.result.results.emplace_back(call.function.results[i].name, std::move(array));
      }
    }
  }
  return {};
}

namespace {

class PlannedWalk {
 public:
  explicit PlannedWalk(InterpCall& call) : call_(call), memory_(call.state.memory) {}

  Result<void> run() {
    TG_CHECK(beginPlannedCall(call_));
    for (Op* op : call_.function.body.ops) {
      if (op->code == Opcode::fused) TG_CHECK(fused(*op));
      if (op->code == Opcode::fill) TG_CHECK(runFill(memory_, *op));
      if (op->code == Opcode::all_reduce) TG_CHECK(allReduce(*op));
      if (op->code == Opcode::reduce_scatter || op->code == Opcode::all_gather) TG_CHECK(sharded(*op));
    }
    for (Op* op : call_.function.body.ops)
      if (op->code == Opcode::update) TG_CHECK(commit(*op));
    return collectOutputs(call_);
  }

 private:
  /// A binding's tensor, read from its place. A group is one flat tensor that begins at its first member.
  Result<NdArray> bind(const Operand& binding) {
    const Operand& source = binding.items[0];
    const Value& first = source.kind == Operand::Kind::group ? *source.items[0].value : *source.value;
    TG_TRY(const Place* place, homeOf(first));
    return memory_.read(binding.value->type, *place, first.loc);
  }

  Result<void> fused(const Op& op) {
    TG_CHECK(poisonResults(op));
    std::vector<NdArray> arrays;
    for (const Operand& binding : op.operands) {
      TG_TRY(NdArray array, bind(binding));
      arrays.push_back(std::move(array));
    }
    std::vector<const NdArray*> bindings;
    for (const NdArray& array : arrays) bindings.push_back(&array);
    TG_TRY(std::vector<NdArray> yielded, evalRegion(op, bindings, call_.context));
    const std::vector<int> sizes = slotSizes(op);
    for (size_t slot = 0, at = 0; slot < sizes.size(); at += sizes[slot++]) {
      TG_TRY(const Place* place, homeOf(*op.results[at]));
      TG_CHECK(memory_.write(yielded[slot], *place, op.loc));
    }
    return {};
  }

  /// Reduces in place, as the plan has placed the value.
  Result<void> allReduce(const Op& op) {
    for (const auto& result : op.results) {
      TG_TRY(const Place* place, homeOf(*result));
      TG_TRY(std::span<std::byte> bytes,
             memory_.range(place->buffer, place->offset, result->type.bytes(), op.loc));
      TG_TRY(const int64_t ticket, beginCollective(call_, bytes, as::all_reduce(op).reduction()));
      TG_CHECK(waitCollective(call_, ticket));
    }
    return {};
  }

  Result<void> sharded(const Op& op) {
    for (int i = 0; i < op.numOperands(); ++i) {
      auto bytes = [&](const Value& value) -> Result<std::span<std::byte>> {
        TG_TRY(const Place* place, homeOf(value));
        return memory_.range(place->buffer, place->offset, value.type.bytes(), op.loc);
      };
      const bool scatters = op.code == Opcode::reduce_scatter;
      ShardArgs args{op.loc,
                     std::string(op.info().name.substr(3)),
                     scatters ? as::reduce_scatter(op).reduction() : "same",
                     collective::Element::f32,
                     {},
                     {}};
      TG_TRY(args.send, bytes(*op.in(i)));
      TG_TRY(args.receive, bytes(*op.result(i)));
      TG_CHECK(runSharded(call_, args));
    }
    return {};
  }

  static ByteRange rangeOf(const Value& value, const Place& place) {
    return {place.buffer, place.offset, value.type.bytes()};
  }

  /// Poisons the results of a dispatch before it runs: it may write results before it has read all operands. Only a
  /// result in place of an operand, with exactly the same bytes, leaves that operand readable.
  Result<void> poisonResults(const Op& op) {
    std::vector<ByteRange> reads;
    std::vector<const Value*> sources;
    forEachUse(op, [&](Value* value) { sources.push_back(value); });
    for (const Value* value : sources) {
      TG_TRY(const Place* place, homeOf(*value));
      reads.push_back(rangeOf(*value, *place));
    }
    for (const auto& result : op.results) {
      TG_TRY(const Place* place, homeOf(*result));
      const bool inPlace = place->inplace || contains(reads, rangeOf(*result, *place));
      if (!inPlace) TG_CHECK(memory_.poison(result->type, *place, result->loc));
    }
    return {};
  }

  /// Copies the new value to the symbol's home, unless it is already there.
  Result<void> commit(const Op& op) {
    const Item* item = call_.state.module.storage(as::update(op).name());
    TG_TRY(const Place* from, homeOf(*as::update(op).value()));
    const Place home = rowsHome(op, *item);
    if (from->buffer == home.buffer && from->offset == home.offset) return {};
    TG_TRY(NdArray value, memory_.read(rowsType(op, item->type), *from, op.loc));
    return memory_.write(value, home, op.loc);
  }

  InterpCall& call_;
  PlannedMemory& memory_;
};

}  // namespace

Result<void> runPlanned(InterpCall& call) { return PlannedWalk(call).run(); }

}  // namespace tg
