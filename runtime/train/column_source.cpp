// SPDX-License-Identifier: Apache-2.0
// Inputs from rows of array files, and constant arrays that are the same in every step.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ir/text.h"
#include "runtime/data/spec.h"
#include "runtime/train/feed.h"
#include "runtime/train/permutation.h"
#include "runtime/train/source.h"
#include "runtime/train/tensor_facts.h"

namespace tg {

namespace {

/// Keep the random orders of rows independent of each other, and of other uses of the seed.
constexpr uint32_t kEpochStream = 0x65706f63, kSplitStream = 0x73706c69;

/// One input: rows of a file, or a constant array.
struct Column {
  std::string name;
  Type type;  ///< the type in the function
  InputSpec spec;
  std::optional<Table> rows;
  HostArray constant;  ///< the constant, if there are no rows
};

class ColumnSource : public Source {
 public:
  ColumnSource(const SourceOptions& options, std::vector<Column> columns)
      : options_(options), columns_(std::move(columns)) {
    for (const Column& column : columns_) {
      if (!column.rows || batch_) continue;
      batch_ = column.type.shape[0];
      total_ = column.rows->rows();
    }
    const int64_t held = options.heldOut > 0 && total_ > 0 ? heldOutOf(total_, options.heldOut) : 0;
    training_ = total_ - held;
    evalFirst_ = held ? training_ : 0;
  }

  /// An error if there are not enough rows for a batch.
  Result<void> check() const {
    if (!batch_ && options_.heldOut > 0)
      return fail("no rows can be kept for evaluation: no input takes rows of a file");
    const int64_t rows = options_.evaluates ? total_ - evalFirst_ : training_;
    if (!batch_ || rows >= batch_) return {};
    const auto first = std::ranges::find_if(columns_, [](const Column& c) { return !!c.rows; });
    return fail("{} has {}{}, but '{}' takes {} a step", first->rows->path(), countText(rows, "row"),
                rows == total_       ? ""
                : options_.evaluates ? " kept for evaluation"
                                     : " for training",
                first->name, batch_);
  }

  Result<Inputs> batch(int64_t step, Inputs used) const override {
    return gather(trainingRows(step), std::move(used));
  }
  std::string notFinite(int64_t step) const override {
    const std::vector<int64_t> rows = trainingRows(step);
    auto inputs = gather(rows, {});
    if (!inputs) return "";
    for (const Column& column : columns_) {
      const HostArray& array = inputs->at(column.name);
      const int64_t place = firstNotFinite(array);
      if (place == array.elements()) continue;
      const std::string what = fmt::format("{} is {}", column.name, array.at(place));
      if (!column.rows) return what;
      const int64_t row = place / (array.elements() / batch_);
      return fmt::format("{} in row {} of {}", what, rows[static_cast<size_t>(row)], column.rows->path());
    }
    return "";
  }
  int64_t itemsPerStep() const override {
    if (batch_) return batch_;
    return columns_.empty() || columns_[0].type.rank() == 0 ? 1 : columns_[0].type.shape[0];
  }
  std::string unit() const override { return "rows"; }
  int64_t stepsPerEpoch() const override { return batch_ ? training_ / batch_ : 0; }
  int64_t evalBatches() const override { return batch_ ? (total_ - evalFirst_) / batch_ : 1; }
  Result<Inputs> evalBatch(int64_t index, Inputs used) const override {
    std::vector<int64_t> rows(static_cast<size_t>(batch_));
    for (size_t at = 0; at < rows.size(); ++at)
      rows[at] = evalFirst_ + index * batch_ + static_cast<int64_t>(at);
    return gather(inFile(std::move(rows)), std::move(used));
  }
  Result<std::string> fingerprint() const override {
    Fingerprint print;
    for (const Column& column : columns_) {
      print.add(fmt::format("{} {} {}", column.name, column.type.str(), column.spec.divisor.value_or(0)));
      if (column.rows) print.add(column.rows->str());
      const size_t size = column.rows ? column.rows->byteCount() : column.constant.bytes.size();
      const auto read = [&](size_t first, std::span<std::byte> to) -> Result<void> {
        if (column.rows) return column.rows->readBytes(first, to);
        std::copy_n(column.constant.bytes.begin() + static_cast<ptrdiff_t>(first), to.size(), to.begin());
        return {};
      };
      TG_CHECK(print.addBytes(size, read, column.rows ? column.rows->path() : ""));
    }
    return print.str();
  }
  std::vector<std::string> describe() const override {
    std::vector<std::string> out;
    for (const Column& column : columns_) out.push_back(describe(column));
    return out;
  }

 private:
  std::string describe(const Column& column) const {
    if (!column.rows) return fmt::format("{}: the same {} every step", column.name, column.type.str());
    std::string part;
    if (evalFirst_ && options_.evaluates)
      part = fmt::format(", {} for evaluation", countText(total_ - evalFirst_, "row"));
    if (training_ < total_ && !options_.evaluates)
      part = fmt::format(", {} for training", countText(training_, "row"));
    return fmt::format("{}: {}, {}{}{}", column.name, column.rows->path(), column.rows->str(),
                       column.spec.divisor ? fmt::format(" / {}", *column.spec.divisor) : "", part);
  }

  /// The rows of the files that a training step uses.
  std::vector<int64_t> trainingRows(int64_t step) const {
    std::vector<int64_t> rows(static_cast<size_t>(batch_));
    if (batch_) {
      const int64_t each = stepsPerEpoch(), first = (step - 1) % each * batch_;
      const Permutation order(static_cast<uint64_t>(training_), options_.seed,
                              static_cast<uint64_t>((step - 1) / each), kEpochStream);
      for (size_t at = 0; at < rows.size(); ++at) {
        const auto place = static_cast<uint64_t>(first) + at;
        rows[at] = static_cast<int64_t>(options_.shuffle ? order(place) : place);
      }
    }
    return inFile(std::move(rows));
  }

  /// Maps positions (the training part, followed by the evaluation part) to rows of the file. If rows are shuffled, the
  /// seed chooses the rows of both parts; otherwise they are the file's first and last rows.
  std::vector<int64_t> inFile(std::vector<int64_t> rows) const {
    if (!evalFirst_ || !options_.shuffle) return rows;
    const Permutation split(static_cast<uint64_t>(total_), options_.seed, 0, kSplitStream);
    for (int64_t& row : rows) row = static_cast<int64_t>(split(static_cast<uint64_t>(row)));
    return rows;
  }

  Result<Inputs> gather(const std::vector<int64_t>& rows, Inputs used) const {
    Inputs out;
    for (const Column& column : columns_) {
      if (!column.rows) {
        out.emplace(column.name, column.constant);
        continue;
      }
      TG_TRY(HostArray array, column.rows->gather(rows, std::move(used[column.name].bytes)));
      array.shape = column.type.shape;
      out.emplace(column.name, std::move(array));
    }
    return out;
  }

  SourceOptions options_;
  std::vector<Column> columns_;
  int64_t batch_ = 0;  ///< rows of a step; 0 if no column has rows
  int64_t total_ = 0, training_ = 0, evalFirst_ = 0;
};

/// The extents after the first axis that are not 1.
std::vector<int64_t> rowExtents(const Shape& shape) {
  std::vector<int64_t> out;
  for (int axis = 1; axis < shape.rank(); ++axis)
    if (shape[axis] != 1) out.push_back(shape[axis]);
  return out;
}

/// Whether a row of the file can be a row of the input. An image of an IDX file may also be flat, and may have axes of
/// extent 1.
bool rowsFit(const Shape& file, const Shape& input, bool idx) {
  if (file.rank() == 0 || input.rank() == 0) return file.rank() == input.rank();
  if (idx && rowExtents(file) == rowExtents(input)) return true;
  if (idx && input.rank() == 2) {
    Shape flat = file;
    flat[0] = 1;
    return flat.elements() == input[1];
  }
  Shape rows = file;
  rows[0] = input[0];
  return rows == input;
}

Error foreignIn(const Item& func, const Value& arg, std::string_view source, double id) {
  const int64_t limit = idLimit(func, &arg);
  return fail("{} holds the id {}, but %{} indexes {}: ids are 0 … {}", source, id, arg.name,
              countText(limit, "row"), limit - 1);
}

/// Whether integers or booleans of a file's type may have values that an input of the type cannot hold.
bool mayNotFit(FileType given, DType type) {
  switch (given) {
  case FileType::boolean:
  case FileType::i64:
  case FileType::u64: return true;
  case FileType::u32: return type != DType::u32;
  case FileType::i8:
  case FileType::i16:
  case FileType::i32: return type == DType::u32;
  default: return false;
  }
}

/// Converts all rows once if some element could be wrong: ids, and integers and booleans that may not fit.
Result<void> scan(const Table& table, const InputSpec& spec, const Item& func, const Value& arg) {
  const bool ids = idLimit(func, &arg) > 0, narrows = mayNotFit(table.fileType(), arg.type.dtype);
  const bool quotients = spec.divisor && table.fileType() != FileType::boolean;
  if (quotients || (!ids && !narrows)) return {};
  constexpr int64_t kElements = 1 << 20;
  const int64_t each =
      std::max<int64_t>(1, kElements * table.rows() / std::max<int64_t>(1, table.shape().elements()));
  for (int64_t first = 0; first < table.rows(); first += each) {
    TG_TRY(const HostArray piece, table.range(first, std::min(each, table.rows() - first), Beyond::infinite));
    if (!ids) continue;
    const int64_t foreign = foreignId(func, arg, piece);
    if (foreign < piece.elements()) return foreignIn(func, arg, table.path(), piece.at(foreign));
  }
  return {};
}

Result<void> openRows(const std::string& binding, const SourceOptions& options, const Item& func,
                      const Value& arg, Column& column) {
  auto known = options.opened->find(binding);
  if (known == options.opened->end()) {
    constexpr size_t kMostHeld = size_t{256} << 20;  // bytes of a file that is read into memory
    TG_TRY(Table opened, openTable(column.spec));
    TG_CHECK(opened.hold(kMostHeld));
    known = options.opened->emplace(binding, std::move(opened)).first;
  }
  TG_TRY(const Table table, tableAs(column.spec, known->second, arg.type));
  if (!rowsFit(table.shape(), arg.type.shape, column.spec.kind == InputSpec::Kind::idx))
    return fail("{} holds {}, but '{}' is {}: all extents but the first must agree", table.path(),
                table.str(), column.name, arg.type.str());
  if (table.rows() == 0) return fail("{} has no rows", table.path());
  TG_CHECK(scan(table, column.spec, func, arg));
  if (arg.type.rank() > 0) {
    column.rows = table;
    return {};
  }
  TG_TRY(column.constant, table.all());
  return {};
}

std::string inputNames(const Item& func) {
  const std::string out = listText(dataArguments(func), &Value::name);
  return out.empty() ? "none" : out;
}

Result<void> openColumn(const std::string& binding, const SourceOptions& options, const Item& func,
                        std::vector<Column>& columns) {
  TG_TRY(auto spec, parseInputSpec(binding));
  const std::vector<const Value*> args = dataArguments(func);
  const auto arg = std::ranges::find_if(args, [&](const Value* each) { return each->name == spec.first; });
  if (arg == args.end() && options.extraNames) return {};
  if (arg == args.end())
    return fail("there is data for '{}', which is not an input of @{}; its inputs: {}", spec.first, func.name,
                inputNames(func));
  for (const Column& column : columns)
    if (column.name == spec.first) return fail("there are two sources for '{}'", spec.first);
  Column column{spec.first, (*arg)->type, spec.second, {}, {}};
  if (spec.second.isFile()) {
    auto opened = openRows(binding, options, func, **arg, column);
    if (!opened) return fail("input '{}': {}", spec.first, opened.error().message());
  } else {
    TG_TRY(column.constant, load(spec.second, column.type, column.name));
    const HostArray& ids = column.constant;
    const int64_t foreign = foreignId(func, **arg, ids);
    if (foreign < ids.elements()) return foreignIn(func, **arg, "'" + binding + "'", ids.at(foreign));
  }
  columns.push_back(std::move(column));
  return {};
}

/// An error unless all columns have the same number of rows, as the same rows are taken of each.
Result<void> checkRows(const std::vector<Column>& columns) {
  const Column* first = nullptr;
  for (const Column& column : columns) {
    if (!column.rows) continue;
    if (!first) first = &column;
    if (column.rows->rows() != first->rows->rows())
      return fail("'{}' has {} and '{}' {}: the same rows are drawn of both", first->name,
                  countText(first->rows->rows(), "row"), column.name, column.rows->rows());
    if (column.type.shape[0] != first->type.shape[0])
      return fail("'{}' takes {} a step and '{}' {}: the same rows are drawn for both", first->name,
                  countText(first->type.shape[0], "row"), column.name, column.type.shape[0]);
    if (column.type.shape[0] == 0) return fail("'{}' takes no rows a step", column.name);
  }
  return {};
}

}  // namespace

std::vector<std::string> splitBindings(const std::string& text) {
  std::vector<std::string> out(1);
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t end = text.find_first_of(",=@/[(", at + 1);
    if (text[at] == ',' && end != std::string::npos && text[end] == '=')
      out.emplace_back();
    else
      out.back() += text[at];
  }
  return out;
}

Result<std::unique_ptr<Source>> openColumns(const SourceOptions& options, const Item& func) {
  std::vector<Column> columns;
  if (!options.bindings.empty())
    for (const std::string& binding : splitBindings(options.bindings))
      TG_CHECK(openColumn(binding, options, func, columns));
  TG_CHECK(checkRows(columns));
  // In the order of the inputs, so that the order of the bindings does not change the fingerprint.
  auto next = columns.begin();
  for (const Value* arg : dataArguments(func)) {
    const auto found = std::ranges::find(next, columns.end(), arg->name, &Column::name);
    if (found == columns.end())
      return fail("input '{0}' of type {1} has no data: give --data '…,{0}=@{0}.npy'", arg->name,
                  arg->type.str());
    std::iter_swap(next++, found);
  }
  auto source = std::make_unique<ColumnSource>(options, std::move(columns));
  TG_CHECK(source->check());
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace tg
