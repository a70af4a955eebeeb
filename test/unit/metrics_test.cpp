// SPDX-License-Identifier: Apache-2.0
// What a run measured: the files that MetricsWriter makes, read back by means of their own.
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/train/metrics.h"
#include "runtime/train/tensorboard.h"
#include "test/unit/temp_folder.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

class Metrics : public FolderTest {
 protected:
  std::string text(const std::string& name) const {
    std::ifstream file(directory_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(directory_ + "/" + name, std::ios::binary) << content;
  }
  std::unique_ptr<MetricsWriter> open(const std::string& formats, int64_t lastStep) const {
    auto parsed = parseMetricsFormats(formats);
    EXPECT_TRUE(parsed) << parsed.error().str();
    auto writer = MetricsWriter::open(directory_, *parsed, lastStep);
    EXPECT_TRUE(writer) << writer.error().str();
    return *std::move(writer);
  }
  std::vector<std::string> eventFiles() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_))
      if (std::string name = entry.path().filename().string(); name.starts_with("events.out.tfevents."))
        names.push_back(name);
    std::sort(names.begin(), names.end());
    return names;
  }
};

MetricRow row(int64_t step, double time, std::vector<std::pair<std::string, double>> values) {
  return {step, time, std::move(values)};
}

// A reader of the wire format that shares nothing with the writer.
struct Wire {
  std::string_view rest;
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, rest.data(), sizeof value);  // the tests run on little-endian machines
    rest.remove_prefix(sizeof value);
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(rest[0]);
      rest.remove_prefix(1);
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }
  std::string_view bytes() {
    const uint64_t size = varint();
    std::string_view value = rest.substr(0, size);
    rest.remove_prefix(size);
    return value;
  }
};

struct Event {
  double wallTime = 0;
  uint64_t step = 0;
  std::string version;
  int sessionStatus = 0;
  std::vector<std::pair<std::string, float>> scalars;
};

Event parseEvent(std::string_view message) {
  Event event;
  for (Wire wire{message}; !wire.rest.empty();) {
    switch (wire.varint()) {
    case 1 << 3 | 1: event.wallTime = wire.fixed<double>(); break;
    case 2 << 3 | 0: event.step = wire.varint(); break;
    case 3 << 3 | 2: event.version = wire.bytes(); break;
    case 5 << 3 | 2:
      for (Wire summary{wire.bytes()}; !summary.rest.empty();) {
        EXPECT_EQ(summary.varint(), 1u << 3 | 2);
        Wire value{summary.bytes()};
        EXPECT_EQ(value.varint(), 1u << 3 | 2);
        std::string tag(value.bytes());
        EXPECT_EQ(value.varint(), 2u << 3 | 5);
        event.scalars.emplace_back(tag, value.fixed<float>());
        EXPECT_TRUE(value.rest.empty());
      }
      break;
    case 7 << 3 | 2: {
      Wire log{wire.bytes()};
      EXPECT_EQ(log.varint(), 1u << 3 | 0);
      event.sessionStatus = static_cast<int>(log.varint());
      break;
    }
    default: ADD_FAILURE() << "unknown field"; return event;
    }
  }
  return event;
}

// Bit by bit, from the definition: no table.
uint32_t slowMaskedCrc(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (unsigned char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool odd = (crc ^ (c >> bit)) & 1;
      crc = (crc >> 1) ^ (odd ? 0x82f63b78 : 0);
    }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

std::vector<Event> parseEvents(const std::string& text) {
  std::vector<Event> events;
  for (Wire file{text}; !file.rest.empty();) {
    const std::string_view header = file.rest.substr(0, 8);
    const auto size = file.fixed<uint64_t>();
    EXPECT_EQ(file.fixed<uint32_t>(), slowMaskedCrc(header));
    const std::string_view message = file.rest.substr(0, size);
    file.rest.remove_prefix(size);
    EXPECT_EQ(file.fixed<uint32_t>(), slowMaskedCrc(message));
    events.push_back(parseEvent(message));
  }
  return events;
}

TEST(TensorBoard, Crc32cOfKnownVectors) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4, as the three that follow
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string up(32, 0), down(32, 0);
  for (int i = 0; i < 32; ++i) up[i] = static_cast<char>(i), down[i] = static_cast<char>(31 - i);
  EXPECT_EQ(crc32c(up), 0x46dd794eu);
  EXPECT_EQ(crc32c(down), 0x113fdb5cu);
}

TEST(TensorBoard, EventsReadBack) {
  const int64_t large = (int64_t(1) << 40) + 5;
  std::vector<Event> events =
      parseEvents(tfRecord(versionEvent(1.5)) + tfRecord(sessionStartEvent(2.5, 301)) +
                  tfRecord(scalarsEvent(1e9 + 0.25, large, {{"loss", 2.25}, {"val_loss", -1e-3}})));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[0].wallTime, 1.5);
  EXPECT_EQ(events[1].sessionStatus, 1);
  EXPECT_EQ(events[1].step, 301u);
  EXPECT_EQ(events[2].wallTime, 1e9 + 0.25);
  EXPECT_EQ(events[2].step, uint64_t(large));
  ASSERT_EQ(events[2].scalars.size(), 2u);
  EXPECT_EQ(events[2].scalars[0], std::pair(std::string("loss"), 2.25f));
  EXPECT_EQ(events[2].scalars[1], std::pair(std::string("val_loss"), -1e-3f));
}

TEST_F(Metrics, FormatsAreParsed) {
  auto all = parseMetricsFormats("jsonl,csv,tensorboard,csv");
  ASSERT_TRUE(all);
  EXPECT_EQ(*all, (std::vector{MetricsFormat::jsonl, MetricsFormat::csv, MetricsFormat::tensorboard}));
  for (const char* bad : {"jsonl,xml", "xml", "xml,csv"}) {
    auto none = parseMetricsFormats(bad);
    ASSERT_FALSE(none) << bad;
    EXPECT_NE(none.error().message().find("'xml'"), std::string::npos);
  }
  EXPECT_FALSE(parseMetricsFormats(""));
  EXPECT_FALSE(parseMetricsFormats("csv,"));
}

TEST_F(Metrics, RowsReadBackExactly) {
  auto writer = open("jsonl", 0);
  const double odd = 0.1 + 0.2, tiny = 5e-324, huge = 1.7976931348623157e308;
  ASSERT_TRUE(writer->add(row(1, odd, {{"loss", tiny}, {"norm", huge}, {"a\"b\\é", -3}})));
  ASSERT_TRUE(writer->add(row(int64_t(1) << 53, 2, {{"val_loss", std::nan("")}})));
  ASSERT_TRUE(writer->flush());
  auto rows = readMetrics(directory_);
  ASSERT_TRUE(rows) << rows.error().str();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].time, odd);
  using Values = std::vector<std::pair<std::string, double>>;
  EXPECT_EQ((*rows)[0].values, (Values{{"loss", tiny}, {"norm", huge}, {"a\"b\\é", -3}}));
  EXPECT_EQ((*rows)[1].step, int64_t(1) << 53);
  EXPECT_TRUE(std::isnan((*rows)[1].values.at(0).second));
  // Another program's reader of JSON takes the lines too.
  std::istringstream lines(text("metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

TEST_F(Metrics, BufferedUntilFlushed) {
  auto writer = open("jsonl,csv", 0);
  ASSERT_TRUE(writer->add(row(1, 0.5, {{"loss", 2}})));
  EXPECT_EQ(text("metrics.jsonl"), "");
  writer.reset();  // the destructor flushes
  EXPECT_EQ(text("metrics.jsonl"), "{\"step\": 1, \"time\": 0.5, \"loss\": 2}\n");
  EXPECT_EQ(text("metrics.csv"), "step,time,loss\n1,0.5,2\n");
}

TEST_F(Metrics, CsvGrowsColumns) {
  auto writer = open("csv", 0);
  ASSERT_TRUE(writer->add(row(1, 0.5, {{"loss", 2}, {"lr", 0.25}})));
  ASSERT_TRUE(writer->flush());
  ASSERT_TRUE(writer->add(row(2, 1, {{"loss", 1.5}, {"lr", 0.25}})));
  ASSERT_TRUE(writer->add(row(2, 1, {{"val_loss", 1.75}, {"a,\"b", INFINITY}})));
  ASSERT_TRUE(writer->flush());
  ASSERT_TRUE(writer->add(row(3, 1.5, {{"lr", 0.125}, {"loss", 1}})));
  ASSERT_TRUE(writer->flush());
  EXPECT_EQ(text("metrics.csv"), "step,time,loss,lr,val_loss,\"a,\"\"b\"\n"
                                 "1,0.5,2,0.25,,\n2,1,1.5,0.25,,\n2,1,,,1.75,nan\n3,1.5,1,0.125,,\n");
}

TEST_F(Metrics, ResumeDropsWhatFollowsTheCheckpoint) {
  for (int part = 0; part < 2; ++part) {
    auto writer = open("jsonl,csv,tensorboard", part == 0 ? 0 : 4);
    for (int step = part == 0 ? 1 : 5; step <= 6; ++step)
      ASSERT_TRUE(writer->add(row(step, step / 2.0, {{"loss", part * 10.0 + step}})));
  }
  std::string csv = "step,time,loss\n";
  auto rows = readMetrics(directory_);
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 6u);
  const double losses[] = {1, 2, 3, 4, 15, 16};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ((*rows)[i].step, i + 1);
    EXPECT_EQ((*rows)[i].values.at(0).second, losses[i]);
    csv += fmt::format("{},{},{}\n", i + 1, (i + 1) / 2.0, losses[i]);
  }
  EXPECT_EQ(text("metrics.csv"), csv);

  ASSERT_EQ(eventFiles().size(), 2u);
  std::vector<Event> first = parseEvents(text(eventFiles()[0])), second = parseEvents(text(eventFiles()[1]));
  ASSERT_EQ(first.size(), 7u);
  EXPECT_EQ(first[1].sessionStatus, 0);
  EXPECT_EQ(first[6].step, 6u);
  ASSERT_EQ(second.size(), 4u);
  EXPECT_EQ(second[0].version, "brain.Event:2");
  EXPECT_EQ(second[1].sessionStatus, 1);
  EXPECT_EQ(second[1].step, 5u);
  EXPECT_EQ(second[2].scalars.at(0), std::pair(std::string("loss"), 15.0f));
  EXPECT_GT(second[2].wallTime, 1.7e9);
}

TEST_F(Metrics, ResumeDropsTheRowOfAnEvaluationThatIsMadeAgain) {
  const std::string steps =
      "{\"step\": 1, \"time\": 0, \"val_loss\": 4}\n{\"step\": 2, \"time\": 0, \"loss\": 3}\n";
  const std::string all = steps + "{\"step\": 2, \"time\": 0, \"val_loss\": 3}\n";
  for (const bool owed : {false, true}) {
    write("metrics.jsonl", all);
    ASSERT_TRUE(MetricsWriter::open(directory_, {}, 2, owed));
    EXPECT_EQ(text("metrics.jsonl"), owed ? steps : all);
  }
}

TEST_F(Metrics, ANewRunStartsEmpty) {
  write("metrics.jsonl", "no rows at all\n");
  open("jsonl", 0).reset();
  EXPECT_EQ(text("metrics.jsonl"), "");
}

TEST_F(Metrics, ACutOffLastLineIsPassedOverAndKept) {
  write("metrics.jsonl", "{\"step\": 1, \"time\": 1, \"loss\": 3}\n{\"step\": 2, \"time\": 2, \"lo");
  auto rows = readMetrics(directory_);
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->size(), 1u);
  const std::string before = text("metrics.jsonl");
  auto writer = open("jsonl", 2);
  ASSERT_TRUE(writer->add(row(2, 2, {{"loss", 2}})));
  ASSERT_TRUE(writer->flush());
  const std::string whole =
      "{\"step\": 1, \"time\": 1, \"loss\": 3}\n{\"step\": 2, \"time\": 2, \"loss\": 2}\n";
  EXPECT_EQ(text("metrics.jsonl"), whole);
  EXPECT_EQ(writer->damaged().first, 2);
  EXPECT_EQ(text("metrics.jsonl.old"), before);
  // A whole row without its line break is a row.
  write("metrics.jsonl", whole.substr(0, whole.size() - 1));
  writer = open("jsonl", 2);
  EXPECT_EQ(writer->damaged().count, 0);
  EXPECT_EQ(text("metrics.jsonl"), whole);
}

TEST_F(Metrics, ABrokenLineIsNamed) {
  for (const char* bad : {"{\"step\": 2, \"lo", "[]", "{\"time\": 1}", "{\"step\": 1.5}", "",
                          "{\"step\": 1, \"loss\": \"x\"}"}) {
    write("metrics.jsonl", fmt::format("{{\"step\": 1}}\n{}\n{{\"step\": 3}}\n", bad));
    auto rows = readMetrics(directory_);
    ASSERT_FALSE(rows) << bad;
    EXPECT_NE(rows.error().message().find("metrics.jsonl:2: expected a row"), std::string::npos)
        << rows.error().message();
    const std::string before = text("metrics.jsonl");
    auto writer = MetricsWriter::open(directory_, {}, 3);
    ASSERT_TRUE(writer) << "what is only looked at ends no training";
    const DamagedRows& damaged = (*writer)->damaged();
    EXPECT_EQ(text(fs::path(damaged.aside).filename().string()), before) << "nothing is lost";
    EXPECT_EQ(damaged.text(),
              fmt::format("{0}/metrics.jsonl:2: the row is damaged; all rows are kept as {1}, the "
                          "good ones are taken over",
                          directory_, damaged.aside));
    EXPECT_EQ(text("metrics.jsonl"), "{\"step\": 1, \"time\": 0}\n{\"step\": 3, \"time\": 0}\n");
  }
}

TEST_F(Metrics, MissingFolderIsAnError) {
  auto writer = MetricsWriter::open(directory_ + "/none", {MetricsFormat::jsonl}, 0);
  ASSERT_FALSE(writer);
  EXPECT_NE(writer.error().message().find("/none/metrics.jsonl: cannot write"), std::string::npos);
  EXPECT_FALSE(readMetrics(directory_));
}

// A limit on file sizes stands for a full disk: the write stops in the middle of a line.
TEST_F(Metrics, AFailedWriteLeavesWholeLinesAndIsDoneLater) {
  auto writer = open("jsonl", 0);
  ASSERT_TRUE(writer->add(row(1, 1, {{"loss", 3}})));
  ASSERT_TRUE(writer->flush());
  const std::string before = text("metrics.jsonl");

  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small{before.size() + 10, old.rlim_max};
  ASSERT_TRUE(writer->add(row(2, 2, {{"loss", 2}})));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto failed = writer->flush();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);

  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message().find("metrics.jsonl: cannot write: "), std::string::npos);
  EXPECT_EQ(text("metrics.jsonl"), before);
  ASSERT_TRUE(writer->flush());
  EXPECT_EQ(text("metrics.jsonl"), before + "{\"step\": 2, \"time\": 2, \"loss\": 2}\n");
}

}  // namespace
}  // namespace tg
