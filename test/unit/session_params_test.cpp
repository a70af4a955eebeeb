// SPDX-License-Identifier: Apache-2.0
// Moving parameters, and sharing them between sessions.
#include "test/unit/session_support.h"

#include <map>

namespace tg {
namespace {

/// Another model over two of the parameters, in another order, with one of its own: w1 [3, 8], w2 [8, 2].
constexpr const char* kOther = R"(
module @other {
  param @w2 : tensor<8x2xf32> {init = ones}
  param @scale : tensor<2xf32> {init = constant(0.5)}
  param @w1 : tensor<3x8xf32> {init = ones}
  func @train(%x: tensor<4x3xf32>, %y: tensor<4x2xf32>) -> (loss: tensor<f32>) {
    %w1 = tg.param @w1 : tensor<3x8xf32>
    %w2 = tg.param @w2 : tensor<8x2xf32>
    %c = tg.param @scale : tensor<2xf32>
    %h = tg.matmul %x, %w1 : tensor<4x8xf32>
    %o = tg.matmul %h, %w2 : tensor<4x2xf32>
    %p = tg.mul %o, %c : tensor<4x2xf32>
    %d = tg.sub %p, %y : tensor<4x2xf32>
    %s = tg.square %d : tensor<4x2xf32>
    %loss = tg.mean %s {axes = [0, 1]} : tensor<f32>
    return %loss : tensor<f32>
  }
  func @predict(%x: tensor<1x3xf32>) -> (p: tensor<1x2xf32>) {
    %w1 = tg.param @w1 : tensor<3x8xf32>
    %w2 = tg.param @w2 : tensor<8x2xf32>
    %h = tg.matmul %x, %w1 : tensor<1x8xf32>
    %p = tg.matmul %h, %w2 : tensor<1x2xf32>
    return %p : tensor<1x2xf32>
  }
}
)";

Inputs otherInputs() { return {{"x", ramp({4, 3}, 1, -0.2)}, {"y", ramp({4, 2}, 0.3, 0.1)}}; }

const HostArray& expectNamed(const NamedArrays& arrays, const std::string& name) {
  if (const HostArray* array = named(arrays, name)) return *array;
  ADD_FAILURE() << "no " << name;
  return arrays.front().second;
}

/// x·w1·w2 in f64.
std::vector<double> product(const HostArray& x, const HostArray& w1, const HostArray& w2) {
  std::vector<double> out(2, 0);
  for (int64_t j = 0; j < 2; ++j)
    for (int64_t k = 0; k < 8; ++k)
      for (int64_t i = 0; i < 3; ++i)
        out[static_cast<size_t>(j)] += x.at(i) * w1.at(i * 8 + k) * w2.at(k * 2 + j);
  return out;
}

void expectPredicts(Session& reader, const NamedArrays& params) {
  HostArray x = ramp({1, 3}, 0.5, 0.25);
  auto got = reader.run("predict", {{"x", x}});
  ASSERT_TRUE(got) << got.error().str();
  std::vector<double> expected = product(x, expectNamed(params, "w1"), expectNamed(params, "w2"));
  for (int64_t j = 0; j < 2; ++j)
    EXPECT_NEAR(got->results[0].second.at(j), expected[static_cast<size_t>(j)], 1e-5);
}

TEST_F(SessionTest, uploadsAreAllOrNothing) {
  auto session = open(options());
  NamedArrays before = *session->downloadParams();
  HostArray w2 = ramp({8, 2}, 1, 1);
  EXPECT_EQ(messageOf(session->uploadParams({{"w2", w2}})),
            "no value for @w1, @b1; the module has @w1, @b1, @w2, and giving a part of them needs `partial`");
  EXPECT_EQ(messageOf(session->uploadParams({{"w2", w2}, {"w3", w2}}, {.partial = true})),
            "the module has no param @w3; it has @w1, @b1, @w2");
  EXPECT_EQ(messageOf(session->uploadParams({{"w2", w2}, {"b1", ramp({9}, 0, 1)}}, {.partial = true})),
            "@b1 is tensor<8xf32>, of 8 elements, and not tensor<9xf32>, of 9");
  HostArray ints = HostArray::zeros(DType::i32, {8});
  EXPECT_EQ(messageOf(session->uploadParams({{"w2", w2}, {"b1", ints}}, {.partial = true})),
            "@b1 is tensor<8xf32>, of 8 elements, and not tensor<8xi32>, of 8");
  HostArray torn = ramp({8}, 0, 1);
  torn.bytes.resize(8);
  EXPECT_EQ(messageOf(session->uploadParams({{"w2", w2}, {"b1", torn}}, {.partial = true})),
            "@b1 of type tensor<8xf32> takes 32 bytes, and 8 were given");
  EXPECT_EQ(messageOf(session->uploadParams({{"w2", w2}, {"w2", w2}}, {.partial = true})),
            "@w2 is given twice");
  EXPECT_TRUE(sameBits(*session->downloadParams(), before));
  ASSERT_TRUE(session->uploadParams({{"w2", w2}}, {.partial = true}));
  EXPECT_EQ((*session->downloadParams())[2].second.bytes, w2.bytes);
  EXPECT_EQ(session->paramNames(), (std::vector<std::string>{"w1", "b1", "w2"}));
}

TEST_F(SessionTest, allParamsMoveInOneSubmission) {
  auto staged = vulkan::Device::open({"auto", true, true, {}});
  ASSERT_TRUE(staged) << staged.error().message();
  SessionOptions apart = options();
  apart.device = *staged;
  auto session = open(apart);
  auto submissions = [&] { return *(*staged)->completed(); };
  lossAfter(*session, 2);
  auto other = open(options());
  lossAfter(*other, 2);
  uint64_t before = submissions();
  auto params = session->downloadParams();
  ASSERT_TRUE(params) << params.error().message();
  EXPECT_EQ(submissions() - before, 1u);
  EXPECT_TRUE(sameBits(*params, *other->downloadParams()));
  auto states = session->downloadStates();
  ASSERT_TRUE(states) << states.error().message();
  EXPECT_EQ(submissions() - before, 2u);
  EXPECT_TRUE(sameBits(*states, *other->downloadStates()));
  ASSERT_TRUE(session->reset({.seed = 4}));
  before = submissions();
  ASSERT_TRUE(session->uploadParams(*params) && session->uploadStates(*states));
  EXPECT_EQ(submissions() - before, 2u);
  EXPECT_TRUE(sameBits(*session->downloadParams(), *params));
  EXPECT_TRUE(sameBits(*session->downloadStates(), *states));
}

TEST_F(SessionTest, borrowedParamsAreSeenAtOnce) {
  auto owner = open(options());
  SessionOptions reading = options();
  reading.trainPipeline = "";
  reading.sharedParams = *owner->params();
  auto reader = open(parsed(kOther), reading);
  ASSERT_TRUE(reader);
  expectPredicts(*reader, *owner->downloadParams());
  lossAfter(*owner, 3);
  expectPredicts(*reader, *owner->downloadParams());
  // A reset starts the reader's own parameters over, and leaves the borrowed ones alone.
  NamedArrays trained = *owner->downloadParams();
  ASSERT_TRUE(reader->uploadParams({{"scale", ramp({2}, 7, 1)}}, {.partial = true}));
  ASSERT_TRUE(reader->reset());
  EXPECT_TRUE(sameBits(*owner->downloadParams(), trained));
  EXPECT_EQ(expectNamed(*reader->downloadParams(), "scale").at(1), 0.5);
  // What the reader uploads is the owner's too.
  ASSERT_TRUE(reader->uploadParams({{"w2", ramp({8, 2}, 0, 0.1)}}, {.partial = true}));
  EXPECT_EQ(expectNamed(*owner->downloadParams(), "w2").bytes, ramp({8, 2}, 0, 0.1).bytes);
}

TEST_F(SessionTest, borrowerTrainsWhatItBorrows) {
  std::map<bool, NamedArrays> ownerParams, borrowerParams;
  for (bool onDevice : {false, true}) {
    SessionOptions base = onDevice ? options() : interpOptions();
    auto owner = open(model(), base);
    base.sharedParams = *owner->params();
    auto borrower = open(parsed(kOther), base);
    ASSERT_TRUE(borrower);
    NamedArrays before = *owner->downloadParams();
    for (int i = 0; i < 4; ++i) {
      lossAfter(*owner, 1);
      ASSERT_TRUE(borrower->step(otherInputs()));
    }
    EXPECT_EQ(borrower->downloadParamGrads()->size(), 3u);
    EXPECT_FALSE(sameBits(*owner->downloadParams(), before));
    ownerParams[onDevice] = *owner->downloadParams();
    borrowerParams[onDevice] = *borrower->downloadParams();
    EXPECT_EQ(expectNamed(ownerParams[onDevice], "w1").bytes,
              expectNamed(borrowerParams[onDevice], "w1").bytes);
  }
  expectClose(ownerParams[true], ownerParams[false], 1e-5);
  expectClose(borrowerParams[true], borrowerParams[false], 1e-5);
}

TEST_F(SessionTest, paramsOutliveTheirOwner) {
  auto owner = open(options());
  lossAfter(*owner, 2);
  SessionOptions reading = options();
  reading.trainPipeline = "";
  reading.sharedParams = *owner->params();
  NamedArrays trained = *owner->downloadParams();
  auto reader = open(parsed(kOther), reading);
  reading.sharedParams.clear();
  owner.reset();
  expectPredicts(*reader, trained);
  // And a third one borrows from the second what the first made.
  reading.sharedParams = *reader->params();
  auto third = open(parsed(kOther), reading);
  reading.sharedParams.clear();
  reader->close();
  expectPredicts(*third, trained);
}

TEST_F(SessionTest, sharingIsRefusedWithTheReason) {
  auto owner = open(options());
  SessionOptions reading = options();
  reading.trainPipeline = "";
  reading.sharedParams = *owner->params();
  auto refusal = [&](const std::string& text, SessionOptions with) {
    return messageOf(Session::create(parsed(text), std::move(with)));
  };
  std::string wider = R"(module @wide {
  param @w1 : tensor<3x9xf32>
  func @f() -> (w: tensor<3x9xf32>) {
    %w = tg.param @w1 : tensor<3x9xf32>
    return %w : tensor<3x9xf32>
  }
})";
  EXPECT_EQ(refusal(wider, reading),
            "sharedParams: @w1 is tensor<3x9xf32> (108 bytes) here, and tensor<3x8xf32> (96 bytes) there");
  EXPECT_EQ(refusal(edited(wider, "@w1", "@v1"), reading),
            "sharedParams: the module has none of @b1, @w1, @w2");

  SessionOptions mixed = reading;
  mixed.device = "interp";
  EXPECT_NE(refusal(kOther, mixed).find("this session runs on interp: give both sessions one device"),
            std::string::npos);
  auto second = vulkan::Device::open({});
  ASSERT_TRUE(second);
  mixed.device = *second;
  EXPECT_NE(refusal(kOther, mixed).find("opened once more: give both sessions one device"),
            std::string::npos);
  auto oracle = interpreter();
  mixed = reading;
  mixed.sharedParams = *oracle->params();
  EXPECT_NE(refusal(kOther, mixed).find("lives on interp"), std::string::npos);
  EXPECT_TRUE(owner->step(trainInputs()));
}

TEST_F(SessionTest, plannedModulesHaveTheirHomesAlready) {
  auto owner = open(options());
  SessionOptions reading = options();
  reading.trainPipeline = "";
  auto planned = open(parsed(kOther), reading)->module(Stage::planned);
  ASSERT_TRUE(planned) << planned.error().str();
  reading.sharedParams = *owner->params();
  EXPECT_NE(messageOf(Session::create(std::move(*planned), reading)).find("has its home already"),
            std::string::npos);
}

}  // namespace
}  // namespace tg
