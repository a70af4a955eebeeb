// tg-run: a module at work on a device (tools/driver/run.h).
#include "tools/driver/run.h"

int main(int argc, char** argv) { return tg::runMain(argc, argv); }
