// SPDX-License-Identifier: Apache-2.0
// tg-opt: any pipeline over a module.
#include "tools/main.h"

int main(int argc, char** argv) { return tg::tgOptMain(argc, argv); }
