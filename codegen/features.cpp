#include "codegen/features.h"

#include <fmt/format.h>

namespace tg {

Result<void> checkFeatures(const Item& kernel, const Target& target) {
  Error errors;
  for (const auto& param : kernel.body.args)
    if (param->type.dtype == DType::f16 && !target.halfStorage)
      errors.append(failAt(param->loc ? param->loc : kernel.loc,
                           fmt::format("kernel @{} [kernel.feature]: %{} holds f16 and needs `half_storage`, "
                                       "which target '{}' lacks",
                                       kernel.name, param->name, target.name)));
  walk(kernel.body, [&](Op& op) {
    if (op.info().name.starts_with("tgk.subgroup_") && !target.subgroups)
      errors.append(
          failAt(op.loc, fmt::format("{} [kernel.feature]: needs `subgroups`, which target '{}' lacks",
                                     op.info().name, target.name)));
  });
  if (!errors.empty()) return errors;
  return {};
}

}  // namespace tg
