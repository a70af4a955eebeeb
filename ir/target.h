// SPDX-License-Identifier: Apache-2.0
// A target is data: limits a device imposes and preferences that lowering asks about. Lowering
// never asks for a device by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attr.h"
#include "ir/result.h"
#include "ir/type.h"

namespace tg {

/// A product of matrices that a subgroup computes at once: A of m x k and B of k x n hold `operand`, C of
/// m x n holds and sums `result`.
struct CoopShape {
  int64_t m = 0, n = 0, k = 0;
  DType operand = DType::f16, result = DType::f32;
  bool operator==(const CoopShape&) const = default;
};

struct Target {
  std::string name = "vulkan-min";

  // The traits, vulkan-min's unless they are given.
#define NUMBER(member, name, a, b, c, least, ...) int64_t member = least;
#define FLAG(member, name, a, b, c, least, ...) bool member = least;
#define WORD(member, name, one, other, a, b, c, least, ...) std::string member = least;
#define MATRICES(member, name, a, b, c, least, ...) std::vector<CoopShape> member = least;
#include "ir/traits.def"

  /// Processors that run workgroups side by side, where 512 invocations keep one busy.
  int64_t units() const { return parallel < 512 ? 1 : parallel / 512; }
  /// The shape in which products of `wanted` are made: itself, or else the largest that divides it; null where there
  /// is none.
  const CoopShape* shapeFor(const CoopShape& wanted) const;
  /// Whether subgroups of a known width multiply matrices of a type into f32, in a shape that divides 16x16x16.
  bool multiplies(DType operand) const;

  /// The first offset from `offset` on where so many bytes cross no multiple of `allocation`, at which one
  /// buffer ends and the next begins. They do everywhere when they are more than an allocation.
  int64_t fit(int64_t offset, int64_t bytes) const {
    const int64_t next = (offset / allocation + 1) * allocation;
    return offset + bytes <= next ? offset : next;
  }
};

/// A trait, for documentation: its name, its value of each target that ships, in their order, and its meaning.
struct TraitRow {
  std::string_view name, meaning;
  std::vector<std::string> values;
};
std::vector<TraitRow> traitRows();

/// The names of the targets that ship with the compiler, in the order of traits.def.
std::vector<std::string_view> targetNames();
/// A shipped target by name; an error lists the known names.
Result<Target> targetByName(std::string_view name);
/// Reads a target from JSON; missing members have vulkan-min's values, a missing name is `unnamed`, unknown ones are an
/// error.
Result<Target> targetFromJson(std::string_view json, std::string_view file);
std::string targetToJson(const Target& target);
/// The form written on a module: `target = {name = "lavapipe", …}`, every member printed.
Attr targetToAttr(const Target& target);
Result<Target> targetFromAttr(const Attr& attr);
/// The target that stands among a module's attributes; vulkan-min when none does.
Result<Target> targetOf(const AttrList& attrs);

}  // namespace tg
