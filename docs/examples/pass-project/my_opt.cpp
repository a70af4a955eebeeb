// SPDX-License-Identifier: Apache-2.0
// tg-opt with one more pass.
#include "ir/result.h"
#include "tools/main.h"

tg::Result<void> registerSquares();  // squares.cpp

int main(int argc, char** argv) {
  if (auto registered = registerSquares(); !registered) return 1;
  return tg::tgOptMain(argc, argv);
}
