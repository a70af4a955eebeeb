// SPDX-License-Identifier: Apache-2.0
// Formats a profile as JSON, as a trace, and as an HTML page with a roofline.
#pragma once

#include <string>

#include "runtime/ceilings.h"
#include "runtime/profile.h"

namespace tg {

/// What was profiled, and on which device.
struct ProfileSubject {
  std::string model, device, driver;
};

/// A kernel's position relative to the device's ceilings.
struct RoofPlace {
  bool compute = false;  ///< limited by arithmetic: its operations need more time than its bytes
  double share = 0;      ///< fraction reached of the ceiling that limits it; over 1 if caches serve reads
};
RoofPlace placeUnder(const Ceilings& ceilings, const ProfiledKernel& kernel);

/// The whole profile as JSON: totals, ceilings, a row for each kernel and one for each command.
std::string toJson(const Profile& profile, const Ceilings& ceilings, const ProfileSubject& subject);

/// The timed calls in Chrome's trace format, which ui.perfetto.dev opens. It has complete events, in microseconds, on
/// one track for the host and one for the device.
std::string chromeTrace(const Profile& profile, const ProfileSubject& subject);

/// An HTML file that needs no network: a roofline with a point for each kernel, and a table of the kernels.
std::string rooflinePage(const Profile& profile, const Ceilings& ceilings, const ProfileSubject& subject);

}  // namespace tg
