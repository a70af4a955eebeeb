// Schedules measured elsewhere. A tuning file is one attribute dictionary from a region's key to the
// schedule it shall have: {r1f0c… = matmul{tile = [4, 8], workgroup = 16}}. The key is a hash of the
// region's text without its schedule; `fuse{report=true}` prints it.
#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "ir/parser.h"
#include "ir/text_hash.h"
#include "passes/fuse/fuse.h"

namespace tg::fuse {

std::string regionKey(const Op& fused) {
  std::unordered_map<const Value*, Value*> map;
  std::unique_ptr<Op> bare = cloneOp(fused, map);
  tg::erase(bare->attrs, "schedule");
  return "r" + textHash(print(*bare));
}

Result<AttrList> readTuning(const std::string& path) {
  if (path.empty()) return AttrList{};
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(fmt::format("tuning file {} cannot be opened", path));
  std::string text(std::istreambuf_iterator<char>(in), {});
  TG_TRY(Attr table, parseAttr(text, path));
  if (table.kind != Attr::Kind::dict)
    return fail(fmt::format("tuning file {} is no {{key = schedule, …}}", path));
  return table.dict;
}

void applyTuning(Item& func, const AttrList& tuning, std::unordered_set<std::string>& used) {
  if (tuning.empty()) return;
  for (auto& op : func.body.ops) {
    if (op->code != Opcode::fused) continue;
    std::string key = regionKey(*op);
    const Attr* schedule = find(tuning, key);
    if (!schedule) continue;
    op->setAttr("schedule", *schedule);
    used.insert(key);
  }
}

}  // namespace tg::fuse
