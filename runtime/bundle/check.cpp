// SPDX-License-Identifier: Apache-2.0
// Checks that the files of a bundle are those that its manifest describes.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/json_text.h"
#include "ir/text.h"
#include "runtime/bundle/bundle.h"

namespace tg {

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 48, kMostGroups = 0xffffffff;

/// Whether the text after the first line has the hash that the first line states.
bool hashesItself(std::string_view text) {
  constexpr std::string_view begin = "{\"xxh64\": \"", end = "\",";
  constexpr size_t digits = 16, rest = begin.size() + digits + end.size();
  if (text.size() < rest || !text.starts_with(begin)) return false;
  const std::string_view hashed = text.substr(rest);
  return text.substr(begin.size(), digits) == fmt::format("{:016x}", XXH64(hashed.data(), hashed.size(), 0));
}

const Json& member(const Json& object, const char* key) {
  static const Json none;
  if (!object.is_object()) return none;
  auto found = object.find(key);
  return found == object.end() ? none : *found;
}

/// Checks the members of a manifest, by kind and range. Each function returns the first defect found, or "".
class ManifestCheck {
 public:
  std::string check(const Json& manifest) {
    for (const char* key : {"name", "entry", "version", "target"})
      if (!member(manifest, key).is_string()) return fmt::format("'{}' is not a string", key);
    const Json& needs = member(manifest, "needs");
    for (const LimitRow& limit : kLimits)
      if (!within(member(needs, limit.name), limit.multiple ? 1 : 0, kMostBytes))
        return fmt::format("needs of '{}'", limit.name);
    if (!within(member(needs, "subgroup"), 0, kMostGroups)) return "needs of 'subgroup'";
    if (!numbers(member(needs, "capabilities"))) return "needs of 'capabilities'";
    if (!shapes(member(needs, "coopmat"))) return "needs of 'coopmat'";
    alignment_ = needs["alignment"].get<int64_t>();
    texelAlignment_ = needs["texel_alignment"].get<int64_t>();
    std::string wrong;
    auto each = [&](const char* key, auto one) {
      const Json& list = member(manifest, key);
      if (!list.is_array() && wrong.empty()) wrong = fmt::format("'{}' is not a list", key);
      for (size_t i = 0; i < list.size() && wrong.empty(); ++i)
        if (!(this->*one)(list[i])) wrong = fmt::format("entry {} of '{}'", i, key);
    };
    each("buffers", &ManifestCheck::buffer);
    each("inputs", &ManifestCheck::tensor);
    each("results", &ManifestCheck::tensor);
    each("kernels", &ManifestCheck::kernel);
    each("commands", &ManifestCheck::command);
    if (!file(member(manifest, "module")) || !file(member(manifest, "weights"))) return "the entry of a file";
    const Json& tensors = member(member(manifest, "weights"), "tensors");
    for (size_t i = 0; tensors.is_array() && i < tensors.size() && wrong.empty(); ++i)
      if (!tensor(tensors[i])) wrong = fmt::format("tensor {} of 'weights'", i);
    return wrong;
  }

 private:
  static bool within(const Json& value, int64_t least, int64_t most) {
    if (!value.is_number_integer()) return false;
    if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most)) return false;
    const auto number = value.get<int64_t>();
    return number >= least && number <= most;
  }
  /// Checks the shapes of cooperative matrices: m, n, k and the element types of operands and result.
  static bool shapes(const Json& list) {
    if (!list.is_array()) return false;
    return std::ranges::all_of(list, [](const Json& shape) {
      return shape.is_array() && shape.size() == 5 && within(shape[0], 1, kMostGroups) &&
             within(shape[1], 1, kMostGroups) && within(shape[2], 1, kMostGroups) && shape[3].is_string() &&
             shape[4].is_string();
    });
  }
  static bool numbers(const Json& list) {
    return list.is_array() &&
           std::ranges::all_of(list, [](const Json& each) { return within(each, 0, kMostGroups); });
  }
  bool buffer(const Json& entry) {
    const Json& bytes = member(entry, "bytes");
    if (!member(entry, "name").is_string() || !within(bytes, 1, kMostBytes)) return false;
    return buffers_.emplace(member(entry, "name").get<std::string>(), bytes.get<int64_t>()).second;
  }
  bool range(const Json& entry) {
    const Json &name = member(entry, "buffer"), &offset = member(entry, "offset");
    auto found = name.is_string() ? buffers_.find(name.get<std::string>()) : buffers_.end();
    return found != buffers_.end() && within(offset, 0, found->second) &&
           within(member(entry, "bytes"), 1, found->second - offset.get<int64_t>());
  }
  bool tensor(const Json& entry) {
    const Json &type = member(entry, "dtype"), &shape = member(entry, "shape");
    if (!range(entry) || !member(entry, "name").is_string() || !type.is_string() || !shape.is_array())
      return false;
    const std::optional<DType> dtype = dtypeNamed(type.get<std::string>());
    if (!dtype) return false;
    int64_t left = entry["bytes"].get<int64_t>() / byteSize(*dtype);
    for (const Json& extent : shape) {
      if (!within(extent, 1, left)) return false;
      left /= extent.get<int64_t>();
    }
    return left == 1;
  }
  static bool file(const Json& entry) {
    return member(entry, "file").is_string() && within(member(entry, "bytes"), 0, kMostBytes) &&
           member(entry, "xxh64").is_string();
  }
  bool kernel(const Json& entry) {
    const Json &name = member(entry, "name"), &bindings = member(entry, "bindings");
    if (!file(entry) || !name.is_string() || !bindings.is_array()) return false;
    std::vector<int64_t> alignments;
    for (const Json& kind : bindings) {
      if (!kind.is_string()) return false;
      alignments.push_back(kind == "storage" ? alignment_ : texelAlignment_);
    }
    return kernels_.emplace(name.get<std::string>(), std::move(alignments)).second;
  }
  bool command(const Json& entry) {
    if (entry.contains("barrier")) return true;
    if (entry.contains("fill")) return range(entry["fill"]);
    if (entry.contains("copy"))
      return range(entry["copy"]) && range(member(entry, "to")) &&
             entry["copy"]["bytes"] == entry["to"]["bytes"];
    const Json &name = member(entry, "dispatch"), &grid = member(entry, "grid"),
               &bindings = member(entry, "bindings");
    auto found = name.is_string() ? kernels_.find(name.get<std::string>()) : kernels_.end();
    if (found == kernels_.end() || grid.size() != 3 || bindings.size() != found->second.size()) return false;
    for (const Json& extent : grid)
      if (!within(extent, 1, kMostGroups)) return false;
    for (size_t i = 0; i < bindings.size(); ++i)
      if (!range(bindings[i]) || bindings[i]["offset"].get<int64_t>() % found->second[i]) return false;
    return true;
  }

  int64_t alignment_ = 1, texelAlignment_ = 1;  ///< of the offsets of storage bindings, and of texel views
  std::map<std::string, int64_t> buffers_;
  std::map<std::string, std::vector<int64_t>> kernels_;  ///< by name: the alignments of the bindings
};

/// How the file of a manifest's entry differs from what was written; "" if it does not.
std::string fileDamage(const std::string& path, const Json& entry) {
  const auto file = entry["file"].get<std::string>();
  if (!isThere(path + "/" + file)) return file + " is missing";
  auto bytes = readFile(path + "/" + file);
  if (!bytes) return fmt::format("{} cannot be read: {}", file, bytes.error().message());
  if (entry["bytes"] != bytes->size())
    return fmt::format("{} has {}, expected {}", file, countText(bytes->size(), "byte"),
                       jsonText(entry["bytes"]));
  if (entry["xxh64"] != fmt::format("{:016x}", XXH64(bytes->data(), bytes->size(), 0)))
    return file + " was changed: its XXH64 differs";
  return "";
}

}  // namespace

Result<BundleCheck> checkBundle(const std::string& path) {
  const std::string file = path + "/manifest.json";
  TG_TRY(const auto bytes, readFile(file));
  BundleCheck out;
  out.manifest = asText(bytes);
  const Json manifest = parseJson<Json>(out.manifest);
  if (member(manifest, "format") == 1)
    return fail("{}: it is of format 1, which has no hash of its own; export it again", file);
  if (!hashesItself(out.manifest))
    return fail("{} was changed: its XXH64 differs, or it is not a bundle's manifest", file);
  if (member(manifest, "format") != 2)
    return fail("{}: expected the manifest of a bundle, of format 2", file);
  if (std::string wrong = ManifestCheck().check(manifest); !wrong.empty())
    return fail("{} is invalid: {}", file, wrong);
  out.damage = fileDamage(path, manifest["weights"]);
  if (out.damage.empty()) out.damage = fileDamage(path, manifest["module"]);
  for (const Json& kernel : manifest["kernels"])
    if (out.damage.empty()) out.damage = fileDamage(path, kernel);
  return out;
}

}  // namespace tg
