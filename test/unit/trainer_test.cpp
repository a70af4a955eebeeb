// SPDX-License-Identifier: Apache-2.0
// When the training loop evaluates, saves, keeps, skips and ends. One parameter that moves by a formula, so
// that every loss is known.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ir/parser.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/trainer.h"
#include "test/unit/data_test_support.h"

namespace tg {
namespace {

// The gradient of (w - x)² is 2 (w - x); with a rate of 0.1 and x = 2, w goes 0, 0.4, 0.72, 0.976, 1.1808, …
// The distance of w from 1 is least after step 3.
constexpr const char* kPull = R"(
module @m {
  param @w : tensor<1xf32> {init = zeros}
  func @train(%x: tensor<1xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<1xf32>
    %d = tg.sub %w, %x : tensor<1xf32>
    %s = tg.square %d : tensor<1xf32>
    %loss = tg.mean %s {axes = [0]} : tensor<f32>
    return %loss : tensor<f32>
  }
  func @eval(%x: tensor<1xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<1xf32>
    %d = tg.sub %w, %x : tensor<1xf32>
    %s = tg.square %d : tensor<1xf32>
    %loss = tg.mean %s {axes = [0]} : tensor<f32>
    return %loss : tensor<f32>
  }
}
)";

double weightAfter(int64_t steps) {
  double w = 0;
  for (int64_t step = 0; step < steps; ++step) w += 0.2 * (2 - w);
  return w;
}

/// x is 2 in every step and 1, 3, 5, … in the batches of evaluation.
class Twos : public Feed {
 public:
  int64_t badStep = 0;                 ///< its x is no number
  int64_t badFrom = 0;                 ///< nor that of any step from here on, unless 0
  mutable int64_t badEvaluations = 0;  ///< the first so many evaluations see no number
  int64_t batches = 1;
  int64_t lostFrom = 0;         ///< from this step on there is no batch, unless 0
  bool lostEvaluation = false;  ///< there is none of evaluation

  Result<Inputs> batch(int64_t step, Inputs) const override {
    if (lostFrom && step >= lostFrom) return fail("the file changed");
    const bool bad = step == badStep || (badFrom && step >= badFrom);
    return of(bad ? std::numeric_limits<double>::quiet_NaN() : 2.0);
  }
  std::string notFinite(int64_t step) const override { return step == badStep ? "x is nan in row 7" : ""; }
  Result<Inputs> evalBatch(int64_t index, Inputs) const override {
    if (lostEvaluation) return fail("the file changed");
    if (badEvaluations > 0 && badEvaluations-- > 0) return of(std::numeric_limits<double>::quiet_NaN());
    return of(1.0 + 2.0 * static_cast<double>(index));
  }
  int64_t itemsPerStep() const override { return 1; }
  std::string unit() const override { return "rows"; }
  int64_t stepsIn(int64_t) const override { return 0; }
  int64_t evalBatches() const override { return batches; }
  const Vocabulary* vocabulary() const override { return nullptr; }
  std::string fingerprint() const override { return ""; }
  std::vector<std::string> describe() const override { return {}; }

 private:
  static Result<Inputs> of(double value) {
    Inputs out;
    out.emplace("x", arrayOf(DType::f32, {1}, {value}));
    return out;
  }
};

/// Writes down what it hears, and asks for things at a step.
class Listener : public TrainObserver {
 public:
  explicit Listener(TrainControl& control) : control_(control) {}
  int64_t stopAt = 0, checkpointAt = 0;
  int64_t wantsEach = 0;  ///< the session as every so many steps leave it
  int64_t waits = 0;
  const Session* session = nullptr;
  std::vector<int64_t> begun;  ///< the session's steps when each step was heard of
  std::vector<std::string> heard, skipped;
  std::vector<double> losses, evaluations;

  bool wantsSession(int64_t step) const override { return wantsEach && step % wantsEach == 0; }
  Result<void> onStep(const StepResult& step) override {
    if (session) begun.push_back(session->steps());
    losses.push_back(step.loss);
    if (step.step == stopAt) control_.stop = true;
    if (step.step == checkpointAt) control_.checkpoint = true;
    return {};
  }
  Result<void> onEval(const EvalResult& eval) override {
    heard.push_back(fmt::format("eval {}{}", eval.step, eval.best ? " best" : ""));
    evaluations.push_back(eval.loss);
    return {};
  }
  void onSkip(const StepResult& step, const std::string& why, bool) override {
    heard.push_back(fmt::format("skip {}", step.step));
    skipped.push_back(why);
  }
  void onSave(const std::string&, int64_t step) override { heard.push_back(fmt::format("save {}", step)); }
  void onWait(double) override { ++waits; }
  void onNote(const std::string& text) override { heard.push_back(text); }

 private:
  TrainControl& control_;
};

using Heard = std::vector<std::string>;

class TrainerTest : public Files {
 protected:
  void SetUp() override {
    auto module = parse(kPull, "m.tgir");
    ASSERT_OK(module);
    SessionOptions options;
    options.device = "interp";
    options.seed = 0;
    options.trainPipeline = "append-grad,append-sgd{lr=0.1}";
    auto session = Session::create(std::move(*module), options);
    ASSERT_OK(session);
    session_ = std::move(*session);
  }
  TrainSummary train(TrainerOptions options, TrainState state = {}) {
    options.runDir = directory_;
    Trainer trainer(*session_, feed_, options, state);
    auto summary = trainer.run(listener_, control_);
    EXPECT_TRUE(summary) << summary.error().message();
    state_ = trainer.state();
    return summary ? *summary : TrainSummary{};
  }
  double weight() {
    auto params = session_->downloadParams();
    EXPECT_TRUE(params);
    return params->front().second.at(0);
  }
  /// Steps of the checkpoints that are there, and whether each is whole.
  std::vector<int64_t> kept() const {
    std::vector<int64_t> steps;
    auto entries = listCheckpoints(directory_);
    EXPECT_TRUE(entries);
    for (const CheckpointEntry& entry : *entries) {
      EXPECT_EQ(entry.damage, "");
      steps.insert(steps.begin(), entry.step);
    }
    return steps;
  }

  std::unique_ptr<Session> session_;
  Twos feed_;
  TrainControl control_;
  Listener listener_{control_};
  TrainState state_;
};

TEST_F(TrainerTest, StepsFollowTheFormula) {
  const TrainSummary summary = train({.steps = 30});
  EXPECT_EQ(summary.end, TrainEnd::done);
  ASSERT_EQ(listener_.losses.size(), 30u);
  double last = 0;
  for (size_t step = 0; step < 30; ++step) {
    const double loss = std::pow(weightAfter(static_cast<int64_t>(step)) - 2, 2);
    EXPECT_NEAR(listener_.losses[step], loss, 1e-5);
    if (step >= 10) last += loss / 20;
  }
  EXPECT_EQ(summary.meanOf, 20);
  EXPECT_NEAR(summary.meanLoss, last, 1e-6) << "of the last 20 steps alone";
  EXPECT_NEAR(weight(), weightAfter(30), 1e-5);
}

TEST_F(TrainerTest, StepsAreWholeStridesOfTheSession) {
  auto refused = [&](TrainerOptions options, int64_t from = 0) {
    TrainState state;
    state.step = from;
    Trainer trainer(*session_, feed_, options, state);
    auto summary = trainer.run(listener_, control_);
    return summary ? "none" : summary.error().message();
  };
  EXPECT_EQ(refused({.steps = 7, .stride = 3}),
            "steps = 7 is not a multiple of stride = 3, which each step of the session counts: 6 and 9 are");
  EXPECT_EQ(refused({.steps = 2, .stride = 3}),
            "steps = 2 is not a multiple of stride = 3, which each step of the session counts: 3 is");
  EXPECT_EQ(refused({.steps = 9, .stride = 3}, 4), "the state's step = 4 is not a multiple of stride = 3, "
                                                   "which each step of the session counts: 3 and 6 are");
  EXPECT_EQ(refused({.steps = 6, .stride = 0}), "stride = 0 is not a number of steps, 1 or more");
  EXPECT_EQ(refused({.steps = -1}), "steps = -1 is not a number of steps, 0 or more");
  EXPECT_EQ(session_->steps(), 0) << "nothing has run";
  EXPECT_TRUE(listener_.losses.empty());
  EXPECT_EQ(train({.steps = 9, .stride = 3}).step, 9);
  EXPECT_EQ(session_->steps(), 3);
}

TEST_F(TrainerTest, EvaluatesEveryFewStepsAndAtTheEnd) {
  train({.steps = 7, .evalEvery = 3});
  EXPECT_EQ(listener_.heard, (Heard{"eval 3 best", "eval 6", "eval 7", "save 7"}));
  EXPECT_NEAR(listener_.evaluations[0], std::pow(weightAfter(3) - 1, 2), 1e-5) << "after step 3, not before";
  EXPECT_NEAR(listener_.evaluations[2], std::pow(weightAfter(7) - 1, 2), 1e-5);
  EXPECT_NEAR(weight(), weightAfter(7), 1e-5) << "evaluation moves nothing";
  EXPECT_EQ(state_.bestStep, 3);
}

TEST_F(TrainerTest, EvaluatesOnceWhereTheEndIsDueAnyway) {
  train({.steps = 6, .evalEvery = 3});
  EXPECT_EQ(listener_.heard, (Heard{"eval 3 best", "eval 6", "save 6"}));
}

TEST_F(TrainerTest, EvaluationIsTheMeanOfItsBatches) {
  feed_.batches = 3;
  train({.steps = 1});
  const double w = weightAfter(1);
  const double all = (std::pow(w - 1, 2) + std::pow(w - 3, 2) + std::pow(w - 5, 2)) / 3;
  EXPECT_NEAR(listener_.evaluations.at(0), all, 1e-5);
  train({.steps = 2, .evalBatches = 2}, state_);
  const double later = weightAfter(2);
  EXPECT_NEAR(listener_.evaluations.at(1), (std::pow(later - 1, 2) + std::pow(later - 3, 2)) / 2, 1e-5);
}

TEST_F(TrainerTest, SavesEveryFewStepsAndAtTheEndOnce) {
  feed_.batches = 0;
  train({.steps = 7, .checkpointEvery = 2});
  EXPECT_EQ(listener_.heard, (Heard{"save 2", "save 4", "save 6", "save 7"}));
  EXPECT_EQ(kept(), (std::vector<int64_t>{2, 4, 6, 7}));
  listener_.heard.clear();
  train({.steps = 8, .checkpointEvery = 2}, state_);
  EXPECT_EQ(listener_.heard, (Heard{"save 8"})) << "counted over the whole run, and the last one once";
}

TEST_F(TrainerTest, AStepMayCountAsTwo) {
  const TrainSummary summary = train({.steps = 8, .stride = 2, .evalEvery = 3, .checkpointEvery = 4});
  EXPECT_EQ(listener_.heard, (Heard{"eval 4 best", "save 4", "eval 6 best", "eval 8", "save 8"}));
  EXPECT_EQ(summary.step, 8);
  EXPECT_NEAR(weight(), weightAfter(4), 1e-5);
  EXPECT_EQ(kept(), (std::vector<int64_t>{4, 8}));
}

TEST_F(TrainerTest, ACheckpointHoldsItsStep) {
  feed_.batches = 0;
  train({.steps = 5, .checkpointEvery = 2});
  for (const int64_t step : {2, 4, 5}) {
    const auto checkpoint = readCheckpoint(fmt::format("{}/ckpt/step_{:08}", directory_, step));
    ASSERT_OK(checkpoint);
    EXPECT_EQ(checkpoint->state.step, step);
    EXPECT_NEAR(checkpoint->params.front().second.at(0), weightAfter(step), 1e-5);
  }
}

// Each is of its step, whatever steps were made while it was written, and the next one waits for it.
TEST_F(TrainerTest, CheckpointsAreWrittenWhileStepsGoOn) {
  feed_.batches = 0;
  constexpr int64_t kSteps = 40;
  const TrainSummary summary = train({.steps = kSteps, .checkpointEvery = 1, .backgroundBytes = 0});
  EXPECT_GT(listener_.waits, kSteps) << "for the copies, and for the checkpoint before";
  EXPECT_EQ(summary.checkpoint, fmt::format("{}/ckpt/step_{:08}", directory_, kSteps));
  Heard saves;
  std::vector<int64_t> steps;
  for (int64_t step = 1; step <= kSteps; ++step) {
    saves.push_back(fmt::format("save {}", step));
    steps.push_back(step);
    const auto checkpoint = readCheckpoint(fmt::format("{}/ckpt/step_{:08}", directory_, step));
    ASSERT_OK(checkpoint);
    EXPECT_NEAR(checkpoint->params.front().second.at(0), weightAfter(step), 1e-5);
  }
  EXPECT_EQ(listener_.heard, saves);
  EXPECT_EQ(kept(), steps);
}

TEST_F(TrainerTest, ACheckpointThatCannotBeWrittenMeanwhileEndsTheRun) {
  feed_.batches = 0;
  put("ckpt", "in the way of the folder");
  TrainerOptions options{.steps = 1000, .checkpointEvery = 2, .runDir = directory_, .backgroundBytes = 0};
  Trainer trainer(*session_, feed_, options, {});
  const auto summary = trainer.run(listener_, control_);
  ASSERT_FALSE(summary);
  EXPECT_NE(summary.error().message().find("cannot save"), std::string::npos) << summary.error().message();
  EXPECT_FALSE(trainer.sessionFailed());
  EXPECT_FALSE(control_.saving);
  EXPECT_EQ(session_->stepsInFlight(), 0u);
}

TEST_F(TrainerTest, ACopyBeyondTheBudgetIsNotMade) {
  feed_.batches = 0;
  train({.steps = 6, .checkpointEvery = 2, .backgroundBytes = 0, .memory = -1});
  EXPECT_EQ(listener_.heard.front(), "note: training waits for each checkpoint: a copy of parameters and "
                                     "states takes 0 B, and of the budget 0 "
                                     "B are left");
  EXPECT_EQ(kept(), (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(listener_.heard.size(), 4u) << "it is said once";
}

TEST_F(TrainerTest, KeepsTheLastFew) {
  feed_.batches = 0;
  train({.steps = 9, .checkpointEvery = 2, .keepLast = 2});
  EXPECT_EQ(kept(), (std::vector<int64_t>{8, 9}));
}

TEST_F(TrainerTest, KeepsTheBestBesideTheLast) {
  train({.steps = 6, .evalEvery = 1, .keepLast = 1, .keepBest = true});
  EXPECT_EQ(kept(), (std::vector<int64_t>{3, 6}));
  EXPECT_EQ(listener_.heard, (Heard{"eval 1 best", "save 1", "eval 2 best", "save 2", "eval 3 best", "save 3",
                                    "eval 4", "eval 5", "eval 6", "save 6"}));
  EXPECT_EQ(state_.bestStep, 3);
  EXPECT_NEAR(*state_.bestValLoss, std::pow(weightAfter(3) - 1, 2), 1e-5);
}

TEST_F(TrainerTest, ALossThatIsNoNumberEndsTheRunUnsaved) {
  feed_.badStep = 4;
  feed_.batches = 0;
  const TrainSummary summary = train({.steps = 8, .checkpointEvery = 2});
  EXPECT_EQ(summary.end, TrainEnd::notFinite);
  EXPECT_EQ(summary.step, 4);
  EXPECT_TRUE(std::isnan(summary.lastLoss));
  EXPECT_EQ(kept(), (std::vector<int64_t>{2})) << "not 4, where one is due";
  EXPECT_EQ(session_->stepsInFlight(), 0u);
  EXPECT_EQ(listener_.losses.size(), 3u);
  EXPECT_EQ(summary.fault, "the loss is nan at step 4");
  EXPECT_EQ(summary.faultNotes,
            (std::vector<std::string>{"input x is nan in row 7", "parameter w[0] is nan after step 4"}));
}

// A rate beyond f32 makes an infinite parameter out of a finite loss and a finite gradient.
TEST_F(TrainerTest, ParametersThatAreNotFiniteAreNotSaved) {
  feed_.batches = 0;
  ASSERT_OK(session_->setLearningRate([](int64_t) { return 1e39; }));
  const TrainSummary summary = train({.steps = 1});
  EXPECT_EQ(summary.end, TrainEnd::notFinite);
  EXPECT_EQ(summary.fault, "parameter w[0] is inf after step 1");
  EXPECT_EQ(kept(), (std::vector<int64_t>{}));
}

// The step that spoils them is found while others go on; it is no checkpoint either, and ends the run.
TEST_F(TrainerTest, NorWhileStepsGoOn) {
  feed_.batches = 0;
  ASSERT_OK(session_->setLearningRate([](int64_t) { return 1e39; }));
  const TrainSummary summary = train({.steps = 1, .checkpointEvery = 1, .backgroundBytes = 0});
  EXPECT_EQ(summary.end, TrainEnd::notFinite);
  EXPECT_EQ(summary.fault, "parameter w[0] is inf after step 1");
  EXPECT_EQ(kept(), (std::vector<int64_t>{}));
}

TEST_F(TrainerTest, OrTheirStepIsLeftOut) {
  feed_.batches = 0;
  ASSERT_OK(session_->setLearningRate([](int64_t step) { return step == 1 ? 1e39 : 0.1; }));
  const TrainSummary summary = train({.steps = 8, .onNan = OnNan::skip});
  EXPECT_EQ(summary.end, TrainEnd::done);
  EXPECT_EQ(listener_.skipped.at(0), "parameter w[0] is inf after step 1");
  EXPECT_NEAR(weight(), weightAfter(8 - summary.leftOut), 1e-5);
}

TEST_F(TrainerTest, AllStepsLeftOutAreTheEndOfItsRunOnly) {
  feed_.batches = 0;
  feed_.badFrom = 1;
  const TrainSummary whole = train({.steps = 3, .onNan = OnNan::skip});
  EXPECT_EQ(whole.end, TrainEnd::notFinite);
  EXPECT_HAS(whole.fault, "at step 3, and the 2 steps before it were left out too");
  EXPECT_EQ(listener_.heard, (Heard{"skip 1", "skip 2", "skip 3"})) << "nothing is saved";
  ASSERT_TRUE(session_->setSteps(0));
  EXPECT_HAS(train({.steps = 1, .onNan = OnNan::skip}).fault, "at step 1, and it was the only step");
  ASSERT_TRUE(session_->setSteps(0));
  feed_.badFrom = 5;
  listener_.heard.clear();
  ASSERT_TRUE(session_->setSteps(0));
  train({.steps = 4, .onNan = OnNan::skip});
  const TrainSummary part = train({.steps = 6, .onNan = OnNan::skip}, state_);
  EXPECT_EQ(part.end, TrainEnd::done);
  EXPECT_EQ(part.leftOut, 2);
  EXPECT_EQ(part.meanOf, 0);
  EXPECT_EQ(listener_.heard, (Heard{"save 4", "skip 5", "skip 6", "save 6"}));
}

TEST_F(TrainerTest, ManyStepsLeftOutInARowEndTheRun) {
  feed_.batches = 0;
  feed_.badFrom = 3;
  const TrainSummary summary = train({.steps = 100, .onNan = OnNan::skip});
  EXPECT_EQ(summary.end, TrainEnd::notFinite);
  EXPECT_EQ(summary.step, 2 + kMostLeftOut);
  EXPECT_EQ(summary.leftOut, kMostLeftOut);
  EXPECT_NEAR(weight(), weightAfter(2), 1e-5);
}

TEST_F(TrainerTest, AnEvaluationThatIsNoNumberIsNeverTheBest) {
  feed_.badEvaluations = 2;
  train({.steps = 6, .evalEvery = 1, .keepLast = 1, .keepBest = true});
  EXPECT_EQ(listener_.heard,
            (Heard{"eval 1", "eval 2", "eval 3 best", "save 3", "eval 4", "eval 5", "eval 6", "save 6"}));
  EXPECT_EQ(kept(), (std::vector<int64_t>{3, 6}));
}

TEST_F(TrainerTest, AnEvaluationIsBrokenOffByAStop) {
  feed_.batches = 1000000;
  control_.stop = true;
  bool failed = false;
  const auto loss = evaluate(*session_, feed_, 0, failed, &control_.stop);
  ASSERT_OK(loss);
  EXPECT_FALSE(*loss);
}

TEST_F(TrainerTest, AResumedRunMakesUpForTheEvaluationThatAStopBrokeOff) {
  const TrainerOptions options = {.steps = 6, .evalEvery = 3, .checkpointEvery = 2, .keepBest = true};
  listener_.stopAt = 3;
  EXPECT_EQ(train(options).end, TrainEnd::stopped);
  EXPECT_EQ(listener_.heard, (Heard{"save 2", "save 3"}));
  control_.stop = false;
  listener_.heard.clear();
  auto saved = readState(directory_ + "/ckpt/step_00000003");
  ASSERT_OK(saved);
  EXPECT_TRUE(saved->evaluationOwed);
  EXPECT_EQ(train(options, *saved).end, TrainEnd::done);
  EXPECT_EQ(listener_.heard, (Heard{"eval 3 best", "save 3", "save 4", "eval 6", "save 6"}));
  EXPECT_NEAR(listener_.evaluations.at(0), std::pow(weightAfter(3) - 1, 2), 1e-5) << "before step 4";
  saved = readState(directory_ + "/ckpt/step_00000003");
  ASSERT_OK(saved);
  EXPECT_FALSE(saved->evaluationOwed);
  EXPECT_EQ(saved->bestStep, 3) << "the checkpoint is that of a run without a stop";
}

TEST_F(TrainerTest, ARunIsNotDoneWithoutItsLastEvaluation) {
  listener_.stopAt = 2;
  TrainSummary summary = train({.steps = 2});
  EXPECT_EQ(summary.end, TrainEnd::stopped);
  EXPECT_TRUE(summary.evaluationOwed);
  listener_.stopAt = 0;
  // Stopped again before it is made up for.
  summary = train({.steps = 2}, state_);
  EXPECT_EQ(summary.end, TrainEnd::stopped);
  EXPECT_EQ(listener_.heard, Heard{"save 2"});
  control_.stop = false;
  summary = train({.steps = 2}, state_);
  EXPECT_EQ(summary.end, TrainEnd::done);
  EXPECT_FALSE(summary.evaluationOwed);
  EXPECT_EQ(listener_.heard, (Heard{"save 2", "eval 2 best", "save 2"}));
  auto saved = readState(directory_ + "/ckpt/step_00000002");
  ASSERT_OK(saved);
  EXPECT_EQ(saved->valLoss, state_.valLoss);
  EXPECT_TRUE(saved->valLoss);
}

TEST_F(TrainerTest, ACheckpointThatIsDueAtTheLastStepKnowsItsEvaluation) {
  train({.steps = 4, .checkpointEvery = 2});
  EXPECT_EQ(listener_.heard, (Heard{"save 2", "eval 4 best", "save 4"}));
  auto saved = readState(directory_ + "/ckpt/step_00000004");
  ASSERT_OK(saved);
  EXPECT_EQ(saved->bestStep, 4);
  EXPECT_TRUE(saved->valLoss && saved->valLoss == state_.valLoss);
}

TEST_F(TrainerTest, ACheckpointThatIsDueAtTheLastStepKnowsThatItsEvaluationIsOwed) {
  listener_.stopAt = 4;
  EXPECT_TRUE(train({.steps = 4, .checkpointEvery = 2}).evaluationOwed);
  EXPECT_EQ(listener_.heard, (Heard{"save 2", "save 4"}));
  auto saved = readState(directory_ + "/ckpt/step_00000004");
  ASSERT_OK(saved);
  EXPECT_TRUE(saved->evaluationOwed);
}

TEST_F(TrainerTest, AnEvaluationThatIsNotDueAnyMoreIsNotMadeUpFor) {
  listener_.stopAt = 2;
  train({.steps = 2});
  control_.stop = false;
  listener_.heard.clear();
  train({.steps = 4}, state_);
  EXPECT_EQ(listener_.heard, (Heard{"eval 4 best", "save 4"}))
      << "as where all four steps were meant at once";
  EXPECT_FALSE(state_.evaluationOwed);
}

TEST_F(TrainerTest, OrItsBatchIsLeftOut) {
  feed_.badStep = 4;
  feed_.batches = 0;
  const TrainSummary summary = train({.steps = 8, .onNan = OnNan::skip});
  EXPECT_EQ(summary.end, TrainEnd::done);
  EXPECT_EQ(summary.step, 8);
  EXPECT_EQ(listener_.heard, (Heard{"skip 4", "save 8"}));
  EXPECT_NEAR(weight(), weightAfter(7), 1e-5) << "one step of eight did nothing";
  EXPECT_NEAR(listener_.losses.at(3), std::pow(weightAfter(3) - 2, 2), 1e-5) << "step 5 goes on from step 3";
}

TEST_F(TrainerTest, AStepIsBegunBeforeTheLastOneIsHeardOf) {
  listener_.session = session_.get();
  train({.steps = 9, .evalEvery = 3, .checkpointEvery = 5});
  EXPECT_EQ(listener_.begun, (std::vector<int64_t>{2, 3, 3, 5, 5, 6, 8, 9, 9})) << "3, 5, 6 and 9 are due";
  listener_.begun.clear();
  listener_.wantsEach = 2;
  train({.steps = 14}, state_);
  EXPECT_EQ(listener_.begun, (std::vector<int64_t>{10, 12, 12, 14, 14}));
  EXPECT_NEAR(weight(), weightAfter(14), 1e-5);
}

TEST_F(TrainerTest, OrEachStepIsHeardOfBeforeTheNextIsBegun) {
  listener_.session = session_.get();
  train({.steps = 5, .evalEvery = 3, .ahead = false});
  EXPECT_EQ(listener_.begun, (std::vector<int64_t>{1, 2, 3, 4, 5}));
}

TEST_F(TrainerTest, AStopFinishesTheStepsUnderWayAndSaves) {
  listener_.stopAt = 3;
  const TrainSummary summary = train({.steps = 8});
  EXPECT_EQ(summary.end, TrainEnd::stopped);
  EXPECT_EQ(summary.step, 4) << "begun when step 3 was heard of";
  EXPECT_EQ(listener_.losses.size(), 4u);
  EXPECT_EQ(listener_.heard, (Heard{"save 4"})) << "without the evaluation of the end";
  EXPECT_NEAR(weight(), weightAfter(4), 1e-5);
}

TEST_F(TrainerTest, ACheckpointThatIsAskedForIsMadeOnce) {
  feed_.batches = 0;
  listener_.checkpointAt = 3;
  train({.steps = 6});
  EXPECT_EQ(listener_.heard, (Heard{"save 4", "save 6"})) << "begun when step 3 was heard of";
  const auto checkpoint = readCheckpoint(directory_ + "/ckpt/step_00000004");
  ASSERT_OK(checkpoint);
  EXPECT_NEAR(checkpoint->params.front().second.at(0), weightAfter(4), 1e-5);
}

TEST_F(TrainerTest, TimeEndsTheRunAfterAStep) {
  feed_.batches = 0;
  const TrainSummary summary = train({.steps = int64_t{1} << 40, .maxSeconds = 0.05});
  EXPECT_EQ(summary.end, TrainEnd::outOfTime);
  EXPECT_GE(summary.step, 1);
  EXPECT_EQ(kept(), (std::vector<int64_t>{summary.step}));
}

TEST_F(TrainerTest, AnErrorLeavesNoStepUnderWay) {
  struct Refuses : TrainObserver {
    Result<void> onStep(const StepResult& step) override {
      return step.step == 3 ? fail("no more") : Result<void>();
    }
  } observer;
  Trainer trainer(*session_, feed_, {.steps = 8}, {});
  auto failed = trainer.run(observer, control_);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "no more");
  EXPECT_EQ(session_->stepsInFlight(), 0u);
  EXPECT_EQ(session_->steps(), 4) << "begun when step 3 was heard of";
}

TEST_F(TrainerTest, WhatWasLearnedIsSavedWhereDataIsLost) {
  feed_.lostFrom = 6;
  for (int64_t step : {5, 10}) {
    Trainer trainer(*session_, feed_, {.steps = 10, .evalEvery = 10, .runDir = directory_}, state_);
    auto failed = trainer.run(listener_, control_);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message(), "the file changed");
    EXPECT_EQ(session_->stepsInFlight(), 0u);
    EXPECT_EQ(kept().back(), step);
    EXPECT_NEAR(weight(), weightAfter(step), 1e-5);
    auto saved = readState(newestCheckpoint(directory_)->value().path);
    ASSERT_OK(saved);
    EXPECT_EQ(saved->evaluationOwed, step == 10) << "of which the data is lost the second time";
    state_ = *saved;
    feed_.lostFrom = 0;
    feed_.lostEvaluation = true;
  }
}

TEST_F(TrainerTest, StepsOfOthersAreNotHeardOf) {
  ASSERT_OK(session_->beginStep(*feed_.batch(1, {})));
  Trainer trainer(*session_, feed_, {.steps = 4}, {});
  auto refused = trainer.run(listener_, control_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("has steps in flight"), std::string::npos);
  EXPECT_EQ(session_->endStep()->step, 1);
  EXPECT_TRUE(listener_.losses.empty());
}

TEST_F(TrainerTest, NothingIsLeftOfAFinishedRun) {
  train({.steps = 2});
  listener_.heard.clear();
  const TrainSummary summary = train({.steps = 2}, state_);
  EXPECT_EQ(summary.end, TrainEnd::done);
  EXPECT_EQ(summary.firstStep, 2);
  EXPECT_EQ(listener_.heard, Heard{}) << "no evaluation, no checkpoint";
}

}  // namespace
}  // namespace tg
