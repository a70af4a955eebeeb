// SPDX-License-Identifier: Apache-2.0
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

static void addStructure(std::vector<GradCase>& out) {
  using enum Opcode;
  out.push_back(one(pad, "%a {low = [1, 0], high = [0, 2], interior = [2, 1]}", {{"2x3xf32"}}, {"5x7xf32"}));
  out.push_back(one(pad, "%a {low = [0], high = [0], interior = [3]}", {{"1xf32"}}, {"1xf32"}));
  out.push_back(
      one(slice, "%a {starts = [0, 0], limits = [5, 7], strides = [1, 3]}", {{"5x7xf32"}}, {"5x3xf32"}));
  out.push_back(one(flip, "%a {axes = [1]}", {{"2x3xf32"}}, {"2x3xf32"}));
  out.push_back(one(flip, "%a {axes = [-1, 0]}", {{"2x3x2xf32"}}, {"2x3x2xf32"}));
  out.push_back(one(swap_axes, "%a {axis0 = 0, axis1 = -1}", {{"2x3x4xf32"}}, {"4x3x2xf32"}));
  out.push_back(one(stack, "%a, %b, %c {axis = 1}", {{"2x3xf32"}, {"2x3xf32"}, {"2x3xf32"}}, {"2x3x3xf32"}));
  out.push_back(one(stack, "%a, %b {axis = -1}", {{"3xf32"}, {"3xf32"}}, {"3x2xf32"}));
  out.push_back(one(sum_of_squares, "%a, %b", {{"2x3xf32"}, {"4xf32"}}, {"f32"}));
  out.push_back(
      one(split, "%a {axis = 1, sizes = [1, 3, 2]}", {{"2x6xf32"}}, {"2x1xf32", "2x3xf32", "2x2xf32"}));
  out.push_back(one(split, "%a {axis = 0, sections = 2}", {{"4xf32"}}, {"2xf32", "2xf32"}));
  // No gradient reaches the parts that nobody reads.
  out.push_back(
      {split,
       "%u, %r0, %v = tg.split %a {axis = 0, sizes = [1, 2, 1]} : tensor<1x3xf32>, tensor<2x3xf32>, "
       "tensor<1x3xf32>",
       {{"4x3xf32"}},
       {"2x3xf32"}});
  out.push_back(one(tile, "%a {repeats = [2, 3]}", {{"2x3xf32"}}, {"4x9xf32"}));
  out.push_back(one(tile, "%a {repeats = [2, 1, 3]}", {{"2x1xf32"}}, {"2x2x3xf32"}));
  for (const char* type : {"3x3xf32", "2x4xf32", "2x4x2xf32"})
    out.push_back(one(where_causal, "%a {fill = -5.0}", {{type}}, {type}));
  // Ids draw repeats and indices outside on both sides.
  out.push_back(one(take_along_axis, "%a, %b {axis = 1}", {{"2x3xf32"}, {"2x5xi32", -1, 3}}, {"2x5xf32"}));
  out.push_back(one(take_along_axis, "%a, %b {axis = 0}", {{"3x2xf32"}, {"4x2xi32", -1, 3}}, {"4x2xf32"}));
  out.push_back(one(take_along_axis_grad, "%a, %b {axis = -1, extent = 3}", {{"2x5xi32", -1, 3}, {"2x5xf32"}},
                    {"2x3xf32"}));
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
    out.push_back(one(cross_entropy, line, {{"4xf32"}, {"i32", 0, 3}}, {"f32"}));
  }
  out.push_back(one(cross_entropy_grad, "%a, %b, %c", {{"6x3xf32"}, {"6xi32", -1, 3}, {"f32"}}, {"6x3xf32"}));
  out.push_back(
      one(cross_entropy_grad, "%a, %b, %c", {{"6x3xf32"}, {"6xi32", -1, 3}, {"6xf32"}}, {"6x3xf32"}));
  out.push_back(one(cross_entropy_grad, "%a, %b, %c", {{"4xf32"}, {"i32", 0, 3}, {"f32"}}, {"4xf32"}));
}

/// Fewer and more keys than queries, rows that see nothing, every optional operand; dlse flows through both
/// results of attention.
static void addAttention(std::vector<GradCase>& out) {
  using enum Opcode;
  struct Sizes {
    std::string lead;
    int queries, keys, width, valueWidth;
  };
  for (const Sizes& s : {Sizes{"", 3, 4, 2, 3}, Sizes{"2x", 3, 2, 2, 2}, Sizes{"2x1x", 2, 2, 3, 1}})
    for (const char* attrs : {"", " {causal = true}", " {causal = true, scale = 0.3}"}) {
      auto of = [&](int rows, int columns) { return fmt::format("{}{}x{}xf32", s.lead, rows, columns); };
      CaseInput q{of(s.queries, s.width)}, k{of(s.keys, s.width)}, v{of(s.keys, s.valueWidth)},
          o{of(s.queries, s.valueWidth)}, rows{fmt::format("{}{}xf32", s.lead, s.queries), 0, 2};
      std::string six = "%a, %b, %c, %d, %e, %f";
      out.push_back(one(attention, std::string("%a, %b, %c") + attrs, {q, k, v}, {o.type, rows.type}));
      out.push_back(one(attention, std::string("%a, %b, %c") + attrs, {q, k, v}, {o.type}));
      // The gradients' own gradients have many operands each: a batch and a scale change nothing there.
      if (s.lead.size() > 2 || std::string_view(attrs).find("scale") != std::string_view::npos) continue;
      out.push_back(one(attention_grad, six + attrs, {q, k, v, o, rows, o}, {q.type, k.type, v.type}));
      out.push_back(
          one(attention_grad, six + ", %g" + attrs, {q, k, v, o, rows, o, rows}, {q.type, k.type, v.type}));
      out.push_back(one(attention_grad_q, six + attrs, {q, k, v, rows, rows, o}, {q.type}));
      out.push_back(one(attention_grad_kv, six + attrs, {q, k, v, rows, rows, o}, {k.type, v.type}));
    }
  // A bias, whose gradient is summed over what it is broadcast to, and a keep.
  const std::string keep = "%keep = tg.constant 23130.0 : tensor<2x2x1xf32>\n    ";
  const CaseInput q{"2x2x3xf32"}, k{"2x16x3xf32"}, v{"2x16x2xf32"};
  for (const char* shape : {"1x16xf32", "2x1x16xf32", "2x16xf32", "2x2x16xf32", "f32"})
    out.push_back(
        {attention,
         keep +
             "%r0, %r1 = tg.attention %a, %b, %c, %d, %keep {p = 0.5} : tensor<2x2x2xf32>, tensor<2x2xf32>",
         {q, k, v, {shape}},
         {"2x2x2xf32", "2x2xf32"}});
  out.push_back({attention,
                 "%r0, %r1 = tg.attention %a, %b, %c, %d {causal = true, scale = 0.4} : tensor<2x2x2xf32>, "
                 "tensor<2x2xf32>",
                 {q, k, v, {"16xf32"}},
                 {"2x2x2xf32", "2x2xf32"}});
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
  out.push_back(one(elu, "%a", {{"2x3xf32"}}, {"2x3xf32"}));
  out.push_back(one(elu, "%a {alpha = 0.3}", {{"4x5xf32"}}, {"4x5xf32"}));
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

/// Windows with every attribute; the gradients of the convolution rows are those of each other.
static void addWindows(std::vector<GradCase>& out) {
  using enum Opcode;
  for (int dilation : {1, -1, 2}) {
    std::string attrs = fmt::format("step = 2, dilation = {}}}", dilation);
    int windows = dilation == 2 ? 2 : 3;
    std::string p = fmt::format("2x{}x2x3xf32", windows);
    out.push_back(one(unfold, "%a {axis = 1, size = 3, " + attrs, {{"2x7x2xf32"}}, {p}));
    out.push_back(one(fold, "%a {axis = 1, extent = 7, " + attrs, {CaseInput{p}}, {"2x7x2xf32"}));
  }
  struct Form {
    const char *attrs, *x, *w, *y, *image, *kernel;
  };
  static constexpr Form kForms[] = {
      {"padding = [1, 0]", "2x2x4x3", "3x2x2x3", "2x3x5x1", "4, 3", "2, 3"},
      {"stride = [2, 1], dilation = [1, 2]", "1x2x5x4", "1x2x2x2", "1x1x2x2", "5, 4", "2, 2"},
      {"padding = [0, 1], groups = 2", "1x4x3x2", "2x2x2x2", "1x2x2x3", "3, 2", "2, 2"},
      {"stride = [2, 2], padding = [1, 1], groups = 3", "1x3x4x3", "3x1x3x2", "1x3x2x2", "4, 3", "3, 2"},
  };
  for (const Form& form : kForms) {
    std::string x = fmt::format("{}xf32", form.x), w = fmt::format("{}xf32", form.w),
                y = fmt::format("{}xf32", form.y);
    out.push_back(one(conv2d, fmt::format("%a, %b {{{}}}", form.attrs), {{x}, {w}}, {y}));
    out.push_back(one(conv2d_grad_input,
                      fmt::format("%a, %b {{input_size = [{}], {}}}", form.image, form.attrs), {{w}, {y}},
                      {x}));
    out.push_back(one(conv2d_grad_weight,
                      fmt::format("%a, %b {{kernel_size = [{}], {}}}", form.kernel, form.attrs), {{x}, {y}},
                      {w}));
  }
  out.push_back(one(conv_transpose2d, "%a, %b", {{"1x2x2x3xf32"}, {"2x1x2x2xf32"}}, {"1x1x3x4xf32"}));
  out.push_back(one(conv_transpose2d,
                    "%a, %b {stride = [2, 3], padding = [1, 0], output_padding = [1, 0], groups = 2}",
                    {{"1x2x2x2xf32"}, {"2x1x2x2xf32"}}, {"1x2x3x5xf32"}));
  static constexpr const char* kPools[][4] = {
      {"kernel = [2, 2]", "1x2x4x4", "1x2x2x2", "4, 4"},
      {"kernel = [3, 2], stride = [1, 2], padding = [1, 1]", "2x1x4x4", "2x1x4x3", "4, 4"},
      {"kernel = [5, 5], stride = [1, 1], padding = [2, 2]", "1x1x4x3", "1x1x4x3", "4, 3"},
  };
  for (const auto& [attrs, x, y, size] : kPools) {
    std::string image = fmt::format("{}xf32", x), pooled = fmt::format("{}xf32", y);
    out.push_back(one(max_pool2d, fmt::format("%a {{{}}}", attrs), {CaseInput{image}}, {pooled}));
    out.push_back(one(max_pool2d_grad, fmt::format("%a, %b {{{}}}", attrs), {{image}, {pooled}}, {image}));
    for (bool counts : {true, false}) {
      std::string own = fmt::format("{}, count_include_pad = {}", attrs, counts);
      out.push_back(one(avg_pool2d, fmt::format("%a {{{}}}", own), {CaseInput{image}}, {pooled}));
      out.push_back(one(avg_pool2d_grad, fmt::format("%a {{input_size = [{}], {}}}", size, own),
                        {CaseInput{pooled}}, {image}));
    }
  }
  out.push_back(one(upsample_nearest2d, "%a {scale = [2, 3]}", {{"1x2x2x2xf32"}}, {"1x2x4x6xf32"}));
}

/// The kernel stands in grad_programs.cpp.
static void addKernels(std::vector<GradCase>& out) {
  const std::vector<CaseInput> inputs{{"5x3xf32"}, {"1xf32"}, {"5xf32"}};
  const std::string call = "tg.custom @mix(%a, %b, %c) : tensor<5xf32>, tensor<5x3xf32>, tensor<3xf32>";
  out.push_back({Opcode::custom, "%r0, %r1, %r2 = " + call, inputs, {"5xf32", "5x3xf32", "3xf32"}});
  out.push_back({Opcode::custom, "%u, %r0, %v = " + call, inputs, {"5x3xf32"}});
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
  addStructure(out);
  addSoftmaxes(out);
  addAttention(out);
  addOthers(out);
  addWindows(out);
  addKernels(out);
  addRandomGradCases(out);
  return out;
}

}  // namespace tg::test
