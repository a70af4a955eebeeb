// SPDX-License-Identifier: Apache-2.0
// Chooses a device from a list: takes a text, and gives an index and a reason.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "ir/text.h"
#include "runtime/vulkan/device.h"

namespace tg::vulkan {

namespace {

int rank(const DeviceInfo& info) {
  static constexpr std::string_view order[] = {"discrete", "integrated", "virtual", "cpu"};
  return int(std::ranges::find(order, info.type) - std::begin(order));
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return result;
}

std::string listing(std::span<const DeviceInfo> devices) {
  std::string text;
  for (size_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo& d = devices[i];
    text += fmt::format("{}{}: {} ({})", i ? ", " : "", i, d.name, d.type);
    if (!d.unusable.empty()) text += " unusable: " + d.unusable;
  }
  return text;
}

/// The first usable device of the best type among those that `fits` accepts, or -1.
template <class Fits>
int best(std::span<const DeviceInfo> devices, Fits fits) {
  int found = -1;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].unusable.empty() || !fits(devices[i])) continue;
    if (found < 0 || rank(devices[i]) < rank(devices[size_t(found)])) found = int(i);
  }
  return found;
}

bool allDigits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

/// Whether the text is a number that is a valid index. Other numbers may still be part of a name ("4090").
bool isIndex(std::string_view text, size_t count) {
  return allDigits(text) && text.size() < 6 && size_t(std::stoi(std::string(text))) < count;
}

/// The K-th of the usable devices of the best type. Processes share CPUs.
Result<Selection> ownDevice(std::span<const DeviceInfo> devices, int number) {
  const int first = best(devices, [](const DeviceInfo&) { return true; });
  if (first < 0) return fail("no Vulkan device can be used; there are: " + listing(devices));
  const std::string& type = devices[size_t(first)].type;
  if (type == "cpu") return Selection{first, "the first cpu device, which the ranks of this host share"};
  int count = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].unusable.empty() || devices[i].type != type || count++ != number) continue;
    return Selection{int(i), fmt::format("{} device {} of this host, for its rank {}", type, number, number)};
  }
  return fail("this host has {}, and none is left for its rank {}; --device=INDEX says that ranks share one. "
              "There are: {}",
              countText(count, type + " device"), number, listing(devices));
}

}  // namespace

Result<Selection> selectDevice(std::span<const DeviceInfo> devices, std::string_view select) {
  if (devices.empty()) return fail("no Vulkan device was found");
  const std::string wanted = lower(select);
  auto chosen = [&](int index, std::string why) -> Result<Selection> {
    return Selection{index, std::move(why)};
  };

  if (wanted.empty() || wanted == "auto") {
    const int i = best(devices, [](const DeviceInfo&) { return true; });
    if (i < 0) return fail("no Vulkan device can be used; there are: " + listing(devices));
    const std::string& type = devices[size_t(i)].type;
    if (devices.size() == 1) return chosen(i, "the only device");
    return chosen(i,
                  fmt::format("the first {} device, preferring discrete > integrated > virtual > cpu", type));
  }
  if (constexpr std::string_view own = "auto:";
      wanted.starts_with(own) && allDigits(wanted.substr(own.size())))
    return ownDevice(devices, std::atoi(wanted.c_str() + own.size()));
  if (wanted == "cpu") {
    const int i = best(devices, [](const DeviceInfo& d) { return d.type == "cpu"; });
    if (i < 0) return fail("no Vulkan device of type cpu; there are: " + listing(devices));
    return chosen(i, "the first cpu device");
  }
  if (wanted == "gpu") {
    const int i = best(devices, [](const DeviceInfo& d) { return d.type != "cpu"; });
    if (i < 0) return fail("no usable Vulkan device is a GPU; there are: " + listing(devices));
    return chosen(i, fmt::format("the first {} device", devices[size_t(i)].type));
  }
  if (isIndex(wanted, devices.size())) {
    const int i = std::stoi(wanted);
    const DeviceInfo& d = devices[size_t(i)];
    if (!d.unusable.empty()) return fail("device {} ({}) cannot be used: {}", i, d.name, d.unusable);
    return chosen(i, fmt::format("device {} was asked for", i));
  }
  int i = best(devices, [&](const DeviceInfo& d) { return d.uuid == wanted; });
  if (i >= 0) return chosen(i, "its UUID was asked for");
  i = best(devices, [&](const DeviceInfo& d) { return lower(d.name).find(wanted) != std::string::npos; });
  if (i >= 0) return chosen(i, fmt::format("its name contains '{}'", select));
  return fail("no usable Vulkan device is '{}' by index, UUID or part of its name; there are: {}", select,
              listing(devices));
}

}  // namespace tg::vulkan
