// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/file_io.h"
#include "ir/find.h"
#include "ir/text.h"
#include "runtime/data/data_file.h"
#include "runtime/data/elements.h"

namespace tg {

namespace {

using nlohmann::json;

/// The longest header allowed, far more than real files have. It keeps a malicious file from filling memory.
constexpr uint64_t kMaxHeader = 32u << 20;
constexpr const char* kMetadata = "__metadata__";

struct Entry {
  std::string name;
  FileType type = FileType::f32;
  Shape shape;
  uint64_t begin = 0, end = 0;
};

Error broken(std::string_view where, std::string what) {
  return fail("{}: malformed safetensors header: {}", where, what);
}

Result<json> parseHeader(std::string_view text, std::string_view where) {
  // The JSON object keeps only one entry for a repeated name, so the keys are counted.
  size_t keys = 0;
  int deepest = 0;
  const auto watch = [&](int depth, json::parse_event_t event, json&) {
    keys += event == json::parse_event_t::key && depth == 1;
    deepest = std::max(deepest, depth);
    // What is nested deeper than {name: {field: [value]}} is dropped here and rejected below.
    return depth <= 3;
  };
  json header = json::parse(text, watch, /*allow_exceptions=*/false);
  if (!header.is_object() || deepest > 3) return broken(where, "expected a JSON object of tensors");
  if (header.size() != keys) return broken(where, "a tensor name appears twice");
  return header;
}

Result<Entry> readEntry(const std::string& name, const json& fields, std::string_view where) {
  const auto bad = [&](std::string_view what) {
    return broken(where, fmt::format("tensor '{}': {}", name, what));
  };
  if (!fields.is_object()) return bad("expected an object");
  const auto dtype = fields.find("dtype"), dims = fields.find("shape"), offsets = fields.find("data_offsets");
  if (dtype == fields.end() || !dtype->is_string()) return bad("expected a string dtype");
  if (dims == fields.end() || !dims->is_array()) return bad("expected an array shape");
  const auto isNatural = [](const json& value) { return value.is_number_unsigned(); };
  if (!std::ranges::all_of(*dims, isNatural)) return bad("expected extents of 0 and more");
  if (offsets == fields.end() || !offsets->is_array() || offsets->size() != 2 ||
      !std::ranges::all_of(*offsets, isNatural))
    return bad("expected data_offsets of two numbers");

  Entry entry{name, FileType::f32, {}, (*offsets)[0].get<uint64_t>(), (*offsets)[1].get<uint64_t>()};
  const auto spelled = dtype->get<std::string>();
  const auto* type = std::ranges::find_if(kFileTypes, [&](auto& row) { return row.safetensors == spelled; });
  if (type == std::end(kFileTypes))
    return fail("{}: tensor '{}': expected F32, F16, BF16, F64, I8 to I64, U8 to U64 or BOOL, got {}", where,
                name, spelled);
  entry.type = type->type;
  auto shape = checkedShape(dims->get<std::vector<int64_t>>());
  if (!shape) return bad(shape.error().message());
  entry.shape = *shape;
  const auto size = static_cast<uint64_t>(entry.shape.elements() * byteSize(entry.type));
  if (entry.begin > entry.end || entry.end - entry.begin != size)
    return bad(fmt::format("expected {}, got data_offsets {} to {}", countText(size, "byte"), entry.begin,
                           entry.end));
  return entry;
}

Result<void> readMetadata(const json& fields, std::map<std::string, std::string>& metadata,
                          std::string_view where) {
  if (!fields.is_object()) return broken(where, "expected __metadata__ to be an object of strings");
  for (const auto& [key, value] : fields.items()) {
    if (!value.is_string())
      return broken(where, fmt::format("expected the metadata '{}' to be a string", key));
    metadata[key] = value.get<std::string>();
  }
  return {};
}

/// Sorts the entries by offset. An error unless they follow each other without gaps.
Result<void> checkLayout(std::vector<Entry>& entries, uint64_t dataSize, std::string_view where) {
  std::ranges::stable_sort(entries, {}, [](const Entry& each) { return std::pair(each.begin, each.end); });
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at)
      return broken(
          where, fmt::format("tensor '{}': expected its bytes at {}, got {}", entry.name, at, entry.begin));
    at = entry.end;
  }
  if (at != dataSize)
    return fail("{}: expected {} of tensors, got {}: the file is cut off or has more in it", where,
                countText(at, "byte"), dataSize);
  return {};
}

Result<std::string> quoted(const std::string& text) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    return fail("expected names and metadata in UTF-8, got '{}'", text);
  }
}

Result<std::string> formatHeader(const TensorSource& source,
                                 const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    std::string pairs;
    for (const auto& [key, value] : metadata) {
      TG_TRY(const std::string name, quoted(key));
      TG_TRY(const std::string text, quoted(value));
      pairs += fmt::format("{}{}:{}", pairs.empty() ? "" : ",", name, text);
    }
    header += fmt::format("\"{}\":{{{}}}", kMetadata, pairs);
  }
  std::set<std::string_view> names;
  int64_t at = 0;
  for (const auto& [name, tensor] : source.tensors) {
    if (name == kMetadata || !names.insert(name).second)
      return fail("expected distinct tensor names, got '{}'{}", name, name == kMetadata ? "" : " twice");
    TG_TRY(const std::string key, quoted(name));
    const FileType type = fileTypeOf(tensor.dtype);
    const int64_t end = at + tensor.elements() * byteSize(type);
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          header.size() > 1 ? "," : "", key, info(type).safetensors,
                          fmt::join(tensor.shape, ","), at, end);
    at = end;
  }
  header += '}';
  // The tensors start at a multiple of 8 bytes.
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > kMaxHeader) return fail("too many tensors and metadata for one safetensors file");
  return header;
}

Result<void> writeBytes(const std::string& header, const TensorSource& source, const ByteSink& sink) {
  const uint64_t size = header.size();
  TG_CHECK(sink(std::as_bytes(std::span(&size, 1))));
  TG_CHECK(sink(std::as_bytes(std::span(header))));
  return eachPieceOf(source, [&](size_t tensor, int64_t, std::span<const std::byte> piece) {
    const DType dtype = source.tensors[tensor].second.dtype;
    if (dtype != DType::i1) return sink(piece);
    // All elements but booleans have the same bytes in the file and in memory.
    const Shape shape{static_cast<int64_t>(piece.size()) / byteSize(dtype)};
    return sink(toFileElements(HostArray{dtype, shape, {piece.begin(), piece.end()}}));
  });
}

}  // namespace

const HostArray* Safetensors::find(std::string_view name) const { return secondOf(tensors, name); }

Result<void> formatSafetensors(const TensorSource& tensors,
                               const std::map<std::string, std::string>& metadata, const ByteSink& sink) {
  TG_TRY(const std::string header, formatHeader(tensors, metadata));
  return writeBytes(header, tensors, sink);
}

Result<void> writeSafetensors(const std::string& path, const TensorSource& tensors,
                              const std::map<std::string, std::string>& metadata) {
  auto header = formatHeader(tensors, metadata);
  if (!header) return fail("{}: {}", path, header.error().message());
  TG_TRY(AtomicFile file, AtomicFile::create(path));
  TG_CHECK(writeBytes(*header, tensors, [&](std::span<const std::byte> bytes) { return file.write(bytes); }));
  return file.commitDurably();
}

namespace {

/// Opens a file of `fileSize` bytes, which `read` reads.
Result<SafetensorsFile> openContent(size_t fileSize, const ReadBytes& read, std::string where,
                                    Halves halves) {
  uint64_t size = 0;
  if (fileSize < sizeof(size))
    return broken(where, fmt::format("the file has only {}", countText(fileSize, "byte")));
  TG_CHECK(read(0, std::as_writable_bytes(std::span(&size, 1))));
  // The first 8 bytes of other formats, such as .npy and .npz, are a larger number than any header has bytes.
  if (size >> 32) return fail("{}: expected a safetensors file, got another format", where);
  const size_t rest = fileSize - sizeof(size);
  if (size > kMaxHeader || size > rest)
    return broken(where, fmt::format("it claims {} bytes, expected at most {}", size,
                                     std::min<uint64_t>(kMaxHeader, rest)));
  std::string text(size, '\0');
  TG_CHECK(read(sizeof(size), std::as_writable_bytes(std::span(text))));
  TG_TRY(const json header, parseHeader(text, where));
  const size_t data = sizeof(size) + size;

  SafetensorsFile file;
  std::vector<Entry> entries;
  for (const auto& [name, fields] : header.items()) {
    if (name == kMetadata) {
      TG_CHECK(readMetadata(fields, file.metadata, where));
      continue;
    }
    TG_TRY(Entry entry, readEntry(name, fields, where));
    entries.push_back(std::move(entry));
  }
  TG_CHECK(checkLayout(entries, fileSize - data, where));
  for (const Entry& entry : entries) {
    const auto own = dtypeNamed(name(entry.type));
    const bool kept = halves == Halves::keep && own && isNarrow(*own);
    file.fileTypes.push_back(entry.type);
    file.tensors.tensors.emplace_back(entry.name,
                                      Type::tensor(kept ? *own : hostType(entry.type), entry.shape));
  }
  file.stored = [read, data, entries](size_t tensor, int64_t first, std::span<std::byte> out) {
    const Entry& entry = entries[tensor];
    return read(data + entry.begin + static_cast<size_t>(first * byteSize(entry.type)), out);
  };
  file.tensors.read = [stored = file.stored, where, types = file.tensors.tensors,
                       entries = std::move(entries)](size_t tensor, int64_t first,
                                                     std::span<std::byte> out) -> Result<void> {
    const Entry& entry = entries[tensor];
    const DType dtype = types[tensor].second.dtype;
    // Most elements have the same bytes in the file and in memory.
    if (dtypeNamed(name(entry.type)) == dtype && dtype != DType::i1) return stored(tensor, first, out);
    const int64_t count = static_cast<int64_t>(out.size()) / byteSize(dtype);
    std::vector<std::byte> raw(static_cast<size_t>(count * byteSize(entry.type)));
    TG_CHECK(stored(tensor, first, raw));
    auto array = fromFileElements(entry.type, Shape{count}, raw, {}, first, Beyond::error);
    if (!array) return fail("{}: tensor '{}': {}", where, entry.name, array.error().message());
    std::ranges::copy(array->bytes, out.begin());
    return {};
  };
  return file;
}

}  // namespace

Result<SafetensorsFile> openSafetensors(const std::string& path, Halves halves) {
  TG_TRY(const std::shared_ptr<const DataFile> file, DataFile::open(path));
  auto read = [file](size_t offset, std::span<std::byte> to) { return file->read(offset, to); };
  return openContent(file->size(), read, path, halves);
}

Result<Safetensors> readSafetensors(const std::string& path, Halves halves) {
  TG_TRY(SafetensorsFile file, openSafetensors(path, halves));
  TG_TRY(auto arrays, readAll(file.tensors));
  return Safetensors{std::move(arrays), std::move(file.metadata), std::move(file.fileTypes)};
}

}  // namespace tg
