// SPDX-License-Identifier: Apache-2.0
// The valid range of ids, and the fingerprint that identifies data.
#define XXH_INLINE_ALL
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>

#include "ir/cross_entropy.h"
#include "ir/infer.h"
#include "ir/op_view.h"
#include "ir/text.h"
#include "runtime/train/feed.h"
#include "runtime/train/source.h"

namespace tg {

namespace {

/// Prefix of a fingerprint: the version of the method.
constexpr std::string_view kScheme = "2-";

/// A table, or an axis of classes, that the ids of an argument index.
struct IdReader {
  int64_t rows;
  std::optional<int64_t> ignored;  ///< an id outside of the range that is allowed
  bool skips = false;  ///< whether all ids outside of the range are allowed, as those of a padding

  bool admits(int64_t id) const { return (id >= 0 && id < rows) || id == ignored || skips; }
};

/// Everything that reads with ids from an argument, directly or rearranged, in a function of stage tensor.
std::vector<IdReader> readersOf(const Item& func, const Value* argument) {
  std::unordered_set<const Value*> ids = {argument}, joined;
  std::vector<IdReader> out;
  auto note = [&](const Value* value, int64_t rows, std::optional<int64_t> ignored = {}, bool skips = false) {
    if (ids.contains(value)) out.push_back({rows, ignored, skips});
  };
  for (Op* op : func.body.ops) {
    // Of what ids were joined with other integers, a part may have no ids.
    const bool cuts = (op->code == Opcode::slice || op->code == Opcode::split) && joined.contains(op->in(0));
    if ((op->info().fusion == table::Fusion::view || op->code == Opcode::concat) && !cuts &&
        anyUse(*op, [&](const Value* value) { return ids.contains(value); }))
      for (const auto& result : op->results) {
        ids.insert(result.get());
        if (op->numOperands() > 1 || joined.contains(op->in(0))) joined.insert(result.get());
      }
    switch (op->code) {
    case Opcode::gather:
    case Opcode::embedding: note(as::gather(*op).ids(), as::gather(*op).table()->type.shape[0]); break;
    case Opcode::cross_entropy:
      note(as::cross_entropy(*op).targets(), as::cross_entropy(*op).logits()->type.shape.back(),
           ignoredTarget(*op));
      break;
    case Opcode::scatter_add: note(as::scatter_add(*op).ids(), as::scatter_add(*op).rows(), {}, true); break;
    case Opcode::take_along_axis: {
      const Type& type = as::take_along_axis(*op).x()->type;
      const int axis = normalAxis(as::take_along_axis(*op).axis(), type.rank());
      note(as::take_along_axis(*op).ids(), type.shape[axis], {}, true);
      break;
    }
    case Opcode::one_hot: note(as::one_hot(*op).ids(), as::one_hot(*op).depth()); break;
    default: break;
    }
  }
  return out;
}

}  // namespace

int64_t idLimit(const Item& func, const Value* argument) {
  int64_t limit = 0;
  for (const IdReader& reader : readersOf(func, argument))
    limit = limit ? std::min(limit, reader.rows) : reader.rows;
  return limit;
}

int64_t foreignId(const Item& func, const Value& arg, const HostArray& ids) {
  const std::vector<IdReader> readers = readersOf(func, &arg);
  auto admitted = [&](int64_t id) {
    return std::ranges::all_of(readers, [&](const IdReader& each) { return each.admits(id); });
  };
  if (readers.empty()) return ids.elements();
  int64_t place = 0;
  while (place < ids.elements() && admitted(static_cast<int64_t>(ids.at(place)))) ++place;
  return place;
}

std::vector<const Value*> dataArguments(const Item& func) {
  std::vector<const Value*> out;
  for (const auto& arg : func.body.args)
    if (!find(arg->attrs, "host")) out.push_back(arg.get());
  return out;
}

void Fingerprint::add(std::string_view text) {
  const uint64_t size = text.size();
  digest_ = XXH3_64bits_withSeed(&size, sizeof(size), digest_);
  digest_ = XXH3_64bits_withSeed(text.data(), text.size(), digest_);
}

Result<void> Fingerprint::addBytes(size_t size, const ReadBytes& read, const std::string& path) {
  constexpr size_t kBlock = size_t{1} << 16, kBlocks = 4096;
  add(countText(size, "byte"));
  if (size <= kBlock * kBlocks) {
    XXH3_state_t state;
    XXH3_INITSTATE(&state);  // the next call reads the state's seed, and keeps the secret if that is the same
    XXH3_64bits_reset_withSeed(&state, digest_);
    TG_CHECK(inPieces(read, 0, size, [&](std::span<const std::byte> piece, size_t) -> Result<void> {
      XXH3_64bits_update(&state, piece.data(), piece.size());
      return {};
    }));
    digest_ = XXH3_64bits_digest(&state);
    return {};
  }
  std::vector<std::byte> block(kBlock);
  for (size_t i = 0; i < kBlocks; ++i) {
    TG_CHECK(read(i + 1 < kBlocks ? (size - kBlock) / (kBlocks - 1) * i : size - kBlock, block));
    digest_ = XXH3_64bits_withSeed(block.data(), block.size(), digest_);
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0)
    add(fmt::format("written at {}.{:09}", status.st_mtim.tv_sec, status.st_mtim.tv_nsec));
  return {};
}

std::string Fingerprint::str() const { return fmt::format("{}{:016x}", kScheme, digest_); }

bool comparableData(std::string_view fingerprint) { return fingerprint.starts_with(kScheme); }

}  // namespace tg
