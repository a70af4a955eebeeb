// SPDX-License-Identifier: Apache-2.0
// Inputs of training and evaluation: shuffling, splitting, and what is refused before the first step.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <numeric>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "ir/parser.h"
#include "runtime/train/feed.h"
#include "runtime/train/permutation.h"
#include "runtime/train/source.h"
#include "test/unit/data_test_support.h"

namespace tg {
namespace {

TEST(Permutation, HitsEveryIndexOnce) {
  for (uint64_t size = 1; size <= 1000; ++size) {
    const Permutation order(size, 7, size, 1);
    std::vector<bool> seen(size);
    for (uint64_t index = 0; index < size; ++index) {
      const uint64_t to = order(index);
      ASSERT_LT(to, size);
      ASSERT_FALSE(seen[to]) << size;
      seen[to] = true;
    }
  }
  const Permutation large((uint64_t{1} << 40) + 3, 7, 0, 1);
  std::set<uint64_t> places;
  for (uint64_t index = 0; index < 1000; ++index) places.insert(large(index * 1000000000));
  EXPECT_EQ(places.size(), 1000u);
}

TEST(Permutation, IsEvenOverRounds) {
  // Ordered pairs of places that 0 and 1 go to: 20 of them, each 1/20 of the rounds. The standard deviation
  // of a count is √(20000·0.05·0.95) = 31; five of them.
  std::map<std::pair<uint64_t, uint64_t>, int> counts;
  for (uint64_t round = 0; round < 20000; ++round) {
    const Permutation order(5, 3, round, 1);
    ++counts[{order(0), order(1)}];
  }
  ASSERT_EQ(counts.size(), 20u);
  for (const auto& [pair, count] : counts) EXPECT_NEAR(count, 1000, 155) << pair.first << ", " << pair.second;
  // The place of the first of 1000 is on average the middle; its standard error over 4000 rounds is 4.6.
  double sum = 0;
  for (uint64_t round = 0; round < 4000; ++round)
    sum += static_cast<double>(Permutation(1000, 9, round, 1)(0));
  EXPECT_NEAR(sum / 4000, 499.5, 23);
}

TEST(Permutation, DependsOnSeedRoundAndStream) {
  const auto orderOf = [](uint64_t seed, uint64_t round, uint32_t stream) {
    const Permutation order(50, seed, round, stream);
    std::vector<uint64_t> out;
    for (uint64_t index = 0; index < 50; ++index) out.push_back(order(index));
    return out;
  };
  const std::set<std::vector<uint64_t>> distinct = {orderOf(1, 0, 1), orderOf(2, 0, 1), orderOf(1, 1, 1),
                                                    orderOf(1, 0, 2), orderOf(1, uint64_t{1} << 32, 1)};
  EXPECT_EQ(distinct.size(), 5u);
  EXPECT_EQ(orderOf(1, 0, 1), orderOf(1, 0, 1));
}

constexpr const char* kModel = R"(
module @m {
  param @w : tensor<7x3xf32> {init = zeros}
  func @train(%x: tensor<4x2xf32>, %y: tensor<4xi32>) -> (loss: tensor<f32>) {
    %loss = tg.cross_entropy %x, %y : tensor<f32>
    return %loss : tensor<f32>
  }
  func @unsigned(%i: tensor<4xu32>) -> (rows: tensor<4x3xf32>) {
    %w = tg.param @w : tensor<7x3xf32>
    %rows = tg.embedding %w, %i : tensor<4x3xf32>
    return %rows : tensor<4x3xf32>
  }
  func @eval(%x: tensor<3x2xf32>) -> (x: tensor<3x2xf32>) {
    return %x : tensor<3x2xf32>
  }
  func @text(%t: tensor<2x3xi32>, %u: tensor<2x3xi32>) -> (e: tensor<2x3x3xf32>) {
    %w = tg.param @w : tensor<7x3xf32>
    %e = tg.embedding %w, %t : tensor<2x3x3xf32>
    return %e : tensor<2x3x3xf32>
  }
  func @score(%t: tensor<1x3xi32>, %u: tensor<1x3xi32>) -> (t: tensor<1x3xi32>) {
    return %t : tensor<1x3xi32>
  }
  func @images(%i: tensor<2x6xf32>) -> (i: tensor<2x6xf32>) {
    return %i : tensor<2x6xf32>
  }
  func @constants(%s: tensor<2xf32>) -> (s: tensor<2xf32>) {
    return %s : tensor<2xf32>
  }
}
)";

class FeedTest : public Files {
 protected:
  void SetUp() override {
    auto module = parse(kModel, "m.tgir");
    ASSERT_OK(module);
    module_ = std::move(*module);
  }
  /// x.npy with rows [i, -i], y.npy with i % 2.
  FeedOptions rows(int count) const {
    std::string x, y;
    for (int row = 0; row < count; ++row) {
      x += le<float>({static_cast<float>(row), static_cast<float>(-row)});
      y += le<int32_t>({row % 2});
    }
    put("x.npy", npy("<f4", "(" + std::to_string(count) + ", 2)", x));
    put("y.npy", npy("<i4", "(" + std::to_string(count) + ",)", y));
    FeedOptions options;
    options.train = "x=@" + path("x.npy") + ",y=@" + path("y.npy");
    options.seed = 11;
    return options;
  }
  Result<std::unique_ptr<Feed>> open(const FeedOptions& options, const char* train = "train",
                                     const char* eval = nullptr) const {
    return openFeed(options, *module_->func(train), eval ? module_->func(eval) : nullptr);
  }
  Result<std::unique_ptr<Feed>> open(const std::string& data, const char* train = "train") const {
    FeedOptions options;
    options.train = data;
    return open(options, train);
  }
  /// Rows of a step's x, which must be those of y too.
  static std::vector<int> rowsOf(const Result<Inputs>& inputs) {
    EXPECT_TRUE(inputs);
    std::vector<int> out;
    const HostArray& x = inputs->at("x");
    for (int64_t row = 0; row < x.shape[0]; ++row) {
      out.push_back(static_cast<int>(x.at(2 * row)));
      EXPECT_EQ(x.at(2 * row + 1), -x.at(2 * row));
      if (inputs->contains("y")) {
        EXPECT_EQ(inputs->at("y").at(row), out.back() % 2);
      }
    }
    return out;
  }
  std::unique_ptr<Module> module_;
};

TEST_F(FeedTest, AnEpochHasEachRowOnce) {
  const auto feed = open(rows(22));
  ASSERT_OK(feed);
  ASSERT_EQ((*feed)->stepsIn(1), 5);
  EXPECT_EQ((*feed)->itemsPerStep(), 4);
  EXPECT_EQ((*feed)->unit(), "rows");
  std::set<std::vector<int>> orders;
  std::set<int> ever;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    std::vector<int> order;
    for (int64_t step = 1; step <= 5; ++step)
      for (const int row : rowsOf((*feed)->batch(epoch * 5 + step))) order.push_back(row);
    EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), 20u) << "a row came twice";
    ever.insert(order.begin(), order.end());
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 20u);
  EXPECT_EQ(ever.size(), 22u) << "the two rows left out change";
}

TEST_F(FeedTest, StepsAreFunctionsOfSeedAndStep) {
  FeedOptions options = rows(40);
  const auto one = open(options), other = open(options);
  ASSERT_OK(one);
  EXPECT_EQ(rowsOf((*one)->batch(33)), rowsOf((*other)->batch(33)));
  EXPECT_EQ((*one)->fingerprint(), (*other)->fingerprint());
  options.seed = 12;
  EXPECT_NE(rowsOf((*open(options))->batch(33)), rowsOf((*one)->batch(33)));
  options.shuffle = false;
  const auto plain = open(options);
  EXPECT_EQ(rowsOf((*plain)->batch(2)), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(rowsOf((*plain)->batch(11)), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_NE((*plain)->fingerprint(), (*one)->fingerprint());
}

TEST(Bindings, AreSplitAtCommasThatANameFollows) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(splitBindings("x=@a,b.npy,y=@y.npy"), (Texts{"x=@a,b.npy", "y=@y.npy"}));
  EXPECT_EQ(splitBindings("x=@a,b,c.npz:k, %y = [1,2],z=rand(3,4)"),
            (Texts{"x=@a,b,c.npz:k", " %y = [1,2]", "z=rand(3,4)"}));
  EXPECT_EQ(splitBindings("x=?x2xf32=@a,b.bin/2,y=2x2xf32=[1,2,3,4]"),
            (Texts{"x=?x2xf32=@a,b.bin/2", "y=2x2xf32=[1,2,3,4]"}));
  EXPECT_EQ(splitBindings("x=@a,/b=c.npy"), (Texts{"x=@a,/b=c.npy"}));
}

TEST_F(FeedTest, StepsAreCountedFromOne) {
  put("t.txt", "abcabcabcabcabcabcabcabcabc");
  for (bool shuffle : {true, false}) {
    FeedOptions options = rows(22);
    options.shuffle = shuffle;
    const auto columns = open(options);
    options.train = "text:" + path("t.txt");
    const auto text = open(options, "text");
    for (const auto* feed : {&columns, &text}) {
      ASSERT_OK(*feed);
      for (int64_t step : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
        const auto batch = (**feed)->batch(step);
        ASSERT_FALSE(batch) << step;
        EXPECT_EQ(batch.error().message(), fmt::format("there is no batch of step {}; the first is 1", step));
        EXPECT_EQ((**feed)->notFinite(step), "");
      }
    }
  }
}

TEST_F(FeedTest, TheOrderOfTheBindingsDoesNotCount) {
  FeedOptions options;
  const std::string x = "x=?x2xf32=@" + put("x.bin", std::string(160, '\1')), y = "y=0";
  options.train = x + "," + y;
  const std::string before = (*open(options))->fingerprint();
  options.train = y + "," + x;
  EXPECT_EQ((*open(options))->fingerprint(), before);
}

TEST_F(FeedTest, TheFingerprintSeesBytesAndSizes) {
  const std::string before = (*open(rows(40)))->fingerprint();
  EXPECT_EQ(before.size(), 18u);
  EXPECT_TRUE(comparableData(before));
  EXPECT_FALSE(comparableData(before.substr(2))) << "of an older version";
  EXPECT_NE((*open(rows(41)))->fingerprint(), before);
  EXPECT_EQ((*open(rows(40)))->fingerprint(), before);
  std::string bytes = slurp("x.npy");
  bytes.back() ^= 1;
  FeedOptions options = rows(40);
  put("x.npy", bytes);
  EXPECT_NE((*open(options))->fingerprint(), before);
}

TEST_F(FeedTest, TheFingerprintSeesEveryByteOfAFile) {
  std::string values(3 << 20, '\0');
  FeedOptions options;
  options.train = "x=?x2xf32=@" + put("x.bin", values) + ",y=0";
  const std::string before = (*open(options))->fingerprint();
  for (const size_t at :
       {size_t{0}, size_t{1} << 20, values.size() / 2, 2 * (values.size() / 3), values.size() - 1}) {
    values[at] ^= 1;
    put("x.bin", values);
    EXPECT_NE((*open(options))->fingerprint(), before) << "byte " << at;
    values[at] ^= 1;
  }
  put("x.bin", values);
  EXPECT_EQ((*open(options))->fingerprint(), before) << "the time does not matter";
}

TEST_F(FeedTest, OfALargeFileTheFingerprintSeesSamplesAndTheTime) {
  // Sparse: 300 MiB that take no place.
  const std::string file = put("x.bin", "");
  std::filesystem::resize_file(file, int64_t{300} << 20);
  FeedOptions options;
  options.train = "x=?x2xf32=@" + file + ",y=0";
  const auto time = std::filesystem::last_write_time(file);
  const std::string before = (*open(options))->fingerprint();
  std::filesystem::last_write_time(file, time + std::chrono::seconds(2));
  EXPECT_NE((*open(options))->fingerprint(), before);
  std::filesystem::last_write_time(file, time);
  EXPECT_EQ((*open(options))->fingerprint(), before);
  {
    std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekp((int64_t{300} << 20) - 1);
    bytes.put(1);
  }
  std::filesystem::last_write_time(file, time);
  EXPECT_NE((*open(options))->fingerprint(), before) << "the last byte";
}

// Opening reads all of a file more than once: for its symbols or ids, and for the fingerprint.
TEST_F(FeedTest, AFileCutOffWhileItIsOpenedIsAnError) {
  const size_t size = size_t{8} << 20;
  FeedOptions raw, text;
  const std::string file = put("x.bin", std::string(size, 'a'));
  raw.train = "x=?x2xf32=@" + file + ",y=0";
  text.train = "text:" + file;
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) {
      for (const size_t now : {size_t{1} << 14, size}) {
        std::filesystem::resize_file(file, now);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
    }
  });
  int failedRaw = 0, failedText = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!(failedRaw && failedText) && std::chrono::steady_clock::now() < end) {
    failedRaw += !open(raw);
    failedText += !open(text, "text");
  }
  stop = true;
  other.join();
  EXPECT_GT(failedRaw, 0);
  EXPECT_GT(failedText, 0);
}

TEST_F(FeedTest, ASplitIsDisjointAndWhole) {
  for (const bool shuffle : {true, false}) {
    FeedOptions options = rows(40);
    options.valFraction = 0.25;
    options.shuffle = shuffle;
    const auto feed = open(options, "train", "eval");
    ASSERT_OK(feed);
    EXPECT_EQ((*feed)->stepsIn(1), 7);
    ASSERT_EQ((*feed)->evalBatches(), 3) << "ten rows by three";
    std::set<int> trained, evaluated;
    for (int64_t step = 1; step <= 70; ++step)
      for (const int row : rowsOf((*feed)->batch(step))) trained.insert(row);
    for (int64_t index = 0; index < 3; ++index)
      for (const int row : rowsOf((*feed)->evalBatch(index))) evaluated.insert(row);
    EXPECT_EQ(evaluated.size(), 9u);
    EXPECT_EQ(trained.size(), shuffle ? 30u : 28u);
    for (const int row : evaluated) EXPECT_FALSE(trained.contains(row)) << row;
    EXPECT_EQ(*evaluated.begin() == 30 && *evaluated.rbegin() == 38, !shuffle) << "the last rows, in order";
    EXPECT_FAILS((*feed)->evalBatch(3), "there are 3 batches", "got index 3");
  }
}

TEST_F(FeedTest, EvaluationHasItsOwnFiles) {
  FeedOptions options = rows(8);
  options.val = "x=@" + put("v.npy", npy("<f4", "(7, 2)", std::string(56, '\0')));
  const auto feed = open(options, "train", "eval");
  ASSERT_OK(feed);
  EXPECT_EQ((*feed)->evalBatches(), 2);
  EXPECT_FALSE((*feed)->evalBatch(0)->contains("y"));
  EXPECT_EQ((*feed)->describe().size(), 3u);
  options.valFraction = 0.5;
  EXPECT_FAILS(open(options, "train", "eval"), "data of its own");
  options.valFraction = 0;
  EXPECT_FAILS(open(options), "no function that evaluates");
  options.val += ",y=0";
  EXPECT_FAILS(open(options, "train", "eval"), "evaluation:", "'y'", "not an input of @eval");
  options.val = "";
  options.valFraction = 1;
  EXPECT_FAILS(open(options, "train", "eval"), "below 1, got 1");
  options.valFraction = 0.1;
  EXPECT_FAILS(open(options, "train", "eval"), "has 1 row kept for evaluation, but 'x' takes 3");
}

TEST_F(FeedTest, TheFingerprintSeesEvaluationData) {
  FeedOptions options = rows(8);
  std::string zeros(56, '\0');
  options.val = "x=@" + put("v.npy", npy("<f4", "(7, 2)", zeros));
  const std::string before = (*open(options, "train", "eval"))->fingerprint();
  EXPECT_EQ((*open(options, "train", "eval"))->fingerprint(), before);
  zeros.back() ^= 1;
  put("v.npy", npy("<f4", "(7, 2)", zeros));
  EXPECT_NE((*open(options, "train", "eval"))->fingerprint(), before);
  options.val = "";
  EXPECT_NE((*open(options))->fingerprint(), before);
}

TEST_F(FeedTest, EvaluationAloneIsTheSameBatches) {
  FeedOptions options = rows(8);
  options.val =
      "x=@" + put("v.npy", npy("<f4", "(7, 2)", le<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})));
  auto module = parse(kModel, "m");
  ASSERT_OK(module);
  const auto both = open(options, "train", "eval");
  const auto alone = openEvalFeed(options, *(*module)->func("eval"));
  ASSERT_OK(alone);
  ASSERT_EQ((*alone)->evalBatches(), (*both)->evalBatches());
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_EQ(valuesOf((*alone)->evalBatch(i)->at("x")), valuesOf((*both)->evalBatch(i)->at("x")));
  EXPECT_FAILS((*alone)->evalBatch(2), "there are 2 batches");
  EXPECT_FAILS((*alone)->batch(1), "no data for training");
}

TEST_F(FeedTest, WrongBindingsAreRefused) {
  const std::string good = rows(8).train, x = "x=@" + path("x.npy");
  EXPECT_FAILS(open(""), "give the sources of the inputs");
  EXPECT_FAILS(open(x), "input 'y' of type tensor<4xi32> has no data");
  EXPECT_FAILS(open(good + ",z=0"), "'z'", "not an input of @train", "x, y");
  EXPECT_FAILS(open(good + "," + x), "two sources for 'x'");
  EXPECT_FAILS(open(x + ",y=@" + path("x.npy")), "input 'y'", "8x2xf32", "tensor<4xi32> is expected");
  EXPECT_FAILS(open("x=@" + path("y.npy") + ",y=0"), "input 'x'", "8xi32", "a divisor makes f32");
  EXPECT_FAILS(open("x=@" + put("w.npy", npy("<f4", "(4, 3)", std::string(48, '\0'))) + ",y=0"), "w.npy",
               "holds 4x3xf32", "'x' is tensor<4x2xf32>", "all extents but the first");
  EXPECT_FAILS(open("x=@" + put("n.npy", npy("<f4", "(0, 2)", "")) + ",y=0"), "has no rows");
  EXPECT_FAILS(open("x=@" + put("f.npy", npy("<f4", "(3, 2)", std::string(24, '\0'))) + ",y=0"),
               "has 3 rows, but 'x' takes 4");
  EXPECT_FAILS(open(x + ",y=@" + put("l.npy", npy("<i4", "(9,)", std::string(36, '\0')))),
               "'x' has 8 rows and 'y' 9");
  EXPECT_FAILS(open(x + ",y=2"), "'y=2' holds the id 2", "%y indexes 2 rows");
  EXPECT_FAILS(open(x + ",y=@" + put("i.npy", npy("<i8", "(8,)", le<int64_t>({0, 1, 0, 1, 0, 1, 0, 5})))),
               "i.npy", "holds the id 5, but %y indexes 2 rows: ids are 0 … 1");
}

TEST_F(FeedTest, BooleansAreJudgedBeforeTheFirstStepAlsoIfDivided) {
  const std::string good(10, '\1'), bad = good.substr(1) + '\5';
  FeedOptions options;
  options.train = "s=@" + put("b.npy", npy("|b1", "(10,)", bad)) + "/2";
  EXPECT_FAILS(open(options, "constants"), "input 's'", "b.npy", "expected booleans stored as 0 or 1, got 5");
  options.train = "s=@" + put("g.npy", npy("|b1", "(10,)", good)) + "/1e-300";
  const auto feed = open(options, "constants");
  ASSERT_OK(feed);
  EXPECT_HAS((*feed)->notFinite(1), "s is inf in row ");
}

TEST_F(FeedTest, UnsignedIdsAreJudgedToo) {
  ASSERT_OK(open("i=[0,6,1,2]", "unsigned"));
  EXPECT_FAILS(open("i=[0,4000000000,1,2]", "unsigned"), "holds the id 4000000000, but %i indexes 7 rows");
  EXPECT_FAILS(open("i=@" + put("u.npy", npy("<u4", "(4,)", le<uint32_t>({6, 0, 7, 1}))), "unsigned"),
               "holds the id 7, but %i indexes 7 rows: ids are 0 … 6");
}

TEST_F(FeedTest, IdsAreJudgedThroughWhatRearrangesThem) {
  for (const char* op :
       {"tg.swap_axes %i {axis0 = 0, axis1 = 1} : tensor<2x4xi32>",
        "tg.concat %i, %i {axis = 1} : tensor<4x4xi32>", "tg.stack %i, %i {axis = 0} : tensor<2x4x2xi32>",
        "tg.split %i {axis = 0, sections = 1} : tensor<4x2xi32>",
        "tg.tile %i {repeats = [1, 3]} : tensor<4x6xi32>", "tg.flip %i {axes = [0]} : tensor<4x2xi32>"}) {
    SCOPED_TRACE(op);
    const std::string_view type = std::string_view(op).substr(std::string_view(op).find("tensor"));
    const std::string rows = fmt::format("{}x3xf32>", type.substr(0, type.find("xi32")));
    auto module =
        parse(fmt::format("module @m {{ param @w : tensor<7x3xf32> func @train(%i: tensor<4x2xi32>) -> "
                          "(rows: {0}) {{ %w = tg.param @w : tensor<7x3xf32> %j = {1} "
                          "%rows = tg.embedding %w, %j : {0} return %rows : {0} }} }}",
                          rows, op),
              "m");
    ASSERT_OK(module);
    FeedOptions options;
    options.train = "i=9";
    EXPECT_FAILS(openFeed(options, *(*module)->func("train"), nullptr),
                 "holds the id 9, but %i indexes 7 rows");
    options.train = "i=6";
    ASSERT_OK(openFeed(options, *(*module)->func("train"), nullptr));
  }
}

TEST_F(FeedTest, IntegersThatWereJoinedWithIdsAreNoIds) {
  auto module = parse(R"(module @m {
    param @w : tensor<7x3xf32>
    func @train(%i: tensor<4xi32>, %n: tensor<4xi32>) -> (rows: tensor<4x3xf32>, n: tensor<4xi32>) {
      %w = tg.param @w : tensor<7x3xf32>
      %all = tg.concat %i, %n {axis = 0} : tensor<8xi32>
      %a, %b = tg.split %all {axis = 0, sections = 2} : tensor<4xi32>, tensor<4xi32>
      %rows = tg.embedding %w, %a : tensor<4x3xf32>
      return %rows, %b : tensor<4x3xf32>, tensor<4xi32>
    }
  })",
                      "m");
  ASSERT_OK(module);
  FeedOptions options;
  options.train = "i=1,n=100";
  ASSERT_OK(openFeed(options, *(*module)->func("train"), nullptr));
}

TEST_F(FeedTest, ImagesOfIdxMayBeFlat) {
  const std::string header("\0\0\x08\x03\0\0\0\2\0\0\0\2\0\0\0\3", 16);
  const std::string file =
      put("i-idx3-ubyte", header + std::string("\0\xff\0\xff\0\xff\x33\x33\0\0\0\0", 12));
  EXPECT_FAILS(open("i=@" + file, "images"), "2x2x3xu8", "a divisor makes f32");
  const auto feed = open("i=@" + file + "/255", "images");
  ASSERT_OK(feed);
  const auto batch = (*feed)->batch(1);
  ASSERT_OK(batch);
  const HostArray& images = batch->at("i");
  EXPECT_EQ(images.type(), Type::tensor(DType::f32, {2, 6}));
  EXPECT_EQ(std::set<double>({images.at(1), images.at(7)}), std::set<double>({1.0, double{0.2f}}));
  const std::string wide = put("w-idx2-ubyte", std::string("\0\0\x08\2\0\0\0\2\0\0\0\1ab", 14));
  EXPECT_FAILS(open("i=@" + wide + "/255", "images"), "2x1xu8", "all extents but the first");
}

TEST_F(FeedTest, RanksShareTheBatchesOfEachEpoch) {
  auto ofRank = [&](const FeedOptions& options, int rank, int ranks) {
    return rankFeed(std::move(*open(options)), rank, ranks, 1, *module_);
  };
  // Five batches an epoch: 4 epochs are 20 batches, and ranks that are more than an epoch's batches have epochs too.
  EXPECT_EQ(ofRank(rows(22), 0, 2)->stepsIn(1), 3);
  EXPECT_EQ(ofRank(rows(22), 0, 2)->stepsIn(4), 10);
  EXPECT_EQ(ofRank(rows(22), 0, 8)->stepsIn(1), 1);
  EXPECT_EQ(ofRank(rows(22), 0, 8)->stepsIn(4), 3);
  const auto feed = open(rows(22));
  for (int64_t step = 1; step <= 6; ++step)
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_EQ(rowsOf(ofRank(rows(22), rank, 2)->batch(step)), rowsOf((*feed)->batch(2 * step + rank - 1)));
}

TEST_F(FeedTest, OneBatchIsThatOfTheFirstStepOnEveryRank) {
  const std::vector<int> first = rowsOf((*open(rows(22)))->batch(1));
  FeedOptions options = rows(22);
  options.oneBatch = true;
  const auto feed = open(options);
  ASSERT_OK(feed);
  EXPECT_EQ(rowsOf((*feed)->batch(1)), first);
  EXPECT_EQ(rowsOf((*feed)->batch(7)), first);
  const auto second = rankFeed(std::move(*open(options)), 1, 2, 1, *module_);
  EXPECT_EQ(rowsOf(second->batch(1)), first);
  EXPECT_EQ(rowsOf(second->batch(4)), first);
}

TEST_F(FeedTest, TextIsSplitAndReadInOrder) {
  std::string text;
  for (int at = 0; at < 100; ++at) text += static_cast<char>('a' + at % 7);
  FeedOptions options;
  options.train = "text:" + put("t.txt", text);
  options.valFraction = 0.2;
  const auto feed = open(options, "text", "score");
  ASSERT_OK(feed);
  EXPECT_EQ((*feed)->unit(), "tok");
  EXPECT_EQ((*feed)->itemsPerStep(), 6);
  EXPECT_EQ((*feed)->stepsIn(1), 13) << "79 / 6";
  ASSERT_EQ((*feed)->evalBatches(), 6) << "19 / 3";
  for (int64_t index = 0; index < 6; ++index) {
    const auto batch = (*feed)->evalBatch(index);
    ASSERT_OK(batch);
    const auto first = static_cast<double>((80 + 3 * index) % 7);
    EXPECT_EQ(batch->at("t").at(0), first);
    EXPECT_EQ(batch->at("u").at(1), static_cast<double>((82 + 3 * index) % 7));
  }
  options.valFraction = 0;
  options.shuffle = false;
  const auto plain = open(options, "text");
  ASSERT_OK(plain);
  EXPECT_EQ((*plain)->stepsIn(1), 16);
  EXPECT_EQ((*plain)->batch(3)->at("t").at(3), static_cast<double>(15 % 7));
  EXPECT_EQ((*plain)->batch(19)->at("t").bytes, (*plain)->batch(3)->at("t").bytes);
}

TEST_F(FeedTest, TextsAreJudged) {
  FeedOptions options;
  options.train = "text:" + put("t.txt", "abcabcabc");
  options.vocabulary = Vocabulary::ofText("ab");
  EXPECT_FAILS(open(options, "text"), "t.txt", "'c' at byte 2");
  options.vocabulary = Vocabulary::ofText("abcx");
  EXPECT_EQ((*open(options, "text"))->vocabulary()->symbols(), "abcx");
  options.vocabulary = {};
  options.val = "text:" + put("v.txt", "abcZ");
  EXPECT_FAILS(open(options, "text", "score"), "evaluation:", "v.txt", "'Z' at byte 3");
  options.val = "text:" + put("v.txt", "abc");
  EXPECT_FAILS(open(options, "text", "score"), "v.txt", "takes 4 tokens", "there are 3");
  EXPECT_FAILS(open("text:" + put("w.txt", "abcdefgh"), "text"), "8 distinct characters",
               "%t indexes 7 rows");
  EXPECT_FAILS(open("text:" + put("s.txt", "abc"), "text"), "s.txt", "at least 4 tokens", "got 3");
  EXPECT_FAILS(open("text:", "text"), "expected the name of a data file, got an empty one");
  EXPECT_FAILS(open("text:" + path("s.txt")), "two i32 inputs", "@train has others");
  options = rows(8);
  options.vocabulary = Vocabulary::ofText("ab");
  EXPECT_FAILS(open(options), "vocabulary of 2 characters");
  options = rows(8);
  options.val = "text:" + path("t.txt");
  EXPECT_FAILS(open(options, "train", "score"), "needs training on one");
}

TEST_F(FeedTest, TokenFilesAreJudgedByTheirTables) {
  const auto file = [&](std::initializer_list<uint16_t> tokens) {
    std::string bytes = le<int32_t>({20240520, 1, static_cast<int32_t>(tokens.size())});
    bytes.resize(1024, '\0');
    return "tokens:" + put("t.bin", bytes + le<uint16_t>(tokens));
  };
  const auto feed = open(file({6, 5, 4, 3, 2, 1, 0}), "text");
  ASSERT_OK(feed);
  const auto batch = (*feed)->batch(1);
  EXPECT_EQ(batch->at("u").at(0), batch->at("t").at(0) - 1);
  EXPECT_EQ((*feed)->vocabulary(), nullptr);
  EXPECT_FAILS(open(file({1, 2, 3, 7, 1}), "text"), "t.bin holds the id 7 at token 3", "%t indexes 7 rows");
}

TEST_F(FeedTest, ConstantsAreTheSameEveryStep) {
  const auto feed = open("s=rand(5)", "constants");
  ASSERT_OK(feed);
  EXPECT_EQ((*feed)->batch(1)->at("s").bytes, (*feed)->batch(9)->at("s").bytes);
  EXPECT_EQ((*feed)->stepsIn(1), 0);
  EXPECT_EQ((*feed)->evalBatches(), 0);
  FeedOptions options;
  options.train = "s=1";
  options.valFraction = 0.5;
  EXPECT_FAILS(open(options, "constants", "constants"), "no rows can be kept");
}

}  // namespace
}  // namespace tg
