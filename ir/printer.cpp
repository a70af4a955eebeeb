// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "ir/kernel/axis_names.h"
#include "ir/parser.h"
#include "ir/text.h"

namespace tg {
namespace {

/// Appends the text of a module, item or op to a string. The parser reads it back to an equal module.
class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}
  void module(const Module& module);
  void item(const Item& item);
  void op(const Op& op, int indent);
  std::string take() { return std::move(out_); }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  // The most frequent parts of a text are appended without a format string.
  void value(const Value& value) {
    out_ += '%';
    out_ += value.name;
  }
  void symbol(const std::string& name) {
    out_ += '@';
    out_ += name;
  }
  void integer(int64_t number) {
    fmt::format_int text(number);
    out_.append(text.data(), text.size());
  }
  void attrs(const AttrList& attrs);
  void operand(const Operand& operand);
  void operands(const OperandList& list);
  void opOperands(const Op& op);
  void place(const Place& place);
  void resultNames(const Op& op);
  void types(const Op& op);
  void places(const Op& op);
  void regions(const Op& op, int indent);
  void block(const Block& block, int indent);
  void argument(const Value& value);
  void location(const Loc& loc) {
    // An unknown location is printed too: otherwise reading the text again would set a new one.
    if (options_.locations) put(" {}", locAttr(loc));
  }
  /// Calls fn for each result slot with its first result and member count (0: a single value).
  template <class Fn>
  void eachSlot(const Op& op, Fn fn);

  PrintOptions options_;
  std::string out_;
};

template <class Fn>
void Printer::eachSlot(const Op& op, Fn fn) {
  size_t next = 0;
  size_t slots = op.groups.empty() ? op.results.size() : op.groups.size();
  for (size_t slot = 0; slot < slots; ++slot) {
    if (slot) out_ += ", ";
    int members = op.groups.empty() ? 0 : op.groups[slot];
    fn(next, members);
    next += members ? members : 1;
  }
}

void Printer::attrs(const AttrList& attrs) {
  if (attrs.empty()) return;
  out_ += " {";
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (i) out_ += ", ";
    out_ += attrs[i].name;
    out_ += " = ";
    out_ += attrs[i].value.str();
  }
  out_ += '}';
}

void Printer::operands(const OperandList& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) out_ += ", ";
    operand(list[i]);
  }
}

void Printer::operand(const Operand& operand) {
  switch (operand.kind) {
  case Operand::Kind::value: value(*operand.value); return;
  case Operand::Kind::symbol: symbol(operand.text); return;
  case Operand::Kind::literal:
    if (!operand.isInteger) {
      out_ += formatF32(operand.real);
      return;
    }
    if (operand.integer == 0 && std::signbit(operand.real)) out_ += '-';
    integer(operand.integer);
    return;
  case Operand::Kind::element:
    value(*operand.value);
    out_ += '[';
    operands(operand.items);
    out_ += ']';
    return;
  case Operand::Kind::range:
    symbol(operand.text);
    out_ += '[';
    integer(operand.items[0].integer);
    out_ += ':';
    integer(operand.items[1].integer);
    out_ += ']';
    return;
  case Operand::Kind::group:
    out_ += '[';
    operands(operand.items);
    out_ += ']';
    return;
  case Operand::Kind::binding:
    value(*operand.value);
    out_ += " = ";
    this->operand(operand.items[0]);
    return;
  case Operand::Kind::keyword:
    out_ += operand.text;
    out_ += '(';
    operands(operand.items);
    out_ += ')';
    return;
  }
}

void Printer::opOperands(const Op& op) {
  if (op.code == Opcode::fused) {
    out_ += " (";
    operands(op.operands);
    out_ += ')';
    return;
  }
  if (op.info().slots.size() && op.info().slots[0].kind == table::SlotKind::callee) {
    put(" @{}(", op.operands[0].text);
    operands({op.operands.begin() + 1, op.operands.end()});
    out_ += ')';
    return;
  }
  bool first = true;
  for (const Operand& operand : op.operands) {
    bool keyword = operand.kind == Operand::Kind::keyword && operand.text != "dense";
    out_ += first || keyword ? " " : ", ";
    this->operand(operand);
    first = false;
  }
}

void Printer::place(const Place& place) {
  symbol(place.buffer);
  out_ += '[';
  integer(place.offset);
  out_ += ']';
  if (place.inplace) put(" inplace(%{})", place.inplace->name);
}

void Printer::resultNames(const Op& op) {
  if (op.results.empty()) return;
  eachSlot(op, [&](size_t first, int members) {
    if (members == 0) return value(*op.results[first]);
    out_ += '[';
    for (int m = 0; m < members; ++m) {
      if (m) out_ += ", ";
      value(*op.results[first + m]);
    }
    out_ += ']';
  });
  out_ += " = ";
}

void Printer::types(const Op& op) {
  if (op.info().has(table::terminator)) {
    // A literal has no type of its own: a terminator with a literal operand prints no types.
    for (const Operand& operand : op.operands)
      if (!operand.value) return;
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i].value) {
        out_ += i ? ", " : " : ";
        out_ += op.operands[i].value->type.str();
      }
    return;
  }
  if (op.results.empty()) return;
  out_ += " : ";
  eachSlot(op, [&](size_t first, int members) {
    if (members == 0) {
      out_ += op.results[first]->type.str();
      return;
    }
    out_ += '[';
    for (int m = 0; m < members; ++m) {
      if (m) out_ += ", ";
      out_ += op.results[first + m]->type.str();
    }
    out_ += ']';
  });
}

void Printer::places(const Op& op) {
  if (op.results.empty() || !op.results[0]->place) return;
  out_ += " -> ";
  eachSlot(op, [&](size_t first, int) {
    if (op.results[first]->place) place(*op.results[first]->place);
  });
}

void Printer::regions(const Op& op, int indent) {
  for (size_t i = 0; i < op.regions.size(); ++i) {
    out_ += i ? " else {\n" : " {\n";
    block(*op.regions[i], indent + 2);
    out_.append(static_cast<size_t>(indent), ' ');
    out_ += '}';
  }
}

void Printer::op(const Op& op, int indent) {
  out_.append(static_cast<size_t>(indent), ' ');
  resultNames(op);
  out_ += op.info().name;
  opOperands(op);
  attrs(op.attrs);
  types(op);
  places(op);
  regions(op, indent);
  location(op.loc);
  out_ += '\n';
}

void Printer::block(const Block& block, int indent) {
  for (Op* op : block.ops) this->op(*op, indent);
}

void Printer::argument(const Value& value) {
  put("%{}: {}", value.name, namedType(value));
  if (AttrList rest = value.attrs; !rest.empty()) {
    tg::erase(rest, kAxisNames);
    attrs(rest);
  }
  if (value.place) {
    out_ += " -> ";
    place(*value.place);
  }
}

void Printer::item(const Item& item) {
  put("  {} @{}", name(item.kind), item.name);
  auto arguments = [&] {
    out_ += '(';
    for (size_t i = 0; i < item.body.args.size(); ++i) {
      if (i) out_ += ", ";
      argument(*item.body.args[i]);
    }
    out_ += ')';
  };
  auto body = [&] {
    AttrList rest = item.attrs;
    if (const Attr* vjp = find(rest, "vjp"); vjp && item.kind == ItemKind::kernel) {
      put(" vjp({})", vjp->str());
      tg::erase(rest, std::string_view("vjp"));
    }
    if (!rest.empty()) {
      out_ += " attributes";
      attrs(rest);
    }
    out_ += " {\n";
    block(item.body, 4);
    out_ += "  }";
  };
  switch (item.kind) {
  case ItemKind::param:
  case ItemKind::state:
    put(" : {}", item.type.str());
    attrs(item.attrs);
    if (item.place) {
      out_ += " -> ";
      place(*item.place);
    }
    break;
  case ItemKind::buffer: put(" : {}", item.bytes); break;
  case ItemKind::func:
    arguments();
    if (!item.results.empty()) {
      out_ += " -> (";
      for (size_t i = 0; i < item.results.size(); ++i)
        put("{}{}: {}", i ? ", " : "", item.results[i].name, item.results[i].type.str());
      out_ += ')';
    }
    body();
    break;
  case ItemKind::kernel:
    arguments();
    put(" workgroup({}, {}, {}) grid(", item.workgroup[0], item.workgroup[1], item.workgroup[2]);
    operands(item.grid);
    out_ += ')';
    body();
    break;
  case ItemKind::binary:
    attrs(item.attrs);
    put(" \"{}\"", base64Encode({reinterpret_cast<const char*>(item.code.data()), item.code.size() * 4}));
    break;
  }
  location(item.loc);
  out_ += '\n';
}

void Printer::module(const Module& module) {
  put("module @{}", module.name);
  if (module.stage != Stage::tensor) put(" stage({})", name(module.stage));
  if (!module.attrs.empty()) {
    out_ += " attributes";
    attrs(module.attrs);
  }
  out_ += " {\n";
  for (const auto& entry : module.items) item(*entry);
  out_ += "}\n";
}

}  // namespace

std::string print(const Module& module, const PrintOptions& options) {
  Printer printer(options);
  printer.module(module);
  return printer.take();
}
std::string print(const Item& item, const PrintOptions& options) {
  Printer printer(options);
  printer.item(item);
  return printer.take();
}
std::string print(const Op& op, const PrintOptions& options) {
  Printer printer(options);
  printer.op(op, 0);
  return printer.take();
}

}  // namespace tg
