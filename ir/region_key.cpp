#include "ir/region_key.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

namespace tg {
namespace {

/// Appends what it is given as bytes. Lists and texts start with their length, so that no two trees have the
/// same bytes; values stand as the numbers in which they are first seen.
class KeyWriter {
 public:
  void block(const Block& block);
  void attrs(const AttrList& attrs, std::string_view leftOut = "");
  void results(const Op& op);
  std::string take() { return std::move(out_); }

 private:
  template <class Number>
  void number(Number value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out_.append(bytes, sizeof value);
  }
  void count(size_t value) { number(static_cast<uint32_t>(value)); }
  void text(std::string_view text) {
    count(text.size());
    out_ += text;
  }
  void value(const Value* value) { count(numbers_.try_emplace(value, numbers_.size()).first->second); }
  void type(const Type& type);
  void operand(const Operand& operand);
  void op(const Op& op);

  std::string out_;
  std::unordered_map<const Value*, size_t> numbers_;
};

void KeyWriter::type(const Type& type) {
  number(type.kind);
  number(type.dtype);
  number(type.lanes);
  number(type.mode);
  number(type.texel);
  count(static_cast<size_t>(type.rank()));
  for (int64_t dim : type.shape) number(dim);
}

void KeyWriter::operand(const Operand& operand) {
  number(operand.kind);
  number(operand.value != nullptr);
  if (operand.value) value(operand.value);
  text(operand.text);
  if (operand.isLiteral()) {
    number(operand.isInteger);
    number(operand.integer);
    number(operand.real);
  }
  count(operand.items.size());
  for (const Operand& item : operand.items) this->operand(item);
}

void KeyWriter::attrs(const AttrList& attrs, std::string_view leftOut) {
  const auto one =
      std::find_if(attrs.begin(), attrs.end(), [&](const NamedAttr& attr) { return attr.name == leftOut; });
  count(attrs.size() - (one != attrs.end()));
  for (const NamedAttr& attr : attrs) {
    if (attr.name == leftOut) continue;
    text(attr.name);
    text(attr.value.str());
  }
}

void KeyWriter::results(const Op& op) {
  count(op.groups.size());
  for (int members : op.groups) number(members);
  count(op.results.size());
  for (const auto& result : op.results) {
    value(result.get());
    type(result->type);
  }
}

void KeyWriter::op(const Op& op) {
  text(op.info().name);
  count(op.operands.size());
  for (const Operand& operand : op.operands) this->operand(operand);
  attrs(op.attrs);
  results(op);
  count(op.regions.size());
  for (const auto& region : op.regions) block(*region);
}

void KeyWriter::block(const Block& block) {
  count(block.args.size());
  for (const auto& arg : block.args) {
    value(arg.get());
    type(arg->type);
  }
  count(block.ops.size());
  for (const auto& entry : block.ops) op(*entry);
}

}  // namespace

std::string regionKey(const Op& fused) {
  KeyWriter writer;
  writer.attrs(fused.attrs, "schedule");
  writer.block(*fused.regions[0]);
  writer.results(fused);
  return writer.take();
}

}  // namespace tg
