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

/// Why the file of a manifest's entry is not the one that was written; "" when it is.
std::string fileDamage(const std::string& path, const nlohmann::json& entry) {
  if (!entry.is_object() || !entry.contains("file") || !entry["file"].is_string())
    return "manifest.json has an entry without a file";
  const std::string file = entry["file"].get<std::string>();
  std::error_code error;
  if (!std::filesystem::exists(path + "/" + file, error)) return file + " is missing";
  auto bytes = readFile(path + "/" + file);
  if (!bytes) return fmt::format("{} cannot be read: {}", file, bytes.error().message());
  if (entry.value("bytes", nlohmann::json()) != bytes->size())
    return fmt::format("{} has {} bytes, expected {}", file, bytes->size(),
                       entry.value("bytes", nlohmann::json()).dump());
  if (entry.value("xxh64", nlohmann::json()) !=
      fmt::format("{:016x}", XXH64(bytes->data(), bytes->size(), 0)))
    return file + " was changed: its XXH64 differs";
  return "";
}

}  // namespace

Result<BundleCheck> checkBundle(const std::string& path) {
  const std::string file = path + "/manifest.json";
  TG_TRY(const auto bytes, readFile(file));
  BundleCheck out;
  out.manifest.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const nlohmann::json manifest = nlohmann::json::parse(out.manifest, nullptr, false);
  if (!manifest.is_object() || manifest.value("format", nlohmann::json()) != 1 ||
      !manifest.contains("entry") || !manifest.contains("weights") || !manifest.contains("module") ||
      !manifest.contains("kernels"))
    return fail(fmt::format("{}: expected the manifest of a bundle", file));
  out.damage = fileDamage(path, manifest["weights"]);
  if (out.damage.empty()) out.damage = fileDamage(path, manifest["module"]);
  for (const nlohmann::json& kernel : manifest["kernels"])
    if (out.damage.empty()) out.damage = fileDamage(path, kernel);
  return out;
}

}  // namespace tg
