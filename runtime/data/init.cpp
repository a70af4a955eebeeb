// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/init.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

#include "ir/all_cores.h"
#include "ir/divide.h"
#include "ir/philox.h"
#include "ir/text.h"

namespace tg {

namespace {

/// For randn without an argument, and for a parameter without init.
constexpr double kRandnDeviation = 0.02;

/// The fewest elements for which a thread is worth starting.
constexpr size_t kElementsOfAJob = size_t{1} << 16;

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

double deviationOf(const InitKind& kind, const Shape& shape, std::span<const double> args) {
  if (kind.name == "randn") return args.empty() ? kRandnDeviation : args[0];
  const Fans fans = fansOf(shape);
  if (kind.name == "kaiming") return (args.empty() ? std::numbers::sqrt2 : args[0]) / std::sqrt(fans.in);
  return (args.empty() ? 1.0 : args[0]) * std::sqrt(2.0 / (fans.in + fans.out));
}

double fillValue(const InitKind& kind, std::span<const double> args) {
  return kind.name == "constant" ? args[0] : kind.name == "ones" ? 1.0 : 0.0;
}

}  // namespace

Result<InitialValue> InitialValue::of(std::string_view name, const Type& type, std::string_view kindName,
                                      std::span<const double> args, uint64_t seed) {
  const auto wrong = [&](std::string_view what) { return fail("parameter {}: {}", name, what); };
  if (!type.isTensor()) return wrong(fmt::format("expected a tensor type, got {}", type.str()));
  const Result<const InitKind*> found = initKind(kindName, type, args);
  if (!found) return wrong(found.error().message());
  const InitKind* kind = *found;

  InitialValue out;
  out.dtype_ = type.dtype;
  out.draw_ = kind->draw;
  switch (kind->draw) {
  case InitKind::Draw::fill: out.low_ = fillValue(*kind, args); break;
  case InitKind::Draw::uniform:
    out.low_ = args[0];
    out.range_ = args[1] - args[0];
    break;
  case InitKind::Draw::normal: out.range_ = deviationOf(*kind, type.shape, args); break;
  }
  const uint64_t hash = XXH3_64bits(name.data(), name.size());
  out.key_ = {{lowWord(seed), lowWord(hash)}, {highWord(hash), highWord(seed)}};
  return out;
}

void InitialValue::fill(int64_t first, std::span<std::byte> out) const {
  const auto element = static_cast<size_t>(byteSize(dtype_));
  const size_t bytes = kElementsOfAJob * element, jobs = divideCeil(out.size(), bytes);
  onAllCores(jobs, [&](size_t job) {
    fillPart(first + static_cast<int64_t>(job * kElementsOfAJob),
             out.subspan(job * bytes, std::min(bytes, out.size() - job * bytes)));
  });
}

/// Stores a value rounded to f32, or to a 16-bit type.
static void store(DType dtype, std::byte* at, double value) {
  if (isNarrow(dtype)) {
    const uint16_t bits = narrowBits(dtype, value);
    std::memcpy(at, &bits, sizeof bits);
  } else {
    const auto single = static_cast<float>(value);
    std::memcpy(at, &single, sizeof single);
  }
}

void InitialValue::fillPart(int64_t first, std::span<std::byte> out) const {
  const auto element = static_cast<size_t>(byteSize(dtype_));
  if (draw_ == InitKind::Draw::fill) {
    HostArray one = HostArray::zeros(dtype_, {});
    one.set(0, low_);
    for (size_t at = 0; at < out.size(); at += element) std::memcpy(&out[at], one.bytes.data(), element);
    return;
  }
  // 16-bit values are rounded from the exact value too. Their bounds are floats, so these must lie further apart than
  // the rounding error of a float to enclose it.
  const bool narrow = isNarrow(dtype_);
  const double spread = narrow ? 0x1p-20 : 0x1p-44;
  DrawnWords words;
  NormalBounds bounds;
  for (size_t done = 0, all = out.size() / element; done < all; done += kDrawBlock) {
    drawWords(key_, static_cast<uint64_t>(first) + done, words);
    const size_t count = std::min<size_t>(kDrawBlock, all - done);
    std::byte* at = &out[done * element];
    if (draw_ == InitKind::Draw::uniform) {
      for (size_t i = 0; i < count; ++i)
        store(dtype_, at + i * element, low_ + range_ * static_cast<double>(philoxUniform(words.first[i])));
      continue;
    }
    boundNormals(words, range_, spread, bounds);
    if (!narrow) std::memcpy(at, bounds.low.data(), count * element);
    for (size_t i = 0; i < count; ++i) {
      // If both bounds round to the same bits, so does every value between them.
      if (narrow && narrowBits(dtype_, bounds.low[i]) == narrowBits(dtype_, bounds.high[i]))
        store(dtype_, at + i * element, bounds.low[i]);
      else if (std::bit_cast<uint32_t>(bounds.low[i]) != std::bit_cast<uint32_t>(bounds.high[i]))
        store(dtype_, at + i * element, range_ * philoxNormal(words.first[i], words.second[i]));
    }
  }
}

Result<FirstValue> FirstValue::of(const Item& item, uint64_t seed) {
  FirstValue out;
  const Attr* init = find(item.attrs, "init");
  const std::string kind = init ? init->text : item.kind == ItemKind::state ? "zeros" : "randn";
  std::vector<double> args;
  if (init) {
    TG_TRY(args, initNumbers(*init));
  }
  if (kind != "dense") {
    TG_TRY(out.drawn_, InitialValue::of(item.name, item.type, kind, args, seed));
    return out;
  }
  if (static_cast<int64_t>(args.size()) != item.type.elements())
    return failAt(item.loc, "@{}: dense has {} for {}", item.name, countText(args.size(), "value"),
                  item.type.str());
  out.given_ = HostArray::zeros(item.type);
  for (size_t i = 0; i < args.size(); ++i) out.given_->set(static_cast<int64_t>(i), args[i]);
  return out;
}

void FirstValue::fill(int64_t first, std::span<std::byte> out) const {
  if (!given_) return drawn_.fill(first, out);
  const auto at = static_cast<size_t>(first * byteSize(given_->dtype));
  std::memcpy(out.data(), &given_->bytes[at], out.size());
}

Result<HostArray> initialValue(std::string_view name, const Type& type, std::string_view kindName,
                               std::span<const double> args, uint64_t seed) {
  TG_TRY(const InitialValue value, InitialValue::of(name, type, kindName, args, seed));
  HostArray array = HostArray::zeros(type);
  value.fill(0, array.bytes);
  return array;
}

}  // namespace tg
