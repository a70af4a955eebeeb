// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile.h"

#include <algorithm>
#include <functional>
#include <map>

namespace tg {

double Profile::commandMilliseconds() const {
  double sum = 0;
  for (const ProfiledCommand& command : commands) sum += command.microseconds;
  return sum * 1e-3;
}

std::vector<ProfiledKernel> byKernel(const Profile& profile) {
  std::vector<ProfiledKernel> out;
  std::map<std::string, size_t> rows;
  const double all = profile.commandMilliseconds() * 1e3;
  for (const ProfiledCommand& command : profile.commands) {
    const CommandReport& report = command.report;
    const std::string& name = report.kind == "dispatch" ? report.kernel : report.kind;
    auto [row, fresh] = rows.try_emplace(name, out.size());
    if (fresh) {
      out.emplace_back();
      out.back().kernel = name;
      out.back().label = report.label;
      out.back().source = report.source;
      out.back().statistics = command.statistics;
    }
    ProfiledKernel& kernel = out[row->second];
    ++kernel.calls;
    kernel.otherLabels = kernel.otherLabels || report.label != kernel.label;
    kernel.microseconds += command.microseconds;
    kernel.bytes += report.bytes;
    kernel.flops += report.flops;
    kernel.counted = kernel.counted && report.counted;
  }
  for (ProfiledKernel& kernel : out) kernel.share = all > 0 ? kernel.microseconds / all : 0;
  std::ranges::stable_sort(out, std::greater(), &ProfiledKernel::microseconds);
  return out;
}

}  // namespace tg
