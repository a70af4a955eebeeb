// SPDX-License-Identifier: Apache-2.0
#include "passes/tuning.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "ir/parser.h"
#include "ir/region_key.h"
#include "ir/schedule.h"
#include "ir/text_hash.h"
#include "passes/fuse/fuse.h"

namespace tg {

std::string tuningKey(const Op& fused) { return "r" + textHash(regionKey(fused)); }

Result<AttrList> readTuning(const std::string& path) {
  if (path.empty()) return AttrList{};
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(fmt::format("tuning file {} cannot be opened", path));
  std::string text(std::istreambuf_iterator<char>(in), {});
  TG_TRY(Attr table, parseAttr(text, path));
  if (table.kind != Attr::Kind::dict)
    return fail(fmt::format("tuning file {} is no {{key = schedule, …}}", path));
  for (const NamedAttr& entry : table.dict)
    if (auto formed = parseSchedule(entry.value); !formed)
      return fail(fmt::format("tuning file {}: {}: {}", path, entry.name, formed.error().message()));
  return table.dict;
}

std::string printTuning(AttrList tuning) {
  std::sort(tuning.begin(), tuning.end(),
            [](const NamedAttr& a, const NamedAttr& b) { return a.name < b.name; });
  std::string out = "{";
  for (const NamedAttr& entry : tuning)
    out += fmt::format("{}\n  {} = {}", out == "{" ? "" : ",", entry.name, entry.value.str());
  return out + "\n}\n";
}

void fuse::applyTuning(Item& func, const AttrList& tuning, std::unordered_set<std::string>& used) {
  if (tuning.empty()) return;
  for (Op* op : func.body.ops) {
    if (op->code != Opcode::fused) continue;
    std::string key = tuningKey(*op);
    const Attr* schedule = find(tuning, key);
    if (!schedule) continue;
    op->setAttr("schedule", *schedule);
    used.insert(key);
  }
}

}  // namespace tg
