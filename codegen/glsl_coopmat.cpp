// SPDX-License-Identifier: Apache-2.0
// Kernel to GLSL: cooperative matrices, in the form of GL_NV_cooperative_matrix, and conversions of 16-bit reals.
#include "codegen/glsl_printer.h"

#include <algorithm>

#include "ir/kernel/semantics.h"

namespace tg {

constexpr int64_t kQuadInvocations = 32;  ///< invocations of a subgroup whose fragments are `quads`

std::string glslMatrix(const Type& type) {
  const auto [rows, columns] = matrixExtents(type);
  const DType dtype = type.dtype == DType::i1 ? DType::f32 : type.dtype;
  return fmt::format("fcoopmatNV<{}, gl_ScopeSubgroup, {}, {}>", 8 * byteSize(dtype), rows.name,
                     columns.name);
}

std::string glslMatrixExtent(const MatrixExtent& extent) {
  return fmt::format("layout(constant_id = {}) const uint {} = {}u;", extent.id, extent.name, extent.extent);
}

std::vector<const char*> glslMatrixExtensions() {
  return {"GL_NV_cooperative_matrix", "GL_KHR_memory_scope_semantics",
          "GL_EXT_shader_explicit_arithmetic_types_float16"};
}

/// Rounds to f16: by the device's conversion if it has matrices of f16, since it then rounds to the nearest, else
/// by integer arithmetic. The way back is by integer arithmetic: drivers simplify unpackHalf2x16(packHalf2x16(x))
/// to x.
std::string GlslPrinter::roundHalf(const Op& op) {
  const Type type = op.result()->type;
  const std::string x = operandText(op.operands[0], type);
  std::string value = helpers_.need("HalfValue", Type::scalar(DType::u32, type.lanes));
  if (!survey_.matrices) return fmt::format("{}({}({}))", value, helpers_.need("HalfBits", type), x);
  if (type.lanes == 1) return fmt::format("{}(packHalf2x16(vec2({}, 0.0)) & 0xffffu)", value, x);
  auto two = [&](const char* lanes) {
    return fmt::format("packHalf2x16({0}{1}) & 0xffffu, packHalf2x16({0}{1}) >> 16", x, lanes);
  };
  if (type.lanes == 2) return fmt::format("{}(uvec2({}))", value, two(""));
  return fmt::format("{}(uvec4({}, {}))", value, two(".xy"), two(".zw"));
}

std::string GlslPrinter::roundBf16(const Op& op) {
  const Type type = op.result()->type;
  return fmt::format("{}({}({}))", narrowing(DType::bf16, "Value", type.lanes),
                     narrowing(DType::bf16, "Bits", type.lanes), operandText(op.operands[0], type));
}

/// Packs two reals in a word, lane by lane.
std::string GlslPrinter::packNarrow(const Op& op, DType narrow) {
  const int lanes = op.result()->type.lanes;
  const std::string pack = packing("Pack", Type::buffer(narrow, 2, {1}, BufMode::shared));
  std::string x = operandText(op.operands[0], operandType(op, op.operands[0])),
              y = operandText(op.operands[1], operandType(op, op.operands[1]));
  if (lanes == 1) return fmt::format("{}(vec2({}, {}))", pack, x, y);
  std::string out;
  for (int lane = 0; lane < lanes; ++lane) {
    auto of = [&](const Operand& operand, const std::string& text) {
      return operandType(op, operand).lanes == 1 ? text : fmt::format("{}.{}", text, glslLane(lane));
    };
    out += fmt::format("{}{}(vec2({}, {}))", lane ? ", " : "", pack, of(op.operands[0], x),
                       of(op.operands[1], y));
  }
  return fmt::format("{}({})", glslType(op.result()->type), out);
}

std::string GlslPrinter::unpackNarrow(const Op& op, DType narrow) {
  return fmt::format("{}({} & 0xffffu)", narrowing(narrow, "Value", op.result()->type.lanes),
                     operandText(op.operands[0], Type::scalar(DType::u32, op.result()->type.lanes)));
}

/// The operands of a load or store: the buffer, the index of the first element, and the distance between rows.
std::string GlslPrinter::matrixPlace(const Operand& element) {
  return fmt::format("{}, {}, {}u", names_.of(element.value), flatIndex(element),
                     element.value->type.shape[1]);
}

void GlslPrinter::matrixLoad(const Op& op) {
  const std::string& name = names_.of(op.result());
  main_.add("{} {};", glslVariable(op.result()->type), name);
  main_.add("coopMatLoadNV({}, {}, {});", name, matrixPlace(op.operands[0]), op.flag("column_major"));
}

void GlslPrinter::matrixStore(const Op& op) {
  main_.add("coopMatStoreNV({}, {}, false);", names_.of(op.in(0)), matrixPlace(op.operands[1]));
}

/// The number of a matrix's elements that an invocation holds. It is a constant for `quads` fragments, so that
/// loops over the elements have a constant bound.
std::string GlslPrinter::matrixCount(const Type& type, const std::string& name) const {
  return survey_.quads ? std::to_string(type.shape[0] * type.shape[1] / kQuadInvocations)
                       : name + ".length()";
}

/// Declares the op's result as a matrix whose element e is `element`, in each invocation.
void GlslPrinter::matrixEach(const Op& op, const std::string& element) {
  const std::string& name = names_.of(op.result());
  const Type& type = op.result()->type;
  main_.add("{} {};", glslVariable(type), name);
  main_.add("[[unroll]] for (int e = 0; e < {}; ++e) {}[e] = {};", matrixCount(type, name), name, element);
}

/// The arithmetic on matrices of one shape that starts with an op and has no other op in between; empty if there is none.
std::vector<const Op*> GlslPrinter::matrixRun(const Op& first) const {
  auto isLaneWise = [](const Op& op) {
    return op.results.size() == 1 && op.regions.empty() && op.result()->type.isCoopmat() &&
           !isCoopmatOp(op.code);
  };
  std::vector<const Op*> run;
  for (const Op* op = &first; op && isLaneWise(*op); op = op->next()) {
    if (op->result()->type.shape != first.result()->type.shape) break;
    run.push_back(op);
  }
  return run;
}

/// Prints such a run as one loop over the elements. Only results that other ops read are matrices; the others are scalars of
/// the loop, so that an epilogue of many ops needs few registers.
void GlslPrinter::matrixElements(const std::vector<const Op*>& run) {
  const std::unordered_set<const Op*> inside(run.begin(), run.end());
  auto isKept = [&](const Op* op) {
    const auto& uses = op->result()->uses;
    return std::ranges::any_of(uses, [&](const Use& use) { return !inside.contains(use.user()); });
  };
  const std::string* matrix = nullptr;  // any of the kept ones, for its length
  for (const Op* op : run) {
    main_.op = op;
    if (!isKept(op)) {
      elements_.insert(op->result());
      continue;
    }
    matrix = &names_.of(op->result());
    main_.add("{} {};", glslVariable(op->result()->type), *matrix);
  }
  if (!matrix) return;  // nothing reads them
  main_.add("[[unroll]] for (int e = 0; e < {}; ++e) {{", matrixCount(run[0]->result()->type, *matrix));
  ++main_.depth;
  for (const Op* op : run) {
    main_.op = op;
    const bool isBool = op->result()->type.dtype == DType::i1;
    const std::string& name = names_.of(op->result());
    const std::string value = expression(*op);
    if (elements_.contains(op->result()))
      main_.add("{} {} = {};", isBool ? "bool" : "float", name, value);
    else
      main_.add("{}[e] = {};", name, isBool ? fmt::format("float({})", value) : value);
  }
  --main_.depth;
  main_.add("}}");
  main_.op = nullptr;
}

// The layout of `quads` fragments, those of NVIDIA's 16x16 matrices. Four invocations share rows r and r + 8; each
// has two neighbours of a row in the left half of the matrix and two in the right half. An operand A has this
// layout too.
//
//   element e of invocation l:   row l/4 + 8·(e/4),   column 2·(l mod 4) + e mod 2 + 8·(e/2 mod 2)

/// The row or the column of element e, as a function of the invocation.
std::string GlslPrinter::matrixAxis(const Op& op) {
  const bool columns = op.flag("columns");
  const std::string name = columns ? "tgMatrixColumn" : "tgMatrixRow";
  functions_[name] =
      fmt::format("uint {}(int e) {{\n  return {};\n}}\n", name,
                  columns ? "2u * (gl_SubgroupInvocationID & 3u) + uint(e & 1) + uint(e & 2) * 4u"
                          : "(gl_SubgroupInvocationID >> 2) + uint(e >> 2) * 8u");
  return name + "(e)";
}

/// A matrix whose elements are the numbers of their rows or columns.
void GlslPrinter::matrixIndex(const Op& op) { matrixEach(op, fmt::format("float({})", matrixAxis(op))); }

/// A matrix whose rows, or columns, repeat elements of a buffer.
void GlslPrinter::matrixRepeat(const Op& op) {
  const Operand& element = op.operands[0];
  matrixEach(op, fmt::format("{}[{} + {}]", names_.of(element.value), flatIndex(element), matrixAxis(op)));
}

/// Reduces rows r and r + 8 in turn. For `max` it uses GLSL's max, which is one instruction but may ignore NaN.
void GlslPrinter::matrixRowReduce(const Op& op) {
  const std::string name = names_.of(op.result()), kind = op.word("kind");
  auto fold = [&](const std::string& a, const std::string& b) {
    return kind == "max" ? fmt::format("max({}, {})", a, b) : fmt::format("{} + {}", a, b);
  };
  main_.add("{} {};", glslVariable(op.result()->type), name);
  main_.add("[[unroll]] for (int e = 0; e < 8; e += 4) {{");
  ++main_.depth;
  std::string own;
  for (int i = 0; i < op.numOperands(); ++i) {
    const std::string x = names_.of(op.in(i));
    const std::string four = fold(fold(x + "[e]", x + "[e + 1]"), fold(x + "[e + 2]", x + "[e + 3]"));
    own = i == 0 ? four : fold(own, four);
  }
  main_.add("float row = {};", own);
  for (const char* other : {"1u", "2u"})
    main_.add("row = {};", fold("row", fmt::format("subgroupShuffleXor(row, {})", other)));
  main_.add("{0}[e] = {0}[e + 1] = {0}[e + 2] = {0}[e + 3] = row;", name);
  --main_.depth;
  main_.add("}}");
}

/// Takes the largest element that the invocation holds, then a ballot.
void GlslPrinter::matrixAnyAbove(const Op& op) {
  const std::string name = names_.of(op.result()), most = name + "_most";
  auto largest = [&](const std::string& element) {
    std::string out;
    for (int i = 1; i < op.numOperands(); ++i) {
      const std::string x = names_.of(op.in(i)) + element;
      out = i == 1 ? x : fmt::format("max({}, {})", out, x);
    }
    return out;
  };
  main_.add("float {} = {};", most, largest("[0]"));
  main_.add("[[unroll]] for (int e = 1; e < {1}; ++e) {0} = max({0}, {2});", most,
            matrixCount(op.in(1)->type, names_.of(op.in(1))), largest("[e]"));
  const std::string above =
      fmt::format("{} > {}", most, operandText(op.operands[0], Type::scalar(DType::f32)));
  define(op, fmt::format("subgroupBallot({}) != uvec4(0u)", above));
}

void GlslPrinter::matrixConvert(const Op& op) {
  const DType to = op.result()->type.dtype;
  std::string element = names_.of(op.in(0)) + "[e]";
  // A device's conversion to bf16 may round or, as NVIDIA's does, truncate: the value is a bf16 before it.
  if (to == DType::bf16)
    element = fmt::format(
        "{}({})", helpers_.need(op.flag("truncate") ? "Bf16Cut" : "Bf16Near", Type::scalar(DType::f32)),
        element);
  matrixEach(op, fmt::format("{}({})", isNarrow(to) ? "float16_t" : "float", element));
}

void GlslPrinter::matrixProduct(const Op& op) {
  define(op, fmt::format("coopMatMulAddNV({}, {}, {})", names_.of(op.in(0)), names_.of(op.in(1)),
                         names_.of(op.in(2))));
}

}  // namespace tg
