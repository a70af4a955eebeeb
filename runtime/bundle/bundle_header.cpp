// SPDX-License-Identifier: Apache-2.0
// Generates the C header of a bundle.
#include <cctype>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text.h"
#include "runtime/bundle/bundle.h"

namespace tg {

namespace {

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

struct StructMember {
  std::string name;
  Type type;
};

std::vector<StructMember> members(const std::vector<NamedType>& values) {
  std::vector<StructMember> out;
  std::set<std::string> used;
  for (const NamedType& value : values) {
    std::string base = cIdentifier(value.name), name = base;
    for (int next = 2; !used.insert(name).second; ++next) name = fmt::format("{}_{}", base, next);
    out.push_back({name, value.type});
  }
  return out;
}

std::string sizes(const std::string& prefix, const std::vector<StructMember>& all) {
  std::string text;
  for (const StructMember& member : all) {
    std::string macro = upper(fmt::format("{}_{}", prefix, member.name));
    text += fmt::format("#define {}_ELEMENTS {}\n#define {}_BYTES {}\n", macro, member.type.elements(), macro,
                        member.type.bytes());
    if (member.type.rank() > 0)
      text += fmt::format("#define {}_SHAPE {{{}}}\n", macro, fmt::join(member.type.shape, ", "));
  }
  return text;
}

std::string structure(const std::string& name, const std::vector<StructMember>& all) {
  std::string text = fmt::format("typedef struct {} {{\n", name);
  for (const StructMember& member : all)
    text += fmt::format("  {} {}[{}]; /* {} */\n", info(member.type.dtype).c, member.name,
                        member.type.elements(), member.type.str());
  if (all.empty()) text += "  char none;\n";
  return text + fmt::format("}} {};\n\n", name);
}

std::string list(std::string_view from, const std::vector<StructMember>& all) {
  if (all.empty()) return "{0, 0}";
  return listText(all, [&](const StructMember& member) {
    return fmt::format("{{{0}->{1}, sizeof {0}->{1}}}", from, member.name);
  });
}

}  // namespace

std::string cIdentifier(const std::string& name) {
  static const std::set<std::string> taken = {"tgb",      "tensorgrad_bundle",  // the loader's
                                              "auto",     "bool",
                                              "break",    "case",
                                              "char",     "class",
                                              "const",    "continue",
                                              "default",  "delete",
                                              "do",       "double",
                                              "else",     "enum",
                                              "extern",   "false",
                                              "float",    "for",
                                              "goto",     "if",
                                              "inline",   "int",
                                              "long",     "namespace",
                                              "new",      "not",
                                              "or",       "and",
                                              "register", "return",
                                              "short",    "signed",
                                              "sizeof",   "static",
                                              "struct",   "switch",
                                              "template", "this",
                                              "true",     "try",
                                              "typedef",  "union",
                                              "unsigned", "using",
                                              "void",     "volatile",
                                              "while"};
  std::string out;
  for (unsigned char c : name) out += std::isalnum(c) ? static_cast<char>(c) : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out = "_" + out;
  return taken.contains(out) ? out + "_" : out;
}

std::string bundleHeader(const Item& entry, const std::string& name) {
  std::string id = cIdentifier(name);
  std::vector<NamedType> arguments;
  for (const auto& arg : entry.body.args) arguments.push_back({arg->name, arg->type});
  std::vector<StructMember> inputs = members(arguments), results = members(entry.results);
  std::string guard = upper(id) + "_BUNDLE_H";
  std::string text =
      fmt::format("/* The inputs and results of @{} of {}. Large structs do not belong on the stack. */\n"
                  "#ifndef {}\n#define {}\n\n#include \"tensorgrad_bundle.h\"\n\n",
                  entry.name, name, guard, guard);
  text += sizes(id + "_in", inputs) + sizes(id + "_out", results) + "\n";
  text += structure(id + "_inputs", inputs) + structure(id + "_results", results);
  text +=
      fmt::format("/* As tgb_run: 0, or -1 and tgb_error. */\n"
                  "static inline int {0}_run(tgb_bundle* bundle, const {0}_inputs* in, {0}_results* out) {{\n"
                  "  const tgb_input inputs[] = {{{1}}};\n  const tgb_output results[] = {{{2}}};\n"
                  "  (void)in;\n  (void)out;\n"
                  "  return tgb_run(bundle, inputs, {3}, results, {4});\n}}\n\n#endif\n",
                  id, list("in", inputs), list("out", results), inputs.size(), results.size());
  return text;
}

}  // namespace tg
