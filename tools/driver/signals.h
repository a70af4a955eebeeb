// SPDX-License-Identifier: Apache-2.0
// What a person may ask of a running training through signals.
#pragma once

#include <atomic>

#include "runtime/train/trainer.h"

namespace tg {

/// While alive: the first SIGINT or SIGTERM asks the control to stop; the next, whichever it is, ends the
/// process at once, or behind the checkpoint that is being written. SIGHUP asks to stop too, unless it is ignored,
/// as under nohup. SIGUSR1 asks for a checkpoint. One at a time.
class TrainSignals {
 public:
  explicit TrainSignals(TrainControl& control);
  ~TrainSignals();
  TrainSignals(const TrainSignals&) = delete;
  TrainSignals& operator=(const TrainSignals&) = delete;
  /// SIGUSR1 ends no process that trains sooner or later: before the first step and behind the last it does nothing.
  static void expectCheckpoints();
  /// The signal that asked to stop; 0 when none did.
  static int stoppedBy();
  /// Whether a bar stands on standard error: a signal that ends the process or asks it to clears the line.
  static std::atomic<bool> barStands;
};

}  // namespace tg
