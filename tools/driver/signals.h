// SPDX-License-Identifier: Apache-2.0
// Signals with which a user controls a running training.
#pragma once

#include <atomic>

#include "runtime/train/trainer.h"

namespace tg {

/// While this exists: the first SIGINT or SIGTERM asks the control to stop. The next of either ends the process at
/// once, or after the checkpoint that is being written. SIGHUP also asks to stop, unless it is ignored, as under nohup.
/// SIGUSR1 asks for a checkpoint. Only one object may exist at a time.
class TrainSignals {
 public:
  explicit TrainSignals(TrainControl& control);
  ~TrainSignals();
  TrainSignals(const TrainSignals&) = delete;
  TrainSignals& operator=(const TrainSignals&) = delete;
  /// Makes SIGUSR1 harmless before the first step and after the last: it then does nothing, instead of ending the
  /// process.
  static void expectCheckpoints();
  /// The signal that asked to stop; 0 if there was none.
  static int stoppedBy();
  /// Whether standard error shows a progress bar: a signal that stops or ends the process clears that line.
  static std::atomic<bool> barStands;
};

}  // namespace tg
