// SPDX-License-Identifier: Apache-2.0
// tg-opt and tg-run as functions, for programs with passes of their own: register these, then call one of the
// functions.
//
//     int main(int argc, char** argv) {
//       if (auto done = tg::registerPass(myPass()); !done) return 1;
//       return tg::tgOptMain(argc, argv);
//     }
#pragma once

namespace tg {

/// Runs a pipeline on a module (docs/tools.md) and returns the exit code: 0 success, 1 an error in the input, 2 a wrong
/// command line.
int tgOptMain(int argc, char** argv);

/// Runs a verb of tg-run (docs/tg-run.md) and returns the exit code: 0, 1 and 2 as above, 3 a failed numeric check, 4 a
/// failed device; 129, 130 and 143 if a signal interrupted the run and its state was saved.
int tgRunMain(int argc, char** argv);

}  // namespace tg
