// SPDX-License-Identifier: Apache-2.0
#include "ir/init.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/text.h"

namespace tg {

namespace {

using Draw = InitKind::Draw;

constexpr InitKind kKinds[] = {{"zeros", Draw::fill, 0, 0},    {"ones", Draw::fill, 0, 0},
                               {"constant", Draw::fill, 1, 1}, {"uniform", Draw::uniform, 2, 2},
                               {"randn", Draw::normal, 0, 1},  {"kaiming", Draw::normal, 0, 1},
                               {"xavier", Draw::normal, 0, 1}};

}  // namespace

Result<const InitKind*> initKind(std::string_view name, const Type& type, std::span<const double> args) {
  const auto kind = std::ranges::find(kKinds, name, &InitKind::name);
  if (kind == std::end(kKinds))
    return fail("expected zeros, ones, constant, uniform, randn, kaiming, xavier or dense<…>, got '{}'",
                name);
  if (args.size() < kind->minArgs || args.size() > kind->maxArgs)
    return fail("{} takes {}{}, got {}", name,
                kind->minArgs == kind->maxArgs ? "" : fmt::format("{} or ", kind->minArgs),
                countText(kind->maxArgs, "argument"), args.size());
  if (kind->draw == Draw::fill) return kind;
  if (!isFloat(type.dtype)) return fail("{} needs a float type, got {}", name, type.str());
  for (const double arg : args)
    if (!std::isfinite(arg)) return fail("{} needs finite arguments, got {}", name, arg);
  if (kind->draw == Draw::uniform && args[0] > args[1])
    return fail("uniform needs its lower bound first, got {} and {}", args[0], args[1]);
  if (kind->draw == Draw::normal && !args.empty() && args[0] < 0)
    return fail("{} needs an argument of 0 and more, got {}", name, args[0]);
  if ((name == "kaiming" || name == "xavier") && type.rank() < 2)
    return fail("{} needs a matrix or a convolution's filter, got {}", name, type.str());
  return kind;
}

Result<std::vector<double>> initNumbers(const Attr& init) {
  if (!init.dict.empty()) return fail("{} takes no named argument '{}'", init.text, init.dict[0].name);
  std::vector<double> out;
  for (const Attr& member : init.list) {
    if (!member.isNumber()) return fail("{} is not a number", member.str());
    out.push_back(member.number());
  }
  return out;
}

}  // namespace tg
