// SPDX-License-Identifier: Apache-2.0
// Runs damaged inputs, each in a child process's turn: a crash, a hang or a process that ends costs one
// input, is a finding, and is saved.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tg::fuzz {

struct Options {
  uint64_t seed = 1;
  double seconds = 60;             ///< how long; 0 is no limit
  uint64_t first = 0;              ///< the number of the first input: a finding's, to meet it again
  uint64_t cases = 0;              ///< how many; 0 is no limit
  double hang = 20;                ///< processor seconds for one input
  std::string save = ".";          ///< folder for the inputs of findings
  std::vector<std::string> seeds;  ///< files to damage; the program's own by default
};

/// Reads `--seed=1 --seconds=60 --first=0 --cases=1000 --hang=20 --save=DIR FILE…`; an error is told and ends the
/// process with 2.
Options parseOptions(int argc, char** argv);

/// What running an input showed: "" when all is well, else the finding in a line.
using Run = std::function<std::string(const std::string& input)>;

/// Input number `n` is a function of seed, n and the seed texts. Returns 0 without a finding, else 1; tells
/// the counts on standard output and each finding on standard error.
int fuzz(const Options& options, const std::vector<std::string>& seeds, const Run& run);

}  // namespace tg::fuzz
