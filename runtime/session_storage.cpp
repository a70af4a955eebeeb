// SPDX-License-Identifier: Apache-2.0
// A session's params and states: their initial values, and transfers to and from the host.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <map>
#include <random>

#include <fmt/format.h>

#include "ir/collective.h"
#include "ir/text.h"
#include "runtime/data/init.h"
#include "runtime/session.h"
#include "runtime/session_program.h"

namespace tg {

namespace {

/// Gives a note such as `initialising parameters: 1.20 GiB of 5.81 GiB` after two seconds of work, and then every two
/// seconds. Work that takes less time gives no note.
class Progress {
 public:
  /// `to` receives the notes, and may be empty. `bytes` is the total amount of work.
  Progress(const DiagnosticHandler& to, std::string doing, int64_t bytes)
      : to_(to), doing_(std::move(doing)), bytes_(bytes) {}
  void add(int64_t bytes) {
    constexpr std::chrono::seconds kPatience{2};
    done_ += bytes;
    const Clock::time_point now = Clock::now();
    if (now - told_ < kPatience || done_ >= bytes_ || !to_) return;
    told_ = now;
    to_({Severity::note,
         nullptr,
         fmt::format("{}: {} of {}", doing_, sizeText(done_), sizeText(bytes_)),
         {}});
  }

 private:
  using Clock = std::chrono::steady_clock;
  const DiagnosticHandler& to_;
  std::string doing_;
  int64_t bytes_, done_ = 0;
  Clock::time_point told_ = Clock::now();
};

/// The type of a param or state; for a sharded state, the type of the whole value.
Type wholeType(const Item& item) { return wholeOf(item).value_or(item.type); }

/// Checks all names and types before anything is written. If `wholes`, values of sharded states are whole.
Result<void> checkUpload(const Module& module, ItemKind kind,
                         const std::vector<std::pair<std::string, Type>>& values, UploadOptions options,
                         bool wholes = false) {
  std::map<std::string, int> given;
  for (const auto& [name, type] : values) {
    const Item* item = module.find(kind, name);
    if (!item && options.others) continue;
    if (!item)
      return fail("the module has no {} @{}; it has {}", tg::name(kind), name, namesOf(module.all(kind)));
    if (const Type wanted = wholes ? wholeType(*item) : item->type; wanted != type)
      return fail("@{} is {}, of {}, and not {}, of {}", name, wanted.str(),
                  countText(wanted.elements(), "element"), type.str(), type.elements());
    if (given[name]++) return fail("@{} is given twice", name);
  }
  std::vector<Item*> missing = module.all(kind);
  std::erase_if(missing, [&](const Item* item) { return given.contains(item->name); });
  if (options.partial || missing.empty()) return {};
  return fail("no value for {}; the module has {}, and giving a part of them needs `partial`",
              namesOf(missing), namesOf(module.all(kind)));
}

/// The overlap of a piece (`count` elements of a whole state from `first` on) with this rank's shard: its first element
/// as an index into the shard and into the piece, and its length.
struct Overlap {
  int64_t inShard, inPiece, count;
};
Overlap overlapOf(const Item& item, int rank, int64_t first, int64_t count) {
  const int64_t shard = item.type.elements(), begin = shard * rank;
  const int64_t from = std::clamp(first, begin, begin + shard);
  const int64_t to = std::clamp(first + count, begin, begin + shard);
  return {from - begin, from - first, to - from};
}

}  // namespace

// The memory of a new program is already zero, so zeros are not written.
Result<void> Session::initialise(SessionProgram& program, ItemKind kind, uint64_t seed, bool isNew) {
  int64_t bytes = 0, largest = 0;
  for (const Item* item : program.module()->all(kind)) {
    bytes += item->type.bytes();
    largest = std::max(largest, std::min(item->type.elements(), pieceElements(item->type)) *
                                    byteSize(item->type.dtype));
  }
  Progress progress(options_.onDiagnostic,
                    kind == ItemKind::param ? "initialising parameters" : "initialising states", bytes);
  std::vector<std::byte> piece(static_cast<size_t>(largest));
  for (const Item* item : program.module()->all(kind)) {
    if (kind == ItemKind::param && program.isBorrowed(item->name)) continue;
    TG_TRY(const FirstValue value, FirstValue::of(*item, seed));
    if (isNew && value.isZero()) continue;
    TG_CHECK(eachPiece(item->type, [&](int64_t first, int64_t count) -> Result<void> {
      const std::span out(piece.data(), static_cast<size_t>(count * byteSize(item->type.dtype)));
      value.fill(first, out);
      TG_CHECK(program.runner().writeRows(item->name, first, out));
      progress.add(static_cast<int64_t>(out.size()));
      return {};
    }));
  }
  return {};
}

/// A random seed, for when the caller gave none.
static uint64_t drawnSeed() {
  std::random_device source;
  return uint64_t{source()} << 32 | source();
}

CallResult<void> Session::reset(ResetOptions options) {
  return serve<void>([&] { return resetTo(options, /*isNew=*/false); });
}

Result<void> Session::resetTo(const ResetOptions& options, bool isNew) {
  if (options.seed)
    seed_ = *options.seed;
  else if (options.params)
    seed_ = drawnSeed();
  draws_.clear();
  if (options.params) TG_CHECK(initialise(*program_, ItemKind::param, seed_, isNew));
  if (!options.optimizer) return {};
  TG_CHECK(initialise(*program_, ItemKind::state, seed_, isNew));
  countFrom(0);
  rate_.rebase(0);
  return {};
}

Result<void> Session::upload(ItemKind kind, const NamedArrays& values, bool partial) {
  TG_CHECK(checkUpload(*program_->module(), kind, sourceOf(values).tensors, {.partial = partial}));
  for (const auto& [name, value] : values) TG_CHECK(value.checkBytes("@" + name));
  return program_->runner().setStorages(values);
}

Result<NamedArrays> Session::download(ItemKind kind) {
  std::vector<std::string> names;
  for (const Item* item : program_->module()->all(kind)) names.push_back(item->name);
  return program_->runner().storages(names);
}

CallResult<void> Session::uploadParams(const NamedArrays& values, UploadOptions options) {
  return serve<void>([&] { return upload(ItemKind::param, values, options.partial); });
}
CallResult<NamedArrays> Session::downloadParams() {
  return serve<NamedArrays>([&] { return download(ItemKind::param); });
}
CallResult<void> Session::uploadStates(const NamedArrays& values, UploadOptions options) {
  return serve<void>([&] { return upload(ItemKind::state, values, options.partial); });
}
CallResult<NamedArrays> Session::downloadStates() {
  return serve<NamedArrays>([&] { return download(ItemKind::state); });
}
CallResult<void> Session::writeTensors(ItemKind kind, const TensorSource& source, UploadOptions options) {
  TG_CHECK(checkOutside());
  auto turn = queue_.enter();
  if (!turn) return CallResult<void>::aborted(turn.takeError());
  TG_CHECK(checkUpload(*program_->module(), kind, source.tensors, options, /*wholes=*/true));
  int64_t bytes = 0;
  for (const auto& [name, type] : source.tensors) bytes += type.bytes();
  Progress progress(options_.onDiagnostic, kind == ItemKind::param ? "loading parameters" : "loading states",
                    bytes);
  // The source may wait for a call of another session, which may itself wait for this session or for memory that both
  // share. So this call lends its turn while it waits.
  const TensorSource lending{source.tensors, [&](size_t tensor, int64_t first, std::span<std::byte> out) {
                               const CallQueue::Loan loan(queue_);
                               return source.piece(tensor, first, out);
                             }};
  return eachPieceOf(lending,
                     [&](size_t tensor, int64_t first, std::span<const std::byte> piece) -> Result<void> {
                       progress.add(static_cast<int64_t>(piece.size()));
                       const auto& [name, type] = source.tensors[tensor];
                       TG_CHECK(checkFlags("@" + name, type, piece, first));
                       const Item* item = program_->module()->find(kind, name);
                       if (!item) return {};
                       const auto memory = program_->lockMemory();
                       return writePiece(*item, first, piece);
                     });
}

/// Writes a piece. Of a sharded state, only the part in this rank's shard is written.
Result<void> Session::writePiece(const Item& item, int64_t first, std::span<const std::byte> piece) {
  if (!wholeOf(item)) return program_->runner().writeRows(item.name, first, piece);
  const int64_t size = byteSize(item.type.dtype);
  const auto [inShard, inPiece, count] =
      overlapOf(item, rank(), first, static_cast<int64_t>(piece.size()) / size);
  if (count == 0) return {};
  return program_->runner().writeRows(
      item.name, inShard,
      piece.subspan(static_cast<size_t>(inPiece * size), static_cast<size_t>(count * size)));
}

/// Reads a piece. For a sharded state, all ranks must call this together: it gathers the piece from all of them.
Result<void> Session::readPiece(const Item& item, int64_t first, std::span<std::byte> piece) {
  if (!wholeOf(item) || !options_.ranks) return program_->runner().readRows(item.name, first, piece);
  const int64_t size = byteSize(item.type.dtype);
  const auto [inShard, inPiece, count] =
      overlapOf(item, rank(), first, static_cast<int64_t>(piece.size()) / size);
  std::string own(static_cast<size_t>(count * size), '\0');
  if (count > 0)
    TG_CHECK(program_->runner().readRows(item.name, inShard, std::as_writable_bytes(std::span(own))));
  TG_TRY(const std::vector<std::string> all, options_.ranks->allGather(own));
  size_t at = 0;
  for (const std::string& some : all) {
    if (at + some.size() > piece.size())
      return fail("the ranks' shards of @{} do not make up the state", item.name);
    std::memcpy(&piece[at], some.data(), some.size());
    at += some.size();
  }
  return at == piece.size() ? Result<void>()
                            : fail("the ranks' shards of @{} do not make up the state", item.name);
}

int Session::rank() const { return options_.ranks ? options_.ranks->rank() : 0; }

TensorSource Session::tensors(ItemKind kind) {
  TensorSource source;
  if (auto own = module())
    for (const Item* item : own->all(kind)) source.tensors.emplace_back(item->name, wholeType(*item));
  source.read = [this, kind, all = source.tensors](size_t tensor, int64_t first,
                                                   std::span<std::byte> out) -> Result<void> {
    auto read = serve<void>(
        [&]() -> Result<void> {
          const Item* item = program_->module()->find(kind, all[tensor].first);
          if (!item || wholeType(*item) != all[tensor].second)
            return fail("the session has another module, without @{}", all[tensor].first);
          return readPiece(*item, first, out);
        },
        CallKind::reads);
    return read ? Result<void>() : read.error();
  };
  return source;
}
CallResult<TensorsCopy> Session::copyTensors() {
  return serve<TensorsCopy>([&]() -> Result<TensorsCopy> {
    const Module& module = *program_->module();
    for (const Item* state : module.all(ItemKind::state))
      if (options_.ranks && wholeOf(*state))
        return fail("@{} is sharded, so all ranks must read it together", state->name);
    TG_TRY(const std::shared_ptr<StorageCopy> copy, program_->runner().copyStorages());
    auto source = [&](ItemKind kind) {
      TensorSource out;
      for (const Item* item : module.all(kind)) out.tensors.emplace_back(item->name, wholeType(*item));
      out.read = [copy, all = out.tensors](size_t tensor, int64_t first, std::span<std::byte> rows) {
        return copy->readRows(all[tensor].first, first, rows);
      };
      return out;
    };
    return TensorsCopy{source(ItemKind::param), source(ItemKind::state)};
  });
}

CallResult<ParamBuffers> Session::params() {
  return serve<ParamBuffers>([&] { return program_->params(); });
}

CallResult<NamedArrays> Session::downloadParamGrads() {
  return serve<NamedArrays>([&]() -> Result<NamedArrays> {
    if (lastStep_.empty()) return fail("there are no gradients before the first step");
    NamedArrays grads, ordered;
    if (options_.keepGrads) {
      TG_TRY(grads, program_->runner().paramGrads(lastStep_));
    }
    std::map<std::string, HostArray> byName(std::make_move_iterator(grads.begin()),
                                            std::make_move_iterator(grads.end()));
    for (const Item* param : program_->module()->all(ItemKind::param))
      if (auto own = byName.find(param->name); own != byName.end())
        ordered.emplace_back(param->name, std::move(own->second));
    if (!ordered.empty()) return ordered;
    return fail("@{} keeps no gradients: make the session with keepGrads, of a module with tg.param_grad "
                "(append-grad)",
                options_.trainFunction);
  });
}

}  // namespace tg
