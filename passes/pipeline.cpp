// SPDX-License-Identifier: Apache-2.0
// Parses and prints pipelines: `append-grad,append-adam{lr=1e-3 clip-norm=1},fuse`, optionally wrapped as
// `builtin.module(…)`.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text.h"
#include "passes/pass.h"
#include "passes/pass_options.h"

namespace tg {

namespace {

constexpr int kDeepestNesting = 32;

/// Scans the text of a pipeline; errors have its lines and columns.
class PipelineScanner {
 public:
  PipelineScanner(std::string_view text, std::string name)
      : file_(std::make_shared<SourceFile>(SourceFile{std::move(name), std::string(text)})),
        text_(file_->text) {}

  Result<void> parseSteps(std::vector<PipelineStep>& steps, int depth = 0);
  /// Options up to the closing brace or, without braces, to the end of the text.
  Result<AttrList> parseOptions(const PassInfo& pass, bool braces);
  bool atEnd() {
    skipSpace();
    return at_ == text_.size();
  }
  bool take(char c) {
    skipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view word() {
    skipSpace();
    size_t begin = at_;
    auto inWord = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; };
    while (at_ < text_.size() && inWord(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  Error failHere(std::string message) { return failAt(locAt(at_), std::move(message)); }

 private:
  void skipSpace() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  Result<std::string_view> value(bool braces);
  Result<void> parseStep(std::vector<PipelineStep>& steps, int depth);
  Loc locAt(size_t at) const {
    LocNode node;
    node.file = file_;
    node.line = static_cast<uint32_t>(1 + std::count(text_.begin(), text_.begin() + at, '\n'));
    size_t newline = text_.substr(0, at).rfind('\n');
    node.col = static_cast<uint32_t>(newline == std::string_view::npos ? at + 1 : at - newline);
    return std::make_shared<const LocNode>(std::move(node));
  }

  std::shared_ptr<const SourceFile> file_;
  std::string_view text_;
  size_t at_ = 0;
};

bool isWrapper(std::string_view name) {
  for (std::string_view known : {"builtin.module", "module", "func.func", "func", "any"})
    if (name == known) return true;
  return false;
}

Error unknownPass(Loc loc, std::string_view name) {
  std::vector<std::string> names;
  for (const PassInfo& pass : passes()) names.push_back(pass.name);
  const std::string near = nearestName(name, names);
  const std::string hint = near.empty() ? fmt::format("; passes: {}", fmt::join(names, ", "))
                                        : fmt::format("; did you mean '{}'?", near);
  return failAt(std::move(loc), "no pass is named '{}'{}", name, hint);
}

Result<void> PipelineScanner::parseSteps(std::vector<PipelineStep>& steps, int depth) {
  if (depth > kDeepestNesting) return failHere("the pipeline is nested too deep");
  do {
    TG_CHECK(parseStep(steps, depth));
  } while (take(','));
  return {};
}

Result<void> PipelineScanner::parseStep(std::vector<PipelineStep>& steps, int depth) {
  skipSpace();
  size_t begin = at_;
  std::string_view name = word();
  if (name.empty()) return failHere("expected the name of a pass");
  if (isWrapper(name) && take('(')) {
    if (take(')')) return {};
    TG_CHECK(parseSteps(steps, depth + 1));
    if (!take(')')) return failHere("expected ',' or ')' after a pass");
    return {};
  }
  PipelineStep step;
  step.pass = findPass(name);
  if (!step.pass) return unknownPass(locAt(begin), name);
  if (take('{')) {
    TG_TRY(step.options, parseOptions(*step.pass, true));
  }
  steps.push_back(std::move(step));
  return {};
}

Result<AttrList> PipelineScanner::parseOptions(const PassInfo& pass, bool braces) {
  AttrList out;
  for (;;) {
    take(',');
    if (braces ? take('}') : atEnd()) return out;
    skipSpace();
    Loc loc = locAt(at_);
    std::string_view name = word();
    if (name.empty() && braces && atEnd())
      return failHere(fmt::format("expected '}}' behind {}'s options", pass.name));
    if (name.empty()) return failHere(fmt::format("expected the name of an option of {}", pass.name));
    const OptionInfo* option = pass.option(name);
    if (!option) return failAt(loc, unknownOption(pass.name, name, pass.options).message());
    if (find(out, option->name))
      return failAt(loc, "{}: option '{}' is given twice", pass.name, option->name);
    std::string_view text = "true";
    if (take('=')) {
      TG_TRY(text, value(braces));
    } else if (!option->bare.empty()) {
      text = option->bare;
    } else if (option->type != "bool") {
      return failHere(fmt::format("{}: option '{}' needs a value: {}={}", pass.name, option->name,
                                  option->name, option->type));
    }
    auto parsed = parsePassOption(pass, *option, text);
    if (!parsed) return failAt(loc, parsed.error().message());
    out.push_back({option->name, *std::move(parsed)});
  }
}

/// Reads up to a comma or space outside of quotes and brackets, or up to the brace that closes the options.
Result<std::string_view> PipelineScanner::value(bool braces) {
  skipSpace();
  size_t begin = at_;
  std::string open;
  for (; at_ < text_.size(); ++at_) {
    char c = text_[at_];
    if (c == '"') {
      size_t quote = at_++;
      while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
      if (at_ >= text_.size()) return failAt(locAt(quote), "the quoted value has no end");
    } else if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (!open.empty() && c == open.back()) {
      open.pop_back();
    } else if (open.empty() &&
               (c == ',' || (c == '}' && braces) || std::isspace(static_cast<unsigned char>(c)))) {
      break;
    }
  }
  if (!open.empty()) return failHere(fmt::format("the value has no closing '{}'", open.back()));
  return text_.substr(begin, at_ - begin);
}

}  // namespace

Result<PassManager> PassManager::parse(std::string_view pipeline) {
  PassManager out;
  PipelineScanner scanner(pipeline, "<pipeline>");
  if (scanner.atEnd()) return out;
  TG_CHECK(scanner.parseSteps(out.steps_));
  if (!scanner.atEnd()) return scanner.failHere("expected ',' between passes or options in {…}");
  return out;
}

Result<AttrList> parsePassOptions(const PassInfo& pass, std::string_view text) {
  PipelineScanner scanner(text, fmt::format("<options of {}>", pass.name));
  AttrList kernel;
  if (pass.option("kernel") && scanner.take('@'))
    kernel.push_back({"kernel", Attr::string(std::string(scanner.word()))});
  bool braces = scanner.take('{');
  TG_TRY(AttrList out, scanner.parseOptions(pass, braces));
  if (!kernel.empty() && find(out, "kernel")) return scanner.failHere("the kernel is named twice");
  out.insert(out.begin(), kernel.begin(), kernel.end());
  if (!scanner.atEnd()) return scanner.failHere("expected nothing after the options");
  return out;
}

static std::string optionText(const Attr& value) {
  switch (value.kind) {
  case Attr::Kind::boolean: return option_text::show(value.integer != 0);
  case Attr::Kind::integer: return option_text::show(value.integer);
  case Attr::Kind::real: return option_text::show(value.real);
  case Attr::Kind::call: return option_text::show(value);
  case Attr::Kind::string:
  case Attr::Kind::word: return option_text::show(value.text);
  default: return option_text::show(value.str());
  }
}

std::string PassManager::strFrom(int first, bool defaults) const {
  std::string out;
  for (size_t index = first; index < steps_.size(); ++index) {
    const PipelineStep& step = steps_[index];
    std::string options;
    for (const OptionInfo& info : step.pass->options) {
      const Attr* given = find(step.options, info.name);
      std::string text = given ? optionText(*given) : info.fallback;
      if (given && (info.type == "double" || info.type == "rate") && given->isNumber())
        text = option_text::show(given->number());
      if (!defaults && text == info.fallback) continue;
      options += (options.empty() ? "" : ",") + info.name + "=" + text;
    }
    out += (out.empty() ? "" : ",") + step.pass->name;
    if (!options.empty()) out += "{" + options + "}";
  }
  return out;
}

std::string PassManager::str(bool defaults) const { return strFrom(0, defaults); }

}  // namespace tg
