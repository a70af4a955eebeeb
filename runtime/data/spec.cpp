// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/spec.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ir/file_io.h"
#include "ir/philox.h"
#include "ir/text.h"

namespace tg {

namespace {

/// Keeps these draws independent of other draws with the same seed.
constexpr uint32_t kRandStream = 0x72616e64;
/// Default bound of random integers: small, so that they are valid ids of most tables.
constexpr int32_t kDefaultBelow = 10;

/// The number between spaces.
template <class T>
std::optional<T> parseNumber(std::string_view text) {
  return numberIn<T>(trimmed(text));
}

std::optional<double> parseValue(std::string_view text) {
  if (trimmed(text) == "true") return 1;
  if (trimmed(text) == "false") return 0;
  return parseNumber<double>(text);
}

/// Parses extents such as `64x784x` at the front. With `open`, the first extent may be '?'.
Result<Shape> takeShape(std::string_view& rest, bool open) {
  const std::string_view text = rest;
  std::vector<int64_t> dims;
  const bool dynamic = open && rest.starts_with("?x");
  if (dynamic) rest.remove_prefix(2);
  while (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
    const size_t cross = rest.find('x');
    const auto dim = parseNumber<int64_t>(rest.substr(0, cross));
    if (!dim || cross == std::string_view::npos)
      return fail("expected a type such as 64x784xf32, got '{}'", text);
    dims.push_back(*dim);
    rest.remove_prefix(cross + 1);
  }
  if (dynamic) dims.insert(dims.begin(), 0);
  TG_TRY(Shape shape, checkedShape(dims));
  if (dynamic) shape[0] = Shape::kDynamic;
  return shape;
}

/// Parses a type such as `64x784xf32` or `f32`.
Result<Type> parseType(std::string_view text) {
  std::string_view rest = trimmed(text);
  TG_TRY(const Shape shape, takeShape(rest, false));
  if (const auto dtype = dtypeNamed(rest)) return Type::tensor(*dtype, shape);
  return fail("expected a type such as 64x784xf32, with {}, got '{}'", dtypeNames(), text);
}

/// Parses a type such as `?x784xu8`, with the element types of files.
Result<void> parseRawType(std::string_view text, InputSpec& spec) {
  std::string_view rest = trimmed(text);
  TG_TRY(spec.fileShape, takeShape(rest, true));
  const auto type = fileTypeNamed(rest);
  if (!type)
    return fail("expected a file's type such as ?x784xf32, with f32, f16, bf16, f64, u8, i8, u16, i16, u32, "
                "i32, u64, i64 or i1, got '{}'",
                text);
  spec.fileType = *type;
  return {};
}

/// Calls `take` for each part between commas; returns false as soon as `take` does.
template <class Take>
bool forEachPart(std::string_view text, Take take) {
  if (trimmed(text).empty()) return true;
  while (true) {
    const size_t comma = text.find(',');
    if (!take(text.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

/// Whether a file is IDX, which is known by `idx` in its name: train-images-idx3-ubyte, t10k-labels.idx1.gz.
bool namesIdx(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1).find("idx") != std::string_view::npos;
}

Result<void> parseFileName(std::string_view path, InputSpec& spec) {
  // The last `.npz:` ends the path, so the path may contain other colons.
  const size_t colon = path.rfind(".npz:");
  if (colon != std::string_view::npos || path.ends_with(".npz")) {
    spec.kind = InputSpec::Kind::npz;
    spec.path = path.substr(0, colon == std::string_view::npos ? colon : colon + 4);
    if (colon != std::string_view::npos) spec.key = path.substr(colon + 5);
    return {};
  }
  if (!path.ends_with(".npy") && !namesIdx(path))
    return fail("expected @FILE.npy, @FILE.npz, @FILE.npz:KEY, an IDX file with 'idx' in its name or raw "
                "elements by their type, ?x784xf32=@FILE, got '@{}'",
                path);
  spec.kind = path.ends_with(".npy") ? InputSpec::Kind::npy : InputSpec::Kind::idx;
  spec.path = path;
  return {};
}

/// Splits off a divisor: a number after the last slash. If the whole path exists, as /dev/fd/63 may, it is a file
/// without a divisor. A raw file that does not exist yet and has a number as its name needs an extension.
Result<std::string_view> takeDivisor(std::string_view path, InputSpec& spec) {
  if (isThere(path)) return path;
  const size_t slash = path.rfind('/');
  const auto divisor =
      slash == std::string_view::npos ? std::nullopt : parseNumber<double>(path.substr(slash + 1));
  if (!divisor) return path;
  if (!std::isfinite(*divisor) || *divisor == 0)
    return fail("expected a divisor other than 0, got '{}'", path.substr(slash + 1));
  spec.divisor = divisor;
  return path.substr(0, slash);
}

Result<void> parseFile(std::string_view path, InputSpec& spec) {
  TG_TRY(const std::string_view file, takeDivisor(path, spec));
  return parseFileName(file, spec);
}

Result<void> parseRawFile(std::string_view type, std::string_view path, InputSpec& spec) {
  TG_TRY(const std::string_view file, takeDivisor(path, spec));
  if (file.ends_with(".npy") || file.ends_with(".npz") || file.find(".npz:") != std::string_view::npos)
    return fail("a file has its own type; expected no other before '@'");
  TG_CHECK(parseRawType(type, spec));
  spec.kind = InputSpec::Kind::raw;
  spec.path = file;
  return {};
}

Result<void> parseRand(std::string_view arguments, InputSpec& spec) {
  spec.kind = InputSpec::Kind::rand;
  const size_t comma = arguments.find(',');
  const auto seed = parseNumber<uint64_t>(arguments.substr(0, comma));
  bool valid = seed.has_value();
  if (comma != std::string_view::npos) {
    spec.below = parseNumber<int32_t>(arguments.substr(comma + 1));
    valid = valid && spec.below && *spec.below > 0;
  }
  if (!valid) return fail("expected rand(SEED) or rand(SEED,BELOW), got 'rand({})'", arguments);
  spec.seed = *seed;
  return {};
}

Result<void> parseList(std::string_view elements, InputSpec& spec) {
  spec.kind = InputSpec::Kind::list;
  std::string_view wrong;
  const bool good = forEachPart(elements, [&](std::string_view part) {
    const auto value = parseValue(part);
    if (value) spec.values.push_back(*value);
    wrong = part;
    return value.has_value();
  });
  if (!good) return fail("expected a list of numbers, got '{}' in it", trimmed(wrong));
  return {};
}

/// An error if `part` ends inside an open bracket: what should follow the bracket was taken into `source`.
Result<void> checkClosed(std::string_view part, std::string_view source) {
  const size_t open = part.find_first_of("([");
  if (open == std::string_view::npos) return {};
  const char close = part[open] == '(' ? ')' : ']';
  if (part.find(close, open) != std::string_view::npos) return {};
  return fail("expected '{}': the '{}' of '{}' is not closed", close, part[open], source);
}

Result<void> parseSource(std::string_view source, InputSpec& spec) {
  const std::string_view whole = source;
  if (source.starts_with("@")) return parseFile(source.substr(1), spec);
  if (const size_t equals = source.find('='); equals != std::string_view::npos) {
    const std::string_view type = source.substr(0, equals);
    TG_CHECK(checkClosed(type, whole));
    source = trimmed(source.substr(equals + 1));
    if (source.starts_with("@")) return parseRawFile(type, source.substr(1), spec);
    TG_TRY(spec.type, parseType(type));
  }
  TG_CHECK(checkClosed(source, whole));
  if (source.starts_with("rand(") && source.ends_with(")"))
    return parseRand(source.substr(5, source.size() - 6), spec);
  if (source.starts_with("[") && source.ends_with("]"))
    return parseList(source.substr(1, source.size() - 2), spec);
  const auto value = parseValue(source);
  if (!value) return fail("expected @FILE, a number, a list [..] or rand(SEED), got '{}'", source);
  spec.values = {*value};
  return {};
}

bool holds(DType dtype, double value) {
  switch (info(dtype).family) {
  case DTypeFamily::real: return true;
  case DTypeFamily::flag: return value == 0 || value == 1;
  case DTypeFamily::sint:
    return value == std::trunc(value) && value >= std::numeric_limits<int32_t>::min() &&
           value <= std::numeric_limits<int32_t>::max();
  case DTypeFamily::uint:
    return value == std::trunc(value) && value >= 0 && value <= std::numeric_limits<uint32_t>::max();
  }
  return false;
}

Result<HostArray> fromValues(const InputSpec& spec, const Type& expected) {
  HostArray array = HostArray::zeros(expected);
  const int64_t count = array.elements();
  if (spec.kind == InputSpec::Kind::list && static_cast<int64_t>(spec.values.size()) != count)
    return fail("expected {} for {}, got {}", countText(count, "element"), expected.str(),
                spec.values.size());
  for (const double value : spec.values)
    if (!holds(expected.dtype, value))
      return fail("expected values of {}, got {}", name(expected.dtype), value);
  const bool fill = spec.kind == InputSpec::Kind::fill;
  for (int64_t index = 0; index < count; ++index) {
    const double value = spec.values[fill ? 0 : static_cast<size_t>(index)];
    array.set(index, value);
    if (std::isfinite(value) && !std::isfinite(array.at(index)))
      return fail("{} does not fit {}", value, name(expected.dtype));
  }
  return array;
}

Result<HostArray> fromRand(const InputSpec& spec, const Type& expected) {
  const bool flags = expected.dtype == DType::i1;
  if (flags && spec.below.value_or(2) > 2)
    return fail("expected a bound of at most 2 for i1, got {}", *spec.below);
  const bool normal = isFloat(expected.dtype) && !spec.below;
  const auto below = static_cast<uint64_t>(spec.below.value_or(flags ? 2 : kDefaultBelow));
  HostArray array = HostArray::zeros(expected);
  const PhiloxKey key{lowWord(spec.seed), highWord(spec.seed)};
  const int64_t count = array.elements();
  for (int64_t index = 0; index < count; ++index) {
    const auto place = static_cast<uint64_t>(index);
    const auto words = philox({lowWord(place), highWord(place), kRandStream, 0}, key);
    // The high bits of word * below are evenly distributed over the range, without a division.
    const auto small = static_cast<double>(words[0] * below >> 32);
    array.set(index, normal ? philoxNormal(words[0], words[1]) : small);
  }
  return array;
}

Result<HostArray> loadFile(const InputSpec& spec, const Table& table, const Type& expected) {
  TG_TRY(const Table fitting, tableAs(spec, table, expected));
  return fitting.all();
}

Result<HostArray> loadAny(const OpenInput& input, const Type& expected) {
  const InputSpec& spec = input.spec;
  if (input.table) return loadFile(spec, *input.table, expected);
  if (spec.kind == InputSpec::Kind::rand) return fromRand(spec, expected);
  return fromValues(spec, expected);
}

}  // namespace

Result<std::pair<std::string, InputSpec>> parseInputSpec(std::string_view text, std::string_view kind) {
  const size_t equals = text.find('=');
  std::string_view input = trimmed(text.substr(0, equals));
  if (input.starts_with("%")) input.remove_prefix(1);
  if (equals == std::string_view::npos || input.empty())
    return fail("{} '{}': expected NAME=SOURCE", kind, text);
  InputSpec spec;
  if (auto parsed = parseSource(trimmed(text.substr(equals + 1)), spec); !parsed)
    return fail("{} '{}': {}", kind, input, parsed.error().message());
  return std::pair(std::string(input), std::move(spec));
}

Result<Table> openTable(const InputSpec& spec) {
  switch (spec.kind) {
  case InputSpec::Kind::npy: return Table::openNpy(spec.path);
  case InputSpec::Kind::npz: return Table::openNpz(spec.path, spec.key);
  case InputSpec::Kind::idx: return Table::openIdx(spec.path);
  case InputSpec::Kind::raw: return Table::openRaw(spec.path, spec.fileType, spec.fileShape);
  default: return fail("this source is not a file");
  }
}

std::optional<Shape> OpenInput::shape() const {
  if (table) return table->shape();
  if (spec.type) return spec.type->shape;
  if (spec.kind == InputSpec::Kind::list) return Shape{static_cast<int64_t>(spec.values.size())};
  return {};
}

Result<OpenInput> openInput(InputSpec spec, std::string_view name, std::string_view kind) {
  OpenInput out{std::move(spec)};
  if (!out.spec.isFile()) return out;
  auto table = openTable(out.spec);
  if (!table) return fail("{} '{}': {}", kind, name, table.error().message());
  out.table = std::move(*table);
  return out;
}

Result<Table> tableAs(const InputSpec& spec, const Table& table, const Type& expected) {
  const DType given = hostType(table.fileType());
  const bool whole = given != DType::i1 && !isFloat(given);
  const bool fits = spec.divisor                  ? isFloat(expected.dtype)
                    : isFloat(expected.dtype)     ? isFloat(given)
                    : expected.dtype == DType::i1 ? given == DType::i1
                                                  : whole;
  if (fits) return table.giving({expected.dtype, spec.divisor});
  const bool scales = !spec.divisor && isFloat(expected.dtype);
  return fail("{} holds {}{}, but {} is expected{}", table.path(), table.str(),
              spec.divisor ? " divided into f32" : "", expected.str(),
              scales ? "; a divisor makes f32 of integers: @FILE/255, or /1" : "");
}

Result<HostArray> load(const InputSpec& spec, const Type& expected, std::string_view name,
                       std::string_view kind) {
  TG_TRY(const OpenInput input, openInput(spec, name, kind));
  return load(input, expected, name, kind);
}

Result<HostArray> load(const OpenInput& input, const Type& expected, std::string_view name,
                       std::string_view kind) {
  const InputSpec& spec = input.spec;
  const auto mismatch = [&](const Type& got) {
    return fail("{} '{}': expected {}, got {}{}", kind, name, expected.str(), got.str(),
                spec.path.empty() ? "" : fmt::format(" from {}", spec.path));
  };
  if (spec.type && *spec.type != expected) return mismatch(*spec.type);
  if (input.table && input.table->shape() != expected.shape)
    return mismatch(Type::tensor(hostType(input.table->fileType()), input.table->shape()));
  auto array = loadAny(input, expected);
  if (!array) return fail("{} '{}': {}", kind, name, array.error().message());
  return array;
}

}  // namespace tg
