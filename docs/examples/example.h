// SPDX-License-Identifier: Apache-2.0
// What the example programs share: how they are called, and how they end.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/parser.h"
#include "ir/result.h"
#include "runtime/session.h"

namespace tg::example {

/// An example is called without arguments to train, with --tgir to print its model as text, and with
/// --device=NAME to train on another device than the best one; `interp` is the reference interpreter.
struct Call {
  bool text = false;
  std::string device = "auto";
  bool wrong = false;
};

inline Call parseCall(int argc, char** argv) {
  Call call;
  for (int i = 1; i < argc; ++i) {
    std::string_view arg = argv[i];
    if (arg == "--tgir")
      call.text = true;
    else if (arg.starts_with("--device="))
      call.device = arg.substr(9);
    else
      call.wrong = true;
  }
  if (call.wrong) std::fprintf(stderr, "usage: %s [--tgir] [--device=NAME]\n", argv[0]);
  return call;
}

/// Exit codes as the tools have them.
inline int misused() { return 2; }
inline int failed(const Error& error) {
  std::fputs(error.str().c_str(), stderr);
  return 1;
}
/// Prints the model; an error where standard output cannot be written, such as to a full disk.
inline int printed(const Module& module, std::string_view title) {
  std::string text = print(module);
  std::printf("// %.*s\n%s", static_cast<int>(title.size()), title.data(), text.c_str());
  const bool good = std::fflush(stdout) == 0 && !std::ferror(stdout);
  return good ? 0 : failed(fail(std::string("cannot write standard output: ") + std::strerror(errno)));
}
/// Arrays of values, row-major.
inline HostArray floats(const Shape& shape, const std::vector<float>& values) {
  HostArray array = HostArray::zeros(DType::f32, shape);
  std::copy(values.begin(), values.end(), array.f32().begin());
  return array;
}
inline HostArray integers(const Shape& shape, const std::vector<int32_t>& values) {
  HostArray array = HostArray::zeros(DType::i32, shape);
  std::copy(values.begin(), values.end(), array.i32().begin());
  return array;
}

/// Trains on one batch after another; the loss is printed ten times on the way.
inline Result<void> train(Session& session, int steps, const std::function<Inputs()>& batch) {
  for (int step = 1; step <= steps; ++step) {
    auto done = session.step(batch());
    if (!done) return done.error();
    if (step == 1 || step % std::max(1, steps / 10) == 0)
      std::printf("step %d: loss %.5f\n", step, done->loss);
  }
  return {};
}

/// Says whether the figure that the example trains for was reached: 0, or 3.
inline int judged(const char* what, double got, double wanted, bool smaller) {
  bool good = smaller ? got < wanted : got > wanted;
  std::printf("%s %.4f, wanted %s %.4f: %s\n", what, got, smaller ? "<" : ">", wanted,
              good ? "ok" : "missed");
  return good ? 0 : 3;
}

}  // namespace tg::example
