// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/rewrites.h"

#include <algorithm>
#include <vector>

#include "ir/builder.h"
#include "ir/kernel/index_analysis.h"
#include "ir/kernel/kernel.h"

namespace tg {
namespace {

struct Clamp {
  Op* loop;
  int64_t end;    ///< the largest `to` of any invocation
  int64_t trips;  ///< the most iterations of any invocation
};

/// The loops to clamp. They are found before the first is changed, since the analysis needs the kernel as it is.
std::vector<Clamp> findClamps(Item& kernel) {
  std::vector<Op*> loops;
  const Uniformity uniformity(kernel);
  walk(kernel.body, [&](Op& op) {
    if (op.code == Opcode::k_for && !uniformity.entersUniformly(op)) loops.push_back(&op);
  });
  std::vector<Clamp> out;
  if (loops.empty()) return out;
  const IndexAnalysis analysis(kernel);
  for (Op* loop : loops)
    if (const auto trips = analysis.tripCount(*loop))
      out.push_back({loop, analysis.range(rangeOf(*loop).to, *loop).hi, *trips});
  return out;
}

/// step → max(step, 1), to → min(to, end), and no more than `trips` steps behind a start that is no literal. Sums and products are saturated:
/// no invocation ends earlier than before.
void clamp(Builder& build, const Clamp& each) {
  Op& loop = *each.loop;
  const auto [from, to, step] = rangeOf(loop);
  build.setEnd(*loop.list()).setBefore(&loop).setLoc(loop.loc);
  auto make = [&](Opcode code, const Operand& left, const Operand& right) {
    build.setHint("end");
    return Operand::of(build.create(code, {left, right}, {}, {Type::scalar(DType::u32)})->result());
  };
  if (!step.isLiteral())
    loop.keyword("step")->items[0] = make(Opcode::k_max, step, Operand::literal(int64_t{1}));
  Operand end = to;
  if (!from.isLiteral()) {
    const Operand trips = Operand::literal(std::min<int64_t>(each.trips, UINT32_MAX));
    const Operand span = step.isLiteral() && step.integer == 1 ? trips : make(Opcode::k_mul_sat, step, trips);
    end = make(Opcode::k_min, make(Opcode::k_add_sat, from, span), end);
  }
  if (!to.isLiteral()) end = make(Opcode::k_min, end, Operand::literal(each.end));
  loop.keyword("to")->items[0] = end;
}

}  // namespace

void clampLoops(Item& kernel, int64_t width) {
  const auto& size = kernel.workgroup;
  if (size[0] * size[1] * size[2] % width == 0) return;
  Builder build(kernel.body);
  for (const Clamp& each : findClamps(kernel)) clamp(build, each);
}

}  // namespace tg
