// SPDX-License-Identifier: Apache-2.0
// Stages tensor and fused: every value is an array, and no two values share bytes.

#include <algorithm>
#include <unordered_map>

#include "ir/access.h"
#include "ir/exceptions.h"
#include "ir/op_view.h"
#include "runtime/interp/interp_state.h"

namespace tg {

namespace {

class TensorWalk {
 public:
  explicit TensorWalk(InterpCall& call) : call_(call) {}

  Result<void> run() {
    const Block& body = call_.function.body;
    for (size_t i = 0; i < call_.inputs.size(); ++i) {
      NdArray input = *call_.inputs[i];
      if (call_.context.exact) roundAll(input);
      environment_.own(body.args[i].get(), std::move(input));
    }
    const auto given = givenGrads();
    for (Op* op : body.ops) {
      TG_CHECK(withinMemory(op->loc, op->info().name, [&] { return step(*op); }));
      for (const auto& result : op->results)
        if (const auto at = given.find(result.get()); at != given.end())
          environment_.borrow(at->first, at->second);
    }
    for (auto& [symbol, array] : updates_) *call_.state.storage.at(symbol) = std::move(array);
    return {};
  }

 private:
  /// The gradients of the options, by the values that they stand for.
  std::unordered_map<const Value*, const NdArray*> givenGrads() const {
    std::unordered_map<const Value*, const NdArray*> out;
    const auto& grads = call_.state.options.paramGrads;
    if (grads.empty()) return out;
    for (const Op* op : call_.function.body.ops) {
      if (op->code != Opcode::param_grad) continue;
      if (const auto at = grads.find(as::param_grad(*op).name()); at != grads.end())
        out.emplace(as::param_grad(*op).value(), &at->second);
    }
    return out;
  }
  /// The index of the first element of the rows that an op names.
  static std::ptrdiff_t startOf(const Op& op, const Type& rows) {
    return static_cast<std::ptrdiff_t>(as::param(op).rows()[0] * (rows.elements() / rows.shape[0]));
  }
  NdArray rowsRead(const Op& op) const {
    const NdArray& all = *call_.state.storage.at(op.operands[0].text);
    const Type& type = op.result()->type;
    const auto from = all.data.begin() + startOf(op, type);
    return {type, {from, from + static_cast<std::ptrdiff_t>(type.elements())}};
  }
  void update(const Op& op) {
    const std::string& symbol = as::update(op).name();
    const NdArray& value = environment_.at(as::update(op).value());
    if (!namesRows(op)) {
      updates_[symbol] = value;
      return;
    }
    auto [at, fresh] = updates_.try_emplace(symbol);
    if (fresh) at->second = *call_.state.storage.at(symbol);
    std::ranges::copy(value.data, at->second.data.begin() + startOf(op, value.type));
  }
  Result<void> step(const Op& op) {
    switch (op.code) {
    case Opcode::param:
    case Opcode::state:
      if (namesRows(op))
        environment_.own(op.result(), rowsRead(op));
      else
        environment_.borrow(op.result(), call_.state.storage.at(op.operands[0].text).get());
      return {};
    case Opcode::update: update(op); return {};
    case Opcode::param_grad:
      call_.result.paramGrads[as::param_grad(op).name()] = environment_.at(as::param_grad(op).value());
      return {};
    case Opcode::capture:
      call_.result.captures[as::capture(op).name()] = environment_.at(as::capture(op).value());
      return {};
    case Opcode::return_:
      for (int i = 0; i < op.numOperands(); ++i)
        call_.result.results.emplace_back(call_.function.results[i].name, environment_.at(op.in(i)));
      return {};
    case Opcode::adjoin: adjoin(op); return {};
    case Opcode::disjoin: disjoin(op); return {};
    case Opcode::fused: return fused(op);
    case Opcode::all_reduce: return allReduce(op);
    case Opcode::reduce_scatter:
    case Opcode::all_gather: return sharded(op);
    default: return evalInto(op, environment_, call_.context);
    }
  }

  void adjoin(const Op& op) {
    NdArray all = NdArray::zeros(op.result()->type);
    auto to = all.data.begin();
    for (int i = 0; i < op.numOperands(); ++i) to = std::ranges::copy(environment_.at(op.in(i)).data, to).out;
    environment_.own(op.result(), std::move(all));
  }

  void disjoin(const Op& op) {
    auto from = environment_.at(op.in(0)).data.begin();
    for (const auto& result : op.results) {
      NdArray part = NdArray::zeros(result->type);
      std::copy_n(from, part.data.size(), part.data.begin());
      from += std::ssize(part.data);
      environment_.own(result.get(), std::move(part));
    }
  }

  Result<void> allReduce(const Op& op) {
    for (int i = 0; i < op.numOperands(); ++i) {
      NdArray array = environment_.at(op.in(i));
      if (collective::Engine* ranks = call_.state.options.ranks.get()) {
        TG_TRY(const int64_t ticket,
               ranks->begin({.elements = array.data.data(),
                             .count = static_cast<int64_t>(array.data.size()),
                             .element = collective::Element::f64,
                             .reduction = collective::reductionOf(as::all_reduce(op).reduction())}));
        TG_CHECK(ranks->wait(ticket));
        if (call_.context.exact) roundAll(array);
      }
      environment_.own(op.results[static_cast<size_t>(i)].get(), std::move(array));
    }
    return {};
  }

  Result<void> sharded(const Op& op) {
    const bool scatters = op.code == Opcode::reduce_scatter;
    for (int i = 0; i < op.numOperands(); ++i) {
      NdArray from = environment_.at(op.in(i)), to = NdArray::zeros(op.result(i)->type);
      TG_CHECK(runSharded(call_, {op.loc, std::string(op.info().name.substr(3)),
                                  scatters ? as::reduce_scatter(op).reduction() : "same",
                                  collective::Element::f64, std::as_writable_bytes(std::span(from.data)),
                                  std::as_writable_bytes(std::span(to.data))}));
      if (call_.context.exact) roundAll(to);
      environment_.own(op.results[static_cast<size_t>(i)].get(), std::move(to));
    }
    return {};
  }

  /// The source of a binding as it appears inside the region: the value, or the members of a group as one flat tensor.
  const NdArray* bind(const Op& op, int binding) {
    const Operand& operand = op.operands[static_cast<size_t>(binding)];
    const std::vector<Value*> sources = bindingSources(op, binding);
    if (!operand.bindsGroup()) return &environment_.at(sources[0]);
    NdArray flat = NdArray::zeros(operand.value->type);
    std::vector<int64_t> offsets;
    groupBytes(typesOf(sources), &offsets);
    const int64_t size = byteSize(flat.type.dtype);
    for (size_t i = 0; i < sources.size(); ++i)
      std::ranges::copy(environment_.at(sources[i]).data, flat.data.begin() + offsets[i] / size);
    return &groups_.emplace_back(std::move(flat));
  }

  Result<void> fused(const Op& op) {
    std::vector<const NdArray*> bindings;
    for (int binding = 0; binding < op.numOperands(); ++binding) bindings.push_back(bind(op, binding));
    TG_TRY(std::vector<NdArray> yielded, evalRegion(op, bindings, call_.context));
    groups_.clear();
    const std::vector<int> sizes = slotSizes(op);
    for (size_t slot = 0, at = 0; slot < sizes.size(); at += sizes[slot++]) {
      if (isGroupSlot(op, slot))
        split(op, at, sizes[slot], yielded[slot]);
      else
        environment_.own(op.results[at].get(), std::move(yielded[slot]));
    }
    return {};
  }

  void split(const Op& op, size_t first, int count, const NdArray& flat) {
    std::vector<Type> types;
    for (int i = 0; i < count; ++i) types.push_back(op.results[first + i]->type);
    std::vector<int64_t> offsets;
    groupBytes(types, &offsets);
    const int64_t size = byteSize(flat.type.dtype);
    for (int i = 0; i < count; ++i) {
      NdArray member = NdArray::zeros(types[i]);
      std::copy_n(flat.data.begin() + offsets[i] / size, member.data.size(), member.data.begin());
      environment_.own(op.results[first + i].get(), std::move(member));
    }
  }

  InterpCall& call_;
  Environment environment_;
  std::deque<NdArray> groups_;
  std::map<std::string, NdArray> updates_;
};

}  // namespace

Result<void> runTensors(InterpCall& call) { return TensorWalk(call).run(); }

}  // namespace tg
