// SPDX-License-Identifier: Apache-2.0
#include "test/unit/sweep_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "ir/infer.h"
#include "test/unit/sweep_cases_support.h"

namespace tg::test {

namespace {

/// Collects cases; the inputs' types make their names.
class Cases {
 public:
  void add(Opcode code, std::vector<SweepInput> inputs, Build build, const std::string& form = "") {
    std::string name(info(code).name.substr(info(code).name.find('.') + 1));
    for (const SweepInput& input : inputs) name += " " + input.type.str();
    out.push_back({code, name + (form.empty() ? "" : " " + form), std::move(inputs), std::move(build)});
  }
  /// The op on its arguments as they are.
  void plain(Opcode code, std::vector<SweepInput> inputs, AttrList attrs = {}) {
    std::string form;
    for (const NamedAttr& attr : attrs) form += attr.name + "=" + attr.value.str() + " ";
    add(
        code, std::move(inputs), [=](Builder& b, const Values& in) { return allResults(b, code, in, attrs); },
        form);
  }

  std::vector<SweepCase> out;
};

Value* transposed(Builder& b, Value* x) {
  std::vector<int64_t> perm;
  for (int i = x->type.rank(); i-- > 0;) perm.push_back(i);
  return b.transpose(x, perm);
}
Value* sliced(Builder& b, Value* x, std::vector<int64_t> starts, std::vector<int64_t> limits,
              std::vector<int64_t> strides = {}) {
  AttrList attrs = {{"starts", Attr::ints(starts)}, {"limits", Attr::ints(limits)}};
  if (!strides.empty()) attrs.push_back({"strides", Attr::ints(strides)});
  return b.op(Opcode::slice, {x}, attrs);
}
Value* padded(Builder& b, Value* x, std::vector<int64_t> low, std::vector<int64_t> high, double value = 0) {
  return b.op(Opcode::pad, {x},
              {{"low", Attr::ints(low)}, {"high", Attr::ints(high)}, {"value", Attr::of(value)}});
}

/// Two shapes that broadcast.
struct Pair {
  Shape a, b;
};
const std::vector<Pair> kPairs = {
    {{}, {}},           {{1}, {1}},          {{5}, {}},
    {{3, 64}, {3, 64}}, {{7, 1, 3}, {5, 1}}, {{8}, {6, 8}},
    {{1, 5}, {4, 1}},   {{1031}, {1031}},    {{2, 1, 3, 1, 4}, {1, 2, 1, 2, 1}},
    {{33, 4}, {33, 1}}, {{}, {2, 3, 5}},     {{2, 3, 4}, {4}},
    {{300, 4}, {1, 4}}, {{16, 1}, {16, 7}},
};
const std::vector<Shape> kShapes = {{}, {1}, {7}, {3, 64}, {5, 1, 3}, {1031}, {2, 1, 3, 2, 4}, {300, 4}};

/// Comparisons and ties need equal operands now and then.
bool isDiscrete(const OpInfo& row) { return givesCondition(row.scalar); }
SweepInput argument(const OpInfo& row, int slot, const Shape& shape, bool integer, bool coarse) {
  if (row.slots[slot].type == table::TypeClass::boolean) return {i1(shape)};
  const ScalarInfo& scalar = info(row.scalar);
  return {integer ? i32(shape) : f32(shape), scalar.lo, scalar.hi, coarse ? Draw::coarse : Draw::spread};
}

/// An elementwise row: shapes that broadcast, then the same op behind views, then on integers.
void addScalar(const OpInfo& row, int number, Cases& out) {
  const int arity = info(row.scalar).arity;
  const size_t count = arity == 1 ? kShapes.size() : kPairs.size();
  auto shapesAt = [&](size_t at) {
    if (arity == 1) return std::vector<Shape>{kShapes[at % count]};
    const Pair& pair = kPairs[at % count];
    if (arity == 2) return std::vector<Shape>{pair.a, pair.b};
    return std::vector<Shape>{pair.b, pair.a, Shape{}};
  };
  auto inputsAt = [&](size_t at, bool integer, bool coarse) {
    std::vector<SweepInput> inputs;
    std::vector<Shape> shapes = shapesAt(at);
    for (size_t i = 0; i < shapes.size(); ++i)
      inputs.push_back(argument(row, static_cast<int>(i), shapes[i], integer, coarse));
    return inputs;
  };
  // Each row takes every third shape from a start of its own, so that each shape meets many rows.
  for (size_t at = number % 3; at < count; at += 3) out.plain(row.code, inputsAt(at, false, isDiscrete(row)));
  std::vector<SweepInput> square;
  for (int i = 0; i < arity; ++i)
    square.push_back(argument(row, i, i == 0 ? Shape{6, 8} : Shape{8, 6}, false, false));
  Opcode code = row.code;
  out.add(
      code, square,
      [code](Builder& b, const Values& in) {
        Values views = in;
        views[0] = transposed(b, in[0]);
        Value* r = b.op(code, views);
        return Values{sliced(b, r, {1, 0}, {8, 5}, {2, 3})};
      },
      "transposed before, strided slice behind");
  const int last = arity - 1;
  bool any = row.slots[last].type == table::TypeClass::any,
       num = row.slots[last].type == table::TypeClass::num;
  if (!any && !num) return;
  out.plain(row.code, inputsAt(3 + number % 2, true, true));
}

void addCasts(Cases& out) {
  auto cast = [&](Type from, DType to, double lo, double hi, Draw draw = Draw::spread) {
    out.add(
        Opcode::cast, {{from, lo, hi, draw}},
        [to](Builder& b, const Values& in) { return Values{b.cast(in[0], to)}; },
        "to " + std::string(name(to)));
  };
  cast(i32({3, 7}), DType::f32, -9, 9);
  cast(f32({4, 8}), DType::i32, -9, 9);
  cast(f32({5}), DType::i1, -1, 1, Draw::coarse);
  cast(i32({6}), DType::i1, -1, 1);
  cast(i1({2, 4}), DType::f32, 0, 1);
  cast(i1({}), DType::i32, 0, 1);
  for (Shape shape : {Shape{}, Shape{9}, Shape{40, 4}}) {
    out.plain(Opcode::one_minus_pow, {{f32(shape), 1, 900}}, {{"base", Attr::of(0.999)}});
    out.plain(Opcode::one_minus_pow, {{i32(shape), 1, 40}}, {{"base", Attr::of(0.9)}});
  }
}

void addReductions(Cases& out) {
  using enum Opcode;
  struct Form {
    Shape shape;
    std::vector<int64_t> axes;
  };
  const std::vector<Form> forms = {
      {{7}, {0}},
      {{3, 8}, {1}},
      {{3, 8}, {0}},
      {{65, 33}, {1}},
      {{65, 33}, {0}},
      {{2, 5, 4}, {1}},
      {{2, 5, 4}, {0, 2}},
      {{2, 3, 4, 5}, {1, 2}},
      {{1, 1}, {0, 1}},
      {{3, 1, 7}, {1}},
      {{2, 3, 2, 3, 4}, {4, 2, 0}},
      {{2, 3, 2, 3, 4}, {3, 4}},
      {{37, 61}, {0, 1}},
      {{4, 257}, {-1}},
      {{3, 4, 1}, {1}},
      {{8, 3, 300}, {0, 2}},
      {{5, 130, 3}, {1}},
  };
  auto picks = [](Opcode code) { return code == max_reduce || code == min_reduce; };
  int turn = 0;
  for (Opcode code : {sum, mean, max_reduce, min_reduce, logsumexp}) {
    for (size_t i = 0; i < forms.size(); ++i, ++turn) {
      AttrList attrs = ints("axes", forms[i].axes);
      if (turn % 2) attrs.push_back({"keepdims", Attr::boolean(true)});
      out.plain(code, {{f32(forms[i].shape), -2, 2, picks(code) && turn % 3 ? Draw::coarse : Draw::spread}},
                attrs);
    }
    for (int form = 0; form < 4; ++form)
      out.add(
          code, {{f32({6, 10})}},
          [code, form](Builder& b, const Values& in) {
            Value* x = form == 0   ? b.transpose(in[0], {1, 0})
                       : form == 1 ? sliced(b, in[0], {1, 2}, {6, 9}, {2, 3})
                       : form == 2 ? padded(b, in[0], {0, 3}, {2, 0})
                                   : b.reshape(in[0], {4, 15});
            Value* r = b.reduce(code, x, {form == 2 ? 0 : 1}, true);
            return Values{b.broadcastTo(r, r->type.shape), b.transpose(r, {1, 0})};
          },
          fmt::format("of a view {}, transposed", form));
  }
  for (Opcode code : {sum, max_reduce, min_reduce})
    out.plain(code, {{i32({5, 9}), -50, 50}}, ints("axes", {1}));
  for (Opcode code : {argmax, argmin}) {
    for (Draw draw : {Draw::spread, Draw::coarse}) {
      out.plain(code, {{f32({5, 9}), -2, 2, draw}}, axis(1));
      out.plain(code, {{f32({64, 3}), -2, 2, draw}},
                {{"axis", Attr::of(int64_t{0})}, {"keepdims", Attr::boolean(true)}});
      out.plain(code, {{f32({4, 256}), -1, 1, draw}}, axis(-1));
      out.plain(code, {{f32({2, 7, 3}), -1, 1, draw}}, axis(1));
    }
    out.plain(code, {{f32({1})}}, axis(0));
    out.plain(code, {{i32({3, 8}), -2, 2}}, axis(1));
    // In two stages, and with NaN in the first place or another.
    out.plain(code, {{f32({2, 8209}), -4, 4}}, axis(1));
    out.plain(code, {{i32({1, 8200}), -9, 9}}, axis(-1));
    out.plain(code, {{f32({4099, 3}), -4, 4, Draw::coarse}}, axis(0));
    for (Shape shape : {Shape{9, 5}, Shape{3, 300}, Shape{4, 8209}})
      out.plain(code, {{f32(shape), -1, 1, Draw::holed}}, axis(1));
  }
  // A row that is too long for one kernel on a GPU.
  out.plain(softmax, {{f32({1, 65551})}});
}

void addViews(Cases& out) {
  using enum Opcode;
  for (Type type : {f32({6, 4}), i32({6, 4}), i1({6, 4})}) {
    out.plain(reshape, {{type}}, ints("shape", {2, -1, 3}));
    out.plain(transpose, {{type}}, ints("perm", {1, 0}));
    out.plain(
        slice, {{type}},
        {{"starts", Attr::ints({1, 0})}, {"limits", Attr::ints({6, 4})}, {"strides", Attr::ints({2, 3})}});
    out.plain(broadcast_to, {{type}}, ints("shape", {3, 6, 4}));
    Type wide = type;
    wide.shape = {6, 3};
    out.plain(concat, {{type}, {wide}, {type}}, axis(1));
    out.plain(pad, {{type}},
              {{"low", Attr::ints({1, 0})}, {"high", Attr::ints({0, 3})}, {"value", Attr::of(1.0)}});
  }
  out.plain(reshape, {{f32({})}}, ints("shape", {1, 1}));
  out.plain(reshape, {{f32({1, 1, 1})}}, ints("shape", {}));
  out.plain(reshape, {{f32({3, 5, 7})}}, ints("shape", {7, 15}));
  out.plain(transpose, {{f32({2, 3, 4, 5})}}, ints("perm", {2, 0, 3, 1}));
  out.plain(transpose, {{f32({2, 3, 2, 5, 4})}}, ints("perm", {4, 1, 0, 3, 2}));
  out.plain(transpose, {{f32({67, 65})}}, ints("perm", {1, 0}));
  out.plain(slice, {{f32({9})}}, {{"starts", Attr::ints({8})}, {"limits", Attr::ints({9})}});
  out.plain(slice, {{f32({3, 5, 9})}},
            {{"starts", Attr::ints({0, 4, 1})},
             {"limits", Attr::ints({3, 5, 9})},
             {"strides", Attr::ints({2, 1, 2})}});
  out.plain(pad, {{f32({})}}, {{"low", Attr::ints({})}, {"high", Attr::ints({})}});
  out.plain(pad, {{f32({1})}},
            {{"low", Attr::ints({3})}, {"high", Attr::ints({5})}, {"value", Attr::of(-2.5)}});
  out.plain(pad, {{f32({2, 3, 4})}}, {{"low", Attr::ints({0, 2, 4})}, {"high", Attr::ints({1, 0, 4})}});
  out.plain(concat, {{f32({3})}}, axis(0));
  out.plain(concat, {{f32({1, 4})}, {f32({5, 4})}, {f32({2, 4})}, {f32({1, 4})}}, axis(0));
  out.plain(concat, {{f32({3, 4})}, {f32({3, 8})}}, axis(-1));
  out.plain(concat, {{f32({2, 1, 5})}, {f32({2, 3, 5})}}, axis(1));
  out.plain(broadcast_to, {{f32({})}}, ints("shape", {3, 5}));
  out.plain(broadcast_to, {{f32({3, 1, 4})}}, ints("shape", {2, 3, 5, 4}));
  out.plain(broadcast_to, {{f32({1})}}, ints("shape", {1030}));
  out.add(
      transpose, {{f32({4, 12})}},
      [](Builder& b, const Values& in) {
        Value* x = padded(b, sliced(b, b.reshape(in[0], {2, 6, 4}), {0, 1, 0}, {2, 6, 4}, {1, 2, 1}),
                          {0, 1, 0}, {1, 0, 2}, 7);
        Value* t = b.transpose(x, {2, 0, 1});
        return Values{b.reshape(t, {9, 8}), b.broadcastTo(t, {2, 6, 3, 4})};
      },
      "in a chain of views");
  out.add(
      concat, {{f32({4, 6})}, {f32({6, 5})}},
      [](Builder& b, const Values& in) {
        Value* r = b.op(concat, {b.transpose(in[0], {1, 0}), sliced(b, in[1], {0, 1}, {6, 5})}, axis(0));
        return Values{b.transpose(b.reshape(r, {3, 16}), {1, 0})};
      },
      "of views, then views");
}

void addMatmuls(Cases& out) {
  struct Batch {
    std::vector<int64_t> a, b;
  };
  static const std::vector<Batch> batches = {{{}, {}},         {{3}, {3}}, {{2}, {}}, {{}, {5}},
                                             {{2, 1}, {1, 3}}, {{1}, {4}}, {{}, {}}};
  static const int64_t kSizes[] = {1, 3, 5, 8, 16, 33, 64, 65};
  auto shape = [](std::vector<int64_t> lead, int64_t rows, int64_t columns, bool swap) {
    Shape out;
    for (int64_t extent : lead) out.push(extent);
    out.push(swap ? columns : rows), out.push(swap ? rows : columns);
    return out;
  };
  // Every size stands at every place, with all transpose forms, over all ways of broadcasting.
  for (int i = 0; i < 56; ++i) {
    int64_t m = kSizes[i % 8], n = kSizes[(i * 3 + i / 8) % 8], k = kSizes[(i * 5 + 2 * (i / 8) + 1) % 8];
    bool ta = (i + i / 8) & 1, tb = (i + i / 8) & 2;
    const Batch& batch = batches[static_cast<size_t>(i) % batches.size()];
    AttrList attrs;
    if (ta) attrs.push_back({"transpose_a", Attr::boolean(true)});
    if (tb) attrs.push_back({"transpose_b", Attr::boolean(true)});
    out.plain(Opcode::matmul, {{f32(shape(batch.a, m, k, ta))}, {f32(shape(batch.b, k, n, tb))}}, attrs);
  }
  // Products with a vector, and over a long inner axis without a divisor.
  for (int form = 0; form < 4; ++form) {
    const bool ta = form & 1, tb = form & 2;
    const AttrList attrs = {{"transpose_a", Attr::boolean(ta)}, {"transpose_b", Attr::boolean(tb)}};
    for (auto [m, k, n] : {std::array<int64_t, 3>{1, 300, 260}, {257, 301, 1}, {3, 4099, 2}})
      out.plain(Opcode::matmul, {{f32(shape({}, m, k, ta))}, {f32(shape({}, k, n, tb))}}, attrs);
  }
  // So many that tiles of 16 and 32 rows fill a CPU device.
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      out.plain(Opcode::matmul, {{f32(shape({16}, 32, 16, ta))}, {f32(shape({16}, 16, 64, tb))}},
                {{"transpose_a", Attr::boolean(ta)}, {"transpose_b", Attr::boolean(tb)}});
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      out.add(
          Opcode::matmul, {{f32({20, 17})}, {f32({12, 40})}},
          [=](Builder& b, const Values& in) {
            Value* a = sliced(b, b.transpose(in[0], {1, 0}), {1, 0}, {17, 20}, {1, 2});  // 16x10
            if (ta) a = b.transpose(a, {1, 0});
            Value* w = b.reshape(in[1], {10, 48});
            if (tb) w = b.transpose(w, {1, 0});
            Value* r = b.op(Opcode::matmul, {a, w},
                            {{"transpose_a", Attr::boolean(ta)}, {"transpose_b", Attr::boolean(tb)}});
            return Values{b.transpose(r, {1, 0}), sliced(b, r, {3, 1}, {16, 47}, {4, 3})};
          },
          fmt::format("of views, ta={} tb={}", ta, tb));
  out.add(
      Opcode::matmul, {{f32({2, 8, 3, 4})}, {f32({2, 8, 3, 4})}},
      [](Builder& b, const Values& in) {
        Value* q = b.transpose(in[0], {0, 2, 1, 3});
        Value* k = b.transpose(in[1], {0, 2, 3, 1});
        Value* r = b.op(Opcode::matmul, {q, k});
        return Values{b.transpose(r, {0, 2, 1, 3})};
      },
      "attention scores");
  out.add(
      Opcode::matmul, {{f32({5, 6})}, {f32({9, 7})}},
      [](Builder& b, const Values& in) {
        return Values{b.op(Opcode::matmul, {padded(b, in[0], {1, 0}, {2, 3}), in[1]})};
      },
      "of a padded operand");
}

void addIndexing(Cases& out) {
  using enum Opcode;
  out.plain(gather, {{f32({5, 3})}, {i32({6}), -2, 6}});
  out.plain(gather, {{f32({5, 8})}, {i32({2, 3}), -1, 5}});
  out.plain(gather, {{f32({7})}, {i32({2, 9}), 0, 6}});
  out.plain(gather, {{f32({3, 2, 4})}, {i32({}), 1, 1}});
  out.plain(gather, {{i32({5, 3})}, {i32({7}), -1, 5}});
  out.plain(gather, {{i1({5, 4})}, {i32({7}), -1, 5}});
  out.plain(gather, {{f32({1, 1})}, {i32({1}), -1, 1}});
  out.add(
      gather, {{f32({4, 9})}, {i32({3, 5}), -1, 9}},
      [](Builder& b, const Values& in) {
        Value* r = b.op(gather, {b.transpose(in[0], {1, 0}), b.transpose(in[1], {1, 0})});
        return Values{b.transpose(r, {2, 0, 1})};
      },
      "of transposed operands");
  out.plain(embedding, {{f32({11, 4})}, {i32({3, 8}), 0, 10}});
  out.plain(embedding, {{f32({11, 5})}, {i32({70}), -2, 12}});
  auto rows = [](int64_t n) { return AttrList{{"rows", Attr::of(n)}}; };
  out.plain(scatter_add, {{i32({6}), -2, 6}, {f32({6, 3})}}, rows(5));
  out.plain(scatter_add, {{i32({2, 9}), -1, 4}, {f32({2, 9, 8})}}, rows(4));
  out.plain(scatter_add, {{i32({33}), 0, 6}, {f32({33})}}, rows(7));
  out.plain(scatter_add, {{i32({}), 1, 1}, {f32({2, 3})}}, rows(3));
  out.plain(scatter_add, {{i32({200}), 0, 2}, {f32({200, 4})}}, rows(3));
  out.plain(scatter_add, {{i32({5}), 7, 9}, {f32({5, 2})}}, rows(2));
  out.add(
      scatter_add, {{i32({4, 3}), -1, 5}, {f32({5, 4, 3})}},
      [=](Builder& b, const Values& in) {
        Value* updates = b.transpose(in[1], {1, 2, 0});
        return Values{b.transpose(b.op(scatter_add, {in[0], updates}, rows(5)), {1, 0})};
      },
      "of transposed updates");
  for (Shape shape : {Shape{}, Shape{7}, Shape{3, 5}})
    for (int64_t depth : {1, 4, 9}) out.plain(one_hot, {{i32(shape), -1, 9}}, {{"depth", Attr::of(depth)}});
}

void addRows(Cases& out) {
  using enum Opcode;
  const std::vector<Shape> shapes = {{1},      {7},          {3, 64},         {5, 1},
                                     {65, 33}, {2, 3, 4, 5}, {2, 1, 3, 1, 8}, {4, 257}};
  for (Opcode code : {softmax, log_softmax}) {
    Opcode grad = code == softmax ? softmax_grad : log_softmax_grad;
    for (const Shape& shape : shapes) {
      out.plain(code, {{f32(shape), -4, 4}});
      out.plain(grad, {{f32(shape), -2, 0}, {f32(shape)}});
    }
    out.plain(code, {{f32({9, 5})}}, axis(0));
    out.plain(grad, {{f32({9, 5}), -2, 0}, {f32({9, 5})}}, axis(0));
    out.plain(code, {{f32({2, 7, 4})}}, axis(1));
    out.plain(grad, {{f32({2, 7, 4}), -2, 0}, {f32({2, 7, 4})}}, axis(-2));
    for (Shape shape : {Shape{8, 8}, Shape{3, 8}, Shape{8, 3}, Shape{2, 3, 5, 5}, Shape{1, 4}, Shape{4, 1},
                        Shape{1, 1}, Shape{1, 3}, Shape{33, 70}}) {
      out.plain(code, {{f32(shape), -4, 4}}, {{"causal", Attr::boolean(true)}});
      if (code == log_softmax)
        out.plain(grad, {{f32(shape), -4, 0}, {f32(shape)}}, {{"causal", Attr::boolean(true)}});
    }
    for (bool causal : {false, true})
      out.add(
          code, {{f32({12, 9})}},
          [=](Builder& b, const Values& in) {
            Value* x = sliced(b, b.transpose(in[0], {1, 0}), {0, 2}, {9, 11});
            return Values{b.transpose(b.op(code, {x}, {{"causal", Attr::boolean(causal)}}), {1, 0})};
          },
          fmt::format("of a transposed slice, transposed, causal={}", causal));
    out.add(
        grad, {{f32({8, 6}), -2, 0}, {f32({6, 8})}},
        [=](Builder& b, const Values& in) {
          return Values{b.op(grad, {b.transpose(in[0], {1, 0}), in[1]})};
        },
        "of a transposed operand");
  }
  for (const char* word : {"mean", "sum", "none"}) {
    AttrList attrs = {{"reduction", Attr::word(word)}};
    out.plain(cross_entropy, {{f32({6, 5}), -4, 4}, {i32({6}), -1, 5}}, attrs);
    out.plain(cross_entropy, {{f32({2, 3, 64})}, {i32({2, 3}), 0, 63}}, attrs);
    out.plain(cross_entropy, {{f32({4})}, {i32({}), 2, 2}}, attrs);
    out.plain(cross_entropy, {{f32({3, 1})}, {i32({3}), -1, 1}}, attrs);
    out.plain(cross_entropy, {{f32({70, 33})}, {i32({70}), -2, 34}}, attrs);
  }
  out.plain(cross_entropy_grad, {{f32({6, 5})}, {i32({6}), -1, 5}, {f32({})}});
  out.plain(cross_entropy_grad, {{f32({6, 5})}, {i32({6}), -1, 5}, {f32({6})}});
  out.plain(cross_entropy_grad, {{f32({2, 9, 64})}, {i32({2, 9}), 0, 63}, {f32({2, 9})}});
  out.plain(cross_entropy_grad, {{f32({2, 9, 33})}, {i32({2, 9}), -1, 34}, {f32({})}});
  out.plain(cross_entropy_grad, {{f32({4})}, {i32({}), 2, 2}, {f32({})}});
  for (const Shape& shape : shapes) {
    const Type row = f32({shape.back()});
    out.plain(layer_norm, {{f32(shape)}, {row}, {row}});
    out.plain(layer_norm_grad, {{f32(shape)}, {row}, {f32(shape)}});
  }
  out.plain(layer_norm, {{f32({3, 16})}, {f32({16})}, {f32({16})}}, {{"eps", Attr::of(0.25)}});
  out.plain(layer_norm_grad, {{f32({3, 16})}, {f32({16})}, {f32({3, 16})}}, {{"eps", Attr::of(0.25)}});
  out.add(
      layer_norm, {{f32({10, 6})}, {f32({20})}, {f32({1, 10})}},
      [](Builder& b, const Values& in) {
        return Values{b.op(layer_norm, {b.transpose(in[0], {1, 0}), sliced(b, in[1], {1}, {20}, {2}),
                                        b.reshape(in[2], {10})})};
      },
      "of views");
  out.add(
      layer_norm_grad, {{f32({10, 6})}, {f32({10})}, {f32({60})}},
      [](Builder& b, const Values& in) {
        Values r =
            allResults(b, layer_norm_grad, {b.transpose(in[0], {1, 0}), in[1], b.reshape(in[2], {6, 10})});
        r[0] = b.transpose(r[0], {1, 0});
        return r;
      },
      "of views");
}

void addMapComposites(Cases& out) {
  using enum Opcode;
  for (const char* form : {"none", "tanh"}) {
    AttrList attrs = {{"approximate", Attr::word(form)}};
    for (Shape shape : {Shape{}, Shape{5}, Shape{40, 8}, Shape{2, 1, 3, 1, 2}}) {
      out.plain(gelu, {{f32(shape), -6, 6}}, attrs);
      out.plain(gelu_grad, {{f32(shape), -6, 6}, {f32(shape)}}, attrs);
    }
  }
  auto adam = [&](Shape shape, std::vector<SweepInput> more, AttrList attrs = {}) {
    std::vector<SweepInput> inputs = {
        {f32(shape)}, {f32(shape)}, {f32(shape), -1, 1}, {f32(shape), 0.01, 2}, {f32({}), 0.001, 0.1}};
    inputs.insert(inputs.end(), more.begin(), more.end());
    out.plain(adam_update, inputs, attrs);
  };
  adam({}, {});
  adam({7}, {});
  adam({64, 5}, {});
  adam({3, 64}, {{f32({}), 0, 0.1}});
  adam({5, 3}, {{f32({5, 3}), 0, 0.1}});
  adam({5, 4}, {{f32({4}), 0, 0.1}});
  adam({1030}, {}, {{"beta1", Attr::of(0.5)}, {"beta2", Attr::of(0.9)}, {"eps", Attr::of(0.01)}});
}

void addSgd(Cases& out) {
  using enum Opcode;
  auto sgd = [&](Shape shape, Type decay, AttrList attrs = {}) {
    std::vector<SweepInput> inputs = {{f32(shape)}, {f32(shape)}, {f32({}), 0.001, 0.1}, {decay, 0, 0.1}};
    if (!attrs.empty()) inputs.push_back({f32(shape)});
    out.plain(sgd_update, inputs, attrs);
  };
  const AttrList heavy = {{"momentum", Attr::of(0.9)}};
  const AttrList ahead = {{"momentum", Attr::of(0.5)}, {"nesterov", Attr::boolean(true)}};
  for (const AttrList& attrs : {AttrList{}, heavy, ahead}) {
    sgd({}, f32({}), attrs);
    sgd({64, 5}, f32({}), attrs);
    sgd({5, 3}, f32({5, 3}), attrs);
    sgd({5, 4}, f32({4}), attrs);
    sgd({1030}, f32({}), attrs);
  }
}

}  // namespace

bool needsSweep(const OpInfo& row) {
  return row.mayStand(table::inRegion) && !row.has(table::leaf) && !row.has(table::terminator) &&
         !row.has(table::effect) && row.fusion != table::Fusion::custom;  // kernels have tests of their own
}

std::vector<SweepCase> sweepCases() {
  Cases out;
  int number = 0;
  for (int i = 0; i < kOpcodeCount; ++i) {
    const OpInfo& row = info(static_cast<Opcode>(i));
    if (needsSweep(row) && row.scalar != Scalar::none) addScalar(row, number++, out);
  }
  addCasts(out);
  addReductions(out);
  addViews(out);
  addMatmuls(out);
  addIndexing(out);
  addRows(out);
  addMapComposites(out);
  for (SweepCase& each : elementwiseCases()) out.out.push_back(std::move(each));
  for (SweepCase& each : structureCases()) out.out.push_back(std::move(each));
  addSgd(out);
  for (SweepCase& each : windowCases()) out.out.push_back(std::move(each));
  for (SweepCase& each : attentionCases()) out.out.push_back(std::move(each));
  for (SweepCase& sweepCase : randomSweepCases()) out.out.push_back(std::move(sweepCase));
  for (SweepCase& each : precisionCases()) out.out.push_back(std::move(each));
  return out.out;
}

std::vector<SweepCase> manyGroupCases(int64_t groups, int64_t workgroup, const Target& target) {
  using enum Opcode;
  Cases out;
  const int64_t n = groups * workgroup | 1;  // odd, so that no vector of four divides it
  const bool rowsAreGroups = target.reduce == "workgroup", tilesAreGroups = target.matmul == "shared";
  out.plain(add, {{f32({n})}, {f32({})}});
  out.plain(softmax, {{f32({rowsAreGroups ? groups | 1 : n, 3})}});
  if (tilesAreGroups)
    out.plain(matmul, {{f32({groups, 16, 2})}, {f32({groups, 2, 16})}});
  else
    out.plain(matmul, {{f32({n, 1, 2})}, {f32({2, 1})}});
  out.plain(scatter_add, {{i32({9}), 0, static_cast<double>(n - 1)}, {f32({9})}}, {{"rows", Attr::of(n)}});
  return out.out;
}

std::unique_ptr<Module> moduleOf(const std::vector<SweepCase>& cases, size_t first, size_t count) {
  auto module = std::make_unique<Module>();
  module->name = "sweep";
  Item* func = module->add(ItemKind::func, "f");
  for (size_t at = first; at < first + count; ++at)
    for (size_t i = 0; i < cases[at].inputs.size(); ++i)
      func->body.addArg(cases[at].inputs[i].type, fmt::format("c{}_{}", at, i));
  Builder builder(module.get(), func);
  OperandList returned;
  size_t arg = 0;
  for (size_t at = first; at < first + count; ++at) {
    Values in;
    for (size_t i = 0; i < cases[at].inputs.size(); ++i) in.push_back(func->body.args[arg++].get());
    Values results = cases[at].build(builder, in);
    for (size_t i = 0; i < results.size(); ++i) {
      func->results.push_back({fmt::format("c{}_r{}", at, i), results[i]->type});
      returned.push_back(Operand::of(results[i]));
    }
  }
  builder.create(Opcode::return_, std::move(returned));
  return module;
}

static NdArray drawn(const SweepInput& input, std::mt19937& random) {
  NdArray array = NdArray::zeros(input.type);
  const bool real = isFloat(input.type.dtype) && input.draw == Draw::spread;
  const bool coin = input.type.dtype == DType::i1;
  // Integers come from the generator itself: what a std distribution does is not fixed.
  const auto lo = static_cast<int64_t>(coin ? 0 : std::ceil(input.lo)),
             hi = static_cast<int64_t>(coin ? 1 : std::floor(input.hi));
  for (double& value : array.data) {
    const double unit = (random() + 0.5) / 4294967296.0;
    value =
        real ? roundTo(DType::f32, input.lo + (input.hi - input.lo) * unit)
             : static_cast<double>(lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1)));
    if (input.draw == Draw::holed && value == 0) value = std::numeric_limits<double>::quiet_NaN();
  }
  return array;
}

std::map<std::string, NdArray> inputsOf(const std::vector<SweepCase>& cases, size_t first, size_t count) {
  std::map<std::string, NdArray> inputs;
  for (size_t at = first; at < first + count; ++at) {
    std::mt19937 random(static_cast<uint32_t>(at));
    for (size_t i = 0; i < cases[at].inputs.size(); ++i)
      inputs[fmt::format("c{}_{}", at, i)] = drawn(cases[at].inputs[i], random);
  }
  return inputs;
}

}  // namespace tg::test
