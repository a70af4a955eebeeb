// tg-opt: any pipeline over a module (tools/driver/driver.h).
#include "codegen/register.h"
#include "tools/driver/driver.h"
#include "tools/driver/run.h"

int main(int argc, char** argv) {
  tg::registerCodegenPasses();
  return tg::optMain(argc, argv, {tg::deviceTarget});
}
