// SPDX-License-Identifier: Apache-2.0
// Summaries, curves and pages of runs, without a browser.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/train/run_dir.h"
#include "runtime/train/run_page.h"
#include "runtime/train/samples.h"
#include "test/unit/temp_folder.h"
#include "test/unit/whole_checkpoint.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

class RunPage : public FolderTest {
 protected:
  void SetUp() override { fs::create_directories(directory_ + "/gpt-7"); }
  std::string run() const { return directory_ + "/gpt-7"; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(run() + "/" + name, std::ios::binary) << text;
  }
  /// The data inside a page, taken out as a browser would: up to the first end of a script.
  nlohmann::json data(const std::string& path) const {
    std::ifstream file(path, std::ios::binary);
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    const std::string open = "id=\"data\">";
    const size_t begin = page.find(open) + open.size();
    return nlohmann::json::parse(page.substr(begin, page.find("</script", begin) - begin), nullptr, false);
  }
};

MetricRow row(int64_t step, std::vector<std::pair<std::string, double>> values) {
  return {step, 0.5 * static_cast<double>(step), std::move(values)};
}

RunSummary summaryOf(const std::vector<MetricRow>& rows, int64_t steps) {
  RunSummarizer summarizer;
  for (const MetricRow& each : rows) summarizer.add(each);
  return summarizer.finish("r", steps);
}

/// The first value of each row.
Curve curveOf(const std::vector<MetricRow>& rows) {
  CurveThinner thinner;
  for (const MetricRow& each : rows) thinner.add(each.step, each.time, each.values.at(0).second);
  return thinner.finish();
}

TEST_F(RunPage, SummaryOfRows) {
  std::vector<MetricRow> rows;
  for (int step = 1; step <= 300; ++step) {
    rows.push_back(row(step, {{"loss", 1.0 / step}, {"items_per_s", step <= 200 ? 1e9 : step}}));
    if (step == 100) rows.push_back(row(step, {{"val_loss", 0.25}}));
    if (step == 200) rows.push_back(row(step, {{"val_loss", NAN}}));
    if (step == 300) rows.push_back(row(step, {{"val_loss", 0.5}}));
  }
  RunSummary summary = summaryOf(rows, 400);
  EXPECT_EQ(summary.step, 300);
  EXPECT_EQ(summary.time, 150);
  EXPECT_EQ(summary.loss, 1.0 / 300);
  EXPECT_EQ(summary.valLoss, 0.5);
  EXPECT_EQ(summary.bestValLoss, 0.25);
  EXPECT_EQ(summary.bestStep, 100);
  EXPECT_NEAR(*summary.itemsPerSecond, 250.5, 0.5) << "of the last hundred rows";
  EXPECT_DOUBLE_EQ(*summary.secondsPerStep, 0.5);
  EXPECT_DOUBLE_EQ(*summary.eta, 50);
  EXPECT_FALSE(summaryOf(rows, 0).eta);
  EXPECT_FALSE(summaryOf(rows, 300).eta);
  EXPECT_FALSE(summaryOf({}, 300).loss);
}

TEST_F(RunPage, ALongCurveKeepsItsExtremes) {
  std::vector<MetricRow> rows;
  for (int step = 1; step <= 100000; ++step)
    rows.push_back(row(step, {{"loss", step == 54321 ? 99 : step == 12345 ? -99 : std::sin(step)}}));
  for (bool broken : {false, true}) {
    if (broken) rows[77776].values[0].second = NAN;
    Curve curve = curveOf(rows);
    ASSERT_LE(curve.values.size(), kCurvePoints);
    ASSERT_GT(curve.values.size(), kCurvePoints / 2);
    ASSERT_EQ(curve.mean.size(), curve.values.size());
    EXPECT_TRUE(std::is_sorted(curve.steps.begin(), curve.steps.end()));
    EXPECT_EQ(curve.steps.back(), 100000);
    for (int64_t step : {54321, 12345})
      EXPECT_EQ(std::count(curve.steps.begin(), curve.steps.end(), step), 1) << step;
    EXPECT_EQ(std::count(curve.steps.begin(), curve.steps.end(), 77777) == 1, broken);
    for (size_t i = 0; i < curve.steps.size(); ++i) {
      const double value = rows[curve.steps[i] - 1].values[0].second;
      EXPECT_TRUE(curve.values[i] == value || (std::isnan(value) && std::isnan(curve.values[i])));
      EXPECT_EQ(curve.times[i], 0.5 * static_cast<double>(curve.steps[i]));
      // Buckets of fifty or more: a sine's mean is small, and an outlier's share of one is 99/50.
      if (i + 1 < curve.steps.size() && !std::isnan(value)) {
        EXPECT_LT(std::fabs(curve.mean[i]), 2.1);
      }
    }
  }
  rows.resize(kCurvePoints);
  EXPECT_EQ(curveOf(rows).values.size(), kCurvePoints);
  EXPECT_TRUE(curveOf(rows).mean.empty());
  EXPECT_TRUE(curveOf({}).values.empty());
}

TEST_F(RunPage, HoldsWhatTheDirectoryHas) {
  write("metrics.jsonl",
        "{\"step\": 1, \"time\": 2, \"loss\": 3}\n{\"step\": 2, \"time\": 4, \"loss\": null}\n");
  write("config.toml", "seed = 3\nsteps = 12\n# </script><!-- \xff\n");
  write("env.json", "{\"device\": \"llvmpipe\"}");
  write("plan.json", "{\"memory\": {\"arena_bytes\": 64}, \"kernels\": [{\"kernel\": \"k0\"}]}");
  std::string samples;
  for (int i = 1; i <= 60; ++i) samples += fmt::format("{{\"step\": {}, \"text\": \"</script>\"}}\n", i);
  write("samples.jsonl", samples + "{\"step\": 61, \"te");
  ASSERT_TRUE(writeRunPage(run(), 7.5));
  auto page = data(run() + "/index.html");
  ASSERT_TRUE(page.is_object());
  const auto& one = page["runs"][0];
  EXPECT_EQ(one["name"], "gpt-7");
  EXPECT_EQ(one["running"], true);
  EXPECT_EQ(one["due_seconds"], 7.5);
  EXPECT_EQ(one["state"], "stopped") << "nobody holds the lock";
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(page["written_at"].get<double>(), now, 5);
  EXPECT_EQ(one["series"]["loss"]["value"], nlohmann::json({3.0, nullptr}));
  EXPECT_EQ(one["series"]["loss"]["time"], nlohmann::json({2.0, 4.0}));
  EXPECT_EQ(one["summary"]["eta"], 20.0);
  EXPECT_EQ(one["memory"]["arena_bytes"], 64);
  EXPECT_EQ(one["kernels"].size(), 1u);
  EXPECT_EQ(one["samples"].size(), 50u);
  EXPECT_EQ(one["samples"].back()["step"], 60);
  EXPECT_EQ(one["sample_count"], 60);
  EXPECT_NE(one["config"].get<std::string>().find("</script><!-- \xef\xbf\xbd"), std::string::npos);
}

TEST_F(RunPage, AnEmptyDirectoryHasAPageAndNoPlot) {
  ASSERT_TRUE(writeRunPage(run()));
  EXPECT_EQ(data(run() + "/index.html")["runs"][0]["running"], false);
  EXPECT_FALSE(plotPage({run()}));
  EXPECT_FALSE(fs::exists(directory_ + "/plot.html"));
}

TEST_F(RunPage, ARunIsRunningFinishedOrStopped) {
  write("metrics.jsonl", "{\"step\": 12, \"time\": 2, \"loss\": 3}\n");
  write("config.toml", "steps=12\n");
  auto state = [&] { return summarizeRun(run())->state; };
  TrainState last;
  last.step = 12;
  ASSERT_TRUE(saveCheckpoint(run(), {last, {}, {}}));
  EXPECT_EQ(state(), RunState::finished);
  // env.json has what a resumed run was told last.
  write("env.json", "{\"steps\": 20}");
  EXPECT_EQ(state(), RunState::stopped);
  EXPECT_EQ(summarizeRun(run())->steps, 20);
  auto lock = RunLock::take(run());
  ASSERT_TRUE(lock);
  EXPECT_EQ(state(), RunState::running);
  // The last page of a training is written under its own lock.
  ASSERT_TRUE(writeRunPage(run()));
  EXPECT_EQ(data(run() + "/index.html")["runs"][0]["state"], "stopped");
  auto page = plotPage({run()});
  ASSERT_TRUE(page);
  write("../plot.html", *page);
  EXPECT_EQ(data(directory_ + "/plot.html")["runs"][0]["state"], "running");
  EXPECT_EQ(data(directory_ + "/plot.html")["runs"][0]["running"], false) << "nobody writes it anew";
}

TEST_F(RunPage, ARunIsNotFinishedWithoutItsLastCheckpointAndEvaluation) {
  write("metrics.jsonl", "{\"step\": 12, \"time\": 2, \"loss\": 3}\n");
  write("config.toml", "steps=12\n");
  auto seen = [&] {
    EXPECT_TRUE(writeRunPage(run()));
    auto page = plotPage({run()});
    EXPECT_TRUE(page);
    write("../plot.html", *page);
    const std::string state = data(run() + "/index.html")["runs"][0]["state"];
    EXPECT_EQ(data(directory_ + "/plot.html")["runs"][0]["state"], state);
    auto summary = summarizeRun(run());
    EXPECT_EQ(summary->state == RunState::finished, state == "finished");
    EXPECT_EQ(summary->owed.empty(), state == "finished");
    return state;
  };
  EXPECT_EQ(seen(), "stopped, the checkpoint of step 12 is owed")
      << "the process was killed while saving its first";
  TrainState state;
  state.step = 8;
  ASSERT_TRUE(saveCheckpoint(run(), {state, {}, {}}));
  EXPECT_EQ(seen(), "stopped, the checkpoint of step 12 is owed");
  state.step = 12;
  state.evaluationOwed = true;
  ASSERT_TRUE(saveCheckpoint(run(), {state, {}, {}}));
  EXPECT_EQ(seen(), "stopped, the evaluation of step 12 is owed");
  state.evaluationOwed = false;
  ASSERT_TRUE(saveCheckpoint(run(), {state, {}, {}}));
  EXPECT_EQ(seen(), "finished");
}

TEST_F(RunPage, SamplesAfterTheCheckpointAreDropped) {
  auto log = SampleLog::open(run(), 0);
  ASSERT_TRUE(log);
  for (int64_t step : {1, 2, 3}) ASSERT_TRUE((*log)->add(step, "a", fmt::format("b\n{}\xff", step)));
  const std::string one = "{\"step\":1,\"prompt\":\"a\",\"text\":\"b\\n1\xef\xbf\xbd\"}\n";
  auto text = [&] {
    std::ifstream file(run() + "/samples.jsonl", std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  EXPECT_EQ(text().substr(0, one.size()), one);
  write("samples.jsonl", text() + "{\"step\": 1, \"te");
  auto cut = SampleLog::open(run(), 1);
  ASSERT_TRUE(cut);
  EXPECT_EQ((*cut)->damaged().first, 4) << "so is a row that was cut off, which is told";
  EXPECT_EQ(text(), one);
  write("samples.jsonl", one.substr(0, one.size() - 1));
  auto whole = SampleLog::open(run(), 1);
  ASSERT_TRUE(whole);
  EXPECT_EQ((*whole)->damaged().count, 0) << "only the line break is missing";
  EXPECT_EQ(text(), one);
  write("samples.jsonl", "x\ny\n");
  auto damaged = SampleLog::open(run(), 1);
  ASSERT_TRUE(damaged);
  EXPECT_EQ((*damaged)->damaged().aside, run() + "/samples.jsonl.old.2") << "what cannot be understood stays";
  EXPECT_EQ((*damaged)->damaged().text(),
            fmt::format("{0}/samples.jsonl:1: the row is damaged, and 1 more; all rows are kept as "
                        "{0}/samples.jsonl.old.2, the good ones are taken over",
                        run()));
  EXPECT_EQ(text(), "");
  ASSERT_TRUE(SampleLog::open(run(), 0));
  EXPECT_EQ(text(), "");
}

TEST_F(RunPage, ATextThatWasBrokenOffGivesWayToTheNextOne) {
  auto text = [&] {
    std::ifstream file(run() + "/samples.jsonl", std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string one = "{\"step\":1,\"prompt\":\"a\",\"text\":\"bcd\"}\n";
  const std::string broken = "{\"step\":2,\"prompt\":\"a\",\"text\":\"b\",\"broken_off\":true}\n";
  const std::string two = "{\"step\":2,\"prompt\":\"a\",\"text\":\"bef\"}\n";
  {
    auto log = SampleLog::open(run(), 0);
    ASSERT_TRUE(log);
    ASSERT_TRUE((*log)->add(1, "a", "bcd"));
    ASSERT_TRUE((*log)->add(2, "a", "b", false));
  }
  EXPECT_EQ(text(), one + broken);
  auto log = SampleLog::open(run(), 2);
  ASSERT_TRUE(log);
  EXPECT_EQ((*log)->owed(), 2);
  EXPECT_EQ(text(), one + broken) << "as long as there is no other";
  ASSERT_TRUE((*log)->add(2, "a", "bef"));
  EXPECT_EQ((*log)->owed(), 0);
  ASSERT_TRUE((*log)->add(3, "a", "ghi"));
  EXPECT_EQ(text(), one + two + "{\"step\":3,\"prompt\":\"a\",\"text\":\"ghi\"}\n");
  auto earlier = SampleLog::open(run(), 1);
  ASSERT_TRUE(earlier);
  EXPECT_EQ((*earlier)->owed(), 0);
}

TEST_F(RunPage, DamagedFilesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"env.json", "{"}, {"plan.json", "[]"}, {"samples.jsonl", "x\n"}};
  for (const auto& [name, text] : cases) {
    write(name, text);
    auto written = writeRunPage(run());
    ASSERT_FALSE(written) << name;
    EXPECT_NE(written.error().message().find(name), std::string::npos);
    fs::remove(run() + "/" + name);
  }
  EXPECT_FALSE(fs::exists(run() + "/index.html"));
}

TEST_F(RunPage, ARunIsFoundFromItsCheckpoints) {
  fs::create_directories(run() + "/ckpt/step_00000001");
  write("metrics.jsonl", "{\"step\": 1}\n");
  write("ckpt/step_00000001/model.safetensors", "");
  for (const char* below : {"", "/ckpt/step_00000001", "/ckpt/step_00000001/model.safetensors"}) {
    auto found = findRun(run() + below);
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_TRUE(fs::equivalent(*found, run()));
  }
  EXPECT_FALSE(findRun(directory_));
  EXPECT_FALSE(findRun(directory_ + "/none"));
}

}  // namespace
}  // namespace tg
