// SPDX-License-Identifier: Apache-2.0
#include "codegen/glsl_printer.h"

#include <cctype>
#include <string_view>

namespace tg {
namespace {

/// Keywords of GLSL 4.50, reserved words, a macro, and the built-in functions that printed shaders call, which a
/// variable of that name would hide.
const std::unordered_set<std::string_view>& reservedWords() {
  static const std::unordered_set<std::string_view> kWords = {
      "active", "asm", "atomic_uint", "attribute", "bool", "break", "buffer", "case", "cast", "centroid",
      "class", "coherent", "common", "const", "continue", "default", "demote", "discard", "do", "double",
      "else", "enum", "extern", "external", "false", "filter", "fixed", "flat", "float", "for", "goto",
      "half", "highp", "if", "in", "inline", "inout", "input", "int", "interface", "invariant", "layout",
      "long", "lowp", "main", "mediump", "namespace", "noinline", "noperspective", "nonuniformEXT", "out",
      "output", "packed", "partition", "patch", "precise", "precision", "public", "readonly", "resource",
      "restrict", "return", "sample", "shared", "short", "sizeof", "smooth", "static", "struct", "subroutine",
      "superp", "switch", "template", "this", "true", "typedef", "uint", "uniform", "union", "unsigned",
      "using", "varying", "void", "volatile", "VULKAN", "while", "writeonly",
      // the printer's own, in loops over the elements of a matrix
      "e", "row",
      // functions
      "abs", "any", "all", "atomicAdd", "atomicAnd", "atomicCompSwap", "atomicExchange", "atomicMax",
      "atomicMin", "atomicOr", "atomicXor", "barrier", "bitCount", "bitfieldReverse", "ceil", "equal", "exp",
      "exp2", "findLSB", "findMSB", "floatBitsToInt", "floatBitsToUint", "floor", "fma", "greaterThan",
      "greaterThanEqual", "intBitsToFloat", "inversesqrt", "isnan", "lessThan", "lessThanEqual", "log",
      "log2", "max", "memoryBarrierBuffer", "min", "mix", "not", "notEqual", "pow", "sign", "sqrt",
      "subgroupAdd", "subgroupAnd", "subgroupBallot", "subgroupMax", "subgroupMin", "subgroupMul",
      "subgroupOr", "subgroupShuffle", "subgroupXor", "texelFetch", "textureSize", "trunc", "u16vec2",
      "u16vec4", "uint16_t", "uintBitsToFloat"};
  return kWords;
}

/// Families of type names: a stem and a digit (vec4, mat3x2), or anything that begins with a stem (image2D).
bool isTypeName(std::string_view name) {
  for (std::string_view stem : {"vec", "dvec", "ivec", "uvec", "bvec", "hvec", "fvec", "mat", "dmat"})
    if (name.size() > stem.size() && name.starts_with(stem) &&
        std::isdigit(static_cast<unsigned char>(name[stem.size()])))
      return true;
  if (name.starts_with('i') || name.starts_with('u')) name.remove_prefix(1);
  return name.starts_with("sampler") || name.starts_with("mage") || name.starts_with("image") ||
         name.starts_with("texture");
}

/// Characters of a longer name that are kept. Compilers of GLSL refuse identifiers of 1024 and more.
constexpr size_t kLongest = 500;

/// The name with other characters replaced by underscores, and kept apart from the printer's own names.
std::string identifier(std::string_view name) {
  std::string out;
  for (char c : name.substr(0, kLongest)) {
    bool word = std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 128;
    if (word)
      out += c;
    else if (out.empty() || out.back() != '_')
      out += '_';  // two in a row are reserved
  }
  auto isDigit = [&](size_t at) {
    return at < out.size() && std::isdigit(static_cast<unsigned char>(out[at]));
  };
  const bool block = out[0] == 'B' && isDigit(1);  // B0 is the block of the first parameter
  if (block || isDigit(0) || out.starts_with("gl_") || out.starts_with("GL_") || out.starts_with("tg"))
    out = "v" + out;
  if (reservedWords().contains(out) || isTypeName(out)) out += "_";
  return out;
}

}  // namespace

const std::string& GlslNames::of(const Value* value) {
  if (const std::string* name = valueIn(names_, value)) return *name;
  return names_[value] = unique(value->name);
}

std::string GlslNames::unique(const std::string& hint) {
  std::string base = identifier(hint.empty() ? "v" : hint);
  std::string name = base;
  for (int next = 2; !taken_.insert(name).second; ++next)
    name = base + (base.ends_with('_') ? "" : "_") + std::to_string(next);
  return name;
}

}  // namespace tg
