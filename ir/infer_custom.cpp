// Types of tg.custom: the kernel's parameters against the operands and the declared results.
#include "ir/infer_context.h"

namespace tg::inference {

Result<Types> custom(const Context& c) {
  Types types;
  for (const auto& result : c.op.results) types.push_back(result->type);
  return types;
}

}  // namespace tg::inference
