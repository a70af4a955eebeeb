// SPDX-License-Identifier: Apache-2.0
// Random numbers, element conversions, text, first values and input specs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "ir/philox.h"
#include "runtime/data/init.h"
#include "runtime/data/npy.h"
#include "runtime/data/pieces.h"
#include "runtime/data/spec.h"
#include "runtime/data/text_data.h"
#include "runtime/data/token_stream.h"
#include "test/unit/data_test_support.h"

namespace tg {
namespace {

// Philox: the known answers of the Random123 distribution.
static_assert(philox({0, 0, 0, 0}, {0, 0}) ==
              std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
constexpr uint32_t kOnes = 0xffffffff;
static_assert(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
              std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});

TEST(Philox, AnswersTheVectorOfPi) {
  const auto words = philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0});
  EXPECT_EQ(words, (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformAndNormalStayInTheirRanges) {
  EXPECT_EQ(philoxUniform(0), 0.0f);
  EXPECT_EQ(philoxUniform(255), 0.0f);
  EXPECT_EQ(philoxUniform(0x80000000), 0.5f);
  EXPECT_EQ(philoxUniform(kOnes), 1.0f - 0x1p-24f);
  EXPECT_EQ(philoxNormal(kOnes, 0), 0.0);
  EXPECT_DOUBLE_EQ(philoxNormal(0, 0), std::sqrt(48 * std::log(2.0)));
  EXPECT_DOUBLE_EQ(philoxNormal(0, 0x80000000), -std::sqrt(48 * std::log(2.0)));
}

TEST(Half, KnownValues) {
  const std::map<uint16_t, double> known = {{0x0000, 0},        {0x3c00, 1},       {0xc000, -2},
                                            {0x7bff, 65504},    {0x0001, 0x1p-24}, {0x0400, 0x1p-14},
                                            {0x3555, 0x555p-12}};
  for (const auto& [bits, value] : known) {
    EXPECT_EQ(narrowValue(DType::f16, bits), value);
    EXPECT_EQ(narrowBits(DType::f16, value), bits);
  }
  EXPECT_EQ(narrowBits(DType::f16, 1 + 0x1p-11), 0x3c00) << "a tie goes to even";
  EXPECT_EQ(narrowBits(DType::f16, 1 + 0x3p-11), 0x3c02);
  EXPECT_EQ(narrowBits(DType::f16, 2 - 0x1p-12), 0x4000) << "rounding carries into the exponent";
  EXPECT_EQ(narrowBits(DType::f16, 0x1p-14 - 0x1p-26), 0x0400) << "and from the subnormals";
  EXPECT_EQ(narrowBits(DType::f16, 65519.9), 0x7bff);
  EXPECT_EQ(narrowBits(DType::f16, 65520), 0x7c00);
  EXPECT_EQ(narrowBits(DType::f16, -INFINITY), 0xfc00);
  EXPECT_TRUE(std::isnan(narrowValue(DType::f16, narrowBits(DType::f16, NAN))));
  EXPECT_EQ(narrowValue(DType::bf16, 0x3fc0), 1.5f);
}

TEST(Half, EveryFiniteValueReturns) {
  for (DType dtype : {DType::f16, DType::bf16})
    for (int bits = 0; bits < 0x10000; ++bits)
      if (const double value = narrowValue(dtype, static_cast<uint16_t>(bits)); !std::isnan(value)) {
        ASSERT_EQ(narrowBits(dtype, value), bits) << name(dtype);
      }
}

// By the bits of an f32 alone.
TEST(Half, Bf16IsTheUpperHalfOfAFloat) {
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (uint32_t lower : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const auto x = std::bit_cast<float>(upper << 16 | lower);
      const uint16_t got = narrowBits(DType::bf16, x);
      if (std::isnan(x)) {
        ASSERT_TRUE(std::isnan(narrowValue(DType::bf16, got)));
        continue;
      }
      const uint32_t up = lower > 0x8000 || (lower == 0x8000 && upper % 2 == 1);
      ASSERT_EQ(got, upper + up) << x;
      if (lower == 0) {
        ASSERT_EQ(static_cast<float>(narrowValue(DType::bf16, static_cast<uint16_t>(upper))), x);
      }
    }
  EXPECT_EQ(narrowBits(DType::bf16, 1 + 0x1p-8 + 0x1p-40), 0x3f81) << "of a double, rounded once";
}

TEST(HostArray, SetRoundsToTheType) {
  EXPECT_EQ(valuesOf(arrayOf(DType::i32, {4}, {-2.7, 3e9, -3e9, NAN})),
            (std::vector<double>{-2, 2147483647, -2147483648.0, 0}));
  EXPECT_EQ(valuesOf(arrayOf(DType::u32, {3}, {4294967295.0, -1, 5e9})),
            (std::vector<double>{4294967295.0, 0, 4294967295.0}));
  EXPECT_EQ(valuesOf(arrayOf(DType::f16, {2}, {0.1, 1e6})), (std::vector<double>{0x666p-14, INFINITY}));
  const HostArray flags = arrayOf(DType::i1, {3}, {0, 1, -4});
  EXPECT_EQ(flags.bytes.size(), 12u);
  EXPECT_EQ(std::vector<int32_t>(flags.i32().begin(), flags.i32().end()), (std::vector<int32_t>{0, 1, 1}));
}

// Arrays are passive data: their bytes may be anything.
TEST(HostArray, OtherBytesThanThoseOfItsTypeAreRefused) {
  HostArray torn = arrayOf(DType::f32, {4}, {1, 2, 3, 4});
  torn.bytes.resize(3);
  const std::string why = " of type tensor<4xf32> takes 16 bytes, and 3 were given";
  const auto written = writeNpy("x.npy", torn);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message(), "x.npy" + why);
  const std::vector<std::pair<std::string, HostArray>> arrays = {{"a", torn}};
  const auto read = readAll(sourceOf(arrays));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message(), "a" + why);
}

TEST(Vocabulary, EncodesSortedBytes) {
  const auto vocabulary = Vocabulary::ofText("hello\n\\\xe4 ~");
  EXPECT_EQ(vocabulary.symbols(), "\n \\ehlo~\xe4");
  EXPECT_EQ(vocabulary.printable(), "\\n \\\\ehlo~\\xe4");
  const auto ids = vocabulary.encode("lo\xe4\n");
  ASSERT_OK(ids);
  EXPECT_EQ(*ids, (std::vector<int32_t>{5, 6, 8, 0}));
  const auto text = vocabulary.decode(*ids);
  ASSERT_OK(text);
  EXPECT_EQ(*text, "lo\xe4\n");
  EXPECT_FAILS(vocabulary.encode("hex"), "'x' at byte 2");
  EXPECT_FAILS(vocabulary.decode(std::array{0, 9}), "0 to 8, got 9");
  EXPECT_FAILS(vocabulary.decode(std::array{-1}), "got -1");
}

TEST(Vocabulary, PrintsAndParsesEveryByte) {
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  const auto printed = Vocabulary::ofText(all).printable();
  for (const char symbol : printed) EXPECT_TRUE(symbol >= ' ' && symbol <= '~');
  const auto back = Vocabulary::parse(printed);
  ASSERT_OK(back);
  EXPECT_EQ(back->symbols(), all);
  for (const char* bad : {"ba", "aa", "a\\", "a\\q", "\\x1", "\\xgg", "a\n"})
    EXPECT_FALSE(Vocabulary::parse(bad)) << bad;
}

TEST_F(Files, TextIsReadWithItsVocabulary) {
  const auto text = TokenStream::ofText(put("t.txt", "abca"));
  ASSERT_OK(text);
  EXPECT_EQ(text->vocabulary()->symbols(), "abc");
  std::vector<int32_t> ids(4);
  ASSERT_TRUE(text->read(0, ids));
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 1, 2, 0}));
  EXPECT_FAILS(TokenStream::ofText(put("e.txt", "")), "e.txt", "empty");
}

TEST_F(Files, TextMustFitAGivenVocabulary) {
  const Vocabulary given = Vocabulary::ofText("xcba");
  const auto text = TokenStream::ofText(put("t.txt", "abca"), given);
  ASSERT_OK(text);
  std::vector<int32_t> ids(2);
  ASSERT_TRUE(text->read(2, ids));
  EXPECT_EQ(ids, (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(text->vocabulary()->symbols(), "abcx");
  EXPECT_FAILS(TokenStream::ofText(put("f.txt", "abZ"), given), "f.txt", "4 of them", "'Z' at byte 2");
}

/// A token file with as many ascending tokens, from 0 on.
std::string countingFile(size_t count) {
  std::vector<uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  return tokenFile(tokens);
}

TEST_F(Files, WindowsAreEvenlyPlacedAndShiftedByOne) {
  const TokenStream tokens = *TokenStream::ofTokenFiles(put("t.bin", countingFile(8)));
  constexpr int kBatch = 3000, kLength = 5;
  const auto windows = sampleWindows(tokens, 8, 1, 0, kBatch, kLength);
  ASSERT_OK(windows);
  EXPECT_EQ(windows->x.type(), Type::tensor(DType::i32, {kBatch, kLength}));
  std::map<int32_t, int> starts;
  for (size_t row = 0; row < kBatch; ++row) {
    const int32_t start = windows->x.i32()[row * kLength];
    ++starts[start];
    for (size_t at = 0; at < kLength; ++at) {
      ASSERT_EQ(windows->x.i32()[row * kLength + at], start + static_cast<int32_t>(at));
      ASSERT_EQ(windows->y.i32()[row * kLength + at], start + static_cast<int32_t>(at) + 1);
    }
  }
  // Three places are possible; five standard deviations of a binomial count are 129.
  ASSERT_EQ(starts.size(), 3u);
  for (const auto& [start, count] : starts) EXPECT_NEAR(count, 1000, 129) << start;
}

TEST_F(Files, WindowsDependOnSeedAndStepAlone) {
  const TokenStream tokens = *TokenStream::ofTokenFiles(put("t.bin", countingFile(100000)));
  const auto draw = [&](uint64_t seed, uint64_t step) {
    const auto windows = sampleWindows(tokens, tokens.size(), seed, step, 4, 2);
    return windows->x.bytes;
  };
  const auto fortieth = draw(1, 40);
  std::set<std::vector<std::byte>> distinct;
  for (const uint64_t high : {0ull, 1ull << 32})
    for (uint64_t low = 0; low < 50; ++low) distinct.insert(draw(1, high + low));
  EXPECT_EQ(distinct.size(), 100u);
  EXPECT_EQ(draw(1, 40), fortieth);
  EXPECT_NE(draw(2, 40), fortieth);
  EXPECT_NE(draw(1 + (1ull << 32), 40), fortieth);
  EXPECT_FAILS(sampleWindows(tokens, 4, 1, 0, 1, 4), "at least 5 tokens", "got 4");
  EXPECT_TRUE(sampleWindows(tokens, 5, 1, 0, 1, 4));
  EXPECT_FAILS(sampleWindows(tokens, 5, 1, 0, 0, 4), "got 0 of 4");
}

struct Moments {
  double mean = 0, deviation = 0, withinOne = 0;
};

Moments momentsOf(const HostArray& array) {
  Moments moments;
  const auto values = array.f32();
  const auto count = static_cast<double>(values.size());
  for (const double value : values) moments.mean += value / count;
  for (const double value : values)
    moments.deviation += (value - moments.mean) * (value - moments.mean) / count;
  moments.deviation = std::sqrt(moments.deviation);
  for (const double value : values)
    moments.withinOne += (std::fabs(value - moments.mean) < moments.deviation) / count;
  return moments;
}

TEST(Init, FollowsTheDistributions) {
  struct Case {
    const char* kind;
    std::vector<double> args;
    Shape shape;
    double deviation;
  };
  const Case cases[] = {{"randn", {0.02}, {40000}, 0.02},
                        {"randn", {}, {200, 200}, 0.02},
                        {"kaiming", {}, {400, 100}, std::sqrt(2.0 / 400)},
                        {"kaiming", {1}, {4, 100, 100}, std::sqrt(1.0 / 400)},
                        {"kaiming", {}, {64, 32, 3, 5}, std::sqrt(2.0 / (32 * 3 * 5))},
                        {"xavier", {}, {400, 100}, std::sqrt(2.0 / 500)},
                        {"xavier", {3}, {64, 32, 3, 5}, 3 * std::sqrt(2.0 / (96 * 3 * 5))}};
  for (const Case& one : cases) {
    const auto array = initialValue("w", Type::tensor(DType::f32, one.shape), one.kind, one.args, 5);
    ASSERT_OK(array);
    const Moments moments = momentsOf(*array);
    // Five standard errors of the mean, the deviation and the share, for 30000 values and more.
    const double error = 5 / std::sqrt(30000);
    EXPECT_NEAR(moments.mean / one.deviation, 0, error) << one.kind;
    EXPECT_NEAR(moments.deviation / one.deviation, 1, error / std::sqrt(2)) << one.kind;
    EXPECT_NEAR(moments.withinOne, 0.6827, error * 0.4655) << one.kind;
  }
}

TEST(Init, UniformFillsItsRange) {
  const std::vector<double> bounds{-2, 4};
  const auto array = initialValue("w", Type::tensor(DType::f32, {40000}), "uniform", bounds, 5);
  ASSERT_OK(array);
  const auto values = array->f32();
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -2);
  EXPECT_LT(*least, -1.99);
  EXPECT_LE(*most, 4);
  EXPECT_GT(*most, 3.99);
  EXPECT_NEAR(momentsOf(*array).mean, 1, 5 * std::sqrt(3.0 / 40000));
  EXPECT_NEAR(momentsOf(*array).withinOne, 1 / std::sqrt(3), 0.013);
}

TEST(Init, IsKeyedBySeedAndName) {
  const Type type = Type::tensor(DType::f32, {6});
  const auto draw = [&](std::string_view name, uint64_t seed) {
    return initialValue(name, type, "randn", {}, seed)->bytes;
  };
  const uint64_t seed = 0x1122334455667788, other = seed ^ (1ull << 40);
  EXPECT_EQ(draw("w1", seed), draw("w1", seed));
  EXPECT_NE(draw("w1", seed), draw("w2", seed));
  EXPECT_NE(draw("w1", seed), draw("w1", other));
  // XXH3-64 of no bytes is 2d06800538d394c2 (its specification).
  const auto words = philox({4, 0, 0x2d068005, 0x11223344}, {0x55667788, 0x38d394c2});
  const auto value = initialValue("", type, "randn", {}, seed)->f32()[4];
  EXPECT_EQ(value, static_cast<float>(0.02 * philoxNormal(words[0], words[1])));
}

// Values are drawn many at a time, on several threads and in pieces, and have the bits of one at a time.
TEST(Init, HasTheBitsOfTheFormula) {
  constexpr int64_t kCount = 300001;
  const uint64_t seed = 0x1122334455667788, hash = 0x2d06800538d394c2;  // of no name
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const double deviation : {0.02, 1e-7, 0.0}) {
      const Type type = Type::tensor(dtype, {kCount});
      const std::vector<double> normal{deviation}, bounds{-deviation, 2};
      HostArray normals = HostArray::zeros(type), uniforms = normals;
      for (int64_t i = 0; i < kCount; ++i) {
        const auto place = static_cast<uint64_t>(i);
        const auto words = philox({lowWord(place), highWord(place), highWord(hash), highWord(seed)},
                                  {lowWord(seed), lowWord(hash)});
        normals.set(i, deviation * philoxNormal(words[0], words[1]));
        uniforms.set(i, -deviation + (2 + deviation) * static_cast<double>(philoxUniform(words[0])));
      }
      EXPECT_EQ(initialValue("", type, "randn", normal, seed)->bytes, normals.bytes) << deviation;
      EXPECT_EQ(initialValue("", type, "uniform", bounds, seed)->bytes, uniforms.bytes) << deviation;
      const auto pieces = InitialValue::of("", type, "randn", normal, seed);
      ASSERT_OK(pieces);
      std::vector<std::byte> put(normals.bytes.size());
      for (int64_t first = 0; first < kCount; first += 777) {
        const auto at = static_cast<size_t>(first * byteSize(dtype));
        const size_t bytes = std::min(put.size() - at, static_cast<size_t>(777 * byteSize(dtype)));
        pieces->fill(first, std::span(put).subspan(at, bytes));
      }
      EXPECT_EQ(put, normals.bytes);
    }
}

// Each word that a logarithm or a cosine is taken of lies within the bounds.
TEST(Init, BoundsHoldForEveryWord) {
  DrawnWords words;
  NormalBounds bounds;
  int64_t outside = 0, told = 0;
  for (uint32_t from = 0; from < 1u << 24; from += kDrawBlock) {
    for (uint32_t i = 0; i < kDrawBlock; ++i) {
      words.first[i] = (from + i) << 8;
      words.second[i] = (from + i) * 2654435761u;
    }
    boundNormals(words, 0.5, 0x1p-44, bounds);
    for (uint32_t i = 0; i < kDrawBlock; ++i) {
      const auto value = static_cast<float>(0.5 * philoxNormal(words.first[i], words.second[i]));
      outside += value < bounds.low[i] || value > bounds.high[i];
      told += bounds.low[i] == bounds.high[i];
    }
  }
  EXPECT_EQ(outside, 0);
  EXPECT_GT(told, (1 << 24) - 1000);
}

TEST(Init, FillsAndRefuses) {
  const Type matrix = Type::tensor(DType::f32, {2, 2}), ids = Type::tensor(DType::i32, {2});
  const std::vector<double> one{2.5}, two{3, 1}, none;
  EXPECT_EQ(valuesOf(*initialValue("w", matrix, "zeros", none, 1)), std::vector<double>(4, 0));
  EXPECT_EQ(valuesOf(*initialValue("w", ids, "ones", none, 1)), std::vector<double>(2, 1));
  EXPECT_EQ(valuesOf(*initialValue("w", matrix, "constant", one, 1)), std::vector<double>(4, 2.5));
  EXPECT_FAILS(initialValue("w", matrix, "orthogonal", none, 1), "parameter w", "got 'orthogonal'");
  EXPECT_FAILS(initialValue("w", matrix, "constant", none, 1), "constant takes 1 argument, got 0");
  EXPECT_FAILS(initialValue("w", matrix, "randn", two, 1), "takes 0 or 1 argument, got 2");
  EXPECT_FAILS(initialValue("w", matrix, "uniform", two, 1), "lower bound first");
  EXPECT_FAILS(initialValue("w", ids, "randn", one, 1), "float type, got tensor<2xi32>");
  EXPECT_FAILS(initialValue("w", Type::tensor(DType::f32, {2}), "kaiming", none, 1), "matrix",
               "tensor<2xf32>");
  EXPECT_FAILS(initialValue("w", matrix, "randn", std::vector<double>{-1}, 1), "0 and more");
}

Result<HostArray> loadText(std::string_view text, const Type& expected) {
  TG_TRY(const auto named, parseInputSpec(text));
  return load(named.second, expected, named.first);
}

TEST_F(Files, SpecsLoad) {
  const std::string file = put("x.npy", npy("<f4", "(2,)", le<float>({1, 2})));
  put("d.npz", zip({{"k", npy("<f4", "(2,)", le<float>({3, 4}))}, {"l", ""}}));
  const Type f2 = Type::tensor(DType::f32, {2}), i22 = Type::tensor(DType::i32, {2, 2});
  const auto expect = [&](const std::string& text, const Type& type, const std::vector<double>& values) {
    const auto array = loadText(text, type);
    ASSERT_OK(array);
    EXPECT_EQ(array->type(), type) << text;
    EXPECT_EQ(valuesOf(*array), values) << text;
  };
  expect("x=@" + file, f2, {1, 2});
  expect("x=@" + path("d.npz:k"), f2, {3, 4});
  expect("x=2xf32=0.25", f2, {0.25, 0.25});
  expect("%x = f32=3.5", Type::tensor(DType::f32, {}), {3.5});
  expect("x=2x2xi32=[1, 2,-3,4]", i22, {1, 2, -3, 4});
  expect("x=[1,2,3,4]", i22, {1, 2, 3, 4});
  expect("x=-1e1", f2, {-10, -10});
  expect("x=2xi1=[true,0]", Type::tensor(DType::i1, {2}), {1, 0});
  expect("x=0xf32=[]", Type::tensor(DType::f32, {0}), {});
  const auto named = parseInputSpec("%x = @a.npz:b.npz:c");
  ASSERT_OK(named);
  EXPECT_EQ(named->first, "x");
  EXPECT_EQ(named->second.path, "a.npz:b.npz");
  EXPECT_EQ(named->second.key, "c");
}

TEST(Spec, RandomValuesFollowSeedAndType) {
  const auto many = Type::tensor(DType::f32, {30000}), ids = Type::tensor(DType::i32, {4000});
  const auto normal = loadText("x=rand(7)", many);
  ASSERT_OK(normal);
  EXPECT_NEAR(momentsOf(*normal).mean, 0, 0.03);
  EXPECT_NEAR(momentsOf(*normal).deviation, 1, 0.03);
  EXPECT_NE(loadText("x=rand(8)", many)->bytes, normal->bytes);
  for (const auto& [text, below] : {std::pair("x=4000xi32=rand(3,5)", 5), std::pair("x=rand(3)", 10)}) {
    const auto array = loadText(text, ids);
    ASSERT_OK(array);
    std::map<double, int> counts;
    for (const double value : valuesOf(*array)) ++counts[value];
    EXPECT_EQ(counts.size(), static_cast<size_t>(below));
    EXPECT_EQ(counts.begin()->first, 0);
    EXPECT_EQ(counts.rbegin()->first, below - 1);
    for (const auto& [value, count] : counts)
      EXPECT_NEAR(count, 4000 / below, 5 * std::sqrt(4000 / below)) << value;
  }
  for (const double value : valuesOf(*loadText("x=rand(3)", Type::tensor(DType::i1, {50}))))
    EXPECT_LE(value, 1);
}

TEST_F(Files, SpecsSayWhatIsWrong) {
  const std::string file = put("x.npy", npy("<f8", "(2, 3)", std::string(48, '\0')));
  const Type f2 = Type::tensor(DType::f32, {2}), i2 = Type::tensor(DType::i32, {2});
  EXPECT_FAILS(loadText("x=@" + file, f2), "input 'x'", "expected tensor<2xf32>", "got tensor<2x3xf32>",
               "x.npy");
  EXPECT_FAILS(loadText("x=@" + file, Type::tensor(DType::i32, {2, 3})),
               "2x3xf64, but tensor<2x3xi32> is expected");
  EXPECT_FAILS(loadText("x=@" + path("none.npy"), f2), "input 'x'", "none.npy", "No such file");
  EXPECT_FAILS(loadText("x=3xf32=0", f2), "expected tensor<2xf32>, got tensor<3xf32>");
  EXPECT_FAILS(loadText("x=2xi32=0", f2), "got tensor<2xi32>");
  EXPECT_FAILS(loadText("x=2xf32=[1,2,3]", f2), "expected 2 elements", "got 3");
  EXPECT_FAILS(loadText("x=2xi32=[1,2.5]", i2), "values of i32, got 2.5");
  EXPECT_FAILS(loadText("x=2xi32=3e9", i2), "values of i32, got 3000000000");
  EXPECT_FAILS(loadText("x=2", Type::tensor(DType::i1, {2})), "values of i1, got 2");
  EXPECT_FAILS(loadText("x=rand(1,3)", Type::tensor(DType::i1, {2})), "at most 2");
  for (const char* bad : {"x", "=3", "x=", "x=@a.txt", "x=2xf32=@a.npy", "x=2xf64=0", "x=2f32=0",
                          "x=2xf32=one", "x=[1,]", "x=[1,a]", "x=rand()", "x=rand(a)", "x=rand(1,0)",
                          "x=rand(-1)", "x=rand(1", "x=999999999999999xf32=0", "x=1x1x1x1x1x1x1x1x1xf32=0"})
    EXPECT_FALSE(parseInputSpec(bad)) << bad;
  EXPECT_FAILS(parseInputSpec("x=wide"), "input 'x'", "got 'wide'");
}

}  // namespace
}  // namespace tg
