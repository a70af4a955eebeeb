// SPDX-License-Identifier: Apache-2.0
// The op table as data. The enum, parser, printer, structural verifier, builder, docs and listings all read an op's
// form from its row here.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ir/scalar.h"
#include "ir/type.h"

namespace tg {

enum class Opcode : uint16_t {
#define OP(id, ...) id,
// clang-format off
#include "ir/ops.def"
#include "ir/kernel/ops.def"
// clang-format on
#undef OP
};
constexpr int kOpcodeCount = 0
#define OP(id, ...) +1
// clang-format off
#include "ir/ops.def"
#include "ir/kernel/ops.def"
// clang-format on
#undef OP
    ;

/// Stages of a module, in order; the text says `stage(fused)`.
enum class Stage : uint8_t { tensor, fused, planned, kernel, spirv };
std::string_view name(Stage stage);

namespace table {

/// The form of a slot of operands. `values` and `groups` are variadic; `element` is `%buf[%i, …]`; `range` is
/// `@buffer[offset:bytes]`; `bindings` is `(%a = %x, …)`; `keyword` is `name(…)`; `callee` is `@f` with the `values`
/// that follow it in parentheses, `@f(%a, %b)`.
enum class SlotKind : uint8_t {
  none,
  value,
  optional,
  values,
  symbol,
  element,
  literal,
  callee,
  bindings,
  binding,
  keyword,
  args
};

/// Element-type classes: `flt` is any float type, `num` adds integers, `any` adds i1.
enum class TypeClass : uint8_t { any, num, flt, integer, boolean };

struct Slot {
  std::string_view name;
  SlotKind kind = SlotKind::none;
  TypeClass type = TypeClass::any;
};

enum class AttrKind : uint8_t { none, integer, real, boolean, string, word, symbol, ints, any };

struct AttrRow {
  std::string_view name;
  AttrKind kind = AttrKind::none;
  std::string_view fallback;  ///< default as text; "" means the attribute is required
  std::string_view choices;   ///< words: "mean|sum|none"
};

/// How many results an op has: exactly `count`, or any number (`variadic`), the last
/// `optional` of which may be missing.
struct Results {
  int count = 1;
  int optional = 0;
  bool variadic = false;
};

// Where an op may be used; a set of bits.
enum Where : uint16_t {
  inTensor = 1,    ///< a function of stage tensor
  inFused = 2,     ///< a function of stage fused
  inPlanned = 4,   ///< a function of stage planned
  inDispatch = 8,  ///< a function of stage kernel or spirv
  inRegion = 16,   ///< the body of a tg.fused
  inKernel = 32,   ///< the body of a kernel
};

enum Trait : uint16_t {
  pure = 1,
  commutative = 2,
  composite = 4,  ///< defined by its decomposition
  view = 8,       ///< an index map only; never a kernel of its own
  terminator = 16,
  effect = 32,  ///< has an effect; dce keeps it
  leaf = 64,    ///< no tensor operands
  /// Element i of the result depends only on elements i of the operands of its shape; true of every op with a scalar
  /// function.
  elements = 128,
  // The axes of the first operand along which an op combines elements. Along the other axes every index is independent
  // (keepsApart in ir/rows.h).
  alongAxes = 256,     ///< those of the attribute `axis` or `axes`
  alongRow = 512,      ///< the last axis
  alongMatrix = 1024,  ///< the last two axes
  alongImage = 2048,   ///< all but the first axis, whose entries are images
};

/// How fusion treats an op. `custom`: a kernel of the module, which is a region by itself. `window`: an element reads
/// a neighbourhood of each operand; most operand elements are read once.
enum class Fusion : uint8_t {
  none,
  map,
  view,
  reduce,
  row,
  contraction,
  scatter,
  leaf,
  window,
  attention,
  custom
};

template <class T, int N>
struct List {
  std::array<T, N> items{};
  int count = 0;
  constexpr List() = default;
  template <class... Ts>
  constexpr explicit List(Ts... args) : items{args...}, count(sizeof...(Ts)) {}
  constexpr const T* begin() const { return items.data(); }
  constexpr const T* end() const { return items.data() + count; }
  constexpr const T& operator[](int index) const { return items[index]; }
  constexpr int size() const { return count; }
};

}  // namespace table

/// One row of the op table.
struct OpInfo {
  Opcode code;
  std::string_view name;  ///< "tg.add"
  table::List<table::Slot, 8> slots;
  table::List<table::AttrRow, 6> attrs;
  table::Results results;
  int regions;  ///< number of regions; tgk.if may have one less
  uint16_t traits;
  uint16_t where;
  table::Fusion fusion;
  Scalar scalar;  ///< elementwise rows; Scalar::none otherwise
  std::string_view summary;
  std::string_view constraints;  ///< "c1: …; c2: …" or ""
  std::string_view example;      ///< lines of a function body over %x %y (2x4xf32) and friends

  bool has(table::Trait trait) const { return traits & trait; }
  bool mayStand(table::Where place) const { return where & place; }
  const table::AttrRow* attr(std::string_view name) const;
};

const OpInfo& info(Opcode code);
/// Whether an element type belongs to a class.
bool admits(table::TypeClass wanted, DType dtype);
/// The op with this name; null if there is none.
const OpInfo* findOp(std::string_view name);
/// The name most similar to a misspelt one, among the kernel ops if `kernel`, else among all others; "" if none is
/// similar. The part before the first dot is ignored.
std::string_view nearestOp(std::string_view name, bool kernel);

}  // namespace tg
