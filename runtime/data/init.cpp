// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/init.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cmath>
#include <numbers>

#include "ir/philox.h"

namespace tg {

namespace {

/// Of randn without a number, and of a parameter without an init.
constexpr double kRandnDeviation = 0.02;

struct Fans {
  double in = 0, out = 0;
};

Fans fansOf(const Shape& shape) {
  if (shape.rank() == 4) {
    const double window = static_cast<double>(shape[2]) * static_cast<double>(shape[3]);
    return {static_cast<double>(shape[1]) * window, static_cast<double>(shape[0]) * window};
  }
  Fans fans{1, static_cast<double>(shape.back())};
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) fans.in *= static_cast<double>(shape[axis]);
  return fans;
}

enum class Draw : uint8_t { fill, uniform, normal };

struct Kind {
  std::string_view name;
  Draw draw;
  size_t minArgs, maxArgs;
};

constexpr Kind kKinds[] = {{"zeros", Draw::fill, 0, 0},    {"ones", Draw::fill, 0, 0},
                           {"constant", Draw::fill, 1, 1}, {"uniform", Draw::uniform, 2, 2},
                           {"randn", Draw::normal, 0, 1},  {"kaiming", Draw::normal, 0, 1},
                           {"xavier", Draw::normal, 0, 1}};

const Kind* findKind(std::string_view name) {
  for (const Kind& kind : kKinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

Result<void> checkArguments(const Kind& kind, const Type& type, std::span<const double> args) {
  if (args.size() < kind.minArgs || args.size() > kind.maxArgs)
    return fail(fmt::format("{} takes {} arguments, got {}", kind.name,
                            kind.minArgs == kind.maxArgs
                                ? fmt::format("{}", kind.maxArgs)
                                : fmt::format("{} or {}", kind.minArgs, kind.maxArgs),
                            args.size()));
  if (kind.draw == Draw::fill) return {};
  if (!isFloat(type.dtype)) return fail(fmt::format("{} needs a float type, got {}", kind.name, type.str()));
  for (const double arg : args)
    if (!std::isfinite(arg)) return fail(fmt::format("{} needs finite arguments, got {}", kind.name, arg));
  if (kind.draw == Draw::uniform && args[0] > args[1])
    return fail(fmt::format("uniform needs its lower bound first, got {} and {}", args[0], args[1]));
  if (kind.draw == Draw::normal && !args.empty() && args[0] < 0)
    return fail(fmt::format("{} needs an argument of 0 and more, got {}", kind.name, args[0]));
  if ((kind.name == "kaiming" || kind.name == "xavier") && type.rank() < 2)
    return fail(fmt::format("{} needs a matrix or a convolution's filter, got {}", kind.name, type.str()));
  return {};
}

double deviationOf(const Kind& kind, const Shape& shape, std::span<const double> args) {
  if (kind.name == "randn") return args.empty() ? kRandnDeviation : args[0];
  const Fans fans = fansOf(shape);
  if (kind.name == "kaiming") return (args.empty() ? std::numbers::sqrt2 : args[0]) / std::sqrt(fans.in);
  return (args.empty() ? 1.0 : args[0]) * std::sqrt(2.0 / (fans.in + fans.out));
}

double fillValue(const Kind& kind, std::span<const double> args) {
  return kind.name == "constant" ? args[0] : kind.name == "ones" ? 1.0 : 0.0;
}

}  // namespace

Result<HostArray> initialValue(std::string_view name, const Type& type, std::string_view kindName,
                               std::span<const double> args, uint64_t seed) {
  const auto wrong = [&](std::string_view what) { return fail(fmt::format("parameter {}: {}", name, what)); };
  if (!type.isTensor()) return wrong(fmt::format("expected a tensor type, got {}", type.str()));
  const Kind* kind = findKind(kindName);
  if (!kind)
    return wrong(
        fmt::format("expected zeros, ones, constant, uniform, randn, kaiming or xavier, got '{}'", kindName));
  if (auto checked = checkArguments(*kind, type, args); !checked) return wrong(checked.error().message());

  HostArray array = HostArray::zeros(type);
  const int64_t count = array.elements();
  if (kind->draw == Draw::fill) {
    const double value = fillValue(*kind, args);
    for (int64_t index = 0; index < count && value != 0; ++index) array.set(index, value);
    return array;
  }
  const double deviation = kind->draw == Draw::normal ? deviationOf(*kind, type.shape, args) : 0;
  const uint64_t hash = XXH3_64bits(name.data(), name.size());
  const PhiloxKey key{lowWord(seed), lowWord(hash)};
  for (int64_t index = 0; index < count; ++index) {
    const auto place = static_cast<uint64_t>(index);
    const auto words = philox({lowWord(place), highWord(place), highWord(hash), highWord(seed)}, key);
    if (kind->draw == Draw::normal)
      array.set(index, deviation * philoxNormal(words[0], words[1]));
    else
      array.set(index, args[0] + (args[1] - args[0]) * static_cast<double>(philoxUniform(words[0])));
  }
  return array;
}

}  // namespace tg
