// SPDX-License-Identifier: Apache-2.0
// tg-run: a module at work on a device.
#include "tools/main.h"

int main(int argc, char** argv) { return tg::tgRunMain(argc, argv); }
