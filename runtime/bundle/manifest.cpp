// SPDX-License-Identifier: Apache-2.0
// Generates manifest.json of a bundle: its buffers, kernels, commands, inputs and results, and what the kernels need.
#include <algorithm>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/json_text.h"
#include "ir/kernel/rewrites.h"
#include "ir/needs.h"
#include "ir/target.h"
#include "ir/text.h"
#include "runtime/bundle/bundle.h"
#include "runtime/commands.h"

namespace tg {

namespace {

using vulkan::BindingKind;

Json fileEntry(const std::string& file, const BundleFiles& files) {
  const std::vector<std::byte>& bytes = files.at(file);
  return {{"file", file},
          {"bytes", bytes.size()},
          {"xxh64", fmt::format("{:016x}", XXH64(bytes.data(), bytes.size(), 0))}};
}

/// The manifest's buffers are allocations: a module's buffer that is larger than one becomes `arena`, `arena.1`, …
std::string allocationName(const std::string& buffer, int64_t index) {
  return index ? fmt::format("{}.{}", buffer, index) : buffer;
}

Json asJson(const ByteRange& range, const Target& target) {
  return {{"buffer", allocationName(range.buffer, range.offset / target.allocation)},
          {"offset", range.offset % target.allocation},
          {"bytes", range.bytes}};
}

/// Rounds a range up to whole words, as kernels and fills access it: the last of an odd number of 16-bit elements has a
/// word to itself.
ByteRange wholeWords(ByteRange range) {
  range.bytes = (range.bytes + 3) / 4 * 4;
  return range;
}

Json placed(const std::string& name, const Type& type, const Place& place, const Target& target) {
  Json out = {{"name", name}, {"dtype", tg::name(type.dtype)}, {"shape", Json::array()}};
  for (int64_t extent : type.shape) out["shape"].push_back(extent);
  out.update(asJson({place.buffer, place.offset, type.bytes()}, target));
  return out;
}

Json asJson(const Item& buffer, const Target& target) {
  Json out = Json::array();
  const int64_t end = std::max<int64_t>((buffer.bytes + 3) / 4 * 4, 16);
  for (int64_t base = 0; base < end; base += target.allocation)
    out.push_back({{"name", allocationName(buffer.name, base / target.allocation)},
                   {"bytes", std::min(end - base, target.allocation)}});
  return out;
}

Json asJson(const KernelNeeds& needs) {
  Json out = {{"vulkan", "1.2"}};
  out.update(needsToJson(needs));
  return out;
}

class ManifestMaker {
 public:
  ManifestMaker(const Module& module, const Target& target, const BundleFiles& files)
      : module_(module), target_(target), files_(files) {}

  Result<void> kernels() {
    for (const Item* binary : module_.all(ItemKind::binary)) {
      TG_TRY(std::vector<BindingKind> kinds, bindingsOf(module_, *binary));
      const Item* kernel = module_.find(ItemKind::kernel, binary->name);
      if (!kernel) return failAt(binary->loc, "the source of kernel @{} was stripped", binary->name);
      Json entry = {{"name", binary->name}};
      entry.update(fileEntry("kernels/" + binary->name + ".spv", files_));
      entry["bindings"] = Json::array();
      for (BindingKind kind : kinds) entry["bindings"].push_back(name(kind));
      KernelNeeds needs = needsOf(*kernel);
      addCode(needs, binary->code, target_);
      addLoops(needs, *kernel);
      entry["subgroup"] = needs.subgroup;
      join(needs_, needs);
      kinds_[binary->name] = std::move(kinds);
      out["kernels"].push_back(std::move(entry));
    }
    return {};
  }

  Result<void> commands(const Item& entry) {
    for (const ProgramStep& step : programSteps(entry)) {
      TG_TRY(Json made, std::visit([&](const auto& what) { return command(step.loc, what); }, step.what));
      out["commands"].push_back(std::move(made));
    }
    return {};
  }

  void needs() { out["needs"] = asJson(needs_); }

  Json out;

 private:
  Result<Json> command(const Loc& loc, const DispatchStep& step) {
    auto kinds = kinds_.find(step.kernel);
    if (kinds == kinds_.end() || kinds->second.size() != step.bindings.size())
      return failAt(loc, "@{} has no binary with {}", step.kernel,
                    countText(step.bindings.size(), "binding"));
    Json made = {{"dispatch", step.kernel}, {"label", step.label}, {"grid", step.grid}};
    for (size_t i = 0; i < step.bindings.size(); ++i) {
      const ByteRange range = wholeWords(step.bindings[i]);
      addRange(needs_, range.offset % target_.allocation, range.bytes, vulkan::texelBytes(kinds->second[i]));
      made["bindings"].push_back(asJson(range, target_));
    }
    for (int64_t extent : step.grid) addGrid(needs_, std::span(&extent, 1));
    return made;
  }
  Result<Json> command(const Loc&, const BarrierStep&) { return Json{{"barrier", true}}; }
  /// A bundle runs on a single rank, so a collective is only a barrier.
  Result<Json> command(const Loc&, const CollectiveStep&) { return Json{{"barrier", true}}; }
  Result<Json> command(const Loc&, const WaitStep&) { return Json{{"barrier", true}}; }
  Result<Json> command(const Loc&, const FillStep& step) {
    return Json{{"fill", asJson(wholeWords(step.range), target_)}};
  }
  Result<Json> command(const Loc&, const CopyStep& step) {
    return Json{{"copy", asJson(step.source, target_)}, {"to", asJson(step.target, target_)}};
  }

  const Module& module_;
  const Target& target_;
  const BundleFiles& files_;
  std::map<std::string, std::vector<BindingKind>> kinds_;
  KernelNeeds needs_;
};

/// Adds a first member that holds the hash of the text after its line.
std::string withHash(const std::string& object) {
  const std::string rest = object.substr(1);
  return fmt::format("{{\"xxh64\": \"{:016x}\",{}", XXH64(rest.data(), rest.size(), 0), rest);
}

}  // namespace

Result<std::string> bundleManifest(const Module& module, const Item& entry, const std::string& name,
                                   const std::string& version, const BundleFiles& files) {
  TG_TRY(Target target, targetOf(module.attrs));
  ManifestMaker maker(module, target, files);
  Json& out = maker.out;
  out = {{"format", 2},
         {"name", name},
         {"entry", entry.name},
         {"version", version},
         {"target", target.name},
         {"needs", Json::object()},
         {"inputs", Json::array()},
         {"results", Json::array()},
         {"buffers", Json::array()},
         {"weights", fileEntry("weights.bin", files)},
         {"module", fileEntry("module.spirv.tgir", files)},
         {"kernels", Json::array()},
         {"commands", Json::array()}};
  for (const auto& arg : entry.body.args) {
    if (!arg->place) return failAt(arg->loc, "%{} has no place", arg->name);
    out["inputs"].push_back(placed(arg->name, arg->type, *arg->place, target));
  }
  const Op* last = entry.body.terminator();
  for (size_t i = 0; last && i < entry.results.size(); ++i) {
    const Value* value = last->in(static_cast<int>(i));
    if (!value->place) return failAt(value->loc, "%{} has no place", value->name);
    out["results"].push_back(placed(entry.results[i].name, value->type, *value->place, target));
  }
  for (const Item* buffer : module.all(ItemKind::buffer)) {
    // weights.bin is the image of one buffer.
    if (buffer->name == "persistent" && buffer->bytes > target.allocation)
      return failAt(module.loc,
                    "the parameters take {} bytes; a bundle holds at most {}, one allocation of target '{}'",
                    buffer->bytes, target.allocation, target.name);
    if (buffer->name == kLoopsBuffer)
      return failAt(module.loc,
                    "data decide how long loops of the kernels are, and target '{}' ends them after {} "
                    "iterations, which a bundle does not see; export for another target, or bound the "
                    "limits: `%n = tgk.min %limit, 64`",
                    target.name, target.loopIterations);
    for (Json& made : asJson(*buffer, target)) out["buffers"].push_back(std::move(made));
  }
  for (const auto& item : module.items)
    if (isStorage(item->kind))
      out["weights"]["tensors"].push_back(placed(item->name, item->type, *item->place, target));
  TG_CHECK(maker.kernels());
  TG_CHECK(maker.commands(entry));
  maker.needs();
  return withHash(jsonText(out, 1) + "\n");
}

}  // namespace tg
