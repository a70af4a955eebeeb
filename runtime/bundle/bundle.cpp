// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/bundle.h"

#include <cstring>
#include <filesystem>
#include <set>
#include <span>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/parser.h"
#include "ir/text.h"
#include "runtime/commands.h"
#include "runtime/train/checkpoint_folder.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytesOf(std::string_view text) {
  auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void addNames(const Operand& operand, std::set<std::string>& names) {
  if (!operand.text.empty()) names.insert(operand.text);
  for (const Operand& item : operand.items) addNames(item, names);
}

/// Adds all items that an item refers to, directly or through other items.
void addReachable(const Module& module, const Item& from, std::set<const Item*>& reached) {
  if (!reached.insert(&from).second) return;
  std::set<std::string> names;
  walk(from.body, [&](const Op& op) {
    for (const Operand& operand : op.operands) addNames(operand, names);
  });
  for (const auto& item : module.items) {
    bool called = item->kind != ItemKind::func || isKernelFunc(*item);
    if (called && names.contains(item->name)) addReachable(module, *item, reached);
  }
}

/// The contents of @persistent with every value at its home.
Result<std::vector<std::byte>> weightsImage(const Module& module, const NamedArrays& values) {
  const Item* persistent = module.find(ItemKind::buffer, "persistent");
  std::vector<std::byte> image(
      static_cast<size_t>(persistent ? std::max<int64_t>(persistent->bytes, 16) : 16));
  std::string wrong;
  for (const auto& item : module.items) {
    if (!isStorage(item->kind)) continue;
    const HostArray* value = named(values, item->name);
    if (!value || value->type() != item->type) {
      wrong += fmt::format("{}'{}' is {}, wanted {}", wrong.empty() ? "" : "; ", item->name,
                           value ? value->type().str() : "missing", item->type.str());
      continue;
    }
    if (!item->place || item->place->buffer != "persistent")
      return failAt(item->loc, "@{} has no home", item->name);
    const Place& home = *item->place;
    if (home.offset + item->type.bytes() > static_cast<int64_t>(image.size()))
      return failAt(item->loc, "the home of @{} lies outside of @persistent", item->name);
    std::memcpy(&image[static_cast<size_t>(home.offset)], value->bytes.data(), value->bytes.size());
  }
  if (!wrong.empty()) return fail("the weights do not fit the model: " + wrong);
  return image;
}

}  // namespace

Result<std::unique_ptr<Module>> forwardOnly(const Module& module, const std::string& entry) {
  if (module.stage > Stage::fused)
    return failAt(module.loc,
                  "the module is of stage {}, where memory is laid out for all its functions; export the "
                  "source, of stage tensor or fused",
                  name(module.stage));
  const Item* func = module.func(entry);
  if (!func)
    return failAt(module.loc, "there is no function @{}; the module has {}", entry,
                  namesOf(module.all(ItemKind::func)));
  const Op* learns = nullptr;
  walk(func->body, [&](const Op& op) {
    if (op.code == Opcode::update && !learns) learns = &op;
  });
  if (learns)
    return failAt(learns->loc, "@{} updates @{}; a bundle only calls functions that change nothing", entry,
                  learns->operands[0].text);
  std::unique_ptr<Module> out = clone(module);
  std::set<const Item*> kept;
  addReachable(*out, *out->func(entry), kept);
  out->items.eraseIf([&](const std::unique_ptr<Item>& item) { return !kept.contains(item.get()); });
  for (const auto& item : out->items) tg::erase(item->attrs, "vjp");  // nothing calls gradients of kernels
  return out;
}

Result<BundleFiles> makeBundle(const Module& module, const std::string& entry, const NamedArrays& values,
                               const std::string& name, const std::string& version) {
  const Item* func = module.func(entry);
  if (module.stage != Stage::spirv || !func)
    return failAt(module.loc, "a bundle needs a module of stage spirv with a function @{}", entry);
  BundleFiles files;
  TG_TRY(files["weights.bin"], weightsImage(module, values));
  for (const Item* binary : module.all(ItemKind::binary)) {
    auto words = std::as_bytes(std::span(binary->code));
    files["kernels/" + binary->name + ".spv"] = {words.begin(), words.end()};
  }
  files["module.spirv.tgir"] = bytesOf(print(module));
  TG_TRY(std::string manifest, bundleManifest(module, *func, name, version, files));
  files["manifest.json"] = bytesOf(manifest);
  files[cIdentifier(name) + ".h"] = bytesOf(bundleHeader(*func, name));
  for (const auto& [file, text] : loaderSources()) files[file] = bytesOf(text);
  return files;
}

static fs::path folderOf(const std::string& path) {
  const fs::path target = fs::path(path).lexically_normal();
  return target.has_filename() ? target : target.parent_path();
}

Result<void> mayWriteBundle(const std::string& path, bool force) {
  const fs::path target = folderOf(path);
  std::error_code error;
  if (target == "." || target == "..") return fail("{}: give the bundle's folder a name", path);
  if (!isNamed(target)) return {};
  if (!force) return fail("{} exists; --force replaces a bundle", target.string());
  if (isThere(target / "manifest.json") || fs::is_empty(target, error)) return {};
  return fail("{} is not a bundle, so it is not replaced", target.string());
}

Result<void> writeBundle(const std::string& path, const BundleFiles& files, bool force) {
  TG_CHECK(mayWriteBundle(path, force));
  const fs::path target = folderOf(path);
  const std::string parent = target.has_parent_path() ? target.parent_path().string() : ".";
  TG_CHECK(makeFolder(parent));
  const std::string name = target.filename().string();
  removeStaleFolders(parent, name);
  TG_TRY(StagedFolder fresh, StagedFolder::create(parent, name));
  if (auto made = makeFolder(fresh.path() + "/kernels"); !made) return fresh.named(made.error());
  for (const auto& [file, bytes] : files)
    if (auto written = writeFile(fresh.path() + "/" + file, bytes); !written)
      return fresh.named(written.error());
  return fresh.commit();
}

}  // namespace tg
