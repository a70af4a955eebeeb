// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <fmt/format.h>

#include "ir/byte_range.h"
#include "ir/op_view.h"
#include "ir/parser.h"
#include "ir/target.h"
#include "ir/text.h"

namespace tg {

std::string kernelHash(const Item& kernel) { return textHash(print(kernel)); }

/// How a parameter is accessed; `accum` and `tape` are both read and written.
static std::string modeOf(const Type& type) {
  if (type.texel) return "texel";
  return type.mode == BufMode::in || type.mode == BufMode::out ? std::string(name(type.mode)) : "inout";
}

Attr kernelModes(const Item& kernel) {
  std::vector<Attr> modes;
  for (const auto& arg : kernel.body.args) {
    const Type& type = arg->type;
    std::vector<Attr> format;
    if (type.texel)
      format.push_back(Attr::word(fmt::format("{}{}", name(type.dtype), type.lanes == 4 ? "x4" : "")));
    modes.push_back(type.texel ? Attr::call(modeOf(type), std::move(format)) : Attr::word(modeOf(type)));
  }
  return Attr::array(std::move(modes));
}

namespace {

/// A byte range that a command accesses.
struct Access {
  ByteRange range;
  std::string_view mode;  ///< in, out, inout, texel
  bool writes() const { return mode == "out" || mode == "inout"; }
};

/// Walks the commands of each function in text order, with the accesses since the last barrier and the collectives in
/// flight.
class DispatchVerifier {
 public:
  explicit DispatchVerifier(const Module& module) : module_(module) {}
  Result<void> run();

 private:
  template <class... Args>
  void report(const Op& op, std::string_view label, fmt::format_string<Args...> format, Args&&... args) {
    errors_.append(failAt(op.loc, "{} [plan.{}]: {}", op.info().name, label,
                          fmt::format(format, std::forward<Args>(args)...)));
  }
  void hashes();
  std::string crossing(const ByteRange& range) const;
  void place(const Loc& loc, const Value& value);
  bool accesses(const Op& op, std::vector<Access>* out);
  bool inside(const Op& op, const Access& access);
  void dispatch(const Op& op, const std::vector<Access>& accesses);
  void parameters(const Op& op, const std::vector<Access>& accesses, const std::vector<std::string>& modes,
                  const Item* kernel);
  void aliases(const Op& op, const std::vector<Access>& accesses);
  void hazards(const Op& op, const std::vector<Access>& accesses);
  void inFlightAccess(const Op& op, const std::vector<Access>& accesses);
  void begin(const Op& op);
  void wait(const Op& op);
  void command(const Op& op);

  const Module& module_;
  Target target_;
  int64_t alignment_ = 1;  ///< that the target requires of bindings; 1 without a target
  Error errors_;
  std::unordered_map<std::string, const Item*> kernels_, binaries_;
  std::vector<std::pair<Access, const Op*>> pending_;  ///< since the last barrier
  /// A collective that has begun and has not been waited for.
  struct InFlight {
    int64_t id;
    const Op* op;
    std::vector<Access> accesses;
  };
  std::vector<InFlight> inFlight_;
};

void DispatchVerifier::hashes() {
  for (const auto& item : module_.items) {
    if (item->kind == ItemKind::kernel) kernels_[item->name] = item.get();
    if (item->kind == ItemKind::binary) binaries_[item->name] = item.get();
  }
  for (const auto& item : module_.items) {
    if (item->kind != ItemKind::binary || !kernels_.contains(item->name)) continue;
    const Attr *written = find(item->attrs, "kernel_hash"), *modes = find(item->attrs, "modes");
    std::string hash = kernelHash(*kernels_.at(item->name));
    const Attr wanted = kernelModes(*kernels_.at(item->name));
    if (!modes || *modes != wanted)
      errors_.append(failAt(item->loc, "binary @{} [plan.modes]: {}, and the kernel's parameters are {}",
                            item->name, modes ? "its modes are " + modes->str() : "it has no modes",
                            wanted.str())
                         .note(kernels_.at(item->name)->loc, "the kernel is here"));
    if (written && written->text == hash) continue;
    errors_.append(failAt(item->loc,
                          "binary @{} [plan.hash]: was compiled from another kernel: its kernel_hash is {}, "
                          "the kernel's is \"{}\"",
                          item->name, written ? written->str() : "missing", hash)
                       .note(kernels_.at(item->name)->loc, "the kernel is here"));
  }
}

/// The error of a range that crosses the end of an allocation; "" if it does not.
std::string DispatchVerifier::crossing(const ByteRange& range) const {
  if (target_.fit(range.offset, range.bytes) == range.offset) return "";
  return fmt::format("bytes {} to {} of @{} cross a multiple of {}, where one buffer ends", range.offset,
                     range.offset + range.bytes, range.buffer, target_.allocation);
}

void DispatchVerifier::place(const Loc& loc, const Value& value) {
  const Item* buffer = value.place ? module_.find(ItemKind::buffer, value.place->buffer) : nullptr;
  if (buffer && value.place->offset >= 0 && value.place->offset + value.type.bytes() <= buffer->bytes) {
    if (std::string wrong = crossing({buffer->name, value.place->offset, value.type.bytes()}); !wrong.empty())
      errors_.append(failAt(loc, "%{} [plan.allocation]: {}", value.name, wrong));
    return;
  }
  errors_.append(failAt(loc, "%{} [plan.range]: {}", value.name,
                        buffer ? fmt::format("ends outside of @{}, which has {}", buffer->name,
                                             countText(buffer->bytes, "byte"))
                               : "is in no buffer"));
}

bool DispatchVerifier::inside(const Op& op, const Access& access) {
  const ByteRange& range = access.range;
  const Item* buffer = module_.find(ItemKind::buffer, range.buffer);
  if (!buffer) {
    report(op, "range", "there is no buffer @{}", range.buffer);
    return false;
  }
  if (range.offset < 0 || range.bytes <= 0 || range.offset + range.bytes > buffer->bytes) {
    report(op, "range", "bytes {} to {} are outside of @{}, which has {}", range.offset,
           range.offset + range.bytes, range.buffer, buffer->bytes);
    return false;
  }
  if (std::string wrong = crossing(range); !wrong.empty()) {
    report(op, "allocation", "{}", wrong);
    return false;
  }
  int64_t wanted = access.mode == "texel" ? 16 : 4;
  if (range.offset % wanted == 0) return true;
  report(op, "align", "offset {} is not a multiple of {}", range.offset, wanted);
  return false;
}

/// Reads `args(in(@a[0:4]), …)`. Reports what is wrong with it and returns false.
bool DispatchVerifier::accesses(const Op& op, std::vector<Access>* out) {
  const Operand* args = op.keyword("args");
  bool good = args != nullptr;
  for (size_t index = 0; good && index < args->items.size(); ++index) {
    const Operand& arg = args->items[index];
    bool known = arg.text == "in" || arg.text == "out" || arg.text == "inout" || arg.text == "texel";
    good = arg.kind == Operand::Kind::keyword && known && arg.items.size() == 1 &&
           arg.items[0].kind == Operand::Kind::range;
    if (!good) break;
    out->push_back({byteRangeOf(arg), arg.text});
  }
  if (!good) {
    report(op, "args", "needs args(in(@buffer[offset:bytes]), …), each of them in, out, inout or texel");
    return false;
  }
  for (const Access& access : *out) good = inside(op, access) && good;
  return good;
}

void DispatchVerifier::parameters(const Op& op, const std::vector<Access>& accesses,
                                  const std::vector<std::string>& modes, const Item* kernel) {
  if (accesses.size() != modes.size())
    return report(op, "args", "@{} has {}, {}", op.operands[0].text, countText(modes.size(), "parameter"),
                  countText(accesses.size(), "range is given", "ranges are given"));
  for (size_t index = 0; index < modes.size(); ++index) {
    std::string param = kernel ? "%" + kernel->body.args[index]->name : fmt::format("parameter {}", index);
    if (accesses[index].mode != modes[index])
      report(op, "args", "{} of @{} is {}, the range is {}", param, op.operands[0].text, modes[index],
             accesses[index].mode);
    if (const int64_t offset = accesses[index].range.offset; offset % alignment_ != 0)
      report(op, "align", "{} of @{} begins at byte {}, no multiple of {}, the target's alignment", param,
             op.operands[0].text, offset, alignment_);
    if (!kernel) continue;
    const Type& type = kernel->body.args[index]->type;
    bool isStatic = type.isBuffer();
    for (int64_t extent : type.shape) isStatic = isStatic && extent != Shape::kDynamic;
    if (isStatic && accesses[index].range.bytes < type.bytes())
      report(op, "range", "{} of @{} takes {}, the range has {}", param, op.operands[0].text,
             countText(type.bytes(), "byte"), accesses[index].range.bytes);
  }
}

/// The invocations of a dispatch are unordered: outputs must not overlap each other or texel views. A storage input
/// may have exactly the range of an output, if each element is read only by the invocation that writes it.
void DispatchVerifier::aliases(const Op& op, const std::vector<Access>& accesses) {
  auto text = [](const ByteRange& range) {
    return fmt::format("@{}[{}:{}]", range.buffer, range.offset, range.bytes);
  };
  for (size_t a = 0; a < accesses.size(); ++a) {
    for (size_t b = 0; b < accesses.size(); ++b) {
      const Access &from = accesses[a], &to = accesses[b];
      if (a == b || !to.writes() || !overlap(from.range, to.range)) continue;
      if (from.mode == "texel") {
        report(op, "texel", "the texel range {} overlaps {}, which is written", text(from.range),
               text(to.range));
      } else if (from.writes()) {
        if (a < b) report(op, "overlap", "{} and {} are both written", text(from.range), text(to.range));
      } else if (from.range.offset != to.range.offset ||
                 (from.range.bytes + 15) / 16 != (to.range.bytes + 15) / 16) {
        report(op, "inplace", "{} is read and {} written: they overlap but are not the same",
               text(from.range), text(to.range));
      }
    }
  }
}

/// Checks a dispatch: its grid, its kernel or binary, and its arguments against the parameters.
void DispatchVerifier::dispatch(const Op& op, const std::vector<Access>& accesses) {
  const std::string& name = op.operands[0].text;
  const Operand* grid = op.keyword("grid");
  bool good = grid && !grid->items.empty() && grid->items.size() <= 3;
  for (size_t axis = 0; good && axis < grid->items.size(); ++axis)
    good = grid->items[axis].isLiteral() && grid->items[axis].isInteger && grid->items[axis].integer > 0;
  if (!good) report(op, "grid", "needs grid(x, y, z) with positive extents");
  std::vector<std::string> modes;
  const Item* kernel = kernels_.contains(name) ? kernels_.at(name) : nullptr;
  if (kernel) {
    for (const auto& arg : kernel->body.args) modes.push_back(modeOf(arg->type));
  } else if (binaries_.contains(name)) {
    if (const Attr* written = find(binaries_.at(name)->attrs, "modes"))
      for (const Attr& mode : written->list) modes.push_back(mode.text);
  } else {
    return report(op, "kernel", "there is no kernel @{}", name);
  }
  if (module_.stage == Stage::spirv && !binaries_.contains(name))
    report(op, "kernel", "there is no binary @{}", name);
  parameters(op, accesses, modes, kernel);
  aliases(op, accesses);
}

/// Commands between two barriers may run at the same time: none may write what another accesses.
void DispatchVerifier::hazards(const Op& op, const std::vector<Access>& accesses) {
  for (const Access& access : accesses) {
    for (const auto& [earlier, from] : pending_) {
      if (!access.writes() && !earlier.writes()) continue;
      if (!overlap(access.range, earlier.range)) continue;
      errors_.append(
          failAt(op.loc,
                 "{} [plan.barrier]: {} @{}[{}:{}], which an earlier command {}, without a barrier between",
                 op.info().name, access.writes() ? "writes" : "reads", access.range.buffer,
                 access.range.offset, access.range.bytes, earlier.writes() ? "writes" : "reads")
              .note(from->loc, "the earlier command is here"));
      return;
    }
  }
  for (const Access& access : accesses) pending_.push_back({access, &op});
}

/// Checks that no command accesses the ranges of a collective in flight.
void DispatchVerifier::inFlightAccess(const Op& op, const std::vector<Access>& accesses) {
  for (const InFlight& begun : inFlight_)
    for (const Access& access : accesses)
      for (const Access& its : begun.accesses) {
        if (!overlap(access.range, its.range)) continue;
        errors_.append(failAt(op.loc,
                              "{} [plan.collective]: accesses @{}[{}:{}], which a collective in flight uses "
                              "until the wait for id {}",
                              op.info().name, access.range.buffer, access.range.offset, access.range.bytes,
                              begun.id)
                           .note(begun.op->loc, "it begins here"));
        return;
      }
}

/// Whether the ranges are pairs of an input and an output, one with the shards of all ranks and the other with one
/// shard, all for the same number of ranks.
static bool arePairs(const std::vector<Access>& touched, bool gathers) {
  int64_t ranks = 0;
  for (size_t in = 0; in < touched.size(); in += 2) {
    if (in + 1 == touched.size() || touched[in].mode != "in" || touched[in + 1].mode != "out") return false;
    const int64_t whole = touched[gathers ? in + 1 : in].range.bytes;
    const int64_t shard = touched[gathers ? in : in + 1].range.bytes;
    if (shard <= 0 || shard % 4 != 0 || whole % shard != 0 || (ranks && whole / shard != ranks)) return false;
    ranks = whole / shard;
  }
  return true;
}

/// Checks that a collective's ranges have the form of its kind, do not overlap, and are not used by another one in
/// flight. A collective acts as a barrier.
void DispatchVerifier::begin(const Op& op) {
  std::vector<Access> touched;
  if (!accesses(op, &touched)) return;
  const bool inPlace = as::collective_begin(op).kind() == "all_reduce";
  const bool gathers = as::collective_begin(op).kind() == "all_gather";
  if (touched.empty()) report(op, "args", "needs args(inout(@buffer[offset:bytes]), …)");
  if (gathers != (as::collective_begin(op).reduction() == "same") && (gathers || inPlace))
    return report(op, "collective", "{}",
                  gathers ? "all_gather needs reduction = same"
                          : "all_reduce does not take reduction = same");
  if (!inPlace && !arePairs(touched, gathers))
    return report(op, "args",
                  "needs pairs in(@buffer[offset:bytes]), out(@buffer[offset:bytes]) of f32 elements, {} one "
                  "shard for each rank",
                  gathers ? "out" : "in");
  for (size_t index = 0; index < touched.size(); ++index) {
    if (inPlace && (touched[index].mode != "inout" || touched[index].range.bytes % 4 != 0))
      return report(op, "args", "needs args(inout(@buffer[offset:bytes]), …) of whole f32 elements");
    for (size_t other = 0; other < index; ++other)
      if (overlap(touched[index].range, touched[other].range))
        return report(op, "overlap", "two of its ranges overlap");
  }
  inFlightAccess(op, touched);
  const int64_t id = as::collective_begin(op).id();
  for (const InFlight& begun : inFlight_)
    if (begun.id == id) report(op, "collective", "the collective with id {} is in flight already", id);
  pending_.clear();
  inFlight_.push_back({id, &op, std::move(touched)});
}

void DispatchVerifier::wait(const Op& op) {
  const int64_t id = as::collective_wait(op).id();
  if (std::erase_if(inFlight_, [&](const InFlight& begun) { return begun.id == id; }) == 0)
    report(op, "collective", "no collective with id {} is in flight", id);
}

void DispatchVerifier::command(const Op& op) {
  for (const auto& result : op.results) place(result->loc, *result);
  if (op.code == Opcode::barrier) pending_.clear();
  if (op.code == Opcode::collective_begin) return begin(op);
  if (op.code == Opcode::collective_wait) return wait(op);
  if (op.code != Opcode::dispatch && op.code != Opcode::fill && op.code != Opcode::copy) return;
  std::vector<Access> touched;
  if (!accesses(op, &touched)) return;
  if (op.code == Opcode::dispatch) dispatch(op, touched);
  if (op.code == Opcode::fill && (touched.size() != 1 || touched[0].mode != "out"))
    return report(op, "args", "needs args(out(@buffer[offset:bytes]))");
  if (op.code == Opcode::copy) {
    if (touched.size() != 2 || touched[0].mode != "in" || touched[1].mode != "out" ||
        touched[0].range.bytes != touched[1].range.bytes)
      return report(op, "args",
                    "needs args(in(@buffer[offset:bytes]), out(@buffer[offset:bytes])) of equal length");
    if (overlap(touched[0].range, touched[1].range)) report(op, "overlap", "copies a range over itself");
  }
  inFlightAccess(op, touched);
  hazards(op, touched);
}

Result<void> DispatchVerifier::run() {
  target_ = *targetOf(module_.attrs);  // the verifier has checked that it can be read
  if (find(module_.attrs, "target")) alignment_ = target_.alignment;
  hashes();
  for (const auto& item : module_.items) {
    if (item->kind != ItemKind::func || isKernelFunc(*item)) continue;
    pending_.clear();
    inFlight_.clear();
    for (const auto& arg : item->body.args) place(arg->loc, *arg);
    for (Op* op : item->body.ops) command(*op);
    for (const InFlight& begun : inFlight_)
      report(*begun.op, "collective", "no tg.collective_wait for id {}", begun.id);
  }
  if (!errors_.empty()) return std::move(errors_);
  return {};
}

}  // namespace

Result<void> verifyDispatches(const Module& module) { return DispatchVerifier(module).run(); }

}  // namespace tg
