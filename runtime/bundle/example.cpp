// Runs the bundle once: example DIRECTORY [--device=NAME] [--out=FOLDER] INPUT.bin…
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each input is a file of raw elements, in the model's order. Results are printed, or written to
// FOLDER/NAME.bin.
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tensorgrad_bundle.h"

static int fail(const std::string& why) {
  std::fprintf(stderr, "example: error: %s\n", why.c_str());
  return 1;
}

static std::string describe(const tgb_tensor& tensor) {
  std::string text = std::string(tensor.name) + " ";
  for (int i = 0; i < tensor.rank; ++i) text += std::to_string(tensor.shape[i]) + "x";
  return text + tensor.dtype;
}

/// The value of an f16.
static double ofHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent > 0 ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  if (exponent == 31) value = fraction ? NAN : INFINITY;
  return bits >> 15 ? -value : value;
}

/// The value of a bf16, which is the upper half of an f32.
static double ofBrain(uint16_t bits) {
  const uint32_t whole = static_cast<uint32_t>(bits) << 16;
  float real;
  std::memcpy(&real, &whole, 4);
  return real;
}

static void print(const tgb_tensor& tensor, const std::vector<char>& bytes) {
  std::printf("%s\n", describe(tensor).c_str());
  const bool half = !std::strcmp(tensor.dtype, "f16"), brain = !std::strcmp(tensor.dtype, "bf16");
  for (size_t at = 0; (half || brain) && at + 2 <= bytes.size(); at += 2) {
    uint16_t bits;
    std::memcpy(&bits, &bytes[at], 2);
    std::printf("%.9g\n", half ? ofHalf(bits) : ofBrain(bits));
  }
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    float real;
    int32_t integer;
    std::memcpy(&real, &bytes[at], 4);
    std::memcpy(&integer, &bytes[at], 4);
    if (!std::strcmp(tensor.dtype, "f32")) std::printf("%.9g\n", static_cast<double>(real));
    if (!std::strcmp(tensor.dtype, "i32") || !std::strcmp(tensor.dtype, "i1")) std::printf("%d\n", integer);
    if (!std::strcmp(tensor.dtype, "u32")) std::printf("%u\n", static_cast<unsigned>(integer));
  }
}

int main(int argc, char** argv) {
  std::string directory, device, out;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word.rfind("--device=", 0) == 0)
      device = word.substr(9);
    else if (word.rfind("--out=", 0) == 0)
      out = word.substr(6);
    else if (directory.empty())
      directory = word;
    else
      files.push_back(word);
  }
  if (directory.empty()) return fail("usage: example DIRECTORY [--device=NAME] [--out=FOLDER] INPUT.bin...");
  tgb_bundle* bundle = tgb_open(directory.c_str(), device.c_str());
  if (!bundle) return fail(tgb_open_error());

  std::vector<std::vector<char>> inputs, results;
  std::vector<tgb_input> in;
  std::vector<tgb_output> to;
  for (const std::string& file : files) {
    std::ifstream stream(file, std::ios::binary);
    stream.peek();  // a folder can be opened, but not read
    if (!stream.is_open() || stream.bad()) return tgb_close(bundle), fail("cannot read " + file);
    inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  for (const auto& bytes : inputs) in.push_back({bytes.data(), bytes.size()});
  for (int i = 0; i < tgb_result_count(bundle); ++i) results.emplace_back(tgb_result_at(bundle, i)->bytes);
  for (auto& bytes : results) to.push_back({bytes.data(), bytes.size()});

  int code = 0;
  if (tgb_run(bundle, in.data(), int(in.size()), to.data(), int(to.size())) != 0) {
    code = fail(tgb_error(bundle));
    for (int i = 0; i < tgb_input_count(bundle); ++i)
      std::fprintf(stderr, "  input: %s\n", describe(*tgb_input_at(bundle, i)).c_str());
  }
  for (size_t i = 0; code == 0 && i < results.size(); ++i) {
    const tgb_tensor& tensor = *tgb_result_at(bundle, int(i));
    if (out.empty()) {
      print(tensor, results[i]);
    } else {
      std::ofstream file(out + "/" + tensor.name + ".bin", std::ios::binary);
      file.write(results[i].data(), std::streamsize(results[i].size()));
      if (!file.flush()) code = fail("cannot write " + out + "/" + tensor.name + ".bin");
    }
  }
  if (code == 0 && (std::fflush(stdout) != 0 || std::ferror(stdout)))
    code = fail(std::string("cannot write standard output: ") + std::strerror(errno));
  tgb_close(bundle);
  return code;
}
