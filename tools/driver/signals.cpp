// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/signals.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>

#include "tools/driver/streams.h"

namespace tg {

namespace {

static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<TrainControl*>::is_always_lock_free,
              "signal handlers touch them");
std::atomic<TrainControl*> control = nullptr;
std::atomic<int> signalled = 0;
struct sigaction hangup = {};  ///< the previous action of SIGHUP

/// The second signal. If a checkpoint is being written, the run ends after it.
void endAtOnce(int signal) {
  if (TrainControl* asked = control; asked && asked->saving) {
    asked->atOnce = true;
    return;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void askToStop(int signal) {
  signalled = signal;
  endAsked = true;
  // Install it for both: people send INT first, and services send TERM after it.
  for (int next : {SIGINT, SIGTERM}) std::signal(next, endAtOnce);
  if (TrainControl* asked = control) asked->stop = true;
  // A second signal ends the process at once, so clear the line now.
  constexpr char kClear[] = "\r\x1b[K";
  pollfd room{STDERR_FILENO, POLLOUT, 0};  // a terminal that is stopped has none
  if (TrainSignals::barStands.exchange(false) && ::poll(&room, 1, 0) > 0)
    (void)!::write(STDERR_FILENO, kClear, sizeof kClear - 1);
}
/// The terminal is gone. Both the system and the shell may send this signal, so a repeated one is not a second request.
void askToStopOnce(int signal) {
  if (!signalled) askToStop(signal);
}
void askForCheckpoint(int) {
  if (TrainControl* asked = control) asked->checkpoint = true;
}

}  // namespace

std::atomic<bool> TrainSignals::barStands = false;

void TrainSignals::expectCheckpoints() { std::signal(SIGUSR1, SIG_IGN); }

TrainSignals::TrainSignals(TrainControl& asked) {
  control = &asked;
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, askToStop);
  // Handlers of sigaction stay installed after the first signal, unlike those of std::signal.
  struct sigaction action = {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = askForCheckpoint;
  ::sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = askToStopOnce;
  ::sigaction(SIGHUP, &action, &hangup);
  if (hangup.sa_handler == SIG_IGN) ::sigaction(SIGHUP, &hangup, nullptr);  // nohup
}

TrainSignals::~TrainSignals() {
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  ::sigaction(SIGHUP, &hangup, nullptr);
  expectCheckpoints();
  control = nullptr;
}

int TrainSignals::stoppedBy() { return signalled; }

}  // namespace tg
