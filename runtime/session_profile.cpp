// SPDX-License-Identifier: Apache-2.0
// Session::profile: first plain calls, for the device's span and the wall time; then calls with every command timed.
#include <algorithm>
#include <chrono>
#include <utility>

#include "ir/stopwatch.h"
#include "runtime/batch.h"
#include "runtime/profile.h"
#include "runtime/session_program.h"

namespace tg {

namespace {

using Clock = RunTimes::Clock;

double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

/// Turns the executor's timestamps on, and off again in the destructor.
class Measuring {
 public:
  Measuring(Executor& executor, vulkan::Timestamps timestamps) : executor_(executor) {
    executor_.measure(timestamps);
  }
  ~Measuring() { executor_.measure(vulkan::Timestamps::none); }
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;

 private:
  Executor& executor_;
};

/// A call with the times of what the executor ran for it: the function, and the update that a step runs after it.
struct TimedCall {
  Clock::time_point begin, end;
  std::vector<RunTimes> runs;
};

/// The device's time in a call that was measured with Timestamps::ends.
double deviceMicroseconds(const TimedCall& call) {
  double sum = 0;
  for (const RunTimes& run : call.runs)
    for (const vulkan::DeviceTime& time : run.device) sum += time.microseconds();
  return sum;
}

/// The host's phases and the commands of a call. The device has its own clock, so the commands' times are shifted until
/// the last one ends when the host saw the call complete.
ProfiledCall detailOf(const TimedCall& call, Clock::time_point first) {
  ProfiledCall out;
  out.begin = microseconds(first, call.begin);
  out.end = microseconds(first, call.end);
  const RunTimes& run = call.runs.front();
  double now = 0;
  auto phase = [&](const char* name, Clock::time_point until) {
    double end = microseconds(call.begin, until);
    out.host.push_back({name, now, end});
    now = end;
  };
  phase("prepare", run.begin);
  phase("write inputs", run.written);
  phase("submit", run.submitted);
  phase("wait", run.finished);
  phase("read results", run.read);
  phase("finish", call.end);
  out.commands = run.device;
  const double shift =
      microseconds(call.begin, run.finished) - (run.device.empty() ? 0 : run.device.back().end);
  for (vulkan::DeviceTime& time : out.commands) {
    time.begin += shift;
    time.end += shift;
  }
  return out;
}

}  // namespace

CallResult<Profile> Session::profile(const std::string& function, const Inputs& inputs,
                                     const ProfileOptions& options) {
  return serve<Profile>([&]() -> Result<Profile> {
    TG_CHECK(checkDuration("warmSeconds", options.warmSeconds));
    auto* executor = dynamic_cast<Executor*>(&program_->runner());
    if (!executor) return fail("profile times kernels on a Vulkan device; the interpreter has none");
    Profile out;
    out.parts = function == options_.trainFunction ? options_.parts : 1;
    TG_TRY(const Item* entry, program_->function(function));
    Inputs copies;
    TG_TRY(InputViews shaped, partOf(*entry, inputs, 0, out.parts, copies));
    TG_TRY(SessionProgram::Callable callable, program_->callable(function, shaped, {}));
    TG_TRY(std::shared_ptr<const Module> module, program_->moduleOf(callable));
    auto timed = [&](int count, double seconds) -> Result<std::vector<TimedCall>> {
      std::vector<TimedCall> out;
      const Clock::time_point start = Clock::now();
      while (static_cast<int>(out.size()) < count || microseconds(start, Clock::now()) < seconds * 1e6) {
        TimedCall one;
        one.begin = Clock::now();
        TG_TRY(Begun begun, begin(function, inputs, {}));
        TG_CHECK(end(std::move(begun)));
        one.end = Clock::now();
        TG_TRY(one.runs, executor->takeTimes());
        out.push_back(std::move(one));
      }
      return out;
    };
    out.function = function;
    out.repetitions = std::max(options.repetitions, 1);
    std::vector<TimedCall> plain, detailed;
    {
      Measuring measuring(*executor, vulkan::Timestamps::ends);
      TG_CHECK(timed(2, options.warmSeconds));
      TG_TRY(plain, timed(out.repetitions, 0));
    }
    {
      Measuring measuring(*executor, vulkan::Timestamps::commands);
      TG_CHECK(timed(1, 0));
      TG_TRY(detailed, timed(out.repetitions, 0));
    }

    std::vector<double> wall, device, host;
    for (const TimedCall& one : plain) {
      wall.push_back(microseconds(one.begin, one.end) * 1e-3);
      device.push_back(deviceMicroseconds(one) * 1e-3);
      host.push_back(wall.back() - device.back());
    }
    out.submissions = static_cast<int64_t>(plain.front().runs.size());
    out.wallMilliseconds = median(wall);
    out.deviceMilliseconds = median(device);
    out.hostMilliseconds = median(host);
    TG_TRY(std::vector<vulkan::KernelStatistics> told, executor->statistics(callable.key));
    for (CommandReport& report : commandReports(*module, *callable.func))
      out.commands.push_back({std::move(report), 0, std::move(told[out.commands.size()])});
    for (const TimedCall& one : detailed) out.calls.push_back(detailOf(one, detailed.front().begin));
    for (size_t i = 0; i < out.commands.size(); ++i) {
      std::vector<double> times;
      for (const TimedCall& one : detailed) times.push_back(one.runs.front().device[i].microseconds());
      out.commands[i].microseconds = median(std::move(times));
    }
    return out;
  });
}

CallResult<std::vector<CollectiveTimes>> Session::collectiveTimes() {
  return serve<std::vector<CollectiveTimes>>([&]() -> Result<std::vector<CollectiveTimes>> {
    const auto* executor = dynamic_cast<Executor*>(&program_->runner());
    return executor ? executor->collectiveTimes() : std::vector<CollectiveTimes>();
  });
}

}  // namespace tg
