// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/region_writer.h"

#include <utility>

#include "codegen/schedule.h"
#include "ir/op_bytes.h"

namespace tg::fuse {

Value* RegionWriter::bind(Operand source, const Type& type, std::string_view hint) {
  Value* arg = fused_->regions[0]->addArg(type, builder_.names().unique(hint));
  fused_->operands.push_back(Operand::binding(arg, std::move(source)));
  return arg;
}

Value* RegionWriter::bind(const Operand& source, const Value& like) {
  Value* own = nullptr;
  Value*& arg = source.kind == Operand::Kind::value ? bound_[source.value] : own;
  if (arg) return arg;
  arg = bind(source, like.type, like.name);
  arg->loc = like.loc;
  return arg;
}

Value* RegionWriter::find(const Value* elsewhere) const {
  auto it = here_.find(elsewhere);
  return it == here_.end() ? nullptr : it->second;
}

Op* RegionWriter::copy(const Op& op) {
  Op* made = builder_.append(cloneOp(op, here_));
  if (op.info().fusion != table::Fusion::map || !op.info().has(table::pure) || !op.regions.empty())
    return made;
  auto [at, isNew] = copied_.try_emplace(keyOf(*made, numbers_), made);
  if (isNew) return made;
  for (size_t i = 0; i < op.results.size(); ++i) define(op.results[i].get(), at->second->results[i].get());
  fused_->regions[0]->ops.erase(made);
  return at->second;
}

std::vector<Value*> RegionWriter::copyBody(const Op& fused) {
  std::vector<Value*> yielded;
  for (const Op* op : fused.regions[0]->ops)
    if (op->code != Opcode::yield) copy(*op);
  for (const Operand& operand : fused.regions[0]->terminator()->operands)
    yielded.push_back(here(operand.value));
  return yielded;
}

void RegionWriter::yield(const std::vector<Value*>& values) { builder_.op(Opcode::yield, values); }

Value* RegionWriter::addResult(const Value& like) {
  Value* result = fused_->addResult(like.type, like.name);
  result->loc = like.loc;
  return result;
}

std::unique_ptr<Op> RegionWriter::finish(Attr schedule) {
  fused_->setAttr("schedule", std::move(schedule));
  return std::move(fused_);
}

std::unique_ptr<Op> RegionWriter::finish(const Target& target) {
  return finish(scheduleAttr(chooseSchedule(*fused_, target)));
}

std::unique_ptr<Op> RegionWriter::finish(const std::vector<Value*>& yielded,
                                         std::vector<std::unique_ptr<Value>> results, const Target& target) {
  yield(yielded);
  for (auto& result : results) result->def = fused_.get();
  fused_->results = std::move(results);
  return finish(target);
}

}  // namespace tg::fuse
