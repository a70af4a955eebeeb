// SPDX-License-Identifier: Apache-2.0
// tg-opt: runs any pipeline on a module.
#include "tools/main.h"

int main(int argc, char** argv) { return tg::tgOptMain(argc, argv); }
