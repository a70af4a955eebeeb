// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/kernel/watch_loops.h"
#include "ir/target.h"
#include "runtime/bundle/bundle.h"
#include "runtime/commands.h"
#include "runtime/executor_program.h"

namespace tg {

namespace {

using Json = nlohmann::ordered_json;
using vulkan::BindingKind;

std::string_view kindName(BindingKind kind) {
  switch (kind) {
  case BindingKind::storage: return "storage";
  case BindingKind::texelF32: return "f32";
  case BindingKind::texelF32x4: return "f32x4";
  case BindingKind::texelI32: return "i32";
  case BindingKind::texelI32x4: return "i32x4";
  case BindingKind::texelU32: return "u32";
  case BindingKind::texelU32x4: return "u32x4";
  }
  return "";
}

Json fileEntry(const std::string& file, const BundleFiles& files) {
  const std::vector<std::byte>& bytes = files.at(file);
  return {{"file", file},
          {"bytes", bytes.size()},
          {"xxh64", fmt::format("{:016x}", XXH64(bytes.data(), bytes.size(), 0))}};
}

/// The buffers of a manifest are allocations: the module's larger ones are `arena`, `arena.1`, …
std::string allocationName(const std::string& buffer, int64_t index) {
  return index ? fmt::format("{}.{}", buffer, index) : buffer;
}

Json asJson(const BufferRange& range, const Target& target) {
  return {{"buffer", allocationName(range.buffer, range.offset / target.allocation)},
          {"offset", range.offset % target.allocation},
          {"bytes", range.bytes}};
}

/// What kernels and fills see: the last of an odd number of 16-bit elements stands in a word of its own.
BufferRange wholeWords(BufferRange range) {
  range.bytes = (range.bytes + 3) / 4 * 4;
  return range;
}

Json placed(const std::string& name, const Type& type, const Place& place, const Target& target) {
  Json out = {{"name", name}, {"dtype", tg::name(type.dtype)}, {"shape", Json::array()}};
  for (int64_t extent : type.shape) out["shape"].push_back(extent);
  out.update(asJson({place.buffer, place.offset, spanBytes(type, place.pitch)}, target));
  out["pitch"] = place.pitch;
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

/// The largest of what the kernels and commands use; an alignment is what all offsets are multiples of.
struct Needs {
  int64_t invocations = 1, workgroupX = 1, grid = 1, sharedBytes = 0, storageRange = 0, texels = 0,
          bindings = 0;
  int64_t alignment = 4096, texelAlignment = 4096;
  int64_t subgroup = 0;  ///< the width that kernels rely on; 0 is any
  bool matrices = false;

  void add(const Item& kernel, const std::vector<BindingKind>& kinds) {
    invocations = std::max(invocations, kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2]);
    workgroupX = std::max(workgroupX, kernel.workgroup[0]);
    int64_t shared = 0;
    walk(kernel.body, [&](const Op& op) {
      if (op.code == Opcode::k_shared) shared += op.result()->type.bytes();
    });
    sharedBytes = std::max(sharedBytes, shared);
    bindings = std::max<int64_t>(bindings, std::count(kinds.begin(), kinds.end(), BindingKind::storage));
  }
  void add(const BufferRange& range, BindingKind kind) {
    int64_t texel = vulkan::texelBytes(kind);
    int64_t& common = texel ? texelAlignment : alignment;
    while (range.offset % common) common /= 2;
    if (texel) {
      texels = std::max(texels, (range.bytes + texel - 1) / texel);
    } else {
      storageRange = std::max(storageRange, range.bytes);
    }
  }
  Json json(const Target& target) const {
    Json out = {{"vulkan", "1.2"},
                {"max_invocations", invocations},
                {"max_workgroup_x", workgroupX},
                {"max_grid", grid},
                {"shared_bytes", sharedBytes},
                {"storage_range", storageRange},
                {"texel_elements", texels},
                {"bindings", bindings},
                {"alignment", alignment},
                {"texel_alignment", texelAlignment},
                {"subgroup", subgroup},
                {"coopmat", Json::array()}};
    for (const CoopShape& shape : target.coopmat)
      if (matrices)
        out["coopmat"].push_back({shape.m, shape.n, shape.k, name(shape.operand), name(shape.result)});
    return out;
  }
};

class ManifestMaker {
 public:
  ManifestMaker(const Module& module, const Target& target, const BundleFiles& files)
      : module_(module), target_(target), files_(files) {}

  Result<void> kernels() {
    for (const Item* binary : module_.all(ItemKind::binary)) {
      TG_TRY(std::vector<BindingKind> kinds, bindingsOf(module_, *binary));
      const Item* kernel = module_.find(ItemKind::kernel, binary->name);
      if (!kernel)
        return failAt(binary->loc, fmt::format("the source of kernel @{} was stripped", binary->name));
      Json entry = {{"name", binary->name}};
      entry.update(fileEntry("kernels/" + binary->name + ".spv", files_));
      entry["bindings"] = Json::array();
      for (BindingKind kind : kinds) entry["bindings"].push_back(kindName(kind));
      needs_.add(*kernel, kinds);
      const int64_t width = reliesOnSubgroup(target_, binary->code);
      entry["subgroup"] = width;
      needs_.subgroup = std::max(needs_.subgroup, width);
      needs_.matrices |= usesMatrices(binary->code);
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

  void needs() { out["needs"] = needs_.json(target_); }

  Json out;

 private:
  Result<Json> command(const Loc& loc, const DispatchStep& step) {
    auto kinds = kinds_.find(step.kernel);
    if (kinds == kinds_.end() || kinds->second.size() != step.bindings.size())
      return failAt(loc,
                    fmt::format("@{} has no binary with {} bindings", step.kernel, step.bindings.size()));
    Json made = {{"dispatch", step.kernel}, {"label", step.label}, {"grid", step.grid}};
    for (size_t i = 0; i < step.bindings.size(); ++i) {
      const BufferRange range = wholeWords(step.bindings[i]);
      needs_.add(range, kinds->second[i]);
      made["bindings"].push_back(asJson(range, target_));
    }
    for (uint32_t extent : step.grid) needs_.grid = std::max<int64_t>(needs_.grid, extent);
    return made;
  }
  Result<Json> command(const Loc&, const BarrierStep&) { return Json{{"barrier", true}}; }
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
  Needs needs_;
};

/// A first member that hashes the text behind its line.
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
    if (!arg->place) return failAt(arg->loc, fmt::format("%{} has no place", arg->name));
    out["inputs"].push_back(placed(arg->name, arg->type, *arg->place, target));
  }
  const Op* last = entry.body.terminator();
  for (size_t i = 0; last && i < entry.results.size(); ++i) {
    const Value* value = last->in(static_cast<int>(i));
    if (!value->place) return failAt(value->loc, fmt::format("%{} has no place", value->name));
    out["results"].push_back(placed(entry.results[i].name, value->type, *value->place, target));
  }
  for (const Item* buffer : module.all(ItemKind::buffer)) {
    // weights.bin is the image of one buffer.
    if (buffer->name == "persistent" && buffer->bytes > target.allocation)
      return failAt(module.loc, fmt::format("the parameters take {} bytes; a bundle holds at most {}, one "
                                            "allocation of target '{}'",
                                            buffer->bytes, target.allocation, target.name));
    if (buffer->name == kLoopsBuffer)
      return failAt(module.loc, fmt::format("data decide how long loops of the kernels are, and target '{}' "
                                            "ends them after {} iterations, which a bundle does not see; "
                                            "export for another target, or bound the limits: `%n = tgk.min "
                                            "%limit, 64`",
                                            target.name, target.loopIterations));
    for (Json& made : asJson(*buffer, target)) out["buffers"].push_back(std::move(made));
  }
  for (const auto& item : module.items)
    if (item->kind == ItemKind::param || item->kind == ItemKind::state)
      out["weights"]["tensors"].push_back(placed(item->name, item->type, *item->place, target));
  TG_CHECK(maker.kernels());
  TG_CHECK(maker.commands(entry));
  maker.needs();
  return withHash(out.dump(1) + "\n");
}

}  // namespace tg
