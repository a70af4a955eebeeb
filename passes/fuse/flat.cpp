// The optimizer as one kernel: every adam_update of a function becomes one update of flat groups,
// and the global gradient norm one sum over the flat gradients.
#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>

#include "codegen/schedule.h"
#include "passes/fuse/fuse.h"

namespace tg::fuse {
namespace {

/// A tg.fused under construction: bindings, a body, results.
class FlatRegion {
 public:
  explicit FlatRegion(Module& module, const Loc& loc) : op_(std::make_unique<Op>(Opcode::fused)) {
    op_->loc = loc;
    op_->regions.push_back(std::make_unique<Block>());
    holder_.kind = ItemKind::func;
    builder_ = std::make_unique<Builder>(&module, &holder_);
    builder_->setBlock(op_->regions[0].get());
    builder_->setLoc(loc);
  }
  Builder& builder() { return *builder_; }
  Value* bind(const std::string& hint, Operand source, Type type) {
    Value* arg = op_->regions[0]->addArg(type, builder_->names().unique(hint));
    op_->operands.push_back(Operand::binding(arg, std::move(source)));
    return arg;
  }
  Value* bindGroup(const std::string& hint, const std::vector<Value*>& members) {
    return bind(hint, Operand::group(members), Type::tensor(DType::f32, {groupElements(members)}));
  }
  static int64_t groupElements(const std::vector<Value*>& members) {
    std::vector<Type> types;
    for (Value* member : members) types.push_back(member->type);
    return groupBytes(types) / 4;
  }
  void yields(const std::vector<Value*>& values) {
    std::vector<Operand> operands;
    for (Value* value : values) operands.push_back(Operand::of(value));
    builder_->create(Opcode::yield, std::move(operands));
  }
  void result(Type type, std::string name) {
    auto value = std::make_unique<Value>();
    value->type = type;
    value->name = std::move(name);
    value->loc = op_->loc;
    value->def = op_.get();
    op_->results.push_back(std::move(value));
  }
  Op& op() { return *op_; }
  std::unique_ptr<Op> finish(const Target& target) {
    op_->attrs.push_back({"schedule", chooseSchedule(*op_, target)});
    return std::move(op_);
  }

 private:
  std::unique_ptr<Op> op_;
  Item holder_;
  std::unique_ptr<Builder> builder_;
};

struct Update {
  Op* op;
  Value* gradient;  ///< the unscaled one when `scale` is set
  Op* scaling = nullptr;
};

class Flattener {
 public:
  Flattener(Module& module, Item& func, const Target& target)
      : module_(module), func_(func), target_(target), uses_(func.body), names_(func) {}

  void run() {
    collect();
    for (auto& [key, updates] : groups_) {
      (void)key;
      flatten(updates);
    }
    rebuild();
  }

 private:
  bool joins(const Op& update) const;
  void collect();
  const Op* placeFor(const std::vector<Update>& updates) const;
  void flatten(std::vector<Update>& updates);
  void findScaling(std::vector<Update>& updates, Value*& scale);
  void materialise(std::vector<Update>& updates);
  Value* makeBefore(const Op* at, Opcode code, std::vector<Operand> operands, AttrList attrs, Type type,
                    const std::string& hint);
  std::vector<Value*> bindNumbers(FlatRegion& region, const std::vector<Value*>& numbers, const Op* at);
  void flattenNorm(const std::vector<Value*>& gradients);
  void rebuild();

  Module& module_;
  Item& func_;
  const Target& target_;
  UseDef uses_;
  NameTable names_;
  std::map<std::string, std::vector<Update>> groups_;
  std::unordered_set<std::string> taken_;  ///< symbols that the updates so far read
  std::unordered_set<const Op*> dropped_;
  std::unordered_map<const Op*, std::vector<std::unique_ptr<Op>>> before_;  // new ops by the op they precede
  std::unordered_map<const Value*, Value*> replaced_;
  std::vector<std::unique_ptr<Op>> graveyard_;
};

/// Whether p, m and v are read from parameters and states, each once, and the decay is one number: then they
/// have homes that a group can lay out. Any other update is a map like others.
bool Flattener::joins(const Op& update) const {
  if (update.numOperands() > 5 && update.in(5)->type.rank() != 0) return false;
  std::unordered_set<std::string> read;
  for (int index : {0, 2, 3}) {
    const Op* def = update.in(index)->def;
    if (!def || (def->code != Opcode::param && def->code != Opcode::state)) return false;
    read.insert(def->operands[0].text);
  }
  return read.size() == 3 && std::none_of(read.begin(), read.end(),
                                          [&](const std::string& name) { return taken_.contains(name); });
}

void Flattener::collect() {
  std::map<std::string, std::string> shrinks;  // by key: the one decay its updates share
  for (auto& op : func_.body.ops) {
    if (op->code != Opcode::adam_update || !joins(*op)) continue;
    for (int index : {0, 2, 3}) taken_.insert(op->in(index)->def->operands[0].text);
    // Updates join when everything but the tensors is the same; those without decay join any.
    std::string key = op->in(4)->name;
    for (const NamedAttr& attr : op->attrs) key += '|' + attr.name + attr.value.str();
    if (op->numOperands() > 5 && shrinks.try_emplace(key, op->in(5)->name).first->second != op->in(5)->name)
      key += "|shrink " + op->in(5)->name;
    groups_[key].push_back({op.get(), op->in(1), nullptr});
  }
}

/// The last of the updates in the text, or null when one of their results is read before it.
const Op* Flattener::placeFor(const std::vector<Update>& updates) const {
  std::unordered_set<const Op*> ours;
  std::unordered_set<const Value*> results;
  for (const Update& update : updates) {
    ours.insert(update.op);
    for (const auto& result : update.op->results) results.insert(result.get());
  }
  const Op* last = nullptr;
  bool early = false, readBefore = false;
  for (const auto& op : func_.body.ops) {
    forEachUse(static_cast<const Op&>(*op), [&](Value* value) { early = early || results.contains(value); });
    if (!ours.contains(op.get())) continue;
    last = op.get();
    readBefore = early;
  }
  return readBefore ? nullptr : last;
}

/// Clipping scales every gradient by one number: the flat kernel does that itself.
void Flattener::findScaling(std::vector<Update>& updates, Value*& scale) {
  for (const Update& update : updates) {
    Op* def = update.gradient->def;
    bool scaled = def && def->code == Opcode::mul && def->in(1)->type.rank() == 0 &&
                  def->in(0)->type == update.gradient->type && uses_.users(update.gradient).size() == 1 &&
                  (!scale || scale == def->in(1));
    if (!scaled) {
      scale = nullptr;
      return;
    }
    scale = def->in(1);
  }
  for (Update& update : updates) {
    update.scaling = update.gradient->def;
    update.gradient = update.scaling->in(0);
  }
}

/// An op of the function's level that will stand before another.
Value* Flattener::makeBefore(const Op* at, Opcode code, std::vector<Operand> operands, AttrList attrs,
                             Type type, const std::string& hint) {
  auto op = std::make_unique<Op>(code);
  op->loc = at->loc;
  op->operands = std::move(operands);
  op->attrs = std::move(attrs);
  op->results.push_back(std::make_unique<Value>());
  Value* result = op->result();
  result->type = type;
  result->name = names_.unique(hint);
  result->loc = at->loc;
  result->def = op.get();
  before_[at].push_back(std::move(op));
  return result;
}

/// Binds rank-0 values. Where each of them would take a storage buffer that the target lacks, one tensor
/// holds them all.
std::vector<Value*> Flattener::bindNumbers(FlatRegion& region, const std::vector<Value*>& numbers,
                                           const Op* at) {
  constexpr size_t kGroups = 7;  // p, g, m, v and three results
  std::vector<Value*> inner;
  if (target_.reads == "texel" || static_cast<int64_t>(kGroups + numbers.size()) <= target_.bindings) {
    for (Value* number : numbers)
      inner.push_back(region.bind(number->name, Operand::of(number), number->type));
    return inner;
  }
  std::vector<Operand> pieces;
  for (Value* number : numbers) {
    const Type one = Type::tensor(DType::f32, {1});
    pieces.push_back(Operand::of(makeBefore(at, Opcode::reshape, {Operand::of(number)},
                                            {{"shape", Attr::ints({1})}}, one, number->name)));
  }
  const Type type = Type::tensor(DType::f32, {static_cast<int64_t>(numbers.size())});
  Value* packed =
      makeBefore(at, Opcode::concat, std::move(pieces), {{"axis", Attr::of(int64_t{0})}}, type, "numbers");
  Value* bound = region.bind(packed->name, Operand::of(packed), type);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto start = static_cast<int64_t>(i);
    Value* element = region.builder().op(
        Opcode::slice, {bound}, {{"starts", Attr::ints({start})}, {"limits", Attr::ints({start + 1})}});
    inner.push_back(region.builder().reshape(element, {}));
  }
  return inner;
}

/// Members of a group are values of their own: each gradient once, and not a view that reorders.
void Flattener::materialise(std::vector<Update>& updates) {
  std::unordered_set<const Value*> taken;
  for (Update& update : updates) {
    Value* base = throughReshapes(update.gradient);
    bool own = base->def && !isInline(*base->def) && base->def->code != Opcode::param &&
               base->def->code != Opcode::state;
    if (own && taken.insert(base).second) {
      update.gradient = base;
      continue;
    }
    // A product with one is no view, so a region computes it.
    Value* one = makeBefore(update.op, Opcode::constant, {Operand::literal(1.0)}, {},
                            Type::tensor(DType::f32, {}), "one");
    update.gradient = makeBefore(update.op, Opcode::mul, {Operand::of(update.gradient), Operand::of(one)}, {},
                                 update.gradient->type, update.gradient->name);
  }
}

void Flattener::flatten(std::vector<Update>& updates) {
  const Op* last = placeFor(updates);
  if (!last) return;
  Value* scale = nullptr;
  findScaling(updates, scale);
  // Decayed parameters first, so that decay is a question of the index.
  std::stable_sort(updates.begin(), updates.end(), [](const Update& a, const Update& b) {
    return a.op->numOperands() > b.op->numOperands();
  });
  std::vector<Value*> unscaled;
  for (const Update& update : updates) unscaled.push_back(update.gradient);
  materialise(updates);
  bool same = true;
  std::vector<Value*> p, g, m, v;
  std::vector<Value*> decayed;
  Value* shrink = nullptr;
  for (size_t i = 0; i < updates.size(); ++i) {
    const Update& update = updates[i];
    same = same && throughReshapes(unscaled[i]) == update.gradient;
    p.push_back(update.op->in(0));
    g.push_back(update.gradient);
    m.push_back(update.op->in(2));
    v.push_back(update.op->in(3));
    if (update.op->numOperands() > 5) shrink = update.op->in(5), decayed.push_back(update.op->in(0));
  }
  if (same) flattenNorm(g);

  const Op& first = *updates[0].op;
  // Not before the last of them: all operands exist there.
  FlatRegion region(module_, first.loc);
  Builder& b = region.builder();
  Value* flatP = region.bindGroup("p", p);
  Value* flatG = region.bindGroup("g", g);
  Value* flatM = region.bindGroup("m", m);
  Value* flatV = region.bindGroup("v", v);
  std::vector<Value*> outside{first.in(4)};
  if (scale) outside.push_back(scale);
  if (shrink) outside.push_back(shrink);
  std::vector<Value*> numbers = bindNumbers(region, outside, last);
  if (scale) {
    b.setHint("scaled");
    flatG = b.binary(Opcode::mul, flatG, numbers[1]);
  }
  std::vector<Value*> operands{flatP, flatG, flatM, flatV, numbers[0]};
  if (shrink) {
    Value* inner = numbers.back();
    if (decayed.size() < updates.size()) {
      Type index = Type::tensor(DType::i32, flatP->type.shape);
      b.setHint("index");
      Value* position = b.op(Opcode::iota, {}, {}, {index});
      b.setHint("decays");
      Value* limit =
          b.constant(static_cast<double>(FlatRegion::groupElements(decayed)), Type::tensor(DType::i32, {}));
      Value* decays = b.binary(Opcode::less, position, limit);
      b.setHint("shrinks");
      inner = b.op(Opcode::select, {decays, inner, b.scalar(0)});
    }
    operands.push_back(inner);
  }
  b.setHint("");
  b.setHint("new");
  b.op(Opcode::adam_update, operands, first.attrs);
  Op* made = b.block()->ops.back().get();
  region.yields({made->result(0), made->result(1), made->result(2)});
  for (int which = 0; which < 3; ++which) {
    for (const Update& update : updates)
      region.result(update.op->result(which)->type, update.op->result(which)->name);
    region.op().groups.push_back(static_cast<int>(updates.size()));
  }
  for (size_t i = 0; i < updates.size(); ++i) {
    dropped_.insert(updates[i].op);
    if (updates[i].scaling) dropped_.insert(updates[i].scaling);
    for (int which = 0; which < 3; ++which)
      replaced_[updates[i].op->result(which)] =
          region.op().result(which * static_cast<int>(updates.size()) + static_cast<int>(i));
  }
  before_[last].push_back(region.finish(target_));
}

/// The add chain over sums of squares of exactly these gradients becomes one two-stage sum.
void Flattener::flattenNorm(const std::vector<Value*>& gradients) {
  std::unordered_set<const Value*> leaves;  // sums of squares and the chain's sums so far
  std::vector<const Op*> chain;
  for (Value* gradient : gradients) {
    const Value* leaf = nullptr;
    // The squares may be of the gradient or of a reshape of it.
    for (const auto& op : func_.body.ops) {
      if (op->code != Opcode::square || throughReshapes(op->in(0)) != gradient) continue;
      leaf = op->result();
      chain.push_back(op.get());
      if (leaf->type.rank() > 0) {
        const auto& users = uses_.users(leaf);
        // A tensor of one element is reshaped, not summed.
        bool full = users.size() == 1 &&
                    (users[0]->code == Opcode::sum || users[0]->code == Opcode::reshape) &&
                    users[0]->result()->type.rank() == 0;
        if (!full) return;
        leaf = users[0]->result();
        chain.push_back(users[0]);
      }
      break;
    }
    if (!leaf || uses_.users(leaf).size() != 1) {
      if (!(leaf && gradients.size() == 1)) return;
    }
    leaves.insert(leaf);
  }
  size_t absorbed = 1;
  Op* root = gradients.size() == 1 ? const_cast<Op*>(chain.back()) : nullptr;
  for (const auto& op : func_.body.ops) {
    if (op->code != Opcode::add || !leaves.contains(op->in(0)) || !leaves.contains(op->in(1))) continue;
    leaves.erase(op->in(0));
    leaves.erase(op->in(1));
    leaves.insert(op->result());
    chain.push_back(op.get());
    root = op.get();
    ++absorbed;
  }
  if (!root || absorbed != gradients.size()) return;

  FlatRegion region(module_, root->loc);
  Builder& b = region.builder();
  Value* flat = region.bindGroup("g", gradients);
  int64_t count = flat->type.elements();
  int64_t pieces =
      divisorUpTo(count / 4, std::min<int64_t>(target_.parallel, std::max<int64_t>(1, count / 256)));
  b.setHint("squares");
  Value* squares = b.op(Opcode::square, {flat});
  b.setHint("rows");
  squares = b.reshape(squares, {pieces, count / pieces});
  b.setHint("partial");
  Value* partial = b.sum(squares, {1});
  region.yields({partial});
  region.result(partial->type, names_.unique("norm_partial"));
  Value* outer = region.op().result();
  auto total = std::make_unique<Op>(Opcode::sum);
  total->loc = root->loc;
  total->operands = {Operand::of(outer)};
  total->attrs = {{"axes", Attr::ints({0})}};
  total->results.push_back(std::make_unique<Value>());
  total->result()->type = Type::tensor(DType::f32, {});
  total->result()->name = root->result()->name;
  total->result()->def = total.get();
  replaced_[root->result()] = total->result();
  for (const Op* op : chain) dropped_.insert(op);
  before_[root].push_back(region.finish(target_));
  before_[root].push_back(std::move(total));
}

void Flattener::rebuild() {
  std::vector<std::unique_ptr<Op>> body;
  auto push = [&](std::unique_ptr<Op> op) {
    forEachUse(*op, [&](Value*& value) {
      if (auto it = replaced_.find(value); it != replaced_.end()) value = it->second;
    });
    body.push_back(std::move(op));
  };
  for (auto& op : func_.body.ops) {
    if (auto it = before_.find(op.get()); it != before_.end())
      for (auto& made : it->second) push(std::move(made));
    if (dropped_.contains(op.get()))
      graveyard_.push_back(std::move(op));
    else
      push(std::move(op));
  }
  func_.body.ops = std::move(body);
}

}  // namespace

void flattenOptimizer(Module& module, Item& func, const Target& target) {
  Flattener(module, func, target).run();
}

}  // namespace tg::fuse
