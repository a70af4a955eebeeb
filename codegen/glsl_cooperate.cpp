// SPDX-License-Identifier: Apache-2.0
// Kernel to GLSL: barriers, and reductions of a workgroup or a subgroup.
#include <bit>

#include "codegen/glsl_printer.h"

namespace tg {

void GlslPrinter::barrier() {
  if (anyCoherent()) main_.add("memoryBarrierBuffer();");
  main_.add("barrier();");
}

static bool isMinMax(const std::string& kind) { return kind == "min" || kind == "max"; }
static std::string capital(const std::string& kind) {
  return static_cast<char>(kind[0] - 'a' + 'A') + kind.substr(1);
}

/// Combines two operands by a reduction other than min or max.
static std::string foldOf(const std::string& kind, const std::string& x, const std::string& y) {
  const char* sign = kind == "add"   ? "+"
                     : kind == "mul" ? "*"
                     : kind == "and" ? "&"
                     : kind == "or"  ? "|"
                                     : "^";
  return fmt::format("{} {} {}", x, sign, y);
}

/// Prints a function that combines one value of each invocation as a tree, in an order that only depends on the
/// workgroup's size. Its steps are unrolled, because only a kernel's own loops count towards a target's
/// `loop_iterations`.
std::string GlslPrinter::workgroupReduce(const Op& op) {
  std::string kind = op.word("kind"), type = glslType(op.result()->type);
  std::string function = fmt::format("tgReduce_{}_{}", kind, type), lanes = fmt::format("tgLanes_{}", type);
  auto count = static_cast<uint32_t>(kernel_.workgroup[0] * kernel_.workgroup[1] * kernel_.workgroup[2]);
  scratch_[lanes] = fmt::format("shared {} {}[{}];\n", type, lanes, count);
  std::string x = fmt::format("{}[at]", lanes), y = fmt::format("{}[at + width]", lanes);
  std::string fold = !isMinMax(kind) ? foldOf(kind, x, y)
                     : isFloat(op.result()->type.dtype)
                         ? fmt::format("{}({}, {})", helpers_.need(capital(kind), op.result()->type), x, y)
                         : fmt::format("{}({}, {})", kind, x, y);
  std::string steps;
  for (uint32_t width = std::bit_ceil(count) / 2; width > 0; width /= 2)
    steps += fmt::format("  {{\n"
                         "    const uint width = {0}u;\n"
                         "    if (at < width && at + width < {1}u) {{\n"
                         "      {2} folded = {3};\n"
                         "      {4}[at] = folded;\n"
                         "    }}\n"
                         "    barrier();\n"
                         "  }}\n",
                         width, count, glslVariable(op.result()->type), fold, lanes);
  functions_[function] =
      fmt::format("{0} {1}({0} x) {{\n"
                  "  uint at = gl_LocalInvocationIndex;\n"
                  "  {2}[at] = x;\n"
                  "{3}"
                  "  barrier();\n"
                  "{4}"
                  "  {0} result = {2}[0];\n"
                  "  barrier();\n"
                  "  return result;\n"
                  "}}\n",
                  type, function, lanes, anyCoherent() ? "  memoryBarrierBuffer();\n" : "", steps);
  return fmt::format("{}({})", function, operandText(op.operands[0], op.result()->type));
}

std::string GlslPrinter::subgroupReduce(const Op& op) {
  std::string kind = op.word("kind"), function = "subgroup" + capital(kind);
  const Type& type = op.result()->type;
  if (isMinMax(kind) && isFloat(type.dtype)) function = helpers_.need("Subgroup" + capital(kind), type);
  return fmt::format("{}({})", function, operandText(op.operands[0], type));
}

std::string GlslPrinter::subgroupShuffle(const Op& op) {
  return fmt::format("subgroupShuffle({}, {})", operandText(op.operands[0], op.result()->type),
                     operandText(op.operands[1], Type::scalar(DType::u32)));
}

}  // namespace tg
