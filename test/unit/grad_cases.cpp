#include "test/unit/grad_cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/infer.h"

namespace tg::test {

/// A case whose body is one line, `tg.sum %a {axes = [1]} : tensor<2xf32>` without the results' names.
static GradCase one(Opcode code, const std::string& line, std::vector<CaseInput> inputs,
                    std::vector<std::string> results) {
  std::string names, types;
  for (size_t i = 0; i < results.size(); ++i) {
    names += fmt::format("{}%r{}", i ? ", " : "", i);
    types += fmt::format("{}tensor<{}>", i ? ", " : "", results[i]);
  }
  std::string text(info(code).name);
  return {code, fmt::format("{} = {} {} : {}", names, text, line, types), std::move(inputs),
          std::move(results)};
}

/// Logic, whose operands are comparisons of what the differences move.
static GradCase logicCase(const OpInfo& row) {
  std::string operands = info(row.scalar).arity == 2 ? "%p, %q" : "%p";
  return {row.code,
          fmt::format("%p = tg.less %a, %b : tensor<2x3xi1>\n    %q = tg.greater %a, %c : tensor<2x3xi1>\n"
                      "    %r0 = {} {} : tensor<2x3xi1>",
                      row.name, operands),
          {{"2x3xf32"}, {"3xf32"}, {"f32"}},
          {"2x3xi1"}};
}

/// Elementwise rows: equal shapes, each operand broadcast, rank 0 beside a matrix.
static void addScalarCases(const OpInfo& row, std::vector<GradCase>& out) {
  const ScalarInfo& scalar = info(row.scalar);
  static const std::vector<std::vector<std::string>> kShapes[] = {
      {},
      {{"2x3x"}, {""}},
      {{"2x3x", "2x3x"}, {"2x3x", "3x"}, {"2x1x", "3x"}, {"", "2x3x"}, {"1x3x", "2x1x"}},
      {{"2x3x", "2x3x", "2x3x"}, {"2x1x", "3x", "2x3x"}, {"2x3x", "", "2x1x"}},
  };
  if (givesCondition(row.scalar) && row.slots[0].type == table::TypeClass::boolean)
    return out.push_back(logicCase(row));
  for (const auto& shapes : kShapes[scalar.arity]) {
    std::vector<CaseInput> inputs;
    std::string operands;
    for (size_t i = 0; i < shapes.size(); ++i) {
      bool condition = row.slots[static_cast<int>(i)].type == table::TypeClass::boolean;
      inputs.push_back({shapes[i] + (condition ? "i1" : "f32"), scalar.lo, scalar.hi});
      operands += fmt::format("{}%{}", i ? ", " : "", static_cast<char>('a' + i));
    }
    bool compares = givesCondition(row.scalar);
    std::string shape = shapes.size() == 1 ? shapes[0] : "2x3x";
    out.push_back(one(row.code, operands, inputs, {shape + (compares ? "i1" : "f32")}));
  }
}

static void addReductions(std::vector<GradCase>& out) {
  for (Opcode code : {Opcode::sum, Opcode::mean, Opcode::max_reduce, Opcode::min_reduce, Opcode::logsumexp}) {
    out.push_back(one(code, "%a {axes = [1]}", {{"2x4xf32"}}, {"2xf32"}));
    out.push_back(one(code, "%a {axes = [0, 1]}", {{"2x4xf32"}}, {"f32"}));
    out.push_back(one(code, "%a {axes = [-1], keepdims = true}", {{"2x4xf32"}}, {"2x1xf32"}));
    out.push_back(one(code, "%a {axes = [2, 0]}", {{"2x3x4xf32"}}, {"3xf32"}));
    out.push_back(one(code, "%a {axes = [0, 1], keepdims = true}", {{"2x3xf32"}}, {"1x1xf32"}));
  }
}

static void addRunningSums(std::vector<GradCase>& out) {
  for (const char* form :
       {"", ", reverse = true", ", exclusive = true", ", reverse = true, exclusive = true"}) {
    out.push_back(one(Opcode::cumsum, fmt::format("%a {{axis = 0{}}}", form), {{"5xf32"}}, {"5xf32"}));
    out.push_back(
        one(Opcode::cumsum, fmt::format("%a {{axis = -2{}}}", form), {{"2x3x2xf32"}}, {"2x3x2xf32"}));
  }
}

static void addViews(std::vector<GradCase>& out) {
  using enum Opcode;
  out.push_back(one(reshape, "%a {shape = [4, -1]}", {{"2x6xf32"}}, {"4x3xf32"}));
  out.push_back(one(transpose, "%a {perm = [2, 0, 1]}", {{"2x3x4xf32"}}, {"4x2x3xf32"}));
  out.push_back(one(slice, "%a {starts = [0, 1], limits = [2, 3]}", {{"2x4xf32"}}, {"2x2xf32"}));
  out.push_back(
      one(slice, "%a {starts = [1, 0], limits = [5, 7], strides = [2, 3]}", {{"6x7xf32"}}, {"2x3xf32"}));
  out.push_back(one(slice, "%a {starts = [0, 1, 2], limits = [2, 2, 5], strides = [1, 1, 2]}",
                    {{"2x3x5xf32"}}, {"2x1x2xf32"}));
  out.push_back(one(pad, "%a {low = [0, 1], high = [2, 0], value = 3.0}", {{"2x3xf32"}}, {"4x4xf32"}));
  out.push_back(one(concat, "%a, %b {axis = 0}", {{"1x3xf32"}, {"2x3xf32"}}, {"3x3xf32"}));
  out.push_back(one(concat, "%a, %b, %c {axis = -1}", {{"2x1xf32"}, {"2x3xf32"}, {"2x2xf32"}}, {"2x6xf32"}));
  out.push_back(one(broadcast_to, "%a {shape = [2, 3, 4]}", {{"3x1xf32"}}, {"2x3x4xf32"}));
}

/// Every transpose form over every way the leading axes can meet.
static void addMatmuls(std::vector<GradCase>& out) {
  static const std::vector<std::string> kBatches[] = {
      {"", "", ""},         {"2x", "2x", "2x"}, {"2x", "", "2x"},       {"", "2x", "2x"},
      {"2x2x", "", "2x2x"}, {"2x", "1x", "2x"}, {"2x1x", "3x", "2x3x"}, {"1x", "", "1x"},
  };
  for (const auto& batch : kBatches)
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        out.push_back(
            one(Opcode::matmul, fmt::format("%a, %b {{transpose_a = {}, transpose_b = {}}}", ta, tb),
                {{batch[0] + (ta ? "4x2xf32" : "2x4xf32")}, {batch[1] + (tb ? "3x4xf32" : "4x3xf32")}},
                {batch[2] + "2x3xf32"}));
}

static void addIndexing(std::vector<GradCase>& out) {
  using enum Opcode;
  // Ids draw repeats and indices outside on both sides.
  out.push_back(one(gather, "%a, %b", {{"5x3xf32"}, {"6xi32", -1, 5}}, {"6x3xf32"}));
  out.push_back(one(gather, "%a, %b", {{"5xf32"}, {"2x3xi32", -1, 5}}, {"2x3xf32"}));
  out.push_back(one(gather, "%a, %b", {{"3x2x2xf32"}, {"i32", 1, 1}}, {"2x2xf32"}));
  out.push_back(one(embedding, "%a, %b", {{"5x3xf32"}, {"2x3xi32", -1, 5}}, {"2x3x3xf32"}));
  out.push_back(one(scatter_add, "%a, %b {rows = 4}", {{"6xi32", -1, 4}, {"6x3xf32"}}, {"4x3xf32"}));
  out.push_back(one(scatter_add, "%a, %b {rows = 4}", {{"2x3xi32", -1, 4}, {"2x3xf32"}}, {"4xf32"}));
}

static void addSoftmaxes(std::vector<GradCase>& out) {
  using enum Opcode;
  for (Opcode code : {softmax, log_softmax}) {
    Opcode fast = code == softmax ? softmax_grad : log_softmax_grad;
    for (const char* axis : {"", " {axis = 0}"}) {
      out.push_back(one(code, std::string("%a") + axis, {{"2x4xf32"}}, {"2x4xf32"}));
      out.push_back(one(fast, std::string("%a, %b") + axis, {{"2x4xf32"}, {"2x4xf32"}}, {"2x4xf32"}));
    }
    // Square, wider (a prefix is visible to all rows), taller (the first rows see nothing), batched.
    for (const char* type : {"4x4xf32", "2x4xf32", "4x3xf32", "2x3x3xf32"})
      out.push_back(one(code, "%a {causal = true}", {{type}}, {type}));
    out.push_back(one(code, "%a", {{"5xf32"}}, {"5xf32"}));
  }
  for (const char* type : {"4x4xf32", "2x4xf32", "4x3xf32"})
    out.push_back(one(log_softmax_grad, "%a, %b {causal = true}", {{type}, {type}}, {type}));
  for (const char* reduction : {"mean", "sum", "none"}) {
    std::string line = fmt::format("%a, %b {{reduction = {}}}", reduction);
    bool none = std::string_view(reduction) == "none";
    out.push_back(one(cross_entropy, line, {{"6x3xf32"}, {"6xi32", -1, 3}}, {none ? "6xf32" : "f32"}));
    out.push_back(one(cross_entropy, line, {{"2x3x4xf32"}, {"2x3xi32", 0, 3}}, {none ? "2x3xf32" : "f32"}));
    out.push_back(one(cross_entropy, line, {{"4xf32"}, {"i32", 2, 2}}, {"f32"}));
  }
  out.push_back(one(cross_entropy_grad, "%a, %b, %c", {{"6x3xf32"}, {"6xi32", -1, 3}, {"f32"}}, {"6x3xf32"}));
  out.push_back(
      one(cross_entropy_grad, "%a, %b, %c", {{"6x3xf32"}, {"6xi32", -1, 3}, {"6xf32"}}, {"6x3xf32"}));
  out.push_back(one(cross_entropy_grad, "%a, %b, %c", {{"4xf32"}, {"i32", 2, 2}, {"f32"}}, {"4xf32"}));
}

static void addOthers(std::vector<GradCase>& out) {
  using enum Opcode;
  out.push_back({cast,
                 "%t = tg.cast %a : tensor<2x3xf16>\n    %r0 = tg.cast %t : tensor<2x3xf32>",
                 {{"2x3xf32"}},
                 {"2x3xf32"}});
  out.push_back(one(one_minus_pow, "%a {base = 0.9}", {{"3xf32", 0.5, 4}}, {"3xf32"}));
  out.push_back(one(clamp, "%a {lo = -0.51, hi = 0.77}", {{"4x5xf32"}}, {"4x5xf32"}));
  out.push_back(one(leaky_relu, "%a", {{"2x3xf32"}}, {"2x3xf32"}));
  out.push_back(one(leaky_relu, "%a {slope = 0.3}", {{"4x5xf32"}}, {"4x5xf32"}));
  for (const char* eps : {"", " {eps = 0.5}"}) {
    std::string norm = std::string("%a, %b, %c") + eps;
    out.push_back(one(layer_norm, norm, {{"3x4xf32"}, {"4xf32"}, {"4xf32"}}, {"3x4xf32"}));
    out.push_back(
        one(layer_norm_grad, norm, {{"3x4xf32"}, {"4xf32"}, {"3x4xf32"}}, {"3x4xf32", "3x1xf32", "3x1xf32"}));
  }
  out.push_back(one(layer_norm, "%a, %b, %c", {{"2x2x4xf32"}, {"4xf32"}, {"4xf32"}}, {"2x2x4xf32"}));
  out.push_back(one(layer_norm, "%a, %b, %c", {{"5xf32"}, {"5xf32"}, {"5xf32"}}, {"5xf32"}));
  for (const char* form : {"none", "tanh"}) {
    out.push_back(one(gelu, fmt::format("%a {{approximate = {}}}", form), {{"2x3xf32"}}, {"2x3xf32"}));
    out.push_back(one(gelu_grad, fmt::format("%a, %b {{approximate = {}}}", form), {{"2x3xf32"}, {"2x3xf32"}},
                      {"2x3xf32"}));
  }
}

std::vector<GradCase> gradCases() {
  std::vector<GradCase> out;
  for (int i = 0; i < kOpcodeCount; ++i) {
    const OpInfo& row = info(static_cast<Opcode>(i));
    if (row.mayStand(table::inTensor) && row.scalar != Scalar::none) addScalarCases(row, out);
  }
  addReductions(out);
  addRunningSums(out);
  addViews(out);
  addMatmuls(out);
  addIndexing(out);
  addSoftmaxes(out);
  addOthers(out);
  addRandomGradCases(out);
  return out;
}

}  // namespace tg::test
