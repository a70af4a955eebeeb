// SPDX-License-Identifier: Apache-2.0
// Sweep cases of random ops, rms_norm, rope and cross_entropy's options.
#include <fmt/format.h>

#include "test/unit/sweep_cases.h"
#include "test/unit/sweep_cases_support.h"

namespace tg::test {

namespace {

const SweepInput kKey{i32({2}), -2147483648.0, 2147483647.0};

void add(std::vector<SweepCase>& out, Opcode code, const std::string& form, std::vector<SweepInput> inputs,
         Build build) {
  out.push_back(
      {code, fmt::format("{} {}", info(code).name.substr(3), form), std::move(inputs), std::move(build)});
}

/// All results of an op over the arguments.
void plain(std::vector<SweepCase>& out, Opcode code, std::vector<SweepInput> inputs, AttrList attrs = {}) {
  std::string form;
  for (const SweepInput& input : inputs) form += input.type.str() + " ";
  for (const NamedAttr& attr : attrs) form += attr.name + "=" + attr.value.str() + " ";
  add(out, code, form, std::move(inputs),
      [=](Builder& b, const Values& in) { return allResults(b, code, in, attrs); });
}

/// Whole quads, a broken last one, rank 0, one row after another; in order, transposed, sliced.
void addDraws(std::vector<SweepCase>& out) {
  int64_t salt = 0;
  for (Opcode code : {Opcode::random_uniform, Opcode::random_normal}) {
    const bool uniform = code == Opcode::random_uniform;
    auto drawn = [=](Builder& b, Value* rng, Shape shape, AttrList attrs) {
      return b.op(code, {rng}, std::move(attrs), {f32(shape)});
    };
    for (Shape shape :
         {Shape{}, Shape{1}, Shape{7}, Shape{3, 64}, Shape{5, 1, 3}, Shape{1031}, Shape{300, 4}}) {
      AttrList attrs = {{"salt", Attr::of(salt++ * 1000003 % 4294967296)}};
      if (salt % 2 && uniform) attrs.insert(attrs.end(), {{"low", Attr::of(-0.3)}, {"high", Attr::of(2.6)}});
      if (salt % 2 && !uniform) attrs.insert(attrs.end(), {{"mean", Attr::of(0.7)}, {"std", Attr::of(1.3)}});
      add(out, code, fmt::format("{} salt={}", f32(shape).str(), attrs[0].value.str()), {kKey},
          [=](Builder& b, const Values& in) { return Values{drawn(b, in[0], shape, attrs)}; });
    }
    const AttrList attrs = {{"salt", Attr::of(int64_t{4294967295})}};
    add(out, code, "transposed, sliced, reshaped", {kKey}, [=](Builder& b, const Values& in) {
      Value* r = drawn(b, in[0], {6, 8}, attrs);
      Value* slice = b.op(
          Opcode::slice, {r},
          {{"starts", Attr::ints({1, 2})}, {"limits", Attr::ints({6, 8})}, {"strides", Attr::ints({2, 1})}});
      return Values{r, b.transpose(r, {1, 0}), slice, b.reshape(r, {4, 12}), b.broadcastTo(r, {3, 6, 8})};
    });
  }
}

void addDropout(std::vector<SweepCase>& out) {
  int64_t salt = 1;
  for (double p : {0.0, 0.1, 0.5, 0.999})
    for (Shape shape : {Shape{}, Shape{2}, Shape{7}, Shape{40, 8}, Shape{2, 1, 3, 1, 2}})
      plain(out, Opcode::dropout, {{f32(shape)}, kKey}, {{"p", Attr::of(p)}, {"salt", Attr::of(salt++)}});
  add(out, Opcode::dropout, "of a transposed operand, transposed", {{f32({12, 8})}, kKey},
      [](Builder& b, const Values& in) {
        Value* x = b.transpose(in[0], {1, 0});
        Value* r = b.op(Opcode::dropout, {x, in[1]}, {{"p", Attr::of(0.25)}, {"salt", Attr::of(int64_t{3})}});
        return Values{b.transpose(r, {1, 0})};
      });
}

void addCategorical(std::vector<SweepCase>& out) {
  auto drawn = [&](Shape shape, int64_t axis, int64_t salt) {
    plain(out, Opcode::categorical, {{f32(shape), -3, 3}, kKey},
          {{"axis", Attr::of(axis)}, {"salt", Attr::of(salt)}});
  };
  drawn({5}, -1, 1);
  drawn({1}, 0, 2);
  drawn({6, 8}, -1, 3);
  drawn({6, 8}, 0, 4);
  drawn({65, 33}, 1, 5);
  drawn({2, 7, 3}, 1, 6);
  drawn({4, 257}, -1, 7);
}

void addRows(std::vector<SweepCase>& out) {
  using enum Opcode;
  for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 64}, Shape{5, 1}, Shape{65, 33}, Shape{2, 3, 4, 5},
                             Shape{2, 1, 3, 1, 8}, Shape{4, 257}}) {
    const Type row = f32({shape.back()});
    plain(out, rms_norm, {{f32(shape)}, {row}});
    plain(out, rms_norm_grad, {{f32(shape)}, {row}, {f32(shape)}});
  }
  plain(out, rms_norm, {{f32({3, 16})}, {f32({16})}}, {{"eps", Attr::of(0.25)}});
  for (double smoothing : {0.0, 0.2})
    for (int64_t ignored : {-1, 2}) {
      const AttrList options = {{"ignore_index", Attr::of(ignored)},
                                {"label_smoothing", Attr::of(smoothing)}};
      for (const char* word : {"mean", "sum", "none"}) {
        AttrList attrs = options;
        attrs.push_back({"reduction", Attr::word(word)});
        plain(out, cross_entropy, {{f32({6, 5}), -4, 4}, {i32({6}), -2, 5}}, attrs);
        plain(out, cross_entropy, {{f32({4})}, {i32({}), 2, 2}}, attrs);
        plain(out, cross_entropy, {{f32({7, 8})}, {i32({7}), ignored * 1.0, ignored * 1.0}}, attrs);
        plain(out, cross_entropy, {{f32({300, 33})}, {i32({300}), -2, 34}}, attrs);
      }
      plain(out, cross_entropy_grad, {{f32({6, 5})}, {i32({6}), -2, 5}, {f32({})}}, options);
      plain(out, cross_entropy_grad, {{f32({2, 9, 64})}, {i32({2, 9}), -1, 63}, {f32({2, 9})}}, options);
      plain(out, cross_entropy_grad, {{f32({4})}, {i32({}), 2, 2}, {f32({})}}, options);
    }
  const Type ids = Type::tensor(DType::u32, {6});
  for (const AttrList& options : {AttrList{}, AttrList{{"ignore_index", Attr::of(int64_t{2})}}}) {
    plain(out, cross_entropy, {{f32({6, 5}), -4, 4}, {ids, 0, 5}}, options);
    plain(out, cross_entropy_grad, {{f32({6, 5})}, {ids, 0, 5}, {f32({})}}, options);
  }
}

void addRope(std::vector<SweepCase>& out) {
  plain(out, Opcode::rope, {{f32({1, 2})}, {f32({1, 2})}});
  plain(out, Opcode::rope, {{f32({9, 6})}, {f32({9, 6})}});
  plain(out, Opcode::rope, {{f32({2, 3, 5, 8})}, {f32({2, 3, 5, 8})}});
  plain(out, Opcode::rope, {{f32({2, 4, 5, 8})}, {f32({2, 1, 5, 8})}}, {{"offset", Attr::of(int64_t{7})}});
  plain(out, Opcode::rope, {{f32({33, 16})}, {f32({3, 33, 16})}},
        {{"base", Attr::of(500.0)}, {"inverse", Attr::boolean(true)}});
  add(out, Opcode::rope, "of heads behind positions, and back", {{f32({5, 3, 8})}, {f32({5, 3, 8})}},
      [](Builder& b, const Values& in) {
        Value* q = b.op(Opcode::rope, {b.transpose(in[0], {1, 0, 2}), b.transpose(in[1], {1, 0, 2})});
        return Values{b.transpose(q, {1, 0, 2}), b.transpose(q->def->result(1), {1, 0, 2})};
      });
}

}  // namespace

std::vector<SweepCase> randomSweepCases() {
  std::vector<SweepCase> out;
  addDraws(out);
  addDropout(out);
  addCategorical(out);
  addRows(out);
  addRope(out);
  return out;
}

}  // namespace tg::test
