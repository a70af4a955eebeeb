// SPDX-License-Identifier: Apache-2.0
// Times of a session's calls, sums by kernel, the ceilings of a device, and what is written of them.
#include <cmath>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/profile_report.h"
#include "test/unit/session_support.h"

namespace tg {
namespace {

using Json = nlohmann::json;

ProfiledCommand dispatch(const std::string& kernel, const std::string& label, double us, double bytes,
                         double flops) {
  CommandReport report{"dispatch", kernel, label, "m.tgir:3:5"};
  report.bytes = bytes;
  report.flops = flops;
  return {report, us};
}

/// Two dispatches of @a, one of @b, a fill, in a call of 20 us of which the device works 11.
Profile small() {
  Profile out;
  out.function = "train";
  out.repetitions = 1;
  out.commands = {dispatch("a", "first", 2, 4000, 0), dispatch("b", "b", 5, 1000, 50000),
                  dispatch("a", "second", 3, 6000, 0)};
  CommandReport fill{"fill", "", "", ""};
  fill.bytes = 100;
  out.commands.push_back({fill, 1});
  out.wallMilliseconds = 0.020;
  out.deviceMilliseconds = 0.011;
  out.hostMilliseconds = 0.009;
  ProfiledCall call{0, 20, {{"prepare", 0, 4}, {"wait", 4, 18}, {"finish", 18, 20}}, {}};
  call.commands = {{7, 9}, {9, 14}, {14, 17}, {17, 18}};
  out.calls = {call};
  return out;
}

TEST(Profile, AddsUpByKernel) {
  const std::vector<ProfiledKernel> rows = byKernel(small());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].kernel, "a") << "5 us as b, and the first of equals";
  EXPECT_EQ(rows[0].label, "first");
  EXPECT_TRUE(rows[0].otherLabels);
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_DOUBLE_EQ(rows[0].share, 5.0 / 11);
  EXPECT_DOUBLE_EQ(rows[0].gigabytesPerSecond(), 10000 / 5e-6 * 1e-9);
  EXPECT_EQ(rows[1].kernel, "b");
  EXPECT_FALSE(rows[1].otherLabels);
  EXPECT_DOUBLE_EQ(rows[1].gigaflopsPerSecond(), 50000 / 5e-6 * 1e-9);
  EXPECT_EQ(rows[2].kernel, "fill");
  EXPECT_DOUBLE_EQ(small().hostShare(), 0.45);
}

TEST(Profile, TellsWhatTheDriverTellsOfAKernel) {
  Profile profile = small();
  profile.commands[0].statistics = {{{"Register Count", 96}}, 1024};
  const Json rows = Json::parse(toJson(profile, {4, 20, 1 << 20}, {"m", "d", "r"}))["kernels"];
  EXPECT_EQ(rows[0]["registers"], 96);
  EXPECT_EQ(rows[0]["declared_shared_bytes"], 1024);
  EXPECT_FALSE(rows[1].contains("registers")) << "nothing is known of @b";
}

TEST(Profile, PlacesKernelsUnderTheCeilings) {
  const Ceilings ceilings{4, 20, 1 << 20};  // GB/s, GFLOP/s: the ridge is at 5 FLOP per byte
  const std::vector<ProfiledKernel> rows = byKernel(small());
  // a moves 10 kB in 5 us where 4 GB/s would take 2.5; b computes 50 kFLOP in 5 us where 20 GFLOP/s take 2.5.
  RoofPlace a = placeUnder(ceilings, rows[0]), b = placeUnder(ceilings, rows[1]);
  EXPECT_FALSE(a.compute);
  EXPECT_NEAR(a.share, 0.5, 1e-12);
  EXPECT_TRUE(b.compute);
  EXPECT_NEAR(b.share, 0.5, 1e-12);
}

TEST(Profile, TraceHasTheHostAndTheDevice) {
  const Json trace = Json::parse(chromeTrace(small(), {"m.tgir", "a device", "a driver"}));
  std::map<int, double> busy;
  std::set<std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    names.insert(event["name"]);
    if (event["ph"] == "X") busy[event["tid"]] += event["dur"].get<double>();
  }
  EXPECT_EQ(busy[1], 40) << "the call and the phases that fill it";
  EXPECT_EQ(busy[2], 11);
  for (const char* name : {"@train 1", "prepare", "wait", "a", "b", "fill", "thread_name"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Profile, PageHoldsItsDataWhateverTheNames) {
  Profile profile = small();
  profile.commands[0].report.label = "</script><b>\xff";
  const std::string page = rooflinePage(profile, {4, 20, 1 << 20}, {"m", "d", "r"});
  EXPECT_EQ(page.find("__PROFILE_DATA__"), std::string::npos);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const size_t from = page.find(open) + open.size();
  const Json data = Json::parse(page.substr(from, page.find("</script>", from) - from));
  EXPECT_EQ(data["kernels"].size(), 3u);
  EXPECT_EQ(data["kernels"][0]["label"].get<std::string>().rfind("</script><b>", 0), 0u);
}

class ProfileSession : public SessionTest {};

TEST_F(ProfileSession, TimesEveryCommandAndChangesNoResult) {
  if (!device_->info().timestamps) GTEST_SKIP() << "the queue has no timestamps";
  auto session = open(options()), plain = open(options());
  ProfileOptions few;
  few.repetitions = 3;
  few.warmSeconds = 0;
  auto profile = session->profile("train", trainInputs(), few);
  ASSERT_TRUE(profile) << profile.error().message();
  EXPECT_EQ(profile->function, "train");
  EXPECT_EQ(static_cast<int64_t>(profile->commands.size()), *session->kernelCount("train"));
  EXPECT_GT(profile->commandMilliseconds(), 0);
  EXPECT_GT(profile->deviceMilliseconds, 0);
  EXPECT_GT(profile->hostMilliseconds, 0);
  EXPECT_LT(profile->deviceMilliseconds, profile->wallMilliseconds);
  ASSERT_EQ(profile->calls.size(), 3u);
  for (const ProfiledCall& call : profile->calls) {
    ASSERT_EQ(call.commands.size(), profile->commands.size());
    double last = 0;
    for (const HostPhase& phase : call.host) {
      EXPECT_EQ(phase.begin, last) << phase.name;
      last = phase.end;
    }
    EXPECT_NEAR(last, call.end - call.begin, 1e-6);
    EXPECT_GE(call.commands.front().begin, 0);
    for (size_t i = 1; i < call.commands.size(); ++i)
      EXPECT_GE(call.commands[i].begin, call.commands[i - 1].end);
    EXPECT_LE(call.commands.back().end, call.end - call.begin);
  }
  // Its calls are steps like others, and what follows is recorded without timestamps again.
  const int64_t taken = session->steps();
  EXPECT_GE(taken, 2 * few.repetitions);
  for (int64_t i = 0; i < taken; ++i) ASSERT_TRUE(plain->step(trainInputs()));
  ASSERT_TRUE(session->step(trainInputs()));
  ASSERT_TRUE(plain->step(trainInputs()));
  EXPECT_TRUE(sameBits(*session->downloadParams(), *plain->downloadParams()));
}

TEST_F(ProfileSession, SaysWhatItCannotTime) {
  auto session = open(options());
  auto unknown = session->profile("nothing", {}, {});
  EXPECT_NE(messageOf(unknown).find("@nothing"), std::string::npos) << messageOf(unknown);
  auto missing = session->profile("train", {}, {});
  EXPECT_FALSE(missing);
  ProfileOptions endless;
  endless.warmSeconds = std::numeric_limits<double>::infinity();
  EXPECT_EQ(messageOf(session->profile("train", trainInputs(), endless)),
            "warmSeconds is inf, not a finite number of seconds");
  EXPECT_EQ(session->steps(), 0);
  auto interp = Session::create(model(), interpOptions());
  ASSERT_TRUE(interp);
  auto none = (*interp)->profile("train", trainInputs(), {});
  EXPECT_NE(messageOf(none).find("the interpreter has none"), std::string::npos) << messageOf(none);
}

TEST_F(ProfileSession, MeasuresCeilings) {
  if (!device_->info().timestamps) GTEST_SKIP() << "the queue has no timestamps";
  auto ceilings = measureCeilings(device_);
  ASSERT_TRUE(ceilings) << ceilings.error().str();
  EXPECT_GE(ceilings->copyBytes, int64_t(1) << 20);
  // No machine that runs this copies below a tenth of a GB/s or above 100 TB/s.
  EXPECT_GT(ceilings->gigabytesPerSecond, 0.1);
  EXPECT_LT(ceilings->gigabytesPerSecond, 1e5);
  EXPECT_GT(ceilings->gigaflopsPerSecond, 0.1);
  EXPECT_LT(ceilings->gigaflopsPerSecond, 1e6);
  EXPECT_NEAR(ceilings->memoryMicroseconds(ceilings->gigabytesPerSecond * 1e9), 1e6, 1);
}

}  // namespace
}  // namespace tg
