// SPDX-License-Identifier: Apache-2.0
// A profile for people and for other tools: as JSON, as a trace, as a roofline.
#pragma once

#include <string>

#include "runtime/ceilings.h"
#include "runtime/profile.h"

namespace tg {

/// What was profiled, and on what.
struct ProfileSubject {
  std::string model, device, driver;
};

/// A kernel against the device's ceilings.
struct RoofPlace {
  bool compute = false;  ///< its operations need longer than its bytes
  double share = 0;      ///< of the ceiling that its work needs longer under; over 1 where caches answer
};
RoofPlace placeUnder(const Ceilings& ceilings, const ProfiledKernel& kernel);

/// Everything: totals, ceilings, a row for each kernel and one for each command.
std::string toJson(const Profile& profile, const Ceilings& ceilings, const ProfileSubject& subject);

/// The timed calls in the trace format of Chrome, which ui.perfetto.dev opens: complete events, in
/// microseconds, on a track of the host and one of the device.
std::string chromeTrace(const Profile& profile, const ProfileSubject& subject);

/// One HTML file that needs no network: the roofline with a point for each kernel, and a table of them.
std::string rooflinePage(const Profile& profile, const Ceilings& ceilings, const ProfileSubject& subject);

}  // namespace tg
