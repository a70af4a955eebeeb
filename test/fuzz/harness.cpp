// SPDX-License-Identifier: Apache-2.0
#include "test/fuzz/harness.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include "test/fuzz/mutator.h"

namespace tg::fuzz {
namespace {

constexpr uint64_t kBatch = 500;             ///< inputs for one child
constexpr rlim_t kMemory = rlim_t{4} << 30;  ///< bytes of address space; not under a sanitizer
constexpr size_t kMostFindings = 20;         ///< then the run ends

/// What a child tells its parent, in memory they share: which input it is at, and what it found.
struct Shared {
  uint64_t at = 0;
  uint64_t done = 0;
  char finding[2000] = {};
};

std::string inputAt(uint64_t number, const Options& options, const std::vector<std::string>& seeds) {
  Mutator mutator(options.seed * 0x9E3779B97F4A7C15u + number, seeds);
  return mutator.mutate(seeds[mutator.pick(seeds.size())]);
}

void limit(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec =
      static_cast<suseconds_t>((seconds - static_cast<double>(timer.it_value.tv_sec)) * 1e6);
  setitimer(ITIMER_PROF, &timer, nullptr);
}

[[noreturn]] void child(Shared& shared, uint64_t from, uint64_t to, const Options& options,
                        const std::vector<std::string>& seeds, const Run& run) {
#ifndef __SANITIZE_ADDRESS__
  const rlimit memory{kMemory, kMemory};
  setrlimit(RLIMIT_AS, &memory);
#endif
  for (uint64_t number = from; number < to; ++number) {
    shared.at = number;
    limit(options.hang);
    const std::string finding = run(inputAt(number, options, seeds));
    limit(0);
    shared.done = number + 1;
    if (finding.empty()) continue;
    std::strncpy(shared.finding, finding.c_str(), sizeof shared.finding - 1);
    _exit(3);
  }
  _exit(0);
}

/// Why a child ended at an input; "" when it did all of its own.
std::string verdict(int status, const Shared& shared) {
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGPROF ? "hangs" : fmt::format("crashes with signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) == 3) return shared.finding;
  return WEXITSTATUS(status) ? fmt::format("ends the process with {}", WEXITSTATUS(status)) : "";
}

double number(std::string_view option, const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*text && !*end && value >= 0) return value;
  fmt::print(stderr, "--{} takes a number from 0 on, not '{}'\n", option, text);
  std::exit(2);
}

}  // namespace

Options parseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const size_t equals = arg.find('=');
    if (!arg.starts_with("--") || equals == std::string_view::npos) {
      options.seeds.emplace_back(arg);
      continue;
    }
    const std::string_view name = arg.substr(2, equals - 2);
    const char* value = argv[i] + equals + 1;
    if (name == "seed")
      options.seed = static_cast<uint64_t>(number(name, value));
    else if (name == "seconds")
      options.seconds = number(name, value);
    else if (name == "cases")
      options.cases = static_cast<uint64_t>(number(name, value));
    else if (name == "first")
      options.first = static_cast<uint64_t>(number(name, value));
    else if (name == "hang")
      options.hang = number(name, value);
    else if (name == "save")
      options.save = value;
    else {
      fmt::print(stderr, "unknown option --{}; there are seed, seconds, first, cases, hang, save\n", name);
      std::exit(2);
    }
  }
  return options;
}

int fuzz(const Options& options, const std::vector<std::string>& seeds, const Run& run) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || seeds.empty()) {
    fmt::print(stderr, "{}\n", seeds.empty() ? "no seeds" : "no shared memory");
    return 2;
  }
  auto& shared = *new (memory) Shared;
  const auto start = std::chrono::steady_clock::now();
  auto over = [&](uint64_t next) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    return (options.cases && next - options.first >= options.cases) ||
           (options.seconds > 0 && passed.count() >= options.seconds);
  };
  size_t findings = 0;
  uint64_t next = options.first;
  while (!over(next) && findings < kMostFindings) {
    const uint64_t end = options.first + options.cases;
    const uint64_t to = options.cases ? std::min(end, next + kBatch) : next + kBatch;
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) child(shared, next, to, options, seeds, run);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
      fmt::print(stderr, "no process for the next inputs\n");
      return 2;
    }
    const std::string why = verdict(status, shared);
    next = why.empty() ? to : shared.at + 1;
    if (why.empty()) continue;
    ++findings;
    const std::string path = fmt::format("{}/finding-{}-{}", options.save, options.seed, shared.at);
    std::filesystem::create_directories(options.save);
    std::ofstream file(path, std::ios::binary);
    file << inputAt(shared.at, options, seeds) << std::flush;
    fmt::print(stderr, "{}: {}{}\n", path, why, file ? "" : " (the file cannot be written)");
  }
  fmt::print("{} inputs, {} findings\n", next - options.first, findings);
  munmap(memory, sizeof(Shared));
  return findings ? 1 : 0;
}

}  // namespace tg::fuzz
