// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile_report.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ir/json_text.h"

namespace tg {

namespace {

constexpr const char* kPage =
#include "runtime/profile_page.inc"
    ;

Json kernelRow(const ProfiledKernel& kernel, const Ceilings& ceilings) {
  const RoofPlace place = placeUnder(ceilings, kernel);
  Json row = {{"kernel", kernel.kernel},
              {"label", kernel.label},
              {"other_labels", kernel.otherLabels},
              {"source", kernel.source},
              {"calls", kernel.calls},
              {"us", kernel.microseconds},
              {"share", kernel.share},
              {"bytes", kernel.bytes},
              {"flops", kernel.counted ? Json(kernel.flops) : Json()},
              {"gb_per_s", kernel.gigabytesPerSecond()},
              {"gflop_per_s", kernel.counted ? Json(kernel.gigaflopsPerSecond()) : Json()},
              {"bound", place.compute ? "compute" : "memory"},
              {"of_roof", place.share}};
  row.update(toJson(kernel.statistics));
  return row;
}

Json summary(const Profile& profile, const Ceilings& ceilings, const ProfileSubject& subject) {
  Json kernels = Json::array();
  for (const ProfiledKernel& kernel : byKernel(profile)) kernels.push_back(kernelRow(kernel, ceilings));
  return {{"model", subject.model},
          {"function", profile.function},
          {"device", subject.device},
          {"driver", subject.driver},
          {"repetitions", profile.repetitions},
          {"parts", profile.parts},
          {"submissions", profile.submissions},
          {"commands_ms", profile.commandMilliseconds()},
          {"device_ms", profile.deviceMilliseconds},
          {"wall_ms", profile.wallMilliseconds},
          {"host_ms", profile.hostMilliseconds},
          {"host_share", profile.hostShare()},
          {"ceilings",
           {{"gb_per_s", ceilings.gigabytesPerSecond},
            {"gflop_per_s", ceilings.gigaflopsPerSecond},
            {"copy_bytes", ceilings.copyBytes}}},
          {"kernels", kernels}};
}

/// A complete event of the trace format.
Json event(const std::string& name, const char* track, int tid, double begin, double end, Json args) {
  Json out = {{"name", name}, {"cat", track}, {"ph", "X"},         {"pid", 1},
              {"tid", tid},   {"ts", begin},  {"dur", end - begin}};
  if (!args.empty()) out["args"] = std::move(args);
  return out;
}

Json nameOf(const char* what, int tid, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", tid}, {"args", {{"name", name}}}};
}

constexpr int kHostTrack = 1, kDeviceTrack = 2;

void addCall(Json& events, const Profile& profile, const ProfiledCall& call, size_t number) {
  events.push_back(event(fmt::format("@{} {}", profile.function, number), "host", kHostTrack, call.begin,
                         call.end, Json::object()));
  for (const HostPhase& phase : call.host)
    events.push_back(event(phase.name, "host", kHostTrack, call.begin + phase.begin, call.begin + phase.end,
                           Json::object()));
  for (size_t i = 0; i < call.commands.size(); ++i) {
    const CommandReport& report = profile.commands[i].report;
    const vulkan::DeviceTime& time = call.commands[i];
    Json args = {{"label", report.label},
                 {"source", report.source},
                 {"bytes", report.bytes},
                 {"flops", report.flops},
                 {"GB/s", time.microseconds() > 0 ? report.bytes / time.microseconds() * 1e-3 : 0},
                 {"GFLOP/s", time.microseconds() > 0 ? report.flops / time.microseconds() * 1e-3 : 0}};
    events.push_back(event(report.kind == "dispatch" ? report.kernel : report.kind, "device", kDeviceTrack,
                           call.begin + time.begin, call.begin + time.end, std::move(args)));
  }
}

}  // namespace

RoofPlace placeUnder(const Ceilings& ceilings, const ProfiledKernel& kernel) {
  const double memory = ceilings.memoryMicroseconds(kernel.bytes);
  const double compute = ceilings.computeMicroseconds(kernel.flops);
  RoofPlace out;
  out.compute = compute > memory;
  out.share = kernel.microseconds > 0 ? std::max(memory, compute) / kernel.microseconds : 0;
  return out;
}

std::string toJson(const Profile& profile, const Ceilings& ceilings, const ProfileSubject& subject) {
  Json out = summary(profile, ceilings, subject), commands = Json::array();
  for (const ProfiledCommand& command : profile.commands)
    commands.push_back({{"kind", command.report.kind},
                        {"kernel", command.report.kernel},
                        {"label", command.report.label},
                        {"source", command.report.source},
                        {"us", command.microseconds},
                        {"bytes", command.report.bytes},
                        {"flops", command.report.counted ? Json(command.report.flops) : Json()}});
  out["commands"] = std::move(commands);
  return jsonText(out, 2) + "\n";
}

std::string chromeTrace(const Profile& profile, const ProfileSubject& subject) {
  Json events = Json::array();
  events.push_back(nameOf("process_name", kHostTrack, "tg-run profile " + subject.model));
  events.push_back(nameOf("thread_name", kHostTrack, "host"));
  events.push_back(nameOf("thread_name", kDeviceTrack, "device: " + subject.device));
  size_t number = 1;
  for (const ProfiledCall& call : profile.calls) addCall(events, profile, call, number++);
  Json out = {{"displayTimeUnit", "ms"},
              {"otherData",
               {{"device", subject.device},
                {"driver", subject.driver},
                {"clocks", "the device's last command is taken to end when the host hears so"}}},
              {"traceEvents", std::move(events)}};
  return jsonText(out) + "\n";
}

std::string rooflinePage(const Profile& profile, const Ceilings& ceilings, const ProfileSubject& subject) {
  // In a script element, only a closing tag could end the data early, so every "<" is escaped.
  std::string data = jsonText(summary(profile, ceilings, subject)), safe;
  for (char c : data) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  std::string page = kPage;
  const std::string hole = "__PROFILE_DATA__";
  return page.replace(page.find(hole), hole.size(), safe);
}

}  // namespace tg
