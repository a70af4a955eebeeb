// Whether a bundle on disk is what its manifest says.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/bundle/bundle.h"
#include "runtime/data/file_io.h"

namespace tg {

namespace {

using Json = nlohmann::json;

/// Why the file of a manifest's entry is not the one that was written; "" when it is.
std::string fileDamage(const std::string& path, const Json& entry) {
  if (!entry.is_object() || !entry.contains("file") || !entry["file"].is_string())
    return "manifest.json has an entry without a file";
  const std::string file = entry["file"].get<std::string>();
  std::error_code error;
  if (!std::filesystem::exists(path + "/" + file, error)) return file + " is missing";
  auto bytes = readFile(path + "/" + file);
  if (!bytes) return fmt::format("{} cannot be read: {}", file, bytes.error().message());
  if (entry.value("bytes", Json()) != bytes->size())
    return fmt::format("{} has {} bytes, expected {}", file, bytes->size(),
                       entry.value("bytes", Json()).dump());
  if (entry.value("xxh64", Json()) != fmt::format("{:016x}", XXH64(bytes->data(), bytes->size(), 0)))
    return file + " was changed: its XXH64 differs";
  return "";
}

}  // namespace

Result<BundleCheck> checkBundle(const std::string& path) {
  const std::string file = path + "/manifest.json";
  TG_TRY(const auto bytes, readFile(file));
  BundleCheck out;
  out.manifest.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Json manifest = Json::parse(out.manifest, nullptr, false);
  if (!manifest.is_object() || manifest.value("format", Json()) != 1 || !manifest.contains("entry") ||
      !manifest.contains("weights") || !manifest.contains("module") || !manifest.contains("kernels"))
    return fail(fmt::format("{}: expected the manifest of a bundle", file));
  out.damage = fileDamage(path, manifest["weights"]);
  if (out.damage.empty()) out.damage = fileDamage(path, manifest["module"]);
  for (const Json& kernel : manifest["kernels"])
    if (out.damage.empty()) out.damage = fileDamage(path, kernel);
  return out;
}

}  // namespace tg
