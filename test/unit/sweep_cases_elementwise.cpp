// SPDX-License-Identifier: Apache-2.0
// Cases of the sweep that the table of scalar domains does not draw: edges of elementwise ops, and running
// sums.
#include "test/unit/sweep_cases.h"
#include "test/unit/sweep_cases_support.h"

namespace tg::test {

namespace {

std::string bareName(Opcode code) { return std::string(info(code).name.substr(3)); }

/// The op on its arguments as they are.
SweepCase plain(Opcode code, std::vector<SweepInput> inputs, const AttrList& attrs = {}) {
  std::string name = bareName(code);
  for (const SweepInput& input : inputs) name += " " + input.type.str();
  for (const NamedAttr& attr : attrs) name += " " + attr.name + "=" + attr.value.str();
  return {code, name, std::move(inputs),
          [=](Builder& b, const Values& in) { return Values{b.op(code, in, attrs)}; }};
}

void addScalarEdges(std::vector<SweepCase>& out) {
  using enum Opcode;
  for (Opcode code : {floor, ceil, round}) {
    out.push_back(plain(code, {{f32({40, 5}), -3, 3, Draw::coarse}}));
    out.push_back(plain(code, {{f32({70, 4}), -3, 3}}));
    // Neighbours are a half apart in most of this range, so that many are ties.
    out.push_back(plain(code, {{f32({70, 4}), -8e6, 8e6}}));
  }
  for (Opcode code : {sin, cos, tan}) {
    out.push_back(plain(code, {{f32({300, 4}), -8192, 8192}}));
    out.push_back(plain(code, {{f32({129}), -100, 100}}));
    out.push_back(plain(code, {{f32({5, 8}), 0, 0, Draw::coarse}}));
  }
  out.push_back(plain(pow, {{f32({64, 5}), -2, 2, Draw::coarse}, {f32({64, 5}), -3, 3, Draw::coarse}}));
  out.push_back(plain(pow, {{f32({64, 4}), -2, 2}, {f32({64, 4}), 0, 3, Draw::coarse}}));
  out.push_back(plain(pow, {{f32({7, 9}), -2, 0, Draw::coarse}, {f32({}), 3, 3, Draw::coarse}}));
  for (Opcode code : {silu, softplus}) out.push_back(plain(code, {{f32({50, 4}), -4, 4, Draw::coarse}}));
}

void addClamps(std::vector<SweepCase>& out) {
  auto bounds = [](double lo, double hi) { return AttrList{{"lo", Attr::of(lo)}, {"hi", Attr::of(hi)}}; };
  for (Shape shape : {Shape{}, Shape{7}, Shape{33, 4}, Shape{2, 1, 3, 1, 2}}) {
    out.push_back(plain(Opcode::clamp, {{f32(shape), -3, 3}}, bounds(-1.25, 2)));
    out.push_back(plain(Opcode::clamp, {{f32(shape), -3, 3, Draw::coarse}}, bounds(-1, 1)));
    out.push_back(plain(Opcode::leaky_relu, {{f32(shape), -3, 3}}));
    out.push_back(plain(Opcode::elu, {{f32(shape), -3, 3}}));
  }
  out.push_back(plain(Opcode::clamp, {{Type::tensor(DType::i32, {5, 4}), -9, 9}}, bounds(-3, 4)));
  out.push_back(plain(Opcode::clamp, {{f32({9})}}, bounds(0.5, 0.5)));
  out.push_back(plain(Opcode::leaky_relu, {{f32({9, 4}), -3, 3, Draw::coarse}}, {{"slope", Attr::of(0.25)}}));
  out.push_back(plain(Opcode::elu, {{f32({9, 4}), -3, 3, Draw::coarse}}, {{"alpha", Attr::of(0.25)}}));
}

/// Short axes, and long ones that fuse cuts into blocks: 130 leaves a block almost empty, 9000 has so
/// many blocks that their totals are cut again.
void addRunningSums(std::vector<SweepCase>& out) {
  struct Form {
    Shape shape;
    int64_t axis;
  };
  const std::vector<Form> forms = {{{7}, 0},      {{3, 8}, 1},     {{8, 3}, 0},    {{2, 5, 4}, 1},
                                   {{1, 1}, 0},   {{3, 1, 7}, 1},  {{4, 128}, -1}, {{3, 130}, 1},
                                   {{130, 4}, 0}, {{2, 200, 3}, 1}};
  int turn = 0;
  auto add = [&](const Type& type, int64_t axis, bool reverse, bool exclusive) {
    out.push_back(plain(Opcode::cumsum, {{type, -2, 2}},
                        {{"axis", Attr::of(axis)},
                         {"reverse", Attr::boolean(reverse)},
                         {"exclusive", Attr::boolean(exclusive)}}));
  };
  for (const Form& form : forms)
    for (bool reverse : {false, true}) add(f32(form.shape), form.axis, reverse, ++turn & 2);
  add(f32({9000}), 0, false, false);
  add(f32({9000}), 0, true, true);
  add(Type::tensor(DType::i32, {5, 9}), 1, true, false);
  add(Type::tensor(DType::i32, {300}), 0, false, true);
  out.push_back({Opcode::cumsum,
                 "cumsum of a transposed slice, transposed",
                 {{f32({12, 9})}},
                 [](Builder& b, const Values& in) {
                   Value* x = b.op(Opcode::slice, {b.transpose(in[0], {1, 0})},
                                   {{"starts", Attr::ints({0, 2})}, {"limits", Attr::ints({8, 10})}});
                   Value* r = b.op(Opcode::cumsum, {x}, {{"axis", Attr::of(int64_t{1})}});
                   return Values{b.transpose(r, {1, 0})};
                 }});
}

}  // namespace

std::vector<SweepCase> elementwiseCases() {
  std::vector<SweepCase> out;
  addScalarEdges(out);
  addClamps(out);
  addRunningSums(out);
  return out;
}

}  // namespace tg::test
