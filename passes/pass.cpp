// SPDX-License-Identifier: Apache-2.0
// The registry of passes and emitters: rows of passes.def and registered ones; lookup by name and pattern.
#include "passes/pass.h"

#include <algorithm>
#include <cassert>

#include "ir/text.h"
#include "passes/pass_options.h"

namespace tg {

// The factory of a row, by its library. Naming the functions of `codegen` here would link the shader compiler into every
// tool.
#define TG_FACTORY_passes(id, name, Options) passFactory<Options>(name, run_##id)
#define TG_FACTORY_codegen(id, name, Options) PassFactory()

/// Fills in an alias from its passes, whose names are in `list`: parts, stages and options.
static void join(PassInfo& alias, std::string_view list, const std::deque<PassInfo>& all) {
  for (const std::string& name : splitText(list, ',')) {
    const auto part = std::ranges::find(all, name, &PassInfo::name);
    assert(part != all.end() && "an alias names no row of passes.def");
    alias.parts.push_back(&*part);
  }
  alias.from = alias.parts.front()->from;
  alias.to = alias.parts.back()->to;
  for (const PassInfo* part : alias.parts)
    for (const OptionInfo& info : part->options)
      if (!alias.option(info.name)) alias.options.push_back(info);
}

static std::deque<PassInfo> shipped() {
  std::deque<PassInfo> all = {
#define PASS(id, name, tool, from, to, library, Options, summary) \
  {name,                                                          \
   tool,                                                          \
   Stage::from,                                                   \
   Stage::to,                                                     \
   summary,                                                       \
   describeOptions<Options>(),                                    \
   TG_FACTORY_##library(id, name, Options),                       \
   true},
#define ALIAS(name, tool, list, summary) {name, tool, {}, {}, summary, {}, {}, true},
#include "passes/passes.def"
  };
#define PASS(...)
#define ALIAS(alias, tool, list, summary) \
  join(*std::ranges::find_if(all, [](const PassInfo& pass) { return pass.name == alias; }), list, all);
#include "passes/passes.def"
  return all;
}

static std::deque<PassInfo>& registry() {
  static std::deque<PassInfo> all = shipped();
  return all;
}

const std::deque<PassInfo>& passes() { return registry(); }

const OptionInfo* PassInfo::option(std::string_view wanted) const {
  std::string name(wanted);
  std::ranges::replace(name, '_', '-');
  for (const OptionInfo& info : options)
    if (info.name == name || info.name == wanted) return &info;
  return nullptr;
}

bool PassInfo::isLinked() const {
  return make || (!parts.empty() &&
                  std::ranges::all_of(parts, [](const PassInfo* part) { return part->isLinked(); }));
}

std::string_view PassInfo::fault() const {
  return shipped ? "a bug in the compiler, not in the input" : "a bug in that pass, not in the input";
}

const PassInfo* findPass(std::string_view wanted) {
  std::string name(wanted);
  std::ranges::replace(name, '_', '-');
  for (const PassInfo& pass : registry())
    if (pass.name == name) return &pass;
  return nullptr;
}

Result<void> registerPass(PassInfo info) {
  if (findPass(info.name)) return fail("a pass named '{}' is registered already", info.name);
  const auto isPart = [](char c) {
    return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (info.name.empty() || info.name[0] == '-' || !std::ranges::all_of(info.name, isPart))
    return fail("'{}' is not a pass name: only letters, digits and '-', which is not the first", info.name);
  if (!info.make && info.tool.empty() && info.parts.empty())
    return fail("pass '{}' has no function", info.name);
  info.shipped = false;
  registry().push_back(std::move(info));
  return {};
}

void linkPass(std::string_view name, PassFactory make) {
  for (PassInfo& pass : registry())
    if (pass.name == name) {
      pass.make = std::move(make);
      return;
    }
  assert(false && "linkPass names no row of passes.def");
}

static std::deque<Emitter>& emitterList() {
  static std::deque<Emitter> all;
  return all;
}

const std::deque<Emitter>& emitters() { return emitterList(); }

void registerEmitter(Emitter emitter) {
  for (Emitter& known : emitterList())
    if (known.name == emitter.name) {
      known = std::move(emitter);
      return;
    }
  emitterList().push_back(std::move(emitter));
}

static bool matchOne(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool globMatch(std::string_view pattern, std::string_view name) {
  for (;;) {
    size_t bar = pattern.find('|');
    if (matchOne(pattern.substr(0, bar), name)) return true;
    if (bar == std::string_view::npos) return false;
    pattern.remove_prefix(bar + 1);
  }
}

}  // namespace tg
