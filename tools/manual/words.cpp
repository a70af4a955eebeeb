// SPDX-License-Identifier: Apache-2.0
// The words that both shells offer for a value.
#include "ir/target.h"
#include "tools/manual/manual.h"

namespace tg {

std::vector<std::string> offeredWords(const OptionCard& option) {
  std::vector<std::string> out;
  switch (option.words) {
  case Words::choices: return option.choices;
  case Words::targets:
    for (std::string_view name : targetNames()) out.emplace_back(name);
    out.emplace_back("auto");
    return out;
  case Words::devices: return {"auto", "cpu", "interp"};
  case Words::passes:
    for (const PassInfo& pass : passes()) out.push_back(pass.name);
    return out;
  case Words::options:
    if (const PassInfo* pass = findPass(std::string_view(option.names.back()).substr(2)))
      return passOptionWords(*pass);
    return out;
  case Words::spec:
    if (option.value == "DATA") return {"text:", "tokens:", "train=", "val="};
    return out;
  case Words::none:
  case Words::files:
  case Words::folders: break;
  }
  return out;
}

std::vector<std::string> passOptionWords(const PassInfo& pass) {
  std::vector<std::string> out;
  for (const OptionInfo& option : pass.options) out.push_back(option.name + "=");
  return out;
}

}  // namespace tg
