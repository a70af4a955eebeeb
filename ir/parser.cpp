#include "ir/parser.h"

#include <xxhash.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <unordered_map>

#include "ir/base64.h"
#include "ir/parse_core.h"

namespace tg {
namespace {

using table::Slot;
using table::SlotKind;

class Parser : ParseCore {
 public:
  using ParseCore::ParseCore;
  Result<std::unique_ptr<Module>> module();

 private:
  using Scope = std::unordered_map<std::string_view, Value*>;

  Result<void> item();
  Result<void> storageItem(ItemKind kind);
  Result<void> func();
  Result<void> kernel();
  Result<void> binary();
  Result<void> arguments(Item& item);

  Result<void> block(Block& block);
  Result<std::unique_ptr<Op>> op();
  Result<void> resultNames(Op& op);
  Result<void> operandList(Op& op);
  Result<void> positional(Op& op, const Slot& slot);
  Result<Operand> operand(int depth = 0);
  Result<Operand> literalToken();
  Result<Operand> binding();
  Result<std::vector<Operand>> operandsUntil(std::string_view close, int depth);
  Result<void> types(Op& op);
  Result<void> places(Op& op);
  Result<Place> place();
  Result<void> regions(Op& op);
  Result<void> typeBindings(Op& op);
  Result<void> location(Loc& loc);
  Result<Loc> locationBody(int depth);
  bool startsAttributes();
  bool startsOperand() const;
  bool startsResults();
  Result<void> define(Value* value, const Loc& loc);
  Result<Value*> lookup();

  std::unique_ptr<Module> module_;
  Scope scope_;
  std::vector<std::string_view> defined_;               // names in scope, newest last, to undo
  std::vector<std::unique_ptr<Value>> pending_;         // arguments bound by the op being parsed
  std::vector<Value*> pendingIter_;
  int depth_ = 0;
};

Result<void> Parser::define(Value* value, const Loc& loc) {
  auto [it, fresh] = scope_.emplace(value->name, value);
  if (!fresh)
    return std::move(failAt(loc, fmt::format("redefinition of %{}", value->name))).note(it->second->loc, "first defined here");
  defined_.push_back(value->name);
  return {};
}

Result<Value*> Parser::lookup() {
  if (lex_.peek().kind != Token::Kind::value) return expected("a value");
  auto it = scope_.find(lex_.peek().text);
  if (it == scope_.end()) return errorHere(fmt::format("%{} is not defined here", lex_.peek().text));
  lex_.next();
  return it->second;
}

Result<Loc> Parser::locationBody(int depth) {
  if (depth > kMaxNesting) return errorHere("locations are nested too deeply");
  if (lex_.peek().kind == Token::Kind::string) {
    LocNode node;
    auto file = std::make_shared<SourceFile>();
    file->name = unescape(lex_.next().text);
    node.file = std::move(file);
    TG_CHECK(expect(":"));
    TG_TRY(int64_t line, expectInt("a line"));
    TG_CHECK(expect(":"));
    TG_TRY(int64_t col, expectInt("a column"));
    node.line = static_cast<uint32_t>(line);
    node.col = static_cast<uint32_t>(col);
    return Loc(std::make_shared<const LocNode>(std::move(node)));
  }
  TG_TRY(std::string word, expectWord("a location"));
  if (word == "unknown") return Loc();
  TG_CHECK(expect("("));
  TG_TRY(Loc origin, locationBody(depth + 1));
  TG_CHECK(expect(")"));
  return derivedLoc(std::move(word), origin);
}

/// An optional trailing `loc(…)`, which replaces the place in this text.
Result<void> Parser::location(Loc& loc) {
  if (!lex_.peek().isWord("loc")) return {};
  lex_.next();
  TG_CHECK(expect("("));
  TG_TRY(Loc parsed, locationBody(0));
  TG_CHECK(expect(")"));
  loc = parsed;
  return {};
}

bool Parser::startsAttributes() {
  if (!lex_.peek().is("{")) return false;
  uint32_t offset = lex_.peek().offset;
  lex_.next();
  bool word = lex_.peek().kind == Token::Kind::word;
  if (word) lex_.next();
  bool attributes = word && lex_.peek().is("=");
  lex_.rewind(offset);
  return attributes;
}

bool Parser::startsOperand() const {
  const Token& token = lex_.peek();
  return token.kind == Token::Kind::value || token.kind == Token::Kind::number || token.kind == Token::Kind::symbol ||
         token.is("[") || token.isWord("inf") || token.isWord("nan") || token.isWord("true") || token.isWord("false") || token.isWord("dense");
}

/// Whether the results of the next op begin here, `%r =` or `%r, …`, after an op without types.
bool Parser::startsResults() {
  if (lex_.peek().is("[")) return true;
  return lex_.peek().kind == Token::Kind::value && (peekSecond().is("=") || peekSecond().is(","));
}

Result<Operand> Parser::literalToken() {
  const Token token = lex_.next();
  if (token.text == "inf") return Operand::literal(std::numeric_limits<double>::infinity());
  if (token.text == "nan") return Operand::literal(std::numeric_limits<double>::quiet_NaN());
  if (token.text == "true" || token.text == "false") return Operand::literal(static_cast<int64_t>(token.text == "true"));
  auto number = parseNumber(token.text);
  if (!number) return failAt(lex_.locAt(token.offset), fmt::format("'{}' is no number", token.text.substr(0, 40)));
  if (!number->isInteger && token.text != "-inf" && std::isinf(static_cast<float>(number->real)))
    return failAt(lex_.locAt(token.offset), fmt::format("'{}' is too large for f32; write inf if that is meant", token.text.substr(0, 40)));
  // Literals are rounded to f32 where they are read, so that every later stage sees the same value.
  return number->isInteger ? Operand::literal(number->integer)
                           : Operand::literal(static_cast<double>(static_cast<float>(number->real)));
}

Result<std::vector<Operand>> Parser::operandsUntil(std::string_view close, int depth) {
  std::vector<Operand> out;
  if (accept(close)) return out;
  do {
    TG_TRY(Operand item, operand(depth + 1));
    out.push_back(std::move(item));
  } while (accept(","));
  TG_CHECK(expect(close));
  return out;
}

/// `%a = source`: the target becomes an argument of the op's region.
Result<Operand> Parser::binding() {
  Loc loc = here();
  auto target = std::make_unique<Value>();
  target->name = std::string(lex_.next().text);
  target->loc = loc;
  TG_CHECK(expect("="));
  TG_TRY(Operand source, operand());
  pending_.push_back(std::move(target));
  return Operand::binding(pending_.back().get(), std::move(source));
}

Result<Operand> Parser::operand(int depth) {
  if (depth > kMaxNesting) return errorHere("operands are nested too deeply");
  const Token token = lex_.peek();
  if (token.kind == Token::Kind::value) {
    if (peekSecond().is("=")) return binding();
    TG_TRY(Value * value, lookup());
    if (!accept("[")) return Operand::of(value);
    TG_TRY(std::vector<Operand> indices, operandsUntil("]", depth));
    return Operand::element(value, std::move(indices));
  }
  if (token.kind == Token::Kind::symbol) {
    lex_.next();
    if (!accept("[")) return Operand::symbol(std::string(token.text));
    TG_TRY(int64_t offset, expectInt("a byte offset"));
    TG_CHECK(expect(":"));
    TG_TRY(int64_t bytes, expectInt("a byte length"));
    TG_CHECK(expect("]"));
    return Operand::range(std::string(token.text), offset, bytes);
  }
  if (accept("[")) {
    Operand group;
    group.kind = Operand::Kind::group;
    TG_TRY(group.items, operandsUntil("]", depth));
    return group;
  }
  if (token.kind == Token::Kind::word && peekSecond().is("(")) {
    std::string word(lex_.next().text);
    lex_.next();
    TG_TRY(std::vector<Operand> args, operandsUntil(")", depth));
    return Operand::keyword(std::move(word), std::move(args));
  }
  if (startsOperand()) return literalToken();
  return expected("an operand");
}

/// One operand of a slot that stands between commas.
Result<void> Parser::positional(Op& op, const Slot& slot) {
  TG_TRY(Operand parsed, operand());
  using Kind = Operand::Kind;
  bool fits = true;
  switch (slot.kind) {
    case SlotKind::symbol: fits = parsed.kind == Kind::symbol; break;
    case SlotKind::element: fits = parsed.kind == Kind::element; break;
    case SlotKind::binding: fits = parsed.kind == Kind::binding; break;
    case SlotKind::literal: fits = parsed.kind == Kind::literal || (parsed.kind == Kind::keyword && parsed.text == "dense"); break;
    default: fits = parsed.kind == Kind::value || parsed.kind == Kind::literal; break;
  }
  if (!fits) return failAt(op.loc, fmt::format("{}: operand '{}' has the wrong form", op.info().name, slot.name));
  op.operands.push_back(std::move(parsed));
  return {};
}

Result<void> Parser::operandList(Op& op) {
  bool first = true;
  auto wrongCount = [&](std::string_view slot) {
    return failAt(op.loc, fmt::format("{}: operand '{}' is missing", op.info().name, slot));
  };
  for (const Slot& slot : op.info().slots) {
    switch (slot.kind) {
      case SlotKind::keyword:
      case SlotKind::args:
        if (lex_.peek().isWord(slot.name)) {
          TG_TRY(Operand parsed, operand());
          op.operands.push_back(std::move(parsed));
        } else if (slot.kind == SlotKind::args) {
          return wrongCount(slot.name);
        }
        break;
      case SlotKind::bindings: {
        TG_CHECK(expect("("));
        TG_TRY(std::vector<Operand> bound, operandsUntil(")", 0));
        for (Operand& operand : bound) {
          if (operand.kind != Operand::Kind::binding) return failAt(op.loc, fmt::format("{}: expected bindings '%a = %x'", op.info().name));
          const Operand& source = operand.items[0];
          bool good = source.kind == Operand::Kind::value || (source.kind == Operand::Kind::group && !source.items.empty());
          for (const Operand& member : source.items) good = good && member.kind == Operand::Kind::value;
          if (!good) return failAt(operand.value->loc, fmt::format("{}: %{} is bound to neither a value nor a group [%x, …] of values", op.info().name, operand.value->name));
          op.operands.push_back(std::move(operand));
        }
        break;
      }
      case SlotKind::optional:
        if (accept(",")) TG_CHECK(positional(op, slot));
        break;
      case SlotKind::values:
        // `%y =` after an op without operands begins the next op.
        while (first ? startsOperand() && !(lex_.peek().kind == Token::Kind::value && peekSecond().is("=")) : accept(",")) {
          TG_CHECK(positional(op, slot));
          first = false;
        }
        break;
      default:
        if (first ? !startsOperand() : !accept(",")) return wrongCount(slot.name);
        TG_CHECK(positional(op, slot));
        first = false;
    }
  }
  if (lex_.peek().is(",") || (startsOperand() && !startsResults()))
    return failAt(op.loc, fmt::format("{}: too many operands; it takes {}", op.info().name, op.info().slots.size()));
  return {};
}

Result<void> Parser::resultNames(Op& op) {
  auto one = [&]() -> Result<void> {
    if (lex_.peek().kind != Token::Kind::value) return expected("a result name");
    op.results.push_back(std::make_unique<Value>());
    Value& value = *op.results.back();
    value.loc = here();
    value.name = std::string(lex_.next().text);
    value.def = &op;
    return {};
  };
  bool anyGroup = false;
  do {
    if (accept("[")) {
      size_t before = op.results.size();
      do TG_CHECK(one());
      while (accept(","));
      TG_CHECK(expect("]"));
      op.groups.push_back(static_cast<int>(op.results.size() - before));
      anyGroup = true;
    } else {
      TG_CHECK(one());
      op.groups.push_back(0);
    }
  } while (accept(","));
  if (!anyGroup) op.groups.clear();
  return expect("=");
}

Result<void> Parser::types(Op& op) {
  if (!accept(":")) {
    if (op.results.empty()) return {};
    // When the line is over, the next one is not to blame.
    if (placeOf(here())->line != placeOf(op.loc)->line)
      return failAt(op.loc, fmt::format("{}: expected ':' and the result types at the end", op.info().name));
    return expected("':' and the result types");
  }
  std::vector<Type> parsed;
  do {
    if (accept("[")) {
      do {
        TG_TRY(Type type, parseType());
        parsed.push_back(type);
      } while (accept(","));
      TG_CHECK(expect("]"));
    } else {
      TG_TRY(Type type, parseType());
      parsed.push_back(type);
    }
  } while (accept(","));
  if (op.info().has(table::terminator)) {
    // A terminator prints its operands' types.
    if (parsed.size() != op.operands.size())
      return failAt(op.loc, fmt::format("{}: {} operands but {} types", op.info().name, op.operands.size(), parsed.size()));
    for (size_t i = 0; i < parsed.size(); ++i)
      if (op.operands[i].value && !(op.operands[i].value->type == parsed[i]))
        return std::move(failAt(op.loc, fmt::format("{}: %{} has type {}, not {}", op.info().name, op.operands[i].value->name,
                                                    op.operands[i].value->type.str(), parsed[i].str())))
            .note(op.operands[i].value->loc, "defined here");
    return {};
  }
  if (parsed.size() != op.results.size())
    return failAt(op.loc, fmt::format("{}: {} results but {} types", op.info().name, op.results.size(), parsed.size()));
  for (size_t i = 0; i < parsed.size(); ++i) op.results[i]->type = parsed[i];
  return {};
}

Result<Place> Parser::place() {
  Place place;
  TG_TRY(place.buffer, expectSymbol("a buffer"));
  TG_CHECK(expect("["));
  TG_TRY(place.offset, expectInt("a byte offset"));
  TG_CHECK(expect("]"));
  for (;;) {
    if (lex_.peek().isWord("inplace")) {
      lex_.next();
      TG_CHECK(expect("("));
      TG_TRY(place.inplace, lookup());
      TG_CHECK(expect(")"));
    } else if (lex_.peek().isWord("pitch")) {
      lex_.next();
      TG_CHECK(expect("("));
      TG_TRY(place.pitch, expectInt("a pitch in elements"));
      TG_CHECK(expect(")"));
    } else {
      return place;
    }
  }
}

Result<void> Parser::places(Op& op) {
  if (!accept("->")) return {};
  size_t next = 0;
  size_t slots = op.groups.empty() ? op.results.size() : op.groups.size();
  for (size_t slot = 0; slot < slots; ++slot) {
    if (slot) TG_CHECK(expect(","));
    TG_TRY(Place at, place());
    int members = op.groups.empty() ? 0 : op.groups[slot];
    if (members == 0) {
      op.results[next++]->place = at;
      continue;
    }
    std::vector<Type> memberTypes;
    for (int m = 0; m < members; ++m) memberTypes.push_back(op.results[next + m]->type);
    std::vector<int64_t> offsets;
    groupBytes(memberTypes, &offsets);
    for (int m = 0; m < members; ++m) {
      Place member = at;
      member.offset += offsets[m];
      op.results[next++]->place = member;
    }
  }
  return {};
}

/// Types of the arguments that the op's bindings define: a source's own, a group's flat tensor, the
/// carried values' result types, u32 for a loop index.
Result<void> Parser::typeBindings(Op& op) {
  size_t carried = 0;
  auto typeOne = [&](Operand& bound, bool iter) {
    Operand& source = bound.items[0];
    if (op.code == Opcode::k_for)
      bound.value->type = iter && carried < op.results.size() ? op.results[carried++]->type : Type::scalar(DType::u32);
    else if (source.kind == Operand::Kind::group) {
      std::vector<Type> members;
      for (Operand& member : source.items)
        if (member.value) members.push_back(member.value->type);
      bound.value->type = Type::tensor(members.empty() ? DType::f32 : members[0].dtype, {groupBytes(members) / 4});
    } else if (source.value) {
      bound.value->type = source.value->type;
    }
  };
  for (Operand& operand : op.operands) {
    if (operand.kind == Operand::Kind::binding) typeOne(operand, false);
    if (operand.kind == Operand::Kind::keyword)
      for (Operand& item : operand.items)
        if (item.kind == Operand::Kind::binding) typeOne(item, true);
  }
  return {};
}

Result<void> Parser::regions(Op& op) {
  std::vector<std::unique_ptr<Value>> bound = std::move(pending_);
  pending_.clear();
  if (op.info().regions == 0) {
    if (!bound.empty()) return failAt(op.loc, fmt::format("{}: takes no bindings", op.info().name));
    return {};
  }
  if (++depth_ > kMaxNesting) return failAt(op.loc, "regions are nested too deeply");
  TG_CHECK(typeBindings(op));
  bool isolated = op.code == Opcode::fused;
  for (int index = 0; index < op.info().regions; ++index) {
    if (index > 0) {
      if (!lex_.peek().isWord("else")) break;
      lex_.next();
    }
    TG_CHECK(expect("{"));
    Scope outer;
    std::vector<std::string_view> outerDefined;
    if (isolated) std::swap(outer, scope_), std::swap(outerDefined, defined_);
    size_t mark = defined_.size();
    op.regions.push_back(std::make_unique<Block>());
    Block& body = *op.regions.back();
    if (index == 0)
      for (auto& value : bound) {
        value->block = &body;
        TG_CHECK(define(value.get(), value->loc));
        body.args.push_back(std::move(value));
      }
    TG_CHECK(block(body));
    while (defined_.size() > mark) scope_.erase(defined_.back()), defined_.pop_back();
    if (isolated) std::swap(outer, scope_), std::swap(outerDefined, defined_);
  }
  --depth_;
  return {};
}

Result<std::unique_ptr<Op>> Parser::op() {
  Loc loc = here();
  auto named = std::make_unique<Op>(Opcode::yield);   // holds the results until the name is known
  if (lex_.peek().kind == Token::Kind::value || lex_.peek().is("[")) TG_CHECK(resultNames(*named));
  Loc nameLoc = here();
  TG_TRY(std::string opName, expectWord("an op"));
  const OpInfo* row = findOp(opName);
  if (!row) {
    std::string_view near = nearestOp(opName);
    return failAt(nameLoc, fmt::format("unknown op '{}'{}", opName.substr(0, 60), near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
  }
  named->code = row->code;
  named->loc = loc;
  std::unique_ptr<Op> op = std::move(named);
  TG_CHECK(operandList(*op));
  if (startsAttributes()) {
    lex_.next();
    TG_TRY(AttrList attrs, parseAttrMembers());
    for (NamedAttr& attr : attrs) op->setAttr(attr.name, std::move(attr.value));
  }
  TG_CHECK(types(*op));
  TG_CHECK(places(*op));
  TG_CHECK(regions(*op));
  TG_CHECK(location(op->loc));
  if (op->code == Opcode::constant && !op->operands.empty() && !op->results.empty() && isFloat(op->result()->type.dtype)) {
    auto toReal = [](Operand& literal) {
      if (literal.isLiteral() && literal.isInteger) literal = Operand::literal(static_cast<double>(literal.integer));
    };
    toReal(op->operands[0]);
    for (Operand& item : op->operands[0].items) toReal(item);
  }
  for (auto& result : op->results) TG_CHECK(define(result.get(), result->loc));
  return op;
}

Result<void> Parser::block(Block& block) {
  while (!accept("}")) {
    if (lex_.peek().kind == Token::Kind::end) return expected("'}'");
    TG_TRY(std::unique_ptr<Op> parsed, op());
    block.ops.push_back(std::move(parsed));
  }
  return {};
}

Result<void> Parser::arguments(Item& item) {
  TG_CHECK(expect("("));
  if (accept(")")) return {};
  do {
    Loc loc = here();
    if (lex_.peek().kind != Token::Kind::value) return expected("an argument");
    std::string argName(lex_.next().text);
    TG_CHECK(expect(":"));
    TG_TRY(Type type, parseType());
    Value* value = item.body.addArg(type, std::move(argName));
    value->loc = loc;
    if (accept("{")) {
      TG_TRY(value->attrs, parseAttrMembers());
    }
    if (accept("->")) {
      TG_TRY(value->place, place());
    }
    TG_CHECK(define(value, loc));
  } while (accept(","));
  return expect(")");
}

Result<void> Parser::func() {
  Item* item = module_->items.back().get();
  TG_CHECK(arguments(*item));
  if (accept("->")) {
    TG_CHECK(expect("("));
    do {
      NamedType result;
      TG_TRY(result.name, expectWord("a result's name"));
      TG_CHECK(expect(":"));
      TG_TRY(result.type, parseType());
      item->results.push_back(std::move(result));
    } while (accept(","));
    TG_CHECK(expect(")"));
  }
  if (lex_.peek().isWord("attributes")) {
    lex_.next();
    TG_CHECK(expect("{"));
    TG_TRY(item->attrs, parseAttrMembers());
  }
  TG_CHECK(expect("{"));
  TG_CHECK(block(item->body));
  return location(item->loc);
}

Result<void> Parser::kernel() {
  Item* item = module_->items.back().get();
  TG_CHECK(arguments(*item));
  if (!lex_.peek().isWord("workgroup")) return expected("'workgroup(…)'");
  lex_.next();
  TG_CHECK(expect("("));
  for (int axis = 0; axis < 3; ++axis) {
    TG_TRY(item->workgroup[axis], expectInt("a workgroup extent"));
    if (!accept(",")) break;
  }
  TG_CHECK(expect(")"));
  if (!lex_.peek().isWord("grid")) return expected("'grid(…)'");
  TG_TRY(Operand grid, operand());
  item->grid = std::move(grid.items);
  if (lex_.peek().isWord("attributes")) {
    lex_.next();
    TG_CHECK(expect("{"));
    TG_TRY(item->attrs, parseAttrMembers());
  }
  TG_CHECK(expect("{"));
  TG_CHECK(block(item->body));
  return location(item->loc);
}

Result<void> Parser::binary() {
  Item* item = module_->items.back().get();
  if (accept("{")) {
    TG_TRY(item->attrs, parseAttrMembers());
  }
  if (lex_.peek().kind != Token::Kind::string) return expected("the SPIR-V as a base64 string");
  auto bytes = base64Decode(lex_.peek().text);
  if (!bytes || bytes->size() % 4 != 0) return errorHere("the binary is no base64 of whole 32-bit words");
  lex_.next();
  item->code.resize(bytes->size() / 4);
  std::copy(bytes->begin(), bytes->end(), reinterpret_cast<char*>(item->code.data()));
  return location(item->loc);
}

Result<void> Parser::storageItem(ItemKind kind) {
  Item* item = module_->items.back().get();
  TG_CHECK(expect(":"));
  if (kind == ItemKind::buffer) {
    TG_TRY(item->bytes, expectInt("a byte size"));
    return location(item->loc);
  }
  TG_TRY(item->type, parseType());
  if (accept("{")) {
    TG_TRY(item->attrs, parseAttrMembers());
  }
  if (accept("->")) {
    TG_TRY(item->place, place());
  }
  return location(item->loc);
}

Result<void> Parser::item() {
  Loc loc = here();
  TG_TRY(std::string kindName, expectWord("a module item (param state func kernel buffer binary)"));
  std::optional<ItemKind> kind;
  for (int k = 0; k <= static_cast<int>(ItemKind::binary); ++k)
    if (kindName == name(static_cast<ItemKind>(k))) kind = static_cast<ItemKind>(k);
  if (!kind)
    return failAt(loc, fmt::format("'{}' is no module item; known: param state func kernel buffer binary", kindName.substr(0, 60)));
  Loc nameLoc = here();
  TG_TRY(std::string itemName, expectSymbol("the item's name"));
  auto sharesNames = [](ItemKind a, ItemKind b) {
    auto storage = [](ItemKind k) { return k == ItemKind::param || k == ItemKind::state; };
    return a == b || (storage(a) && storage(b));
  };
  for (const auto& other : module_->items)
    if (other->name == itemName && sharesNames(other->kind, *kind))
      return std::move(failAt(nameLoc, fmt::format("redefinition of @{}", itemName))).note(other->loc, "first defined here");
  Item* item = module_->add(*kind, std::move(itemName));
  item->loc = loc;
  scope_.clear();
  defined_.clear();
  switch (*kind) {
    case ItemKind::func: return func();
    case ItemKind::kernel: return kernel();
    case ItemKind::binary: return binary();
    default: return storageItem(*kind);
  }
}

Result<std::unique_ptr<Module>> Parser::module() {
  module_ = std::make_unique<Module>();
  module_->loc = here();
  if (!lex_.peek().isWord("module")) return expected("'module'");
  lex_.next();
  TG_TRY(module_->name, expectSymbol("the module's name"));
  if (lex_.peek().isWord("stage")) {
    lex_.next();
    TG_CHECK(expect("("));
    Loc loc = here();
    TG_TRY(std::string stageName, expectWord("a stage"));
    bool known = false;
    for (int s = 0; s <= static_cast<int>(Stage::spirv); ++s)
      if (stageName == name(static_cast<Stage>(s))) module_->stage = static_cast<Stage>(s), known = true;
    if (!known) return failAt(loc, fmt::format("'{}' is no stage; known: tensor fused planned kernel spirv", stageName));
    TG_CHECK(expect(")"));
  }
  if (lex_.peek().isWord("attributes")) {
    lex_.next();
    TG_CHECK(expect("{"));
    TG_TRY(module_->attrs, parseAttrMembers());
  }
  TG_CHECK(expect("{"));
  while (!accept("}")) {
    if (lex_.peek().kind == Token::Kind::end) return expected("'}'");
    TG_CHECK(item());
  }
  if (lex_.peek().kind != Token::Kind::end) return expected("the end of the text after the module");
  return std::move(module_);
}

}  // namespace

Result<std::unique_ptr<Module>> parse(std::string_view text, std::string fileName) {
  constexpr size_t kMaxText = size_t{1} << 31;
  if (text.size() >= kMaxText) return fail(fmt::format("{}: larger than 2 GiB", fileName));
  auto file = std::make_shared<SourceFile>(SourceFile{std::move(fileName), std::string(text)});
  return Parser(std::move(file)).module();
}

Result<std::unique_ptr<Module>> parseFile(const std::string& path) {
  std::string text;
  if (path == "-") {
    char chunk[65536];
    size_t count = 0;
    while ((count = std::fread(chunk, 1, sizeof chunk, stdin)) > 0) text.append(chunk, count);
    return parse(text, "<stdin>");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(fmt::format("{}: cannot be opened", path));
  text.assign(std::istreambuf_iterator<char>(in), {});
  if (in.bad() || (text.empty() && !in.eof())) return fail(fmt::format("{}: cannot be read", path));
  return parse(text, path);
}

}  // namespace tg
