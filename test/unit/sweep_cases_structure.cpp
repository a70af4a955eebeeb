// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "test/unit/sweep_cases.h"
#include "test/unit/sweep_cases_support.h"

namespace tg::test {

namespace {

AttrList padding(std::vector<int64_t> low, std::vector<int64_t> high, std::vector<int64_t> interior,
                 double value = 0) {
  return {{"low", Attr::ints(low)},
          {"high", Attr::ints(high)},
          {"interior", Attr::ints(interior)},
          {"value", Attr::of(value)}};
}

class StructureCases {
 public:
  void add(Opcode code, std::vector<SweepInput> inputs, const std::string& form, Build build) {
    std::string name(info(code).name.substr(3));
    for (const SweepInput& input : inputs) name += " " + input.type.str();
    out.push_back({code, name + " " + form, std::move(inputs), std::move(build)});
  }
  void plain(Opcode code, std::vector<SweepInput> inputs, AttrList attrs) {
    std::string form;
    for (const NamedAttr& attr : attrs) form += attr.name + "=" + attr.value.str() + " ";
    add(code, std::move(inputs), form,
        [=](Builder& b, const Values& in) { return allResults(b, code, in, attrs); });
  }
  std::vector<SweepCase> out;
};

void addPads(StructureCases& out) {
  using enum Opcode;
  for (Type type : {f32({6, 4}), i32({6, 4}), i1({6, 4})}) {
    out.plain(pad, {{type}}, padding({1, 0}, {0, 3}, {2, 1}, 1));
    out.plain(pad, {{type}}, padding({0, 0}, {0, 4}, {1, 0}));
  }
  out.plain(pad, {{f32({7})}}, padding({2}, {3}, {4}, -2.5));
  out.plain(pad, {{f32({1, 3})}}, padding({0, 1}, {0, 0}, {5, 1}));
  out.plain(pad, {{f32({2, 3, 8})}}, padding({0, 2, 4}, {1, 0, 4}, {1, 2, 0}));
  out.plain(pad, {{f32({2, 1, 3, 2, 4})}}, padding({0, 0, 1, 0, 0}, {0, 1, 0, 2, 1}, {1, 0, 3, 0, 2}));
  out.add(slice, {{f32({5, 4})}}, "of a dilation, off its grid", [](Builder& b, const Values& in) {
    Value* x = b.op(pad, in, padding({1, 0}, {2, 1}, {2, 1}, 3));  // 16x8
    return Values{b.op(slice, {x},
                       {{"starts", Attr::ints({1, 0})},
                        {"limits", Attr::ints({16, 8})},
                        {"strides", Attr::ints({3, 2})}}),
                  b.transpose(x, {1, 0}), b.reshape(x, {4, 32})};
  });
  out.add(matmul, {{f32({5, 3})}, {f32({9, 6})}}, "of a dilated operand", [](Builder& b, const Values& in) {
    return Values{b.op(matmul, {b.op(pad, {in[0]}, padding({1, 2}, {0, 2}, {1, 1})), in[1]})};
  });
}

void addFlips(StructureCases& out) {
  using enum Opcode;
  for (Type type : {f32({6, 4}), i32({6, 4}), i1({6, 4})})
    for (const auto& axes : {std::vector<int64_t>{0}, {1}, {-1, 0}, {}})
      out.plain(flip, {{type}}, ints("axes", axes));
  out.plain(flip, {{f32({1})}}, ints("axes", {0}));
  out.plain(flip, {{f32({1031})}}, ints("axes", {0}));
  out.plain(flip, {{f32({2, 3, 5, 4})}}, ints("axes", {1, 3}));
  out.add(flip, {{f32({10, 6})}}, "transposed and reshaped before, reshaped behind",
          [](Builder& b, const Values& in) {
            Value* x = b.op(flip, {b.reshape(b.transpose(in[0], {1, 0}), {4, 15})}, ints("axes", {0, 1}));
            return Values{b.reshape(x, {5, 3, 4}), b.transpose(b.reshape(x, {12, 5}), {1, 0})};
          });
  out.add(flip, {{f32({4, 6})}}, "of a pad, then strided", [](Builder& b, const Values& in) {
    Value* x = b.op(flip, {b.op(pad, in, padding({1, 2}, {0, 3}, {0, 1}))}, ints("axes", {1}));  // 5x16
    return Values{x, b.op(slice, {x},
                          {{"starts", Attr::ints({0, 1})},
                           {"limits", Attr::ints({5, 16})},
                           {"strides", Attr::ints({2, 3})}})};
  });
  out.add(concat, {{f32({3, 8})}, {f32({3, 5})}}, "of flips, flipped", [](Builder& b, const Values& in) {
    Value* x = b.op(concat, {b.op(flip, {in[0]}, ints("axes", {1})), in[1]}, axis(1));
    return Values{b.op(flip, {x}, ints("axes", {0, 1}))};
  });
  for (int64_t at : {0, 1})
    out.add(matmul, {{f32({16, 24})}, {f32({24, 32})}}, fmt::format("of an operand flipped along {}", at),
            [at](Builder& b, const Values& in) {
              return Values{b.op(matmul, {b.op(flip, {in[0]}, ints("axes", {at})),
                                          b.op(flip, {in[1]}, ints("axes", {at}))})};
            });
  out.add(max_reduce, {{f32({8, 12})}}, "of a flip", [](Builder& b, const Values& in) {
    return Values{b.reduce(max_reduce, b.op(flip, in, ints("axes", {1})), {1}, false),
                  b.op(flip, {b.reduce(max_reduce, in[0], {0}, false)}, ints("axes", {0}))};
  });
}

void addCompositeViews(StructureCases& out) {
  using enum Opcode;
  auto swap = [](int64_t a, int64_t b) { return AttrList{{"axis0", Attr::of(a)}, {"axis1", Attr::of(b)}}; };
  for (Type type : {f32({6, 4}), i32({6, 4}), i1({6, 4})}) {
    out.plain(swap_axes, {{type}}, swap(0, 1));
    out.plain(stack, {{type}, {type}, {type}}, axis(1));
    out.plain(split, {{type}}, {{"axis", Attr::of(int64_t{0})}, {"sections", Attr::of(int64_t{3})}});
    out.plain(tile, {{type}}, ints("repeats", {2, 3}));
  }
  out.plain(swap_axes, {{f32({2, 3, 5, 4})}}, swap(-1, 1));
  out.plain(swap_axes, {{f32({3, 5})}}, swap(1, -1));
  out.plain(stack, {{f32({})}, {f32({})}}, axis(0));
  out.plain(stack, {{f32({5})}}, axis(-1));
  out.plain(stack, {{f32({2, 3})}, {f32({2, 3})}}, axis(-1));
  out.plain(split, {{f32({3, 8})}}, {{"axis", Attr::of(int64_t{-1})}, {"sizes", Attr::ints({4, 1, 3})}});
  out.plain(split, {{f32({7})}}, {{"axis", Attr::of(int64_t{0})}, {"sections", Attr::of(int64_t{1})}});
  out.plain(tile, {{f32({})}}, ints("repeats", {3, 2}));
  out.plain(tile, {{f32({5})}}, ints("repeats", {1}));
  out.plain(tile, {{f32({1, 3, 4})}}, ints("repeats", {2, 5, 1, 2}));
  out.plain(tile, {{f32({2, 1, 3, 1, 4})}}, ints("repeats", {1, 4, 2, 1, 3}));
  for (Shape shape : {Shape{8, 8}, Shape{3, 8}, Shape{8, 3}, Shape{2, 3, 5, 5}, Shape{1, 4}, Shape{4, 1}})
    out.plain(where_causal, {{f32(shape)}}, {{"fill", Attr::of(-7.5)}});
  out.plain(where_causal, {{i32({4, 5})}}, {{"fill", Attr::of(-3.0)}});
  out.plain(where_causal, {{f32({4, 4})}}, {{"fill", Attr::of(-INFINITY)}});
}

void addAlongAxis(StructureCases& out) {
  using enum Opcode;
  auto take = [&](Type x, Shape ids, int64_t at) {
    const auto extent =
        static_cast<double>(x.shape[at < 0 ? static_cast<int>(at) + x.rank() : static_cast<int>(at)]);
    out.plain(take_along_axis, {{x}, {i32(ids), -1, extent}}, axis(at));
  };
  for (Type type : {f32({6, 4}), i32({6, 4}), i1({6, 4})}) take(type, {6, 8}, 1);
  take(f32({5}), {9}, 0);
  take(f32({5, 8}), {3, 8}, 0);
  take(f32({2, 7, 4}), {2, 3, 4}, -2);
  take(f32({1, 1}), {1, 1}, 1);
  take(f32({2, 3, 1, 2, 4}), {2, 3, 1, 5, 4}, 3);
  out.add(take_along_axis, {{f32({4, 9})}, {i32({5, 4}), -1, 9}}, "of transposed operands",
          [](Builder& b, const Values& in) {
            Value* r = b.op(take_along_axis, {b.transpose(in[0], {1, 0}), in[1]}, axis(0));
            return Values{b.transpose(r, {1, 0})};
          });
  out.add(take_along_axis, {{f32({3, 6})}, {i32({1, 5}), -1, 6}}, "with broadcast ids",
          [](Builder& b, const Values& in) {
            return Values{b.op(take_along_axis, {in[0], b.broadcastTo(in[1], {3, 5})}, axis(1))};
          });
  auto scatter = [&](Shape shape, int64_t at, int64_t extent) {
    out.plain(take_along_axis_grad, {{i32(shape), -1, static_cast<double>(extent)}, {f32(shape)}},
              {{"axis", Attr::of(at)}, {"extent", Attr::of(extent)}});
  };
  scatter({6, 4}, 1, 3);
  scatter({6, 4}, 0, 8);
  scatter({9}, 0, 2);
  scatter({200, 4}, 0, 3);
  scatter({3, 64}, 1, 4);
  scatter({2, 7, 4}, -2, 5);
  scatter({1}, -1, 1);
  scatter({2, 1, 3, 2, 4}, 2, 2);
}

/// More operands than any shipped target binds; extents that split lanes and extents that do not.
void addWideJoins(StructureCases& out) {
  using enum Opcode;
  for (int64_t unit : {1, 4})
    for (int64_t at : {0, 1}) {
      std::vector<SweepInput> inputs;
      for (int i = 0; i < 100; ++i) {
        Shape shape = {unit, unit};
        shape[static_cast<int>(at)] = unit * (1 + i % 3);
        inputs.push_back({f32(shape)});
      }
      out.add(concat, inputs, fmt::format("along {}", at),
              [at](Builder& b, const Values& in) { return allResults(b, concat, in, axis(at)); });
    }
  out.add(concat, std::vector<SweepInput>(9, {f32({3})}), "each operand often",
          [](Builder& b, const Values& in) {
            Values parts;
            for (int i = 0; i < 40; ++i) parts.push_back(in[static_cast<size_t>(i * i) % in.size()]);
            return allResults(b, concat, parts, axis(0));
          });
  out.plain(stack, std::vector<SweepInput>(30, {i32({2, 3}), -9, 9}), axis(1));
}

void addScatters(StructureCases& out) {
  using enum Opcode;
  auto counted = [](Builder& b, int64_t count) {
    return b.op(iota, {}, {}, {Type::tensor(DType::i32, {count})});
  };
  // The ids 0 0 0 1 1 1 …, of which 24 are sorted, or are in four pieces.
  auto ids = [=](Builder& b) {
    Value* rows = b.reshape(counted(b, 8), {8, 1});
    return b.reshape(b.op(broadcast_to, {rows}, {{"shape", Attr::ints({8, 3})}}), {24});
  };
  out.add(scatter_add, {{f32({24, 8})}}, "with sorted ids", [=](Builder& b, const Values& in) {
    Value* offsets = b.slice(counted(b, 28), {0}, {28}, {3});  // 0 3 6 … 24 27: no ids for the last row
    return Values{
        b.op(scatter_add, {ids(b), in[0], counted(b, 24), offsets}, {{"rows", Attr::of(int64_t{9})}})};
  });
  out.add(scatter_add, {{f32({24, 8})}}, "in pieces", [=](Builder& b, const Values& in) {
    return Values{b.op(scatter_add, {ids(b), in[0]},
                       {{"rows", Attr::of(int64_t{8})}, {"pieces", Attr::of(int64_t{4})}})};
  });
  // Large enough for fuse to sort the ids.
  out.plain(scatter_add, {{i32({2, 720}), -2, 40}, {f32({2, 720})}}, {{"rows", Attr::of(int64_t{3000})}});
  out.plain(scatter_add, {{i32({5000}), -2, 700}, {f32({5000})}}, {{"rows", Attr::of(int64_t{3000})}});
  // Few rows and so many ids that pieces of them add to rows of their own.
  out.plain(scatter_add, {{i32({2, 2048}), -2, 40}, {f32({2, 2048, 3})}}, {{"rows", Attr::of(int64_t{30})}});
}

}  // namespace

std::vector<SweepCase> structureCases() {
  StructureCases out;
  addPads(out);
  addFlips(out);
  addCompositeViews(out);
  addAlongAxis(out);
  addWideJoins(out);
  addScatters(out);
  return out.out;
}

}  // namespace tg::test
