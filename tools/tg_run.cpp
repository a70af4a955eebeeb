// SPDX-License-Identifier: Apache-2.0
// tg-run: runs a module on a device.
#include "tools/main.h"

int main(int argc, char** argv) { return tg::tgRunMain(argc, argv); }
