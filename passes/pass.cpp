// SPDX-License-Identifier: Apache-2.0
// The registry of passes and emitters: rows of passes.def and registered ones; lookup by name and pattern.
#include "passes/pass.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "passes/pass_options.h"

namespace tg {

// The factory of a row, by its library. Naming the functions of `codegen` here would link the shader compiler into every
// tool.
#define TG_FACTORY_passes(id, name, Options) passFactory<Options>(name, run_##id)
#define TG_FACTORY_codegen(id, name, Options) PassFactory()

/// Fills in an alias from its passes, whose names are in `list`: parts, stages and options.
static void join(PassInfo& alias, std::string_view list, const std::deque<PassInfo>& all) {
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const auto part = std::find_if(all.begin(), all.end(), [&](const PassInfo& pass) {
      return pass.name == list.substr(begin, end - begin);
    });
    assert(part != all.end() && "an alias names no row of passes.def");
    alias.parts.push_back(&*part);
    begin = end + 1;
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
#undef PASS
  };
#define PASS(...)
#define ALIAS(alias, tool, list, summary)                                                                    \
  join(*std::find_if(all.begin(), all.end(), [](const PassInfo& pass) { return pass.name == alias; }), list, \
       all);
#include "passes/passes.def"
#undef PASS
  return all;
}

static std::deque<PassInfo>& registry() {
  static std::deque<PassInfo> all = shipped();
  return all;
}

const std::deque<PassInfo>& passes() { return registry(); }

const OptionInfo* PassInfo::option(std::string_view wanted) const {
  std::string name(wanted);
  std::replace(name.begin(), name.end(), '_', '-');
  for (const OptionInfo& info : options)
    if (info.name == name || info.name == wanted) return &info;
  return nullptr;
}

bool PassInfo::isLinked() const {
  return make || (!parts.empty() && std::all_of(parts.begin(), parts.end(),
                                                [](const PassInfo* part) { return part->isLinked(); }));
}

std::string_view PassInfo::fault() const {
  return shipped ? "a bug in the compiler, not in the input" : "a bug in that pass, not in the input";
}

const PassInfo* findPass(std::string_view wanted) {
  std::string name(wanted);
  std::replace(name.begin(), name.end(), '_', '-');
  for (const PassInfo& pass : registry())
    if (pass.name == name) return &pass;
  return nullptr;
}

Result<void> registerPass(PassInfo info) {
  if (findPass(info.name)) return fail(fmt::format("a pass named '{}' is registered already", info.name));
  if (info.name.empty() || info.name.find_first_of("_,{}() ") != std::string::npos)
    return fail(fmt::format("'{}' is not a pass name: letters, digits and '-'", info.name));
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

/// The number of edits (insert, delete, replace, swap of neighbours) between two names.
static int editDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = static_cast<int>(i + j);
        continue;
      }
      cost[i][j] =
          std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string nearestName(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  if (name.empty() || name.size() > 64) return best;
  int limit = std::max(1, static_cast<int>(name.size()) / 3) + 1;
  for (const std::string& candidate : known) {
    int distance = editDistance(name, candidate);
    // A part of a name, such as `adam` for `append-adam`, counts as one edit.
    if (name.size() >= 3 && candidate.find(name) != std::string::npos) distance = std::min(distance, 1);
    if (distance < limit) limit = distance, best = candidate;
  }
  return best;
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
