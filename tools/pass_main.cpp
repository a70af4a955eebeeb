// SPDX-License-Identifier: Apache-2.0
// The main of every pass tool: TG_TOOL_PASS names the pass.
#include "tools/driver/driver.h"

int main(int argc, char** argv) { return tg::passToolMain(argc, argv, TG_TOOL_PASS); }
