// SPDX-License-Identifier: Apache-2.0
// tg-opt and tg-run as functions, for programs that know more passes: register them, then call one of these.
//
//     int main(int argc, char** argv) {
//       if (auto done = tg::registerPass(myPass()); !done) return 1;
//       return tg::tgOptMain(argc, argv);
//     }
#pragma once

namespace tg {

/// Runs a pipeline over a module (docs/tools.md) and gives the exit code: 0 ok, 1 a diagnosed failure in the
/// input, 2 a command line that makes no sense.
int tgOptMain(int argc, char** argv);

/// Runs a verb of tg-run (docs/tg-run.md) and gives the exit code: 0, 1 and 2 as above, 3 a numeric check
/// failed, 4 the device failed, 129, 130 and 143 interrupted after a successful save.
int tgRunMain(int argc, char** argv);

}  // namespace tg
