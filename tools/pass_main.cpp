// The main of every pass tool: TG_TOOL_PASS names the pass; TG_TOOL_CODEGEN links what needs shaderc.
#include "tools/driver/driver.h"
#ifdef TG_TOOL_CODEGEN
#include "codegen/register.h"
#endif

int main(int argc, char** argv) {
#ifdef TG_TOOL_CODEGEN
  tg::registerCodegenPasses();
#endif
  return tg::passToolMain(argc, argv, TG_TOOL_PASS);
}
