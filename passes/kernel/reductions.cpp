// SPDX-License-Identifier: Apache-2.0
// Recognises trees in shared memory that compute a tgk.workgroup_reduce:
//
//   tgk.store %v, %s[%l]
//   tgk.barrier
//   for each stride %w = n/2, n/4, …, 1 { tgk.if %l < %w { s[l] = s[l] + s[l + w] } tgk.barrier }
//   … tgk.load %s[0] …
//
// The strides may be in a loop (shifted, or carried) or unrolled. workgroup_reduce adds in this very order, so floats stay
// the same to the bit; trees in other orders are not replaced. The rest of a tree is then dead code.
#include <bit>
#include <unordered_map>

#include "ir/builder.h"
#include "ir/kernel/kernel.h"
#include "passes/kernel/effects.h"
#include "passes/kernel/fold_values.h"
#include "passes/kernel/simplify.h"

namespace tg {
namespace {

constexpr int64_t kMostTrips = 32;  // a stride of 32 bits can be halved no more often

/// Values that are constant in one trip of a loop, with these constants.
using Known = std::unordered_map<const Value*, uint32_t>;

/// The u32 constant that an operand has, given these values; nothing if it is not constant.
std::optional<uint32_t> evaluate(const Operand& operand, const Known& known, const Item& kernel) {
  if (operand.isLiteral()) return literalWord(operand, DType::u32);
  if (auto it = known.find(operand.value); it != known.end()) return it->second;
  const Op* op = operand.value->def;
  if (!op || !isArithmetic(*op) || operand.value->type != Type::scalar(DType::u32)) return {};
  std::vector<KnownOperand> in;
  for (const Operand& each : op->operands) {
    KnownOperand one{operandType(*op, each), {}, each.value};
    if (one.type == Type::scalar(DType::u32)) one.word = evaluate(each, known, kernel);
    in.push_back(one);
  }
  std::optional<Operand> folded = foldOp(*op, in, kernel);
  if (!folded || !folded->isLiteral()) return {};
  return literalWord(*folded, DType::u32);
}

bool isLane(const Operand& operand) {
  return operand.value && operand.value->def && operand.value->def->code == Opcode::k_local_id &&
         operand.value->def->operands[0].integer == 0;
}

bool isIndex(const Op& access, int64_t literal) {
  const Operand& at = elementOf(access)->items[0];
  return at.isLiteral() && at.integer == literal;
}

/// One stage `if %l < %w { s[l] = s[l] op s[l + w] }`.
struct TreeStage {
  const Op* guard = nullptr;  ///< the if
  const Op* loop = nullptr;   ///< the loop that holds it, or null
  const Op* own = nullptr;    ///< the load of s[l]
  const Op* other = nullptr;  ///< the load of s[l + w]
  Op* store = nullptr;
};

/// An access and the ops around it, innermost first.
struct TreePlace {
  Op* op;
  std::vector<const Op*> around;
};

/// The tree over one shared buffer, if all uses of the buffer form one.
class Tree {
 public:
  Tree(Item& kernel, const Op& buffer) : kernel_(kernel), buffer_(buffer.result()) {}
  bool match();
  void replace();

 private:
  void collect(const Block& block, std::vector<const Op*>& around);
  bool matchFirst();
  bool matchStage(size_t at);
  bool matchStages();
  bool stride(const TreeStage& stage, const Known& known);
  bool strides(const TreeStage& stage);
  bool ordered(const Op& op);
  bool inOrder();
  bool laneZero(const TreePlace& load) const;

  Item& kernel_;
  const Value* buffer_;
  std::vector<TreePlace> places_;
  Block* block_ = nullptr;  ///< the block of the first store
  size_t outer_ = 0;        ///< the number of ops around it
  std::vector<TreeStage> stages_;
  std::vector<TreePlace> reads_;
  int64_t next_ = 0;  ///< the stride of the next stage
  Opcode code_ = Opcode::k_add;
  bool met_ = false;  ///< whether there was a barrier since the last access
};

void Tree::collect(const Block& block, std::vector<const Op*>& around) {
  for (Op* op : block.ops) {
    const Operand* element = elementOf(*op);
    if (element && element->value == buffer_) places_.push_back({op, {around.rbegin(), around.rend()}});
    around.push_back(op);
    for (const auto& region : op->regions) collect(*region, around);
    around.pop_back();
  }
}

Block* blockOf(Block& block, const Op* op) {
  for (Op* each : block.ops) {
    if (each == op) return &block;
    for (auto& region : each->regions)
      if (Block* found = blockOf(*region, op)) return found;
  }
  return nullptr;
}

bool Tree::matchFirst() {
  if (places_.size() < 5 || places_[0].op->code != Opcode::k_store) return false;
  if (!isLane(elementOf(*places_[0].op)->items[0])) return false;
  block_ = blockOf(kernel_.body, places_[0].op);
  outer_ = places_[0].around.size();
  return true;
}

/// Matches three accesses from `at` on as a stage. Its indices are checked later, when the stride is known.
bool Tree::matchStage(size_t at) {
  if (at + 2 >= places_.size()) return false;
  const auto& around = places_[at].around;
  size_t depth = around.size() - std::min(around.size(), outer_);
  if (depth != 1 && depth != 2) return false;
  TreeStage stage;
  stage.guard = around[0];
  stage.loop = depth == 2 ? around[1] : nullptr;
  if (stage.guard->code != Opcode::k_if || (stage.loop && stage.loop->code != Opcode::k_for)) return false;
  if (blockOf(*block_, stage.guard) != (stage.loop ? stage.loop->regions[0].get() : block_)) return false;
  for (size_t each : {at + 1, at + 2})
    if (places_[each].around != around) return false;
  stage.store = places_[at + 2].op;
  if (blockOf(*block_, stage.store) != stage.guard->regions[0].get()) return false;
  const Op* fold = stage.store->operands[0].value ? stage.store->operands[0].value->def : nullptr;
  if (stage.store->code != Opcode::k_store || !fold) return false;
  bool known = fold->code == Opcode::k_add || fold->code == Opcode::k_mul || fold->code == Opcode::k_max ||
               fold->code == Opcode::k_min;
  if (!known || (!stages_.empty() && fold->code != code_)) return false;
  code_ = fold->code;
  for (int side : {0, 1}) {
    const Op* load = fold->operands[side].value ? fold->operands[side].value->def : nullptr;
    if (load != places_[at].op && load != places_[at + 1].op) return false;
    if (load->code != Opcode::k_load) return false;
    (isLane(elementOf(*load)->items[0]) ? stage.own : stage.other) = load;
  }
  if (!stage.own || !stage.other) return false;
  // For min and max the order of operands matters (-0 and 0, NaN); for sums and products it does not.
  bool swapped = fold->operands[0].value->def != stage.own;
  if (swapped && (code_ == Opcode::k_max || code_ == Opcode::k_min)) return false;
  if (stage.loop && !stages_.empty() && stages_.back().loop == stage.loop) return false;
  stages_.push_back(stage);
  return true;
}

bool Tree::matchStages() {
  size_t at = 1;
  while (at < places_.size() && !(isLoad(*places_[at].op) && isIndex(*places_[at].op, 0))) {
    if (!matchStage(at)) return false;
    at += 3;
  }
  for (; at < places_.size(); ++at) {
    if (places_[at].op->code != Opcode::k_load || !isIndex(*places_[at].op, 0)) return false;
    if (!blockOf(*block_, places_[at].op)) return false;
    reads_.push_back(places_[at]);
  }
  return !stages_.empty() && !reads_.empty();
}

/// Whether a stage, with these constants, has the expected stride; halves that.
bool Tree::stride(const TreeStage& stage, const Known& known) {
  const Op* test = stage.guard->operands[0].value ? stage.guard->operands[0].value->def : nullptr;
  if (!test || (test->code != Opcode::k_lt && test->code != Opcode::k_gt)) return false;
  int lane = test->code == Opcode::k_gt;
  if (!isLane(test->operands[lane])) return false;
  const Operand& at = elementOf(*stage.other)->items[0];
  const Op* sum = at.value ? at.value->def : nullptr;
  if (!sum || sum->code != Opcode::k_add || next_ == 0) return false;
  int side = isLane(sum->operands[1]);
  if (!isLane(sum->operands[side])) return false;
  bool fits = isLane(elementOf(*stage.store)->items[0]) &&
              evaluate(test->operands[1 - lane], known, kernel_) == next_ &&
              evaluate(sum->operands[1 - side], known, kernel_) == next_;
  next_ /= 2;
  return fits;
}

/// The same for all trips of a stage's loop.
bool Tree::strides(const TreeStage& stage) {
  if (!stage.loop) return stride(stage, {});
  const Op& loop = *stage.loop;
  const auto [from, to, step] = rangeOf(loop);
  if (!from.isLiteral() || !to.isLiteral() || !step.isLiteral()) return false;
  if ((to.integer - from.integer) / step.integer > kMostTrips) return false;
  Known known;
  for (const Operand& binding : iterArgs(loop))
    if (auto first = evaluate(binding.items[0], {}, kernel_)) known[binding.value] = *first;
  for (int64_t index = from.integer; index < to.integer; index += step.integer) {
    known[loop.operands[0].value] = static_cast<uint32_t>(index);
    if (!stride(stage, known)) return false;
    Known after;
    const auto& carried = iterArgs(loop);
    for (size_t each = 0; each < carried.size(); ++each)
      if (auto next = evaluate(yieldOf(*loop.regions[0])->operands[each], known, kernel_))
        after[carried[each].value] = *next;
    known = std::move(after);
  }
  return true;
}

/// Whether only the first invocation executes a load.
bool Tree::laneZero(const TreePlace& load) const {
  for (size_t at = 0; at + outer_ < load.around.size(); ++at) {
    const Op& guard = *load.around[at];
    const Op* test =
        guard.code == Opcode::k_if && guard.operands[0].value ? guard.operands[0].value->def : nullptr;
    if (!test || test->code != Opcode::k_eq || !blockOf(*guard.regions[0], load.op)) continue;
    for (int lane : {0, 1})
      if (isLane(test->operands[lane]) && test->operands[1 - lane].isLiteral() &&
          test->operands[1 - lane].integer == 0)
        return true;
  }
  return false;
}

/// Checks, op by op of the first store's block, that a barrier separates the stages and the reads.
bool Tree::ordered(const Op& op) {
  if (op.code == Opcode::k_barrier) met_ = true;
  for (const TreeStage& stage : stages_) {
    if (stage.guard == &op) {
      if (!met_) return false;
      met_ = false;
    }
    if (stage.loop != &op) continue;
    for (int trip : {0, 1}) {  // twice, so that the start of a trip follows the end of another
      static_cast<void>(trip);
      for (Op* inner : op.regions[0]->ops)
        if (!ordered(*inner)) return false;
    }
  }
  for (const TreePlace& read : reads_)
    if ((read.op == &op ||
         (read.around.size() > outer_ && read.around[read.around.size() - outer_ - 1] == &op)) &&
        !met_ && !laneZero(read))
      return false;
  return true;
}

bool Tree::inOrder() {
  bool started = false;
  for (Op* op : block_->ops) {
    if (started && !ordered(*op)) return false;
    started |= op == places_[0].op;
  }
  return true;
}

bool Tree::match() {
  const UseList& uses = buffer_->uses;
  const bool elementsAlone = std::ranges::all_of(uses, [&](const Use& use) {
    const Operand* element = elementOf(*use.user());
    return element && element->value == buffer_;
  });
  if (!elementsAlone) return false;
  std::vector<const Op*> around;
  collect(kernel_.body, around);
  if (!matchFirst() || !matchStages() || !inOrder()) return false;
  next_ = kernel_.workgroup[0] / 2;
  for (const TreeStage& stage : stages_)
    if (!strides(stage)) return false;
  return next_ == 0;
}

/// Puts the reduction at the place of the first store, replaces the loads by its result, and removes the tree's stores.
void Tree::replace() {
  Op* first = places_[0].op;
  Builder builder(*first->list());  // with an empty name table: the sum takes the name of a load
  builder.setBefore(first).setLoc(stages_[0].store->loc).setHint(reads_[0].op->result()->name);
  Value* sum = builder
                   .create(Opcode::k_workgroup_reduce, {first->operands[0]},
                           {{"kind", Attr::word(std::string(info(code_).name.substr(4)))}},
                           {elementType(buffer_->type)})
                   ->result();

  first->list()->erase(first);
  for (const TreeStage& stage : stages_) stage.store->list()->erase(stage.store);
  for (const TreePlace& read : reads_) {
    read.op->result()->uses.replaceAll(sum);
    read.op->list()->erase(read.op);
  }
}

}  // namespace

void recogniseReductions(Item& kernel) {
  int64_t size = kernel.workgroup[0];
  if (size < 2 || !std::has_single_bit(static_cast<uint64_t>(size))) return;
  if (kernel.workgroup[1] != 1 || kernel.workgroup[2] != 1) return;
  makeNamesUnique(kernel);
  std::vector<const Op*> buffers;
  walk(kernel.body, [&](Op& op) {
    if (op.code != Opcode::k_shared || op.result()->type.rank() != 1 || op.result()->type.lanes != 1) return;
    if (op.result()->type.shape[0] == size && !isNarrow(op.result()->type.dtype)) buffers.push_back(&op);
  });
  bool any = false;
  for (const Op* buffer : buffers) {
    Tree tree(kernel, *buffer);
    if (!tree.match()) continue;
    tree.replace();
    any = true;
  }
  if (any) dropDead(kernel);  // the loads of a tree without stores would read undefined memory
}

}  // namespace tg
