// SPDX-License-Identifier: Apache-2.0
// The grammar of modules and their items.
#include "ir/parser.h"

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/kernel/axis_names.h"
#include "ir/parser_rules.h"
#include "ir/text.h"

namespace tg {

Result<void> Parser::define(Value* value, const Loc& loc) {
  auto [it, fresh] = scope_.emplace(value->name, value);
  if (!fresh)
    return failAt(loc, "redefinition of %{}", value->name).note(it->second->loc, "first defined here");
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

/// Parses an optional trailing `loc(…)`, which replaces the location in this text.
Result<void> Parser::location(Loc& loc) {
  if (!lex_.peek().isWord("loc")) return {};
  lex_.next();
  TG_CHECK(expect("("));
  TG_TRY(Loc parsed, locationBody(0));
  TG_CHECK(expect(")"));
  loc = parsed;
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
    std::vector<std::string> axes;
    TG_TRY(Type type, parseType(item.kind == ItemKind::kernel ? &axes : nullptr));
    Value* value = item.body.addArg(type, std::move(argName));
    value->loc = loc;
    if (accept("{")) {
      TG_TRY(value->attrs, parseAttrMembers());
    }
    setAxisNames(*value, axes);
    if (accept("->")) {
      TG_TRY(value->place, place());
    }
    TG_CHECK(define(value, loc));
  } while (accept(","));
  return expect(")");
}

/// Parses the end of a function or kernel: attributes and body.
Result<void> Parser::attributesAndBody(Item& item) {
  if (lex_.peek().isWord("attributes")) {
    lex_.next();
    TG_CHECK(expect("{"));
    Loc loc = here();
    TG_TRY(AttrList attrs, parseAttrMembers());
    for (NamedAttr& attr : attrs) {
      if (find(item.attrs, attr.name)) return failAt(loc, "attribute '{}' is given twice", attr.name);
      item.attrs.push_back(std::move(attr));
    }
  }
  TG_CHECK(expect("{"));
  TG_CHECK(block(item.body));
  return location(item.loc);
}

Result<void> Parser::func() {
  Item* item = module_->items.back().get();
  TG_CHECK(arguments(*item));
  if (accept("->")) {
    TG_CHECK(expect("("));
    do {
      NamedType result;
      TG_TRY(result.name, expectWord("a result's name"));
      if (!accept(":"))
        return expected(fmt::format("':' and a type behind the result's name '{}'", result.name));
      TG_TRY(result.type, parseType());
      item->results.push_back(std::move(result));
    } while (accept(","));
    TG_CHECK(expect(")"));
  }
  if (isKernelFunc(*item)) expressions_ = Expressions::ops;
  return attributesAndBody(*item);
}

Result<void> Parser::kernel() {
  Item* item = module_->items.back().get();
  TG_CHECK(arguments(*item));
  if (!lex_.peek().isWord("workgroup")) return expected("'workgroup(…)'");
  lex_.next();
  TG_CHECK(expect("("));
  for (int axis = 0; axis < 3; ++axis) {
    TG_TRY(item->workgroup[axis], constantInt("a workgroup extent"));
    if (!accept(",")) break;
  }
  TG_CHECK(expect(")"));
  if (!lex_.peek().isWord("grid")) return expected("'grid(…)'");
  expressions_ = Expressions::grid;
  TG_TRY(Operand grid, operand());
  item->grid = std::move(grid.items);
  expressions_ = Expressions::ops;
  if (lex_.peek().isWord("vjp")) {
    lex_.next();
    TG_CHECK(expect("("));
    TG_TRY(std::string gradient, expectSymbol("the kernel that is the gradient"));
    item->attrs.push_back({"vjp", Attr::symbol(std::move(gradient))});
    TG_CHECK(expect(")"));
  }
  return attributesAndBody(*item);
}

Result<void> Parser::binary() {
  Item* item = module_->items.back().get();
  if (accept("{")) {
    TG_TRY(item->attrs, parseAttrMembers());
  }
  if (lex_.peek().kind != Token::Kind::string) return expected("the SPIR-V as a base64 string");
  auto bytes = base64Decode(lex_.peek().text);
  if (!bytes || bytes->size() % 4 != 0) return errorHere("the binary is not base64 of whole 32-bit words");
  lex_.next();
  item->code.resize(bytes->size() / 4);
  std::ranges::copy(*bytes, reinterpret_cast<char*>(item->code.data()));
  return location(item->loc);
}

Result<void> Parser::storageItem(ItemKind kind) {
  Item* item = module_->items.back().get();
  TG_CHECK(expect(":"));
  if (kind == ItemKind::buffer) {
    TG_TRY(item->bytes, expectInt("a byte size", kMaxBytes));
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
  TG_TRY(std::string kindName, expectWord("a module item (param state func kernel buffer binary const)"));
  std::optional<ItemKind> kind;
  for (int k = 0; k <= static_cast<int>(ItemKind::binary); ++k)
    if (kindName == name(static_cast<ItemKind>(k))) kind = static_cast<ItemKind>(k);
  if (!kind)
    return failAt(loc, "'{}' is not a module item; known: param state func kernel buffer binary const",
                  kindName.substr(0, 60));
  Loc nameLoc = here();
  TG_TRY(std::string itemName, expectSymbol("the item's name"));
  const bool storage = isStorage(*kind);  // which share their names
  if (const Item* other = storage ? module_->storage(itemName) : module_->find(*kind, itemName))
    return failAt(nameLoc, "redefinition of @{}", itemName).note(other->loc, "first defined here");
  Item* item = module_->add(*kind, std::move(itemName));
  item->loc = loc;
  switch (*kind) {
  case ItemKind::func:
  case ItemKind::kernel: return code(*item);
  case ItemKind::binary: return binary();
  default: return storageItem(*kind);
  }
}

/// Parses a function or a kernel, which has its own scopes.
Result<void> Parser::code(Item& item) {
  item_ = &item;
  TG_CHECK(item.kind == ItemKind::func ? func() : kernel());
  nameValues(item);
  scope_.clear();
  defined_.clear();
  extents_.clear();
  item_ = nullptr;
  expressions_ = Expressions::none;
  return {};
}

Result<std::unique_ptr<Module>> Parser::module() {
  module_ = std::make_unique<Module>();
  module_->loc = here();
  if (!lex_.peek().isWord("module")) return expected("'module'");
  lex_.next();
  TG_TRY(module_->name, expectSymbol("the module's name, as @m,"));
  if (lex_.peek().isWord("stage")) {
    lex_.next();
    TG_CHECK(expect("("));
    Loc loc = here();
    TG_TRY(std::string stageName, expectWord("a stage"));
    bool known = false;
    for (int s = 0; s <= static_cast<int>(Stage::spirv); ++s)
      if (stageName == name(static_cast<Stage>(s))) module_->stage = static_cast<Stage>(s), known = true;
    if (!known)
      return failAt(loc, "'{}' is not a stage; known: tensor fused planned kernel spirv", stageName);
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
    TG_CHECK(lex_.peek().isWord("const") ? constantStatement() : item());
  }
  if (lex_.peek().kind != Token::Kind::end) return expected("the end of the text after the module");
  return std::move(module_);
}

Result<std::unique_ptr<Module>> parse(std::string_view text, std::string fileName) {
  constexpr size_t kMaxText = size_t{1} << 31;
  if (text.size() >= kMaxText) return fail("{}: the file is larger than 2 GiB", fileName);
  auto file = std::make_shared<SourceFile>(SourceFile{std::move(fileName), std::string(text)});
  return Parser(std::move(file)).module();
}

Result<std::unique_ptr<Module>> parseFile(const std::string& path) {
  const bool piped = path == "-";
  TG_TRY(const std::string text, piped ? readText(0, "standard input") : readTextFile(path));
  return parse(text, piped ? "<stdin>" : path);
}

}  // namespace tg
