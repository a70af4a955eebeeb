// tg-run as a library: one file for each verb. Verbs have flags of their own.
//
// Exit codes: 0 ok, 1 a diagnosed failure in the input, 2 a command line that makes no sense, 3 a numeric
// check failed, 4 the device failed, 130 and 143 interrupted after a successful save.
#pragma once

#include <string>
#include <vector>

#include "ir/result.h"
#include "ir/target.h"

namespace tg {

int runMain(int argc, char** argv);

// The verbs, by the arguments after their name.
using Arguments = std::vector<std::string>;
int runExec(const Arguments& args);
int runTrain(const Arguments& args);
int runSample(const Arguments& args);
int runBench(const Arguments& args);
int runCheckGrad(const Arguments& args);
int runDevices(const Arguments& args);

/// The target of the device that `auto` chooses: what tg-opt's `--target=auto` stands for.
Result<Target> deviceTarget();

}  // namespace tg
