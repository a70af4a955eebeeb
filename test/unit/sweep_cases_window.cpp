// SPDX-License-Identifier: Apache-2.0
// Sweep cases of windows: odd sizes, every attribute, groups from dense to depthwise, and neighbours that
// share the kernel: a prologue that is a view, an epilogue behind a view.
#include "test/unit/sweep_cases.h"
#include "test/unit/sweep_cases_support.h"

namespace tg::test {
namespace {

using Ints = std::vector<int64_t>;

class WindowCases {
 public:
  void plain(Opcode code, std::vector<SweepInput> inputs, const AttrList& attrs) {
    std::string name(info(code).name.substr(info(code).name.find('.') + 1));
    for (const SweepInput& input : inputs) name += " " + input.type.str();
    for (const NamedAttr& attr : attrs) name += " " + attr.name + "=" + attr.value.str();
    out.push_back({code, name, std::move(inputs),
                   [=](Builder& b, const Values& in) { return Values{b.op(code, in, attrs)}; }});
  }
  std::vector<SweepCase> out;
};

AttrList ofWindows(int64_t axis, const char* extentName, int64_t extent, int64_t step, int64_t dilation) {
  return {{"axis", Attr::of(axis)},
          {extentName, Attr::of(extent)},
          {"step", Attr::of(step)},
          {"dilation", Attr::of(dilation)}};
}

struct Conv {
  Shape x, w;
  Ints stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;

  AttrList attrs() const {
    return {{"stride", Attr::ints(stride)},
            {"padding", Attr::ints(padding)},
            {"dilation", Attr::ints(dilation)},
            {"groups", Attr::of(groups)}};
  }
  AttrList attrs(const char* name, const Shape& of) const {
    AttrList out = attrs();
    out.push_back({name, Attr::ints({of[2], of[3]})});
    return out;
  }
  int64_t count(size_t i) const {
    int axis = static_cast<int>(i) + 2;
    return (x[axis] + 2 * padding[i] - dilation[i] * (w[axis] - 1) - 1) / stride[i] + 1;
  }
  Shape y() const { return {x[0], w[0], count(0), count(1)}; }
};

const std::vector<Conv> kConvs = {
    {{2, 3, 7, 9}, {5, 3, 3, 3}, {1, 1}, {1, 1}},
    {{1, 4, 8, 12}, {16, 4, 3, 3}},
    {{3, 1, 10, 10}, {8, 1, 3, 3}, {1, 1}, {1, 1}},
    {{2, 2, 9, 11}, {3, 2, 3, 2}, {2, 3}, {1, 0}},
    {{1, 2, 12, 10}, {4, 2, 3, 3}, {1, 1}, {2, 3}, {2, 3}},
    {{2, 6, 5, 8}, {4, 3, 2, 4}, {2, 1}, {1, 2}, {1, 2}, 2},
    {{2, 5, 6, 7}, {5, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 5},
    {{2, 8, 5, 5}, {16, 8, 1, 1}},
    {{1, 3, 8, 8}, {4, 3, 4, 4}, {4, 4}},
    {{1, 1, 2, 3}, {2, 1, 1, 2}, {1, 1}, {2, 3}},
    {{1, 16, 8, 8}, {20, 16, 3, 3}, {1, 1}, {1, 1}},
};

void addUnfolds(WindowCases& out) {
  using enum Opcode;
  out.plain(unfold, {{f32({2, 9})}}, ofWindows(1, "size", 3, 1, 1));
  out.plain(unfold, {{f32({8, 16})}}, ofWindows(0, "size", 4, 2, -1));
  out.plain(unfold, {{f32({3, 11, 4})}}, ofWindows(-2, "size", 3, 2, 3));
  out.plain(unfold, {{f32({16, 12})}}, ofWindows(1, "size", 9, 1, -1));
  out.plain(unfold, {{Type::tensor(DType::i32, {2, 10}), -5, 5}}, ofWindows(1, "size", 5, 5, 1));
  out.plain(fold, {{f32({2, 7, 3})}}, ofWindows(1, "extent", 9, 1, 1));
  out.plain(fold, {{f32({3, 16, 4})}}, ofWindows(0, "extent", 8, 2, -1));
  out.plain(fold, {{f32({3, 3, 4, 3})}}, ofWindows(1, "extent", 12, 2, 3));
  out.plain(fold, {{f32({16, 4, 9})}}, ofWindows(1, "extent", 12, 1, -1));
  // Four elements are a vector's lanes, whose windows are known when the kernel is built.
  for (int64_t dilation : {1, -1}) {
    out.plain(fold, {{f32({3, 2})}}, ofWindows(0, "extent", 4, 1, dilation));
    out.plain(fold, {{f32({2, 2})}}, ofWindows(0, "extent", 4, 2, dilation));
    out.plain(fold, {{f32({2, 3})}}, ofWindows(0, "extent", 4, 1, dilation));
    out.plain(fold, {{f32({2, 2})}}, ofWindows(0, "extent", 4, 1, 2 * dilation));
  }
  out.plain(fold, {{f32({5, 4})}}, ofWindows(0, "extent", 23, 4, 1));
}

void addConvolutions(WindowCases& out) {
  using enum Opcode;
  for (const Conv& conv : kConvs) {
    out.plain(conv2d, {{f32(conv.x)}, {f32(conv.w)}}, conv.attrs());
    out.plain(conv2d_grad_input, {{f32(conv.w)}, {f32(conv.y())}}, conv.attrs("input_size", conv.x));
    out.plain(conv2d_grad_weight, {{f32(conv.x)}, {f32(conv.y())}}, conv.attrs("kernel_size", conv.w));
  }
  const AttrList upwards = {{"stride", Attr::ints({2, 3})},
                            {"padding", Attr::ints({1, 0})},
                            {"output_padding", Attr::ints({1, 2})}};
  out.plain(conv_transpose2d, {{f32({2, 3, 4, 5})}, {f32({3, 2, 3, 2})}}, upwards);
  out.plain(conv_transpose2d, {{f32({1, 4, 6, 6})}, {f32({4, 1, 3, 3})}}, {{"groups", Attr::of(int64_t{2})}});
  const Conv& conv = kConvs[0];
  out.out.push_back({conv2d,
                     "conv2d of a transposed image, sliced behind",
                     {{f32({2, 7, 9, 3})}, {f32(conv.w)}},
                     [conv](Builder& b, const Values& in) {
                       Value* y = b.op(conv2d, {b.transpose(in[0], {0, 3, 1, 2}), in[1]}, conv.attrs());
                       return Values{b.op(slice, {y},
                                          {{"starts", Attr::ints({0, 1, 0, 2})},
                                           {"limits", Attr::ints({2, 5, 7, 9})},
                                           {"strides", Attr::ints({1, 2, 1, 3})}})};
                     }});
}

void addPools(WindowCases& out) {
  using enum Opcode;
  struct Pool {
    Shape x;
    Ints kernel, stride, padding, dilation;
  };
  const std::vector<Pool> pools = {
      {{2, 3, 8, 8}, {2, 2}, {}, {0, 0}, {1, 1}},       {{1, 2, 9, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {{2, 1, 6, 9}, {2, 3}, {1, 2}, {1, 0}, {1, 1}},   {{1, 2, 9, 8}, {3, 2}, {2, 1}, {1, 1}, {2, 3}},
      {{1, 1, 12, 12}, {5, 6}, {3, 2}, {2, 3}, {1, 1}}, {{2, 3, 9, 11}, {9, 11}, {}, {0, 0}, {1, 1}},
      {{1, 2, 11, 12}, {5, 7}, {1, 1}, {2, 3}, {1, 1}},
  };
  for (const Pool& pool : pools) {
    AttrList attrs = {{"kernel", Attr::ints(pool.kernel)},
                      {"stride", Attr::ints(pool.stride)},
                      {"padding", Attr::ints(pool.padding)}};
    AttrList dilated = attrs;
    dilated.push_back({"dilation", Attr::ints(pool.dilation)});
    Shape y = pool.x;
    const bool sparse = pool.dilation != Ints{1, 1};
    for (size_t i = 0; i < 2; ++i) {
      int64_t& extent = y[static_cast<int>(i) + 2];
      int64_t step = pool.stride.empty() ? pool.kernel[i] : pool.stride[i];
      extent = (extent + 2 * pool.padding[i] - pool.dilation[i] * (pool.kernel[i] - 1) - 1) / step + 1;
    }
    out.plain(max_pool2d, {{f32(pool.x)}}, dilated);
    // Equal maxima now and then: the first takes the gradient.
    out.plain(max_pool2d_grad, {{f32(pool.x), -9, 9, Draw::coarse}, {f32(y)}}, dilated);
    if (sparse) continue;
    for (bool counts : {true, false}) {
      AttrList own = attrs;
      own.push_back({"count_include_pad", Attr::boolean(counts)});
      out.plain(avg_pool2d, {{f32(pool.x)}}, own);
      own.push_back({"input_size", Attr::ints({pool.x[2], pool.x[3]})});
      out.plain(avg_pool2d_grad, {{f32(y)}}, own);
    }
  }
  out.plain(upsample_nearest2d, {{f32({2, 3, 4, 5})}}, {{"scale", Attr::ints({2, 3})}});
  out.plain(upsample_nearest2d, {{f32({1, 2, 3, 8})}}, {{"scale", Attr::ints({4, 1})}});
}

}  // namespace

std::vector<SweepCase> windowCases() {
  WindowCases out;
  addUnfolds(out);
  addConvolutions(out);
  addPools(out);
  return out.out;
}

}  // namespace tg::test
