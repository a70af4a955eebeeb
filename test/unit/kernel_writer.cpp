// SPDX-License-Identifier: Apache-2.0
// Expressions of random kernels.
#include "test/unit/kernel_writer.h"

#include <algorithm>
#include <cmath>

namespace tg::test {

std::string KernelText::number(double most, int literals) {
  std::vector<ScopedValue> scalars;
  for (const ScopedValue& value : floats_)
    if (value.lanes == 1) scalars.push_back(value);
  if (scalars.empty() || random_.chance(literals)) return literal(most);
  // The newest are taken more often, so that chains grow.
  size_t back = std::min<size_t>(scalars.size(), 4);
  const ScopedValue& pick =
      random_.chance(60)
          ? scalars[scalars.size() - 1 - static_cast<size_t>(random_.below(static_cast<int>(back)))]
          : random_.of(scalars);
  if (pick.most <= most) return pick.name;
  std::string squashed = let(fmt::format("tgk.{} {} : f32", random_.chance(50) ? "sin" : "tanh", pick.name));
  return most >= 1 ? squashed : let(fmt::format("tgk.mul {}, {} : f32", squashed, most));
}

std::string KernelText::vector(int lanes, double most) {
  std::vector<ScopedValue> all;
  for (const ScopedValue& value : floats_)
    if (value.lanes == lanes) all.push_back(value);
  if (all.empty()) return "";
  const ScopedValue& pick = random_.of(all);
  return pick.most <= most ? pick.name : let(fmt::format("tgk.sin {} : vec{}<f32>", pick.name, lanes));
}

std::string KernelText::integer(bool uniform, int literals) {
  std::vector<std::string> names;
  for (const ScopedValue& value : ints_)
    if (value.uniform || !uniform) names.push_back(value.name);
  if (names.empty() || random_.chance(literals)) return std::to_string(random_.below(6));
  return random_.of(names);
}

std::string KernelText::index(int extent, bool uniform) {
  std::string of = integer(uniform);
  if (of[0] != '%') return std::to_string(std::stoi(of) % extent);
  if (random_.chance(35)) of = let(fmt::format("tgk.add {}, {} : u32", of, integer(uniform)), "u");
  return let(fmt::format("tgk.mod {}, {} : u32", of, extent), "u");
}

std::string KernelText::condition(bool uniform) {
  static const std::vector<std::string> kOrders{"lt", "le", "gt", "ge"};
  if (!uniform && random_.chance(40)) {
    std::string a = number(4, 0);
    std::string b = a[0] == '%' ? number() : literal();
    if (a[0] == '%') return let(fmt::format("tgk.{} {}, {} : bool", random_.of(kOrders), a, b), "c");
  }
  std::string of = integer(uniform, 0);
  if (of[0] != '%') of = let(fmt::format("tgk.add {}, 1 : u32", of), "u");
  if (random_.chance(50)) {
    std::string rest = let(fmt::format("tgk.mod {}, {} : u32", of, random_.between(2, 3)), "u");
    return let(fmt::format("tgk.{} {}, {} : bool", random_.chance(50) ? "eq" : "ne", rest, random_.below(2)),
               "c");
  }
  return let(fmt::format("tgk.{} {}, {} : bool", random_.of(kOrders), of, random_.below(5)), "c");
}

/// Smooth functions in the domains where they are tame.
void KernelText::unary() {
  struct Row {
    const char* op;
    double domain, most;  ///< most < 0: as the argument's
  };
  static const std::vector<Row> kRows{
      {"sin", 16, 1},    {"cos", 16, 1},     {"tanh", 16, 1},    {"atan", 16, 1.6},  {"erf", 16, 1},
      {"exp", 1.5, 5},   {"exp2", 2, 4},     {"sinh", 1.5, 2.2}, {"cosh", 1.5, 2.4}, {"neg", 16, -1},
      {"tan", 0.8, 1.1}, {"asin", 0.9, 1.2}, {"acos", 0.9, 3}};
  static const std::vector<Row> kPositive{
      {"sqrt", 4, 4.1}, {"rsqrt", 4, 1.5}, {"log", 4, 3}, {"log2", 4, 4.1}, {"reciprocal", 4, 2}};
  if (random_.chance(70)) {
    const Row& row = random_.of(kRows);
    std::string x = number(row.domain, 0);
    double most = row.most < 0 ? 16 : row.most;
    addFloat({let(fmt::format("tgk.{} {} : f32", row.op, x)), 1, most});
    return;
  }
  const Row& row = random_.of(kPositive);
  std::string x = number(row.domain, 0);
  std::string positive = let(fmt::format("tgk.fma {}, {}, 0.53 : f32", x, x));
  if (random_.chance(20)) {
    std::string power = number(2);
    addFloat({let(fmt::format("tgk.pow {}, {} : f32", positive, power)), 1, 300});
    return;
  }
  addFloat({let(fmt::format("tgk.{} {} : f32", row.op, positive)), 1, row.most});
}

void KernelText::binary() {
  std::string a = number(4, 0), b = number(4), c = number(4);
  switch (random_.below(5)) {
  case 0: return addFloat({let(fmt::format("tgk.add {}, {} : f32", a, b)), 1, 8});
  case 1: return addFloat({let(fmt::format("tgk.sub {}, {} : f32", a, b)), 1, 8});
  case 2: return addFloat({let(fmt::format("tgk.mul {}, {} : f32", a, b)), 1, 16});
  case 3: return addFloat({let(fmt::format("tgk.fma {}, {}, {} : f32", a, b, c)), 1, 20});
  default: {
    std::string d = number(4, 0);  // all literals would be folded, and f32 is what they are folded in
    std::string below = let(fmt::format("tgk.fma {}, {}, 0.67 : f32", d, d));
    return addFloat({let(fmt::format("tgk.div {}, {} : f32", a, below)), 1, 6});
  }
  }
}

/// Functions with corners, which the values of a case miss almost surely.
void KernelText::corner() {
  std::string a = number(4, 0), b = number(4);
  switch (random_.below(4)) {
  case 0: return addFloat({let(fmt::format("tgk.min {}, {} : f32", a, b)), 1, 4});
  case 1: return addFloat({let(fmt::format("tgk.max {}, {} : f32", a, b)), 1, 4});
  case 2: return addFloat({let(fmt::format("tgk.abs {} : f32", a)), 1, 4});
  default: {
    std::string c = condition(false);
    return addFloat({let(fmt::format("tgk.select {}, {}, {} : f32", c, a, b)), 1, 4});
  }
  }
}

/// A select whose dead branch is NaN or infinite for some arguments.
void KernelText::masked() {
  static const std::vector<std::string> kPoles{"sqrt", "log", "rsqrt", "log2", "reciprocal"};
  std::string a = number(4, 0);
  if (a[0] != '%') a = let(fmt::format("tgk.sub {}, 0.013 : f32", a));
  std::string live = let(fmt::format("tgk.gt {}, 0.11 : bool", a), "c");
  std::string pole = let(fmt::format("tgk.{} {} : f32", random_.of(kPoles), a));
  if (random_.chance(40)) pole = let(fmt::format("tgk.mul {}, {} : f32", pole, number(2)));
  addFloat({let(fmt::format("tgk.select {}, {}, {} : f32", live, pole, number(4))), 1, 18});
}

/// Values that no gradient passes.
void KernelText::inactive() {
  std::string a = number(4, 0);
  switch (random_.below(4)) {
  case 0: {
    static const std::vector<std::string> kSteps{"floor", "ceil", "round", "trunc", "sign"};
    if (a[0] != '%') a = let(fmt::format("tgk.add {}, 0.017 : f32", a));
    return addFloat({let(fmt::format("tgk.{} {} : f32", random_.of(kSteps), a)), 1, 5});
  }
  case 1: {
    std::string n = let(fmt::format("tgk.mod {}, 5 : u32", integer(false)), "u");
    return addFloat({let(fmt::format("tgk.cast {} : f32", n)), 1, 4});
  }
  case 2: {
    if (a[0] != '%') return;
    std::string scaled = let(fmt::format("tgk.mul {}, 1.37 : f32", a));
    std::string n = let(fmt::format("tgk.cast {} : i32", scaled), "n");
    return addFloat({let(fmt::format("tgk.cast {} : f32", n)), 1, 6});
  }
  default: {
    if (a[0] != '%') return;
    std::string sure = let(fmt::format("tgk.abs {} : f32", a));
    std::string n = let(fmt::format("tgk.cast {} : u32", sure), "u");
    return addInt(n, false);
  }
  }
}

void KernelText::vectors() {
  int lanes = random_.chance(60) ? 4 : 2;
  std::string v = vector(lanes, 4), w = vector(lanes, 4);
  if (v.empty() || random_.chance(25)) {
    std::string list = number(4);
    if (list[0] != '%' || random_.chance(80))
      for (int i = 1; i < lanes; ++i) list += ", " + number(4);
    return addFloat({let(fmt::format("tgk.vec {} : vec{}<f32>", list, lanes), "w"), lanes, 4});
  }
  std::string type = fmt::format("vec{}<f32>", lanes);
  switch (random_.below(6)) {
  case 0: return addFloat({let(fmt::format("tgk.extract {}, {} : f32", v, random_.below(lanes))), 1, 4});
  case 1: return addFloat({let(fmt::format("tgk.mul {}, {} : {}", v, w, type), "w"), lanes, 16});
  case 2: return addFloat({let(fmt::format("tgk.mul {}, {} : {}", v, number(4), type), "w"), lanes, 16});
  case 3:
    return addFloat({let(fmt::format("tgk.fma {}, {}, {} : {}", v, w, number(4), type), "w"), lanes, 20});
  case 4: {
    std::string c = let(fmt::format("tgk.gt {}, {} : vec{}<bool>", v, literal(), lanes), "c");
    return addFloat({let(fmt::format("tgk.select {}, {}, {} : {}", c, v, number(4), type), "w"), lanes, 4});
  }
  default: return addFloat({let(fmt::format("tgk.cos {} : {}", v, type), "w"), lanes, 1});
  }
}

void KernelText::arithmetic() {
  int kind = random_.below(100);
  if (kind < 38) return binary();
  if (kind < 66) return unary();
  if (kind < 76) return corner();
  if (kind < 82) return masked();
  if (kind < 88) return inactive();
  vectors();
}

}  // namespace tg::test
