// SPDX-License-Identifier: Apache-2.0
#include "ir/trace/custom.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/builder.h"
#include "ir/parser.h"
#include "ir/trace/recorder.h"

namespace tg::nn {

Kernel::Kernel(std::string text, Site site) {
  std::string file = fmt::format("the kernel's text at {}:{}", site.file_name(), site.line());
  auto parsed = parse("module @kernel {" + text + "}", file);
  Error error;
  if (!parsed)
    error = parsed.takeError();
  else if ((*parsed)->items.empty() || (*parsed)->items[0]->kind != ItemKind::kernel)
    error = failAt(locOf(site), "a kernel's text begins with 'kernel @name(…)'");
  if (!error.empty()) {
    failure_ = std::make_shared<const Error>(std::move(error));
    return;
  }
  for (auto& item : (*parsed)->items.take()) items_.push_back(std::move(item));
}

Kernel::Kernel(const Item& item) : items_{cloneItem(item)} {}

Result<void> Recorder::add(const Kernel& kernel, const Loc& loc) {
  if (kernel.error()) return *kernel.error();
  for (const auto& item : kernel.items()) {
    const Item* there = module_.find(item->kind, item->name);
    if (!there)
      module_.items.push_back(cloneItem(*item));
    else if (print(*there) != print(*item))
      return failAt(loc, "the module has another {} @{}", tg::name(item->kind), item->name)
          .note(there->loc, "it is here");
  }
  return {};
}

std::vector<Tensor> Recorder::call(const Site& at, const Kernel& kernel, Emission op, int count) {
  const Site& site = CallSite::of(at);
  if (Recorder* recorder = active())
    if (auto added = recorder->add(kernel, locOf(site)); !added)
      return std::vector<Tensor>(static_cast<size_t>(count), recorder->reject(added.takeError()));
  op.callee = kernel.name();
  op.hint = kernel.name();
  return emitAll(site, std::move(op), count);
}

std::vector<Tensor> custom(const Kernel& kernel, const Args& inputs,
                           const std::vector<KernelResult>& results) {
  const Site& site = CallSite::of(inputs.site());
  Emission op{.code = Opcode::custom, .operands = inputs.list()};
  std::vector<int64_t> batch;
  for (const KernelResult& result : results) {
    auto type = tensorType(result.dtype, result.shape, locOf(site));
    if (!type) return std::vector<Tensor>(results.size(), Recorder::fail(site, type.error().message()));
    op.declared.push_back(*type);
    batch.push_back(result.batch);
  }
  if (std::ranges::any_of(batch, [](int64_t axis) { return axis >= 0; }))
    op.attrs = {{"batch", Attr::ints(batch)}};
  return Recorder::call(site, kernel, std::move(op), static_cast<int>(results.size()));
}

Tensor custom(const Kernel& kernel, const Args& inputs, const KernelResult& result) {
  return custom(kernel, inputs, std::vector<KernelResult>{result}).front();
}

}  // namespace tg::nn
