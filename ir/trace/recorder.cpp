// SPDX-License-Identifier: Apache-2.0
#include "ir/trace/recorder.h"
#include "ir/access.h"
#include "ir/trace/ops.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <span>

#include "ir/dims.h"
#include "ir/infer.h"
#include "ir/lexer.h"
#include "ir/verify.h"

namespace tg::nn {

namespace {

thread_local Recorder* activeRecorder = nullptr;
thread_local const Site* outermostSite = nullptr;

/// Numbers the traced functions; a number is never reused, so that a tensor that outlives its function is recognized.
/// 0 means none.
uint64_t nextFunction() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

std::vector<Tensor> repeated(const Tensor& tensor, int count) {
  return std::vector<Tensor>(static_cast<size_t>(count), tensor);
}

/// A constant's name from its value: c0.5, cm1.0 for -1, c1em05 for 1e-05.
std::string constantName(const Operand& literal) {
  std::string text = literal.isInteger ? std::to_string(literal.integer) : formatF32(literal.real);
  std::string out = "c";
  for (char c : text)
    if (c != '+') out += c == '-' ? 'm' : c;
  return out;
}

}  // namespace

Loc locOf(const Site& site) {
  LocNode node;
  node.file = std::make_shared<const SourceFile>(SourceFile{site.file_name(), ""});
  node.line = site.line();
  node.col = site.column();
  return std::make_shared<const LocNode>(std::move(node));
}

Result<Type> tensorType(DType dtype, const Dims& dims, const Loc& loc) {
  if (dims.values().size() > kMaxRank)
    return failAt(loc, "{} extents are over the most, {}", dims.values().size(), kMaxRank);
  Shape shape;
  for (int64_t extent : dims.values()) shape.push(extent);
  if (!hasValidExtents(shape))
    return failAt(loc, "the extents [{}] are not positive or too many elements",
                  fmt::join(dims.values(), ", "));
  return Type::tensor(dtype, shape);
}

Item* declareStorage(tg::Module& module, ItemKind kind, const std::string& name, const Type& type,
                     AttrList attrs, const Loc& loc) {
  auto item = std::make_unique<Item>();
  item->kind = kind;
  item->name = name;
  item->type = type;
  item->attrs = std::move(attrs);
  item->loc = loc;
  Item* made = item.get();
  auto at = std::ranges::find_if(module.items, [](const auto& each) { return !isStorage(each->kind); });
  module.items.insert(at, std::move(item));
  return made;
}

CallSite::CallSite(const Site& site) : outermost_(!outermostSite) {
  if (outermost_) outermostSite = &site;
}
CallSite::~CallSite() {
  if (outermost_) outermostSite = nullptr;
}
const Site& CallSite::of(const Site& site) { return outermostSite ? *outermostSite : site; }

Recorder::Recorder(tg::Module& module, Item& func, const ModelNames& names)
    : module_(module), func_(func), names_(names), builder_(&module, &func), number_(nextFunction()),
      firstArg_(func.body.args.size()), firstOp_(func.body.ops.size()) {
  remember();
  activeRecorder = this;
}

void Recorder::remember() {
  key_ = hostArgument(func_, "rng");
  for (const auto& op : func_.body.ops) {
    const bool reads = readsSymbol(*op);
    if (reads) reads_.emplace(op->operands[0].text, op->result());
    if (op->code == Opcode::capture) captures_.emplace(op->word("name"), op->loc);
    if (op->code == Opcode::update) updates_.emplace(op->operands[0].text, op->loc);
    if (const Attr* salt = find(op->attrs, "salt")) salts_ = std::max(salts_, salt->integer);
  }
}
Recorder::~Recorder() { activeRecorder = nullptr; }
Recorder* Recorder::active() { return activeRecorder; }

Tensor Recorder::handle(Value* value) const {
  Tensor tensor;
  tensor.value_ = value;
  tensor.function_ = number_;
  tensor.type_ = value->type;
  tensor.loc_ = value->loc;
  return tensor;
}

static std::shared_ptr<const Error> shared(Error error) {
  return std::make_shared<const Error>(std::move(error));
}

namespace {
struct OpenScope {
  std::string name;
  Site site;
};
thread_local std::vector<OpenScope> openScopes;  ///< the innermost is last
}  // namespace

Scope::Scope(std::string name, Site site) { openScopes.push_back({std::move(name), site}); }
Scope::~Scope() { openScopes.pop_back(); }

Tensor Recorder::reject(Error error) {
  for (auto scope = openScopes.rbegin(); scope != openScopes.rend(); ++scope)
    error.addNote(locOf(scope->site), "in {}", scope->name);
  errors_.append(error);
  Tensor tensor;
  tensor.function_ = number_;
  tensor.loc_ = error.diagnostics().front().loc;
  tensor.failure_ = shared(std::move(error));
  return tensor;
}

Tensor Recorder::fail(const Site& at, std::string message) {
  Error error = failAt(locOf(CallSite::of(at)), std::move(message));
  if (activeRecorder) return activeRecorder->reject(std::move(error));
  Tensor tensor;
  tensor.loc_ = error.diagnostics().front().loc;
  tensor.failure_ = shared(std::move(error));
  return tensor;
}

Result<Value*> Recorder::valueOf(const Tensor& tensor, std::string_view user, const Loc& loc) const {
  if (tensor.valid() && tensor.function_ == number_) return tensor.value_;
  if (tensor.valid())
    return failAt(loc,
                  "{}: an operand belongs to another trace than @{}; a value cannot leave the function it "
                  "was traced in",
                  user, func_.name)
        .note(tensor.loc_, "it was made here");
  if (tensor.failure_) return *tensor.failure_;
  return failAt(loc, "{}: an operand is an empty Tensor", user);
}

/// A number as a literal of an element type; an error if the type cannot represent it.
static Result<Operand> literalOf(double number, DType dtype, std::string_view user, const Loc& loc) {
  if (isFloat(dtype)) return Operand::literal(roundedTo(dtype, number));
  if (number != std::floor(number) || std::fabs(number) > 0x1p53)
    return failAt(loc, "{}: {} is not a value of type {}", user, formatReal(number), tg::name(dtype));
  return Operand::literal(static_cast<int64_t>(number));
}

Result<Value*> Recorder::literal(Operand value, const Type& type, const Loc& loc) {
  Value* unshared = nullptr;
  bool shares = value.isLiteral() && type.rank() == 0;
  Value*& made = shares ? numbers_[{std::bit_cast<uint64_t>(value.number()), type.dtype}] : unshared;
  if (made) return made;
  std::string hint = value.isLiteral() ? constantName(value) : "constant";
  builder_.setLoc(loc).setHint(hint);
  TG_TRY(Op * op, builder_.tryCreate(Opcode::constant, {std::move(value)}, {}, {type}));
  made = op->result();
  hints_[made] = hint;
  return made;
}

Result<Value*> Recorder::number(double number, DType dtype, std::string_view user, const Loc& loc) {
  TG_TRY(Operand value, literalOf(number, dtype, user, loc));
  return literal(std::move(value), Type::tensor(dtype, {}), loc);
}

Tensor Recorder::constant(const Site& at, const std::vector<double>& values, const Dims& shape, DType dtype) {
  const Site& site = CallSite::of(at);
  if (!activeRecorder) return fail(site, "constant needs a trace");
  Recorder& self = *activeRecorder;
  Loc loc = locOf(site);
  Result<Type> type = tensorType(dtype, shape, loc);
  if (!type) return self.reject(type.takeError());
  OperandList literals;
  for (double value : values) {
    Result<Operand> each = literalOf(value, dtype, "constant", loc);
    if (!each) return self.reject(each.takeError());
    literals.push_back(*std::move(each));
  }
  Operand value = literals.size() == 1 ? literals[0] : Operand::keyword("dense", std::move(literals));
  Result<Value*> made = self.literal(std::move(value), *type, loc);
  return made ? self.handle(*made) : self.reject(made.takeError());
}

std::variant<std::vector<Value*>, Tensor> Recorder::operandsOf(const Emission& op, const Loc& loc) {
  std::string_view user = info(op.code).name;
  auto like = std::ranges::find_if(op.operands, [](const Arg& a) { return !a.isNumber(); });
  if (like == op.operands.end() && !op.operands.empty())
    return reject(failAt(loc, "{}: one operand must be a tensor", user));
  std::vector<Value*> values;
  // Tensors first: if one is invalid, no constants are made.
  for (const Arg& arg : op.operands) {
    values.push_back(nullptr);
    if (arg.isNumber()) continue;
    const Tensor& tensor = arg.tensor();
    Result<Value*> value = valueOf(tensor, user, loc);
    if (value)
      values.back() = *value;
    else if (tensor.failure_ && tensor.function_ == number_)
      return tensor;
    else
      return reject(value.takeError());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i]) continue;
    Result<Value*> value = number(op.operands[i].number(), like->tensor().dtype(), user, loc);
    if (!value) return reject(value.takeError());
    values[i] = *value;
  }
  return values;
}

std::vector<Tensor> Recorder::append(const Loc& loc, Emission emission, int count) {
  auto values = operandsOf(emission, loc);
  if (auto* silenced = std::get_if<Tensor>(&values)) return repeated(*silenced, count);
  OperandList operands;
  if (!emission.callee.empty()) operands.push_back(Operand::symbol(emission.callee));
  for (Value* value : std::get<0>(values)) operands.push_back(Operand::of(value));
  builder_.setLoc(loc).setHint(emission.hint);
  Result<Op*> made = builder_.tryCreate(emission.code, std::move(operands), std::move(emission.attrs),
                                        std::move(emission.declared));
  if (!made) return repeated(reject(made.takeError()), count);
  std::vector<Tensor> out;
  for (const auto& result : (*made)->results) {
    if (!emission.hint.empty()) hints_[result.get()] = emission.hint;
    out.push_back(handle(result.get()));
  }
  return out;
}

std::vector<Tensor> Recorder::emitAll(const Site& at, Emission op, int count) {
  const Site& site = CallSite::of(at);
  if (activeRecorder) return activeRecorder->append(locOf(site), std::move(op), count);
  for (const Arg& arg : op.operands)
    if (!arg.isNumber() && arg.tensor().failure_) return repeated(arg.tensor(), count);
  return repeated(fail(site, "{}: operations need a trace; call them from a function given to trace()",
                       info(op.code).name),
                  count);
}

Tensor Recorder::emit(const Site& site, Emission op) {
  const std::string_view name = info(op.code).name;
  const std::vector<Tensor> made = emitAll(site, std::move(op), 1);
  return made.empty() ? fail(site, "{} gives no value to a model", name) : made.front();
}

Tensor Recorder::readStorage(ItemKind kind, const std::string& name, const Type& type, const Loc& loc) {
  Value*& value = reads_[name];
  if (value) return handle(value);
  builder_.setLoc(loc).setHint(name);
  value = builder_
              .create(kind == ItemKind::param ? Opcode::param : Opcode::state, {Operand::symbol(name)}, {},
                      {type})
              ->result();
  hints_[value] = name;
  return handle(value);
}

Tensor Recorder::read(const ParamNode* param, const Site& at) {
  const Site& site = CallSite::of(at);
  if (!param) return fail(site, "an empty Param is read; declare it with param(name, shape)");
  if (!activeRecorder) return fail(site, "parameter '{}' is read outside a trace", param->name);
  if (param->failed) {
    Tensor silent;
    silent.function_ = activeRecorder->number_;
    silent.failure_ = shared(failAt(param->loc, "parameter '{}' is not declared", param->name));
    return silent;
  }
  if (const std::string* path = valueIn(activeRecorder->names_.paths, param))
    return activeRecorder->readStorage(param->trained ? ItemKind::param : ItemKind::state, *path, param->type,
                                       locOf(site));
  return activeRecorder->reject(failAt(locOf(site),
                                       "parameter '{}' is not part of the model that is traced; declare its "
                                       "module with child(name, module)",
                                       param->name)
                                    .note(param->loc, "it was declared here"));
}

Tensor Recorder::argument(const Key& name, const Dims& shape, DType dtype, int batch,
                          const std::vector<std::string>& dims) {
  Loc loc = locOf(CallSite::of(name.site));
  if (!isSymbolName(name.text)) return reject(failAt(loc, "'{}' is not a valid name of an input", name.text));
  Result<Type> type = tensorType(dtype, shape, loc);
  if (!type) return reject(type.takeError());
  for (size_t i = 0; i < func_.body.args.size(); ++i) {
    Value& own = *func_.body.args[i];
    if (own.name != name.text) continue;
    if (i < firstArg_ && own.type == *type) return handle(&own);
    return reject(failAt(loc, i < firstArg_
                                  ? fmt::format("@{} has an input '{}' already, which is {} and not {}",
                                                func_.name, name.text, own.type.str(), type->str())
                                  : fmt::format("@{} has two inputs named '{}'", func_.name, name.text))
                      .note(own.loc, "it was declared here"));
  }
  if (batch < -1 || batch >= type->rank())
    return reject(failAt(loc, "input '{}': the batch axis {} is none of {}", name.text, batch, type->str()));
  if (batch >= 0 && !dims.empty())
    return reject(failAt(loc, "input '{}': batch is given besides dims; name the batch in dims", name.text));
  Value* arg = func_.body.addArg(*type, builder_.names().unique(name.text));
  arg->name = name.text;  // a value of this name is renamed when the function ends
  arg->loc = loc;
  if (batch >= 0) arg->attrs = {{"batch", Attr::of(batch)}};
  if (!dims.empty()) arg->attrs = {{"dims", dimsAttr(dims)}};
  return handle(arg);
}

Tensor Recorder::storage(ItemKind kind, const Key& name, const Dims& shape, DType dtype,
                         const std::optional<AttrList>& attrs, const AttrList& fresh) {
  Loc loc = locOf(CallSite::of(name.site));
  if (!isSymbolName(name.text))
    return reject(failAt(loc, "'{}' is not a valid name of a {}", name.text, tg::name(kind)));
  Result<Type> type = tensorType(dtype, shape, loc);
  if (!type) return reject(type.takeError());
  Item* item = module_.storage(name.text);
  if (!item) item = declareStorage(module_, kind, name.text, *type, attrs.value_or(fresh), loc);
  bool same = item->kind == kind && item->type == *type && (!attrs || *attrs == item->attrs);
  if (!same)
    return reject(failAt(loc, "@{} is declared as a {} {} already, with other properties", name.text,
                         tg::name(item->kind), item->type.str())
                      .note(item->loc, "declared here"));
  return readStorage(kind, name.text, *type, loc);
}

Tensor Recorder::key(const Site& at) {
  const Site& site = CallSite::of(at);
  if (!activeRecorder) return fail(site, "random operations need a trace");
  Recorder& self = *activeRecorder;
  if (!self.key_) {
    self.key_ = self.func_.body.addArg(Type::tensor(DType::i32, {2}), "");
    std::string name = "rng";
    for (int next = 2; self.func_.arg(name); ++next) name = fmt::format("rng_{}", next);
    self.key_->name = name;
    self.key_->loc = locOf(site);
    self.key_->attrs = {{"host", Attr::string("rng")}};
  }
  return self.handle(self.key_);
}

Tensor Recorder::name(std::string name, const Tensor& tensor) {
  if (tensor.valid() && tensor.value_->def) given_[tensor.value_] = std::move(name);
  return tensor;
}

Tensor Recorder::capture(const Key& name, const Arg& value) {
  Loc loc = locOf(CallSite::of(name.site));
  auto values = operandsOf({.code = Opcode::capture, .operands = {value}}, loc);
  if (auto* silenced = std::get_if<Tensor>(&values)) return *silenced;
  auto [first, added] = captures_.emplace(name.text, loc);
  if (!added)
    return reject(failAt(loc, "tg.capture [capture.c1]: '{}' is captured twice in @{}", name.text, func_.name)
                      .note(first->second, "the first capture"));
  append(loc, {.code = Opcode::capture, .operands = {value}, .attrs = {{"name", Attr::string(name.text)}}},
         0);
  Value* captured = std::get<0>(values).front();
  if (isSymbolName(name.text) && captured->def) given_.try_emplace(captured, name.text);
  return value.tensor();
}

void Recorder::update(const Arg& storage, const Arg& value) {
  Loc loc = locOf(CallSite::of(storage.site()));
  auto values = operandsOf({.code = Opcode::update, .operands = {storage, value}}, loc);
  if (std::holds_alternative<Tensor>(values)) return;
  auto [target, source] = std::pair(std::get<0>(values)[0], std::get<0>(values)[1]);
  const Op* read = target->def;
  if (!read || (read->code != Opcode::param && read->code != Opcode::state)) {
    reject(failAt(loc, "update: the first operand is not a parameter or state")
               .note(target->loc, "it was made here"));
    return;
  }
  builder_.setLoc(loc);
  OperandList operands{Operand::symbol(read->operands[0].text), Operand::of(source)};
  if (auto made = builder_.tryCreate(Opcode::update, std::move(operands)); !made) {
    reject(made.takeError());
    return;
  }
  auto [first, added] = updates_.emplace(read->operands[0].text, loc);
  if (!added)
    reject(failAt(loc, "tg.update [update.c3]: @{} has a second update in @{}", first->first, func_.name)
               .note(first->second, "the first update"));
}

Tensor Recorder::hinted(const Module& module, const Tensor& tensor) {
  if (!activeRecorder || !tensor.valid() || !tensor.value_->def) return tensor;
  if (const std::string* path = valueIn(activeRecorder->names_.paths, module.node().get()))
    activeRecorder->hints_[tensor.value_] = *path;
  return tensor;
}

/// Moves new reads of parameters and states to the front of the new ops, in the module's order. Otherwise their order
/// would depend on the order in which a C++ compiler evaluates arguments.
void Recorder::readsFirst() {
  std::unordered_map<std::string, size_t> places;
  for (const auto& item : module_.items) places.emplace(item->name, places.size());
  size_t rest = places.size();
  auto place = [&](const Op* op) {
    bool read = readsSymbol(*op);
    return read ? places.at(op->operands[0].text) : rest;
  };
  OpList& ops = func_.body.ops;
  std::vector<Op*> order = ops.all();
  order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(firstOp_));
  std::ranges::stable_sort(order, [&](const Op* a, const Op* b) { return place(a) < place(b); });
  for (Op* op : order) ops.push_back(ops.take(op));
}

void Recorder::nameValues(const std::vector<std::pair<std::string, Tensor>>& results) {
  for (const auto& [result, tensor] : results)
    if (tensor.value_->def && isSymbolName(result)) given_.try_emplace(tensor.value_, result);
  const std::vector<Op*> all = func_.body.ops.all();
  const std::span<Op* const> ops(all);
  NameTable names;
  for (const auto& arg : func_.body.args) names.take(arg->name);
  for (const Op* op : ops.first(firstOp_))
    for (const auto& value : op->results) names.take(value->name);
  for (bool author : {true, false})
    for (Op* op : ops.subspan(firstOp_))
      for (const auto& value : op->results) {
        auto given = given_.find(value.get());
        if ((given != given_.end()) != author) continue;
        auto hint = hints_.find(value.get());
        std::string_view own = op->info().name;
        value->name = names.unique(author                 ? std::string_view(given->second)
                                   : hint != hints_.end() ? std::string_view(hint->second)
                                                          : own.substr(own.find('.') + 1));
      }
}

void Recorder::finish(const std::vector<std::pair<std::string, Tensor>>& results, const Site& site,
                      const Op* before) {
  Loc loc = locOf(site);
  OperandList operands;
  if (before) operands = before->operands;
  for (const auto& [name, tensor] : results) {
    Result<Value*> value = valueOf(tensor, "return", loc);
    if (!value) {
      if (!tensor.failure_ || tensor.function_ != number_) reject(value.takeError());
      continue;
    }
    bool twice = std::ranges::any_of(func_.results,
                                     [&name = name](const NamedType& other) { return other.name == name; });
    if (twice || !isWord(name))
      reject(failAt(loc, twice ? fmt::format("@{} has two results named '{}'", func_.name, name)
                               : fmt::format("'{}' is not a valid name of a result", name)));
    operands.push_back(Operand::of(*value));
    func_.results.push_back({name, (*value)->type});
  }
  if (results.empty() && !before) reject(failAt(loc, "@{} has no result", func_.name));
  if (!errors_.empty()) return;
  builder_.setLoc(before ? before->loc : loc).create(Opcode::return_, std::move(operands));
  readsFirst();
  nameValues(results);
}

}  // namespace tg::nn
