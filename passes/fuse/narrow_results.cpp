// SPDX-License-Identifier: Apache-2.0
// narrow-results: stores results of kernels in 16 bits where that loses nothing, and one value in place of several maps
// of it.
//
//   before:  %a, %b = tg.fused (…) { %w = tg.cast %n : f32   %m = tg.select %mask, %w, 0   %a = tg.mul %m, %gain
//                                    %b = tg.mul %m, %scale   tg.yield %a, %b }
//            %y = tg.fused (%a = %a, …) { … }
//   after:   %m_bf16 = tg.fused (…) { …  %m_bf16 = tg.cast %m   tg.yield %m_bf16 }
//            %y = tg.fused (%m_bf16 = %m_bf16, %gain = %gain, …) { %m = tg.cast %m_bf16   %a = tg.mul %m, %gain  … }
//
// If the elements of an f32 value are selected or moved from values of 16 bits, the kernel stores it in 16 bits. An example
// is the gradient of relu, which selects elements of a gradient that a product rounded. The same if all readers round the
// value to 16 bits first. If results differ from such a value only by factors or terms that are the same for many elements,
// such as the gain of a channel, the value is stored instead of them, and the kernels that read them apply the factors.
//
// The same for any maps of one value, its source, if one kernel reads each of them and the source has fewer bytes: a gated
// layer would store silu(x) and its slope in f32 for the gradient; it stores x, in 16 bits if a product rounded it. Two
// kernels may read a map of few ops, and both compute it: silu(x) if the weights behind it are not trained.
//
// Requires: stage(fused).
// Ensures: the function's results have the same bits; fewer bytes are stored and read; the order of kernels stays.
// Where: behind sink-maps, which removes results that need not be stored at all; before rematerialize, which counts live
//   bytes.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/op_view.h"
#include "passes/fuse/bindings.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/kernel_edits.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"

namespace tg::fuse {
namespace {

/// Results of a kernel that ops compute, element by element, from one value inside, the base, and from arguments.
struct Family {
  Value* base = nullptr;
  std::vector<Value*> results;
};

/// Whether each element of a value is a number of 16 bits.
bool isExact(const Value& value, DType dtype, std::unordered_map<const Value*, bool>& known) {
  const Op* def = value.def;
  if (!def) return false;
  if (auto at = known.find(&value); at != known.end()) return at->second;
  auto all = [&](int from) {
    for (int i = from; i < def->numOperands(); ++i)
      if (!isExact(*def->in(i), dtype, known)) return false;
    return true;
  };
  bool exact = false;
  switch (def->code) {
  case Opcode::cast: exact = def->in(0)->type.dtype == dtype; break;
  case Opcode::constant: {
    const Operand& given = as::constant(*def).value();
    exact = given.isLiteral() && roundedTo(dtype, given.number()) == given.number();
    break;
  }
  case Opcode::select: exact = all(1); break;
  case Opcode::relu:
  case Opcode::neg:
  case Opcode::abs:
  case Opcode::max:
  case Opcode::min:
  case Opcode::concat:
  case Opcode::max_pool2d:
  case Opcode::max_reduce: exact = all(0); break;
  default: exact = movesElements(*def) && all(0); break;
  }
  return known[&value] = exact;
}

/// The type of 16 bits whose numbers the elements of a value are; f32 if there is none.
DType narrowest(const Value& value) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    std::unordered_map<const Value*, bool> known;
    if (isExact(value, dtype, known)) return dtype;
  }
  return DType::f32;
}

/// Whether each user of a value, maybe through views, rounds it to a type.
bool isRoundedTo(DType dtype, const Value& value) {
  return !value.uses.empty() && std::all_of(value.uses.begin(), value.uses.end(), [&](const Use& use) {
    const Op& user = *use.user();
    if (user.info().has(table::view)) return isRoundedTo(dtype, *user.result());
    return user.code == Opcode::cast && user.result()->type.dtype == dtype;
  });
}

/// The type of 16 bits to which all kernels that read a result round it first; f32 if there is none.
DType roundedByReaders(const Value& result) {
  for (DType dtype : {DType::bf16, DType::f16})
    if (std::all_of(result.uses.begin(), result.uses.end(), [&](const Use& use) {
          const Value* arg = argFor(*use.user(), result);
          return arg && isRoundedTo(dtype, *arg);
        }))
      return dtype;
  return DType::f32;
}

/// The type in which a value would be stored.
Type storedAs(const Value& value) {
  return value.type.dtype == DType::f32 ? Type::tensor(narrowest(value), value.type.shape) : value.type;
}

/// The operand of an op that has as many elements as the result, if each other operand is small and an argument or a
/// constant: what is the same for many elements, such as the gain of a channel. Null for other ops.
Value* largeOperand(const Op& op) {
  const Type& type = op.result()->type;
  Value* large = nullptr;
  bool others = isElementwise(op) && (isCheapMap(op) || op.code == Opcode::div);
  forEachUse(op, [&](Value* operand) {
    if (operand->type.elements() == type.elements() && (!large || large == operand)) {
      large = operand;
      return;
    }
    const bool given = !operand->def || operand->def->code == Opcode::constant;
    others = others && given && kSmallLeaf * operand->type.bytes() <= type.bytes();
  });
  return others && large && large->type == type ? large : nullptr;
}

class Narrower {
 public:
  Narrower(Item& func, const Target& target) : func_(func), target_(target), names_(func) {}
  void run() {
    for (Op* op : func_.body.ops.all())
      while (isPlain(*op) && improve(*op)) {
      }
  }

 private:
  std::vector<Family> familiesOf(const Op& fused) const;
  bool followsFrom(const Op& fused, Value& base, const Value& result) const;
  std::optional<Family> mapsOfOne(const Op& fused) const;
  bool mayRead(const Op& reader, const Value& result, const Family& family, const Op& fused) const;
  bool saves(const Op& fused, const Family& family, DType dtype) const;
  bool improve(Op& fused);
  void store(Op& fused, const Family& family, DType dtype);

  Item& func_;
  const Target& target_;
  NameTable names_;
};

/// The results of a kernel that might be stored in another form, by their bases.
std::vector<Family> Narrower::familiesOf(const Op& fused) const {
  std::vector<Family> families;
  for (const auto& result : fused.results) {
    if (result->type.dtype != DType::f32 || result->type.rank() == 0) continue;
    Value* base = const_cast<Value*>(innerOf(*result));
    for (int ops = 0; base->def && ops < kMostOpsSunk; ++ops) {
      Value* below = largeOperand(*base->def);
      if (!below) break;
      base = below;
    }
    if (!base->def || isWidening(*base->def)) continue;  // the base is in memory
    auto at = std::ranges::find_if(families, [&](const Family& f) { return f.base == base; });
    if (at == families.end()) at = families.insert(at, Family{base, {}});
    at->results.push_back(result.get());
  }
  return families;
}

/// The kernels that read a result, if they are at most two and each reads it element by element; else none.
std::vector<const Op*> readersByElement(const Value& result) {
  std::vector<const Op*> readers;
  for (const Use& use : result.uses) {
    const Value* arg = argFor(*use.user(), result);
    if (!arg || !readsByElement(*use.user(), *arg) || isFactor(*arg)) return {};
    addOnce(readers, use.user());
  }
  return readers.size() <= 2 ? readers : std::vector<const Op*>();
}

/// Whether two kernels may compute a slice: it has few ops.
bool isShort(const Slice& slice) {
  return std::ranges::count_if(slice.ops, [](const Op* op) {
           return !op->info().has(table::leaf) && op->code != Opcode::cast;
         }) <= kMostOpsSunk;
}

/// The result of a kernel that equals a value inside; null if it is not stored.
Value* storedAlready(const Op& fused, const Value& inner) {
  for (const auto& result : fused.results)
    if (innerOf(*result) == &inner) return result.get();
  return nullptr;
}

/// The ops that compute a result, element by element, from `base` and from arguments. `outside` says which values inside
/// exist outside of the kernel (see outsideOf); `base` is one of those outside.
std::optional<Slice> sliceFrom(const Op& fused, const Value& result, const Value& base,
                               const std::unordered_map<const Value*, Value*>& outside) {
  auto stands = [&](const Value& source) { return source.def != &fused || &source == &base; };
  auto allows = [](const Op& op) { return op.code == Opcode::constant || isElementwise(op); };
  return sliceTo(fused, innerOf(result), outside, stands, allows);
}

/// Whether each kernel that reads a result can compute it from the base, and from arguments that are small or that it reads
/// anyway.
bool Narrower::followsFrom(const Op& fused, Value& base, const Value& result) const {
  std::unordered_map<const Value*, Value*> outside = outsideOf(fused);
  outside[&base] = &base;  // as if it were stored
  const std::optional<Slice> slice = sliceFrom(fused, result, base, outside);
  if (!slice || !contains(slice->leaves, &base)) return false;
  const std::vector<const Op*> readers = readersByElement(result);
  return (readers.size() == 1 || isShort(*slice)) && std::ranges::all_of(readers, [&](const Op* reader) {
           Bindings bound(target_, *reader, result);
           for (const Value* leaf : slice->leaves) {
             const Value& source = *outside.at(leaf);
             bound.read(source);
             const bool isSmall = kSmallLeaf * source.type.bytes() <= result.type.bytes();
             if (leaf != &base && !isSmall && !argFor(*reader, source)) return false;
           }
           return bound.fit();
         });
}

/// Results that are maps of one value, the base, if fewer bytes are stored with it in their place. A base that is a result
/// itself costs nothing. None of the results is smaller than the base, which then lives as long as they did. Of all bases the
/// one that saves the most bytes; of equal ones the last, from which the least is computed again.
std::optional<Family> Narrower::mapsOfOne(const Op& fused) const {
  std::vector<Value*> results;
  for (const auto& result : fused.results)
    if (result->type.rank() > 0 && !readersByElement(*result).empty()) results.push_back(result.get());
  std::optional<Family> best;
  int64_t most = 0;
  for (Op* op : fused.regions[0]->ops) {
    if (results.empty()) break;
    if (op->results.size() != 1 || isWidening(*op) || op->info().has(table::view) ||
        op->info().has(table::leaf))
      continue;
    Family family{op->result(), {}};
    const Type stored = storedAs(*op->result());
    const Value* own = storedAlready(fused, *op->result());
    int64_t saved = own && own->type == stored ? 0 : -stored.bytes();
    for (Value* result : results)
      if (result != own && result->type.elements() == stored.elements() &&
          stored.bytes() <= result->type.bytes() && followsFrom(fused, *op->result(), *result)) {
        family.results.push_back(result);
        saved += result->type.bytes();
      }
    if (saved > 0 && saved >= most) best = std::move(family), most = saved;
  }
  return best;
}

/// Whether a kernel can read the base in place of a result. Where it has to compute the result, it must do so once for each
/// element.
bool Narrower::mayRead(const Op& reader, const Value& result, const Family& family, const Op& fused) const {
  const Value* arg = argFor(reader, result);
  if (!arg || !takesMaps(reader) || isFactor(*arg)) return false;
  if (innerOf(result) == family.base) return true;
  Bindings bound(target_, reader, result);
  bound.read(*family.base);
  for (const Operand& operand : fused.operands)
    if (kSmallLeaf * operand.value->type.bytes() <= result.type.bytes()) bound.read(*operand.items[0].value);
  return readsByElement(reader, *arg) && bound.fit();
}

/// Whether all readers can read the base instead, and fewer bytes are then stored and read.
bool Narrower::saves(const Op& fused, const Family& family, DType dtype) const {
  int64_t before = 0;
  std::vector<const Op*> readers;
  for (const Value* result : family.results) {
    if (dtype == DType::f32 && innerOf(*result) == family.base) return false;
    before += result->type.bytes();
    for (const Use& use : result->uses) {
      const Op* reader = use.user();
      if (!mayRead(*reader, *result, family, fused)) return false;
      before += result->type.bytes();
      addOnce(readers, reader);
    }
  }
  const auto accesses = static_cast<int64_t>(readers.size()) + 1;
  return accesses * Type::tensor(dtype, family.base->type.shape).bytes() < before;
}

/// Stores the base in place of the results.
void Narrower::store(Op& fused, const Family& family, DType dtype) {
  Block& region = *fused.regions[0];
  Value* stored = family.base;
  if (dtype != DType::f32) {
    Builder builder(region);
    builder.setBefore(family.base->def->next()).setLoc(family.base->loc);
    builder.setHint(fmt::format("{}_{}", family.base->name, name(dtype)));
    stored = builder.cast(family.base, dtype);
    builder.setHint(family.base->name + "_wide");
    Value* wide = builder.cast(stored, DType::f32);
    family.base->uses.replaceAll(wide);
    stored->def->operands[0] = Operand::of(family.base);
  }
  Value* added = storedAlready(fused, *stored);
  if (!added) {
    region.terminator()->operands.push_back(Operand::of(stored));
    added = fused.addResult(stored->type, names_.unique(stored->name));
    added->loc = stored->loc;
  }
  for (Value* result : family.results) {
    const Value* inner = innerOf(*result);
    const Slice slice = *sliceFrom(fused, *result, *added, outsideOf(fused));
    while (!result->uses.empty()) {
      Op& reader = *result->uses.begin()->user();
      computeArg(reader, argFor(reader, *result), fused, slice, inner, target_);
    }
    dropResult(fused, slotOf(*result), target_);
  }
}

/// Stores one base in place of its results; false if that pays for none.
bool Narrower::improve(Op& fused) {
  if (const std::optional<Family> family = mapsOfOne(fused)) {
    store(fused, *family, narrowest(*family->base));
    return true;
  }
  for (const Family& family : familiesOf(fused)) {
    const DType dtype = narrowest(*family.base);
    if (!saves(fused, family, dtype)) continue;
    store(fused, family, dtype);
    return true;
  }
  for (const auto& result : fused.results) {
    Value* inner = const_cast<Value*>(innerOf(*result));
    const bool isOnlyStored = inner->def && inner->uses.begin()->user()->code == Opcode::yield &&
                              std::next(inner->uses.begin()) == inner->uses.end();
    if (result->type.dtype != DType::f32 || result->type.rank() == 0 || !isOnlyStored) continue;
    const Family family{inner, {result.get()}};
    const DType dtype = roundedByReaders(*result);
    if (!saves(fused, family, dtype)) continue;
    store(fused, family, dtype);
    return true;
  }
  return false;
}

}  // namespace
}  // namespace tg::fuse

tg::Result<void> tg::run_narrow_results(Module& module, const NoOptions&, const PassContext&) {
  return fuse::rewriteFunctions<fuse::Narrower>(module, targetOf(module.attrs));
}
