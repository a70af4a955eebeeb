// SPDX-License-Identifier: Apache-2.0
// Targets as data: the limits of a device and preferences that lowering looks up. Lowering never tests for a device
// by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attr.h"
#include "ir/divide.h"
#include "ir/result.h"
#include "ir/type.h"

namespace tg {

/// A matrix product that a subgroup computes at once: A is m x k and B is k x n, with elements `operand`; C is m x n
/// and is summed and stored as `result`.
struct CoopShape {
  int64_t m = 0, n = 0, k = 0;
  DType operand = DType::f16, result = DType::f32;
  bool operator==(const CoopShape&) const = default;
};

/// The limits, features and preferences of a device.
struct Target {
  std::string name = "vulkan-min";

  // The traits, with the defaults of vulkan-min.
#define NUMBER(member, name, a, b, c, least, ...) int64_t member = least;
#define FLAG(member, name, a, b, c, least, ...) bool member = least;
#define WORD(member, name, one, other, a, b, c, least, ...) std::string member = least;
#define MATRICES(member, name, a, b, c, least, ...) std::vector<CoopShape> member = least;
#include "ir/traits.def"

  /// Processors that run workgroups in parallel, assuming that 512 invocations keep one busy.
  int64_t units() const { return parallel < 512 ? 1 : parallel / 512; }
  /// The shape that computes products of `wanted`: the same, or else the largest that divides it; null if there is
  /// none.
  const CoopShape* shapeFor(const CoopShape& wanted) const;
  /// Whether the target multiplies matrices of this type into f32, in subgroups of a known width and a shape that
  /// divides 16x16x16.
  bool multiplies(DType operand) const;
  /// Whether `fragments` says which elements of such matrices an invocation holds. It does not of other shapes than 16x16.
  bool knowsFragments(DType operand) const;
  bool knowsFragments() const { return knowsFragments(DType::f16) || knowsFragments(DType::bf16); }

  /// The first offset from `offset` on at which this many bytes cross no multiple of `allocation`, where one buffer
  /// ends and the next begins. More bytes than an allocation always cross one.
  int64_t fit(int64_t offset, int64_t bytes) const {
    const int64_t next = (offset / allocation + 1) * allocation;
    return offset + bytes <= next ? offset : next;
  }
  /// The offset, from `offset` on, at which to place a value: as fit(), and a large value begins with a cache line. On an
  /// H100, whose `alignment` is 16, a product in bf16 took 50 µs with a result 16 bytes behind a sector, else 36.
  int64_t place(int64_t offset, int64_t bytes) const {
    constexpr int64_t kLarge = 4096, kLine = 128;
    return fit(bytes < kLarge ? offset : alignTo(offset, kLine), bytes);
  }
};

/// A trait, for documentation: its name, its value for each shipped target, in order, and its meaning.
struct TraitRow {
  std::string_view name, meaning;
  std::vector<std::string> values;
};
std::vector<TraitRow> traitRows();

/// The names of the targets that ship with the compiler, in the order of traits.def.
std::vector<std::string_view> targetNames();
/// A shipped target by name; an error lists the names.
Result<Target> targetByName(std::string_view name);
/// Reads a target from JSON. Missing members have the values of vulkan-min, a missing name is `unnamed`; unknown
/// members are an error.
Result<Target> targetFromJson(std::string_view json, std::string_view file);
std::string targetToJson(const Target& target);
/// The same on one line, as options of passes take it.
std::string targetOption(const Target& target);
/// The form that a module has: `target = {name = "lavapipe", …}`, with every member.
Attr targetToAttr(const Target& target);
Result<Target> targetFromAttr(const Attr& attr);
/// The target among a module's attributes; vulkan-min if there is none.
Result<Target> targetOf(const AttrList& attrs);

}  // namespace tg
