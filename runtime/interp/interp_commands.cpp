// SPDX-License-Identifier: Apache-2.0
// Interprets functions of stages kernel and spirv: lists of commands over bytes. Barriers are no-ops, because commands
// run one after the other.
#include <fmt/format.h>

#include <cstring>

#include "ir/byte_range.h"
#include "ir/op_view.h"
#include "ir/target.h"
#include "runtime/interp/interp_state.h"

namespace tg {

namespace {

class CommandWalk {
 public:
  explicit CommandWalk(InterpCall& call) : call_(call), memory_(call.state.memory) {}

  Result<void> run() {
    TG_CHECK(beginPlannedCall(call_));
    for (Op* op : call_.function.body.ops) {
      if (op->code == Opcode::dispatch) TG_CHECK(dispatch(*op));
      if (op->code == Opcode::fill) TG_CHECK(runFill(memory_, *op));
      if (op->code == Opcode::copy) TG_CHECK(copy(*op));
      if (op->code == Opcode::collective_begin) TG_CHECK(begin(*op));
      if (op->code == Opcode::collective_wait)
        for (int64_t ticket : tickets_[as::collective_wait(*op).id()])
          TG_CHECK(waitCollective(call_, ticket));
    }
    return collectOutputs(call_);
  }

 private:
  Result<void> dispatch(const Op& op) {
    const std::string& name = op.operands[0].text;
    const Item* kernel = call_.state.module.find(ItemKind::kernel, name);
    if (!kernel)
      return failAt(op.loc,
                    "the module holds no source of kernel @{} to interpret; strip-kernels removes it, "
                    "spirv-emit keeps it",
                    name);
    std::vector<KernelBuffer> buffers;
    for (const Operand& argument : op.keyword("args")->items) {
      TG_TRY(std::span<std::byte> bytes, bytesOf(memory_, op, argument));
      buffers.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
    }
    if (call_.state.options.kernel.wide)
      return failAt(op.loc, "planned memory holds f32: its kernels cannot run wide");
    KernelRunOptions options = call_.state.options.kernel;
    options.module = &call_.state.module;
    // Kernels may rely on the subgroup width that their target states.
    TG_TRY(Target target, targetOf(options.module->attrs));
    if (target.subgroup > 1) options.subgroupSize = static_cast<uint32_t>(target.subgroup);
    TG_TRY(KernelCounters counted, runKernel(*kernel, buffers, gridOf(op), options));
    RunCounters& counters = call_.result.counters;
    counters.outOfRange += counted.outOfRange;
    counters.races += counted.races;
    counters.rewrites += counted.rewrites;
    counters.uninitialised += counted.uninitialised;
    for (const std::string& finding : counted.findings)
      counters.findings.push_back(fmt::format("@{}: {}", name, finding));
    return {};
  }

  Result<void> copy(const Op& op) {
    std::span<std::byte> from, to;
    for (const Operand& argument : op.operands[0].items) {
      TG_TRY(std::span<std::byte> bytes, bytesOf(memory_, op, argument));
      (argument.text == "in" ? from : to) = bytes;
    }
    if (from.size() != to.size())
      return failAt(op.loc, "tg.copy of {} bytes to {} bytes", from.size(), to.size());
    if (!from.empty()) std::memmove(to.data(), from.data(), from.size());
    return {};
  }

  Result<void> begin(const Op& op) {
    if (as::collective_begin(op).kind() != "all_reduce") return runSharded(op);
    std::vector<int64_t>& tickets = tickets_[as::collective_begin(op).id()];
    tickets.clear();
    for (const Operand& argument : op.keyword("args")->items) {
      TG_TRY(std::span<std::byte> bytes, bytesOf(memory_, op, argument));
      TG_TRY(const int64_t ticket, beginCollective(call_, bytes, as::collective_begin(op).reduction()));
      tickets.push_back(ticket);
    }
    return {};
  }

  /// Runs the collective immediately: no command between begin and wait may use its result.
  Result<void> runSharded(const Op& op) {
    const OperandList& args = op.keyword("args")->items;
    for (size_t i = 0; i < args.size(); i += 2) {
      ShardArgs its{op.loc,
                    as::collective_begin(op).kind(),
                    as::collective_begin(op).reduction(),
                    collective::Element::f32,
                    {},
                    {}};
      TG_TRY(its.send, bytesOf(memory_, op, args[i]));
      TG_TRY(its.receive, bytesOf(memory_, op, args[i + 1]));
      TG_CHECK(tg::runSharded(call_, its));
    }
    return {};
  }

  InterpCall& call_;
  PlannedMemory& memory_;
  std::map<int64_t, std::vector<int64_t>> tickets_;  ///< of collectives in flight, by id
};

}  // namespace

Result<void> runCommands(InterpCall& call) { return CommandWalk(call).run(); }

}  // namespace tg
