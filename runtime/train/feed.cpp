#include "runtime/train/feed.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "ir/cross_entropy.h"
#include "ir/philox.h"
#include "runtime/data/npy.h"
#include "runtime/data/spec.h"

namespace tg {

namespace {

std::vector<const Value*> dataArguments(const Item& func) {
  std::vector<const Value*> out;
  for (const auto& arg : func.body.args)
    if (!find(arg->attrs, "host")) out.push_back(arg.get());
  return out;
}

/// A table or an axis of classes that an argument's ids choose from.
struct IdReader {
  int64_t rows;
  std::optional<int64_t> ignored;  ///< an id outside that is allowed

  bool admits(int64_t id) const { return (id >= 0 && id < rows) || id == ignored; }
};

/// Everything that reads ids from an argument of a function of stage tensor, also through views.
std::vector<IdReader> readersOf(const Item& func, const Value* argument) {
  std::unordered_set<const Value*> ids = {argument};
  std::vector<IdReader> out;
  auto note = [&](const Value* value, int64_t rows, std::optional<int64_t> ignored = {}) {
    if (ids.contains(value)) out.push_back({rows, ignored});
  };
  for (const auto& op : func.body.ops) {
    switch (op->code) {
    case Opcode::reshape:
    case Opcode::transpose:
    case Opcode::slice:
    case Opcode::broadcast_to:
      if (ids.contains(op->in(0))) ids.insert(op->result());
      break;
    case Opcode::gather:
    case Opcode::embedding: note(op->in(1), op->in(0)->type.shape[0]); break;
    case Opcode::cross_entropy: note(op->in(1), op->in(0)->type.shape.back(), ignoredTarget(*op)); break;
    case Opcode::one_hot: note(op->in(0), op->intAttr("depth")); break;
    default: break;
    }
  }
  return out;
}

Result<void> checkIds(const Item& func, const Value& arg, const HostArray& ids, std::string_view source) {
  int64_t limit = idLimit(func, &arg);
  if (!limit) return {};
  const std::vector<IdReader> readers = readersOf(func, &arg);
  for (int32_t id : ids.i32())
    if (!std::all_of(readers.begin(), readers.end(), [&](const IdReader& each) { return each.admits(id); }))
      return fail(fmt::format("{} holds the id {}, but %{} indexes {} rows: ids are 0 … {}", source, id,
                              arg.name, limit, limit - 1));
  return {};
}

class TextFeed : public Feed {
 public:
  TextFeed(TextData data, const Value& inputs, const Value& targets, uint64_t seed)
      : data_(std::move(data)), inputs_(inputs.name), targets_(targets.name), shape_(inputs.type.shape),
        seed_(seed) {}

  Result<Inputs> batch(int64_t step) const override {
    TG_TRY(Windows windows,
           sampleWindows(data_.tokens, seed_, static_cast<uint64_t>(step), shape_[0], shape_[1]));
    Inputs out;
    out.emplace(inputs_, std::move(windows.x));
    out.emplace(targets_, std::move(windows.y));
    return out;
  }
  int64_t itemsPerStep() const override { return shape_.elements(); }
  std::string unit() const override { return "tok"; }
  int64_t stepsPerEpoch() const override { return 0; }
  int64_t evalBatches() const override { return 0; }
  Result<Inputs> evalBatch(int64_t) const override { return fail("there is no data for evaluation"); }
  std::string fingerprint() const override { return ""; }
  std::vector<std::string> describe() const override { return {}; }
  const Vocabulary* vocabulary() const override { return &data_.vocabulary; }

 private:
  TextData data_;
  std::string inputs_, targets_;
  Shape shape_;
  uint64_t seed_;
};

Result<std::unique_ptr<Feed>> openText(const std::string& path, const Item& func, uint64_t seed) {
  std::vector<const Value*> args = dataArguments(func);
  bool fits = args.size() == 2 && args[0]->type == args[1]->type && args[0]->type.dtype == DType::i32 &&
              args[0]->type.rank() == 2;
  if (!fits)
    return fail(fmt::format(
        "text data feeds two i32 inputs [batch, length], tokens and targets; @{} has others", func.name));
  TG_TRY(TextData data, readText(path));
  for (const Value* arg : args) {
    int64_t limit = idLimit(func, arg);
    if (limit && data.vocabulary.size() > limit)
      return fail(fmt::format(
          "{} has {} distinct characters, but %{} indexes {} rows: give the model a vocabulary of {} or more",
          path, data.vocabulary.size(), arg->name, limit, data.vocabulary.size()));
  }
  TG_TRY(Windows probe, sampleWindows(data.tokens, seed, 1, args[0]->type.shape[0], args[0]->type.shape[1]));
  return std::unique_ptr<Feed>(new TextFeed(std::move(data), *args[0], *args[1], seed));
}

/// One input: rows of a file, or the same array for every step.
struct Column {
  std::string name;
  Type type;  ///< the function's
  HostArray array;
  bool rows = false;
};

class ColumnFeed : public Feed {
 public:
  ColumnFeed(std::vector<Column> columns, uint64_t seed) : columns_(std::move(columns)), seed_(seed) {}

  Result<Inputs> batch(int64_t step) const override {
    Inputs out;
    for (const Column& column : columns_)
      out.emplace(column.name, column.rows ? draw(column, step) : column.array);
    return out;
  }
  int64_t itemsPerStep() const override {
    for (const Column& column : columns_)
      if (column.rows) return column.type.shape[0];
    return columns_.empty() || columns_[0].type.rank() == 0 ? 1 : columns_[0].type.shape[0];
  }
  std::string unit() const override { return "rows"; }
  const Vocabulary* vocabulary() const override { return nullptr; }
  int64_t stepsPerEpoch() const override { return 0; }
  int64_t evalBatches() const override { return 0; }
  Result<Inputs> evalBatch(int64_t) const override { return fail("there is no data for evaluation"); }
  std::string fingerprint() const override { return ""; }
  std::vector<std::string> describe() const override { return {}; }

 private:
  /// Row b of a step is drawn from all rows, the same for every column.
  HostArray draw(const Column& column, int64_t step) const {
    HostArray out = HostArray::zeros(column.type);
    auto total = static_cast<uint64_t>(column.array.shape[0]);
    size_t bytes = column.array.bytes.size() / total;
    auto s = static_cast<uint64_t>(step);
    for (int64_t b = 0; b < column.type.shape[0]; ++b) {
      auto words = philox({static_cast<uint32_t>(b), lowWord(s), highWord(s), 0x726f7773u},
                          {lowWord(seed_), highWord(seed_)});
      uint64_t row = (static_cast<uint64_t>(words[1]) << 32 | words[0]) % total;
      std::memcpy(out.bytes.data() + static_cast<size_t>(b) * bytes, column.array.bytes.data() + row * bytes,
                  bytes);
    }
    return out;
  }

  std::vector<Column> columns_;
  uint64_t seed_;
};

/// Splits at commas outside of brackets.
std::vector<std::string> splitBindings(const std::string& text) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (char c : text) {
    depth += c == '(' || c == '[';
    depth -= c == ')' || c == ']';
    if (c == ',' && depth == 0)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

Result<Column> openColumn(const std::string& binding, const Item& func) {
  TG_TRY(auto spec, parseInputSpec(binding));
  const Value* arg = func.arg(spec.first);
  if (!arg) return fail(fmt::format("--data names '{}', which is no input of @{}", spec.first, func.name));
  Column column{spec.first, arg->type, {}, false};
  const InputSpec& source = spec.second;
  bool file = source.kind == InputSpec::Kind::npy || source.kind == InputSpec::Kind::npz;
  if (!file) {
    TG_TRY(column.array, load(source, arg->type, spec.first));
    return column;
  }
  TG_TRY(column.array,
         source.kind == InputSpec::Kind::npy ? readNpy(source.path) : readNpz(source.path, source.key));
  Shape row = column.array.shape;
  column.rows = row.rank() > 0 && row.rank() == arg->type.rank();
  if (column.rows) row[0] = arg->type.shape[0];
  if (column.array.dtype != arg->type.dtype || !(row == arg->type.shape))
    return fail(fmt::format("{} holds {}, but '{}' is {}: all extents but the first must agree", source.path,
                            column.array.type().str(), spec.first, arg->type.str()));
  if (column.rows && column.array.shape[0] == 0) return fail(fmt::format("{} has no rows", source.path));
  if (column.array.dtype == DType::i32) TG_CHECK(checkIds(func, *arg, column.array, source.path));
  return column;
}

Result<std::unique_ptr<Feed>> openColumns(const std::string& text, const Item& func, uint64_t seed) {
  std::vector<Column> columns;
  for (const std::string& binding : splitBindings(text)) {
    TG_TRY(Column column, openColumn(binding, func));
    columns.push_back(std::move(column));
  }
  const Column* first = nullptr;
  for (const Column& column : columns) {
    if (!column.rows) continue;
    if (!first) first = &column;
    if (column.array.shape[0] != first->array.shape[0])
      return fail(fmt::format("'{}' has {} rows and '{}' {}: the same rows are drawn of both", first->name,
                              first->array.shape[0], column.name, column.array.shape[0]));
    if (column.type.shape[0] != first->type.shape[0])
      return fail(fmt::format("'{}' takes {} rows a step and '{}' {}: the same rows are drawn for both",
                              first->name, first->type.shape[0], column.name, column.type.shape[0]));
  }
  for (const Value* arg : dataArguments(func))
    if (std::none_of(columns.begin(), columns.end(),
                     [&](const Column& column) { return column.name == arg->name; }))
      return fail(fmt::format("input '{0}' of type {1} has no data: give --data '…,{0}=@{0}.npy'", arg->name,
                              arg->type.str()));
  return std::unique_ptr<Feed>(new ColumnFeed(std::move(columns), seed));
}

}  // namespace

int64_t idLimit(const Item& func, const Value* argument) {
  int64_t limit = 0;
  for (const IdReader& reader : readersOf(func, argument))
    limit = limit ? std::min(limit, reader.rows) : reader.rows;
  return limit;
}

Result<std::unique_ptr<Feed>> openFeed(const FeedOptions& options, const Item& func, const Item*) {
  const std::string& text = options.train;
  const uint64_t seed = options.seed;
  constexpr std::string_view kText = "text:";
  if (text.starts_with(kText)) return openText(text.substr(kText.size()), func, seed);
  if (text.empty() && dataArguments(func).empty()) return std::unique_ptr<Feed>(new ColumnFeed({}, seed));
  if (text.empty())
    return fail("say where the inputs come from: --data=text:FILE or --data 'x=@x.npy,y=@y.npy'");
  return openColumns(text, func, seed);
}

}  // namespace tg
