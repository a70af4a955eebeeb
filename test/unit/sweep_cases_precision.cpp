// SPDX-License-Identifier: Apache-2.0
// Sweep cases of products whose operands are rounded to f16 or split into two of it.
#include <fmt/format.h>

#include "test/unit/sweep_cases.h"
#include "test/unit/sweep_cases_support.h"

namespace tg::test {

namespace {

struct ProductSizes {
  int64_t m, n, k;
};

void product(std::vector<SweepCase>& out, const ProductSizes& size, const std::string& precision, bool ta,
             bool tb, int64_t batch) {
  auto matrix = [&](int64_t rows, int64_t columns, bool swapped) {
    Shape shape;
    if (batch > 1) shape.push(batch);
    shape.push(swapped ? columns : rows), shape.push(swapped ? rows : columns);
    return SweepInput{Type::tensor(DType::f32, shape)};
  };
  const AttrList attrs{{"transpose_a", Attr::boolean(ta)},
                       {"transpose_b", Attr::boolean(tb)},
                       {"precision", Attr::word(precision)}};
  out.push_back({Opcode::matmul,
                 fmt::format("matmul {} {}x{}x{} batch {}{}{}", precision, size.m, size.n, size.k, batch,
                             ta ? " ta" : "", tb ? " tb" : ""),
                 {matrix(size.m, size.k, ta), matrix(size.k, size.n, tb)},
                 [=](Builder& b, const Values& in) { return Values{b.op(Opcode::matmul, in, attrs)}; }});
}

}  // namespace

std::vector<SweepCase> precisionCases() {
  std::vector<SweepCase> out;
  int number = 0;
  for (const char* precision : {"f16", "f32x3"})
    for (const ProductSizes& size :
         {ProductSizes{16, 16, 16}, ProductSizes{20, 17, 33}, ProductSizes{1, 9, 40},
          ProductSizes{33, 36, 18}, ProductSizes{64, 40, 64}}) {
      product(out, size, precision, number & 1, number & 2, number % 3 == 2 ? 2 : 1);
      ++number;
    }
  return out;
}

std::vector<SweepCase> coopmatCases() {
  std::vector<SweepCase> out;
  // Whole tiles and parts of them, extents that four divides and others, k over several chunks of sums.
  static constexpr ProductSizes kSizes[] = {{16, 16, 16},   {64, 64, 32},    {65, 63, 33},
                                            {128, 128, 64}, {130, 132, 36},  {200, 17, 40},
                                            {256, 64, 300}, {129, 257, 129}, {100, 100, 513}};
  for (const char* precision : {"f16", "f32x3"})
    for (const ProductSizes& size : kSizes)
      for (int form = 0; form < 4; ++form)
        product(out, size, precision, form & 1, form & 2, form == 3 ? 3 : 1);
  return out;
}

}  // namespace tg::test
