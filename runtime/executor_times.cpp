// Calls that are measured: the same commands with timestamps among them, and the host's clock around them.
#include <utility>

#include "runtime/executor.h"

namespace tg {

void Executor::measure(vulkan::Timestamps timestamps) {
  timestamps_ = timestamps;
  times_.clear();
  for (auto& [key, function] : functions_) function.timed.reset();
}

Result<RunOutputs> Executor::runTimed(const std::string& key, const Inputs& inputs, bool captures) {
  TG_CHECK(find(key));
  Function& function = functions_.find(key)->second;
  if (!function.timed) {
    TG_TRY(function.timed,
           vulkan::Recording::create(*device_, function.commands, {function.name, timestamps_}));
  }
  RunTimes times;
  times.key = key;
  times.begin = RunTimes::Clock::now();
  TG_CHECK(write(function, inputs));
  times.written = RunTimes::Clock::now();
  TG_CHECK(function.timed->submit());
  times.submitted = RunTimes::Clock::now();
  TG_CHECK(function.timed->wait());
  times.finished = RunTimes::Clock::now();
  TG_TRY(RunOutputs out, read(key, captures));
  times.read = RunTimes::Clock::now();
  times_.push_back(std::move(times));
  return out;
}

// Reading timestamps takes time of its own, which no call is charged with.
Result<std::vector<RunTimes>> Executor::takeTimes() {
  for (RunTimes& times : times_) {
    TG_CHECK(find(times.key));
    const Function& function = functions_.find(times.key)->second;
    if (!function.timed) continue;
    TG_TRY(times.device, function.timed->times());
  }
  return std::exchange(times_, {});
}

}  // namespace tg
