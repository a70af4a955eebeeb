#include "codegen/triangle.h"

#include <algorithm>
#include <unordered_set>

#include "ir/access.h"

namespace tg {
namespace {

constexpr int kFurthest = 16;  ///< ops and kernels that zeros are followed through

bool isMatrix(const Value& value) { return value.type.rank() >= 2; }
int64_t rowsOf(const Value& value) { return value.type.shape[value.type.rank() - 2]; }
int64_t columnsOf(const Value& value) { return value.type.shape.back(); }
bool sameMatrix(const Value& a, const Value& b) {
  return isMatrix(a) && isMatrix(b) && rowsOf(a) == rowsOf(b) && columnsOf(a) == columnsOf(b);
}

/// Whether a value holds each element's place along the last axis but `fromEnd`.
bool isPlace(const Value& value, int fromEnd) {
  return value.def && value.def->code == Opcode::iota && isMatrix(value) &&
         value.def->intAttr("axis") == value.type.rank() - 1 - fromEnd;
}

bool isNumber(const Value& value, double number) {
  return value.def && value.def->code == Opcode::constant && value.def->operands[0].isLiteral() &&
         value.def->operands[0].number() == number;
}

/// column <= row + columns - rows, as the decompositions of causal ops write it.
bool isCausalMask(const Value& mask) {
  if (!mask.def || mask.def->code != Opcode::less_equal || !isMatrix(mask)) return false;
  const Value *column = mask.def->in(0), *row = mask.def->in(1);
  const int64_t offset = columnsOf(mask) - rowsOf(mask);
  if (offset != 0) {
    if (!row->def || row->def->code != Opcode::add ||
        !isNumber(*row->def->in(1), static_cast<double>(offset)))
      return false;
    row = row->def->in(0);
  }
  return sameMatrix(*column, mask) && sameMatrix(*row, mask) && isPlace(*column, 0) && isPlace(*row, 1);
}

/// A selection that takes its second operand where a causal mask says so.
bool selectsBelow(const Op& op) { return op.code == Opcode::select && isCausalMask(*op.in(0)); }

bool isLower(const Value& value, const std::function<bool(const Value&)>& known, int steps) {
  if (!isMatrix(value) || steps > kFurthest) return false;
  if (!value.def) return known(value);
  const Op& op = *value.def;
  auto also = [&](const Value& operand) {
    return sameMatrix(operand, value) && isLower(operand, known, steps + 1);
  };
  switch (op.code) {
  // A row of which no score is finite may not be zero there; attention takes it for zero.
  case Opcode::softmax: return op.flag("causal") && rowsOf(value) <= columnsOf(value);
  case Opcode::select: return selectsBelow(op) && sameMatrix(*op.in(0), value) && isNumber(*op.in(2), 0);
  case Opcode::mul: return also(*op.in(0)) || also(*op.in(1));
  case Opcode::div:
  case Opcode::neg:
  case Opcode::reshape: return also(*op.in(0));
  default: return false;
  }
}

bool resultIsLower(const Value& value, int steps) {
  if (!value.def || value.def->code != Opcode::fused || steps > kFurthest) return false;
  const Op& fused = *value.def;
  const auto slot = std::find_if(fused.results.begin(), fused.results.end(),
                                 [&](const auto& result) { return result.get() == &value; });
  auto known = [&](const Value& argument) {
    for (const Operand& operand : fused.operands)
      if (operand.value == &argument)
        return operand.items[0].kind == Operand::Kind::value &&
               resultIsLower(*operand.items[0].value, steps + 1);
    return false;
  };
  return fused.groups.empty() &&
         isLower(*fused.regions[0]->terminator()->in(static_cast<int>(slot - fused.results.begin())), known);
}

}  // namespace

bool isLower(const Value& value, const std::function<bool(const Value&)>& known) {
  return isLower(value, known, 0);
}

bool resultIsLower(const Value& value) { return resultIsLower(value, 0); }

bool isReadBelow(const PlainRegion& region, const Value& value) {
  std::unordered_set<const Value*> carriers{&value};  // hold elements that nothing has masked yet
  for (const auto& op : region.body->ops) {
    bool reads = false;
    forEachUse(static_cast<const Op&>(*op),
               [&](Value* operand) { reads = reads || carriers.contains(operand); });
    if (!reads) continue;
    if (selectsBelow(*op) && sameMatrix(*op->in(0), *op->result()) && sameMatrix(*op->in(1), *op->result()) &&
        !carriers.contains(op->in(0)) && !carriers.contains(op->in(2)))
      continue;
    if (!keepsElements(*op) || !sameMatrix(*op->result(), value)) return false;
    carriers.insert(op->result());
  }
  return std::none_of(region.yields.begin(), region.yields.end(),
                      [&](const Value* yield) { return carriers.contains(yield); });
}

}  // namespace tg
