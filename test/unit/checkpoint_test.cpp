// SPDX-License-Identifier: Apache-2.0
// Checkpoints: what is saved comes back, damage is named, and nothing is lost by whatever stops a save.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "runtime/data/safetensors.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/tensor_facts.h"
#include "test/unit/data_test_support.h"
#include "test/unit/whole_checkpoint.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

Checkpoint checkpointAt(int64_t step, int64_t elements = 6) {
  Checkpoint out;
  out.state.step = step;
  out.state.seed = 0xfedcba9876543210u;
  out.state.seconds = 1.0 / 3;
  out.state.moduleHash = "m";
  out.state.device = "a \"device\"";
  out.state.version = "1";
  out.state.vocabulary = "ab\\n";
  out.state.bestValLoss = std::numeric_limits<double>::infinity();
  out.state.learningRate = 1e-3;
  HostArray weight = HostArray::zeros(DType::f32, {2, elements / 2});
  for (int64_t i = 0; i < elements; ++i)
    weight.set(i, static_cast<double>(step) + 0.25 * static_cast<double>(i));
  out.params.emplace_back("w", std::move(weight));
  out.params.emplace_back("half", arrayOf(DType::f16, {2}, {0.5, -65504}));
  out.states.emplace_back("w.m", arrayOf(DType::f32, {2}, {step * 2.0, -0.0}));
  out.states.emplace_back("count", arrayOf(DType::i32, {}, {static_cast<double>(step)}));
  out.states.emplace_back("seen", arrayOf(DType::i1, {3}, {1, 0, 1}));
  return out;
}

class Checkpoints : public Files {
 protected:
  void SetUp() override {
    run_ = path("run");
    fs::create_directory(run_);
  }
  std::string save(int64_t step) const {
    auto saved = saveCheckpoint(run_, checkpointAt(step));
    EXPECT_TRUE(saved) << saved.error().message();
    return saved ? *saved : "";
  }
  /// Names in the ckpt folder, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(run_ + "/ckpt")) out.push_back(entry.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }
  std::string run_;
};

std::string contentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void replace(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void expectSame(const NamedArrays& a, const NamedArrays& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_EQ(a[i].second.type().str(), b[i].second.type().str());
    EXPECT_EQ(a[i].second.bytes, b[i].second.bytes);
  }
}

TEST_F(Checkpoints, ComeBackAsSaved) {
  const std::string folder = save(7);
  EXPECT_EQ(folder, run_ + "/ckpt/step_00000007");
  const auto back = readCheckpoint(folder);
  ASSERT_OK(back);
  const Checkpoint expected = checkpointAt(7);
  expectSame(back->params, expected.params);
  expectSame(back->states, expected.states);
  EXPECT_EQ(back->state.step, 7);
  EXPECT_EQ(back->state.seed, 0xfedcba9876543210u);
  EXPECT_EQ(back->state.seconds, 1.0 / 3);
  EXPECT_EQ(back->state.device, "a \"device\"");
  EXPECT_EQ(back->state.vocabulary, "ab\\n");
  EXPECT_EQ(back->state.valLoss, std::nullopt);
  EXPECT_EQ(back->state.bestValLoss, std::numeric_limits<double>::infinity());
  EXPECT_EQ(back->state.stateHash, stateHash(expected.params, expected.states));
  const auto model = readSafetensors(folder + "/model.safetensors");
  ASSERT_OK(model);
  EXPECT_EQ(model->metadata.at("tensorgrad.step"), "7");
  EXPECT_EQ(model->metadata.at("tensorgrad.vocabulary"), "ab\\n");
}

TEST_F(Checkpoints, ASourceWithoutAFunctionIsNotSaved) {
  TensorSource unread;
  unread.tensors.emplace_back("w", Type::tensor(DType::f32, {2}));
  auto saved = saveCheckpoint(run_, {}, unread, {});
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message().find("the function that reads @w is empty"), std::string::npos)
      << saved.error().message();
}

TEST_F(Checkpoints, StateHashTellsNamesTypesAndPlaces) {
  const HostArray one = arrayOf(DType::f32, {2}, {0, 0}), other = arrayOf(DType::i32, {2}, {0, 0}),
                  turned = arrayOf(DType::f32, {2, 1}, {0, 0});
  const std::string hash = stateHash({{"a", one}}, {});
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(hash, stateHash({{"a", one}}, {}));
  EXPECT_NE(hash, stateHash({{"b", one}}, {}));
  EXPECT_NE(hash, stateHash({{"a", other}}, {}));
  EXPECT_NE(hash, stateHash({{"a", turned}}, {}));
  EXPECT_NE(hash, stateHash({}, {{"a", one}}));
}

TEST_F(Checkpoints, SavingAStepAgain) {
  const std::string folder = save(3);
  const auto written = fs::last_write_time(folder + "/COMPLETE");
  save(3);
  EXPECT_EQ(fs::last_write_time(folder + "/COMPLETE"), written) << "equal ones stay";
  Checkpoint changed = checkpointAt(3);
  changed.params[0].second.set(0, 99);
  ASSERT_OK(saveCheckpoint(run_, changed));
  EXPECT_EQ(readCheckpoint(folder)->params[0].second.at(0), 99);
  replace(folder + "/state.json", "{}");
  save(3);
  EXPECT_EQ(checkpointDamage(folder), "");
  EXPECT_EQ(names(), std::vector<std::string>{"step_00000003"});
}

TEST_F(Checkpoints, StatesThatAreNone) {
  const auto refused = [](const std::string& text, const char* part) {
    EXPECT_FAILS(stateFromJson(text, "s"), "s: ", part);
  };
  const std::string good = stateToJson(checkpointAt(1).state);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  ASSERT_OK(stateFromJson(good, "s"));
  refused("[1]", "expected a JSON object");
  refused("{\"step\"", "expected a JSON object");
  refused(with("\"format\": 1", "\"format\": 2"), "of format 2");
  refused(with("\"step\": 1,", ""), "step is missing");
  refused(with("\"step\": 1,", "\"step\": 1.5,"), "expected step to be an integer");
  refused(with("\"step\": 1,", "\"step\": 18446744073709551615,"), "expected step to be an integer");
  refused(with("\"step\": 1,", "\"step\": -1,"), "a step of 0 and more");
  refused(with("18364758544493064720", "-1"), "expected seed to be an integer of 0 and more");
  refused(with("0.001", "\"x\""), "expected learning_rate to be a number");
}

TEST_F(Checkpoints, DamageIsNamedAndSkipped) {
  save(10);
  const auto flip = [](const std::string& path) {
    std::string bytes = contentOf(path);
    bytes[bytes.size() / 2] ^= 1;
    replace(path, bytes);
  };
  for (const char* file : {"model.safetensors", "optim.safetensors", "state.json", "COMPLETE"}) {
    const auto check = [&](const char* what, auto damage) {
      const std::string folder = save(20);
      damage(folder + "/" + file);
      const auto latest = latestCheckpoint(run_);
      ASSERT_OK(latest);
      ASSERT_TRUE(latest->good) << what << file;
      EXPECT_EQ(latest->good->step, 10) << what << file;
      ASSERT_EQ(latest->skipped.size(), 1u) << what << file;
      EXPECT_HAS(latest->skipped[0].damage, file);
      EXPECT_FALSE(readCheckpoint(folder)) << what << file;
      const auto weights = openWeights(run_);
      ASSERT_OK(weights);
      EXPECT_EQ(weights->file, run_ + "/ckpt/step_00000010/model.safetensors");
      ASSERT_EQ(weights->skipped.size(), 1u);
      EXPECT_HAS(weights->skipped[0], file);
      EXPECT_FAILS(openWeights(folder), folder.c_str(), file);
    };
    check("flipped ", flip);
    check("cut off ", [](const std::string& path) { replace(path, contentOf(path).substr(0, 40)); });
    check("emptied ", [](const std::string& path) { replace(path, ""); });
    check("longer ", [](const std::string& path) { replace(path, contentOf(path) + "\n"); });
    check("deleted ", [](const std::string& path) { fs::remove(path); });
    check("folder ", [](const std::string& path) {
      fs::remove(path);
      fs::create_directory(path);
    });
    check("garbage ", [](const std::string& path) { replace(path, std::string(500, '\xee')); });
    check("pipe ", [](const std::string& path) {
      fs::remove(path);
      ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    });
  }
}

TEST_F(Checkpoints, AnyChangedByteOfCompleteIsSeen) {
  const std::string folder = save(1), file = folder + "/COMPLETE", whole = contentOf(file);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] ^= 0x10;
    replace(file, bytes);
    EXPECT_NE(checkpointDamage(folder), "") << at;
    replace(file, whole.substr(0, at));
    EXPECT_NE(checkpointDamage(folder), "") << at;
  }
  replace(file, whole);
  EXPECT_EQ(checkpointDamage(folder), "");
}

TEST_F(Checkpoints, OtherThingsInTheFolder) {
  const std::string folder = save(20);
  replace(folder + "/notes.txt", "mine");
  EXPECT_HAS(checkpointDamage(folder), "notes.txt is not one of the checkpoint's files");
  fs::remove(folder + "/notes.txt");
  // A renamed folder is whole but lies about its step.
  fs::rename(folder, run_ + "/ckpt/step_00000030");
  EXPECT_FAILS(readCheckpoint(run_ + "/ckpt/step_00000030"), "state.json is of step 20");
  // The one before it is gone on with.
  fs::copy(run_ + "/ckpt/step_00000030", folder);
  const auto latest = latestCheckpoint(run_);
  ASSERT_TRUE(latest->good);
  EXPECT_EQ(latest->good->step, 20);
  ASSERT_EQ(latest->skipped.size(), 1u);
  EXPECT_EQ(latest->skipped[0].damage, "state.json is of step 20: the folder was renamed");
  fs::remove_all(run_ + "/ckpt/step_00000030");
  replace(run_ + "/ckpt/step_00000040", "a file");
  replace(run_ + "/ckpt/step_x", "");
  fs::create_directory(run_ + "/ckpt/other");
  const auto entries = listCheckpoints(run_);
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].step, 40);
  EXPECT_EQ((*entries)[0].damage, "it is not a folder");
  EXPECT_EQ((*entries)[1].damage, "");
  EXPECT_FAILS(listCheckpoints(path("nowhere")), "nowhere", "there is no such run");
}

TEST_F(Checkpoints, PruningKeepsTheNewestGoodAndTheWanted) {
  for (int64_t step : {1, 2, 3, 4, 5, 6}) save(step);
  fs::remove(run_ + "/ckpt/step_00000006/COMPLETE");
  fs::remove(run_ + "/ckpt/step_00000004/state.json");
  fs::create_directory(run_ + "/ckpt/.tmp-step_00000009-999999999.0");
  ASSERT_OK(pruneCheckpoints(run_, 0, {}));
  EXPECT_EQ(names(), (std::vector<std::string>{"step_00000001", "step_00000002", "step_00000003",
                                               "step_00000005", "step_00000006"}));
  ASSERT_OK(pruneCheckpoints(run_, 2, {1}));
  EXPECT_EQ(names(),
            (std::vector<std::string>{"step_00000001", "step_00000003", "step_00000005", "step_00000006"}));
  // With no good one among the newest nothing is thrown away before one is found.
  fs::remove(run_ + "/ckpt/step_00000005/state.json");
  ASSERT_OK(pruneCheckpoints(run_, 1, {}));
  EXPECT_EQ(names(), (std::vector<std::string>{"step_00000003", "step_00000005", "step_00000006"}));
}

TEST_F(Checkpoints, OneThatIsReadIsNotPruned) {
  for (int64_t step : {1, 2}) save(step);
  auto read = openWeights(run_);
  ASSERT_OK(read);
  for (int64_t step : {3, 4}) save(step);
  ASSERT_OK(pruneCheckpoints(run_, 1, {}));
  EXPECT_EQ(names(), (std::vector<std::string>{"step_00000002", "step_00000004"}));
  read->hold.reset();
  ASSERT_OK(pruneCheckpoints(run_, 1, {}));
  EXPECT_EQ(names(), (std::vector<std::string>{"step_00000004"}));
}

// One thread saves and prunes, the other reads the newest: it never finds that the run has none.
TEST_F(Checkpoints, AReaderOfARunThatTrainsAlwaysFindsOne) {
  save(1);
  std::atomic<bool> stop = false;
  std::thread training([&] {
    for (int64_t step = 2; !stop; ++step) {
      save(step);
      EXPECT_TRUE(pruneCheckpoints(run_, 1, {}));
    }
  });
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(openWeights(run_));
  }
  stop = true;
  training.join();
}

TEST_F(Checkpoints, LaterOnesAreMovedAsideAndNothingElse) {
  for (int64_t step : {1, 2, 3, 4, 5}) save(step);
  fs::remove(run_ + "/ckpt/step_00000005/COMPLETE");
  fs::create_directory(run_ + "/ckpt/.tmp-step_00000009-999999999.0");
  auto moved = supersedeAfter(run_, 2);
  ASSERT_OK(moved);
  EXPECT_EQ(*moved, (std::vector<std::string>{run_ + "/ckpt/step_00000003.superseded",
                                              run_ + "/ckpt/step_00000004.superseded"}));
  EXPECT_EQ(names(), (std::vector<std::string>{"step_00000001", "step_00000002", "step_00000003.superseded",
                                               "step_00000004.superseded", "step_00000005"}));
  EXPECT_EQ((*latestCheckpoint(run_)).good->step, 2);
  EXPECT_EQ(checkpointDamage(run_ + "/ckpt/step_00000003.superseded"), "") << "whole as it was";
  // What was moved aside is neither pruned nor taken for a checkpoint, and keeps its name when it happens
  // again.
  save(3);
  ASSERT_OK(supersedeAfter(run_, 2));
  ASSERT_OK(pruneCheckpoints(run_, 1, {}));
  EXPECT_EQ(names(), (std::vector<std::string>{"step_00000002", "step_00000003.superseded",
                                               "step_00000003.superseded.2", "step_00000004.superseded",
                                               "step_00000005"}));
  moved = supersedeAfter(run_, 2);
  ASSERT_OK(moved);
  EXPECT_TRUE(moved->empty());
  EXPECT_FAILS(supersedeAfter(path("nowhere"), 1), "there is no such run");
}

TEST_F(Checkpoints, TheLockTellsWhetherARunLives) {
  EXPECT_FALSE(isTraining(run_));
  EXPECT_FALSE(isTraining(path("nowhere")));
  {
    auto lock = RunLock::take(run_);
    ASSERT_OK(lock);
    EXPECT_TRUE(isTraining(run_));
    EXPECT_FAILS(RunLock::take(run_), "is in use");
  }
  EXPECT_FALSE(isTraining(run_));
  ASSERT_OK(RunLock::take(run_));
}

TEST_F(Checkpoints, FactsAreOfFiniteElements) {
  auto tensorFacts = [&](const std::string& name, const HostArray& array) {
    const std::vector<std::pair<std::string, HostArray>> tensors = {{name, array}};
    EXPECT_TRUE(writeSafetensors(path("facts"), sourceOf(tensors), {}));
    const auto facts = fileFacts(path("facts"));
    return facts && facts->tensors.size() == 1 ? facts->tensors[0] : TensorFacts();
  };
  const auto inf = std::numeric_limits<double>::infinity();
  const TensorFacts far =
      tensorFacts("far", arrayOf(DType::f32, {4}, {16777216, 16777218, 16777220, 16777222}));
  EXPECT_EQ(far.mean, 16777219);
  EXPECT_DOUBLE_EQ(far.std, std::sqrt(5.0));
  const TensorFacts odd = tensorFacts("odd", arrayOf(DType::f32, {2, 2}, {inf, -2, std::nan(""), 4}));
  EXPECT_EQ(odd.nonFinite, 2);
  EXPECT_EQ(odd.min, -2);
  EXPECT_EQ(odd.max, 4);
  EXPECT_EQ(odd.mean, 1);
  EXPECT_EQ(odd.std, 3);
  const TensorFacts none = tensorFacts("none", arrayOf(DType::f32, {1}, {inf}));
  EXPECT_EQ(none.nonFinite, 1);
  EXPECT_EQ(none.mean, 0);
  EXPECT_EQ(tensorFacts("flags", arrayOf(DType::i1, {4}, {1, 0, 1, 1})).mean, 0.75);
}

TEST_F(Checkpoints, ReadOnlyPlaces) {
  replace(path("file"), "");
  EXPECT_FAILS(saveCheckpoint(path("file"), checkpointAt(1)), "cannot save", "file/ckpt", "Not a directory");
  EXPECT_FAILS(saveCheckpoint("/proc/tg-run", checkpointAt(1)), "cannot save", "/proc/tg-run");
  save(1);
  replace(run_ + "/other", "");
  if (::geteuid() == 0) return;  // whom permissions do not stop
  fs::permissions(run_ + "/ckpt", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_FAILS(saveCheckpoint(run_, checkpointAt(2)), "cannot save", "Permission denied");
  fs::permissions(run_ + "/ckpt", fs::perms::owner_all);
  EXPECT_EQ(names(), std::vector<std::string>{"step_00000001"});
}

/// A full disk as this process sees one: no file may grow beyond a limit.
struct FileLimit {
  rlimit before{};
  sighandler_t handler;
  explicit FileLimit(rlim_t bytes) : handler(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit limit{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  }
};

TEST_F(Checkpoints, AFileThatCannotGrow) {
  save(1);
  for (rlim_t limit : {0, 1, 100, 4000}) {
    Result<std::string> saved = fail("");
    {
      FileLimit full(limit);
      saved = saveCheckpoint(run_, checkpointAt(2, 4000));
    }
    ASSERT_FALSE(saved) << limit;
    for (const char* part : {"cannot save", "step_00000002", "model.safetensors", "File too large"})
      EXPECT_HAS(saved.error().message(), part);
    EXPECT_EQ(names(), std::vector<std::string>{"step_00000001"});
  }
  EXPECT_EQ(checkpointDamage(run_ + "/ckpt/step_00000001"), "");
}

TEST_F(Checkpoints, AFullDisk) {
  const std::string disk = path("disk");
  fs::create_directory(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "may not mount a tmpfs";
  run_ = disk;
  save(1);
  const auto saved = saveCheckpoint(run_, checkpointAt(2, 40000));
  const auto left = names();
  const std::string damage = checkpointDamage(run_ + "/ckpt/step_00000001");
  ::mount("none", disk.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "");
  const auto readOnly = saveCheckpoint(run_, checkpointAt(3));
  ::umount(disk.c_str());
  EXPECT_FAILS(saved, "cannot save", "step_00000002", "No space left on device");
  EXPECT_EQ(left, std::vector<std::string>{"step_00000001"});
  EXPECT_EQ(damage, "");
  EXPECT_FAILS(readOnly, "cannot save", "step_00000003", "Read-only file system");
}

/// Saves steps from `from` on until it is killed, saying each that is done; every third one twice.
[[noreturn]] void saveUntilKilled(const std::string& run, int64_t from, int out) {
  for (int64_t step = from;; ++step) {
    bool good = static_cast<bool>(saveCheckpoint(run, checkpointAt(step, 3000)));
    if (step % 3 == 0) {
      Checkpoint changed = checkpointAt(step, 3000);
      changed.params[0].second.set(1, 1e6);
      good = good && saveCheckpoint(run, changed);
    }
    if (!good || ::write(out, &step, sizeof(step)) != sizeof(step)) ::_exit(1);
    if (!pruneCheckpoints(run, 4, {})) ::_exit(1);
  }
}

TEST_F(Checkpoints, KilledAtAnyMomentNothingIsLost) {
  std::mt19937 random(5);
  int64_t last = 0;
  int left = 0;
  for (int round = 0; round < 50; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) saveUntilKilled(run_, last + 1, ends[1]);
    ::close(ends[1]);
    int64_t step = 0;
    const bool early = round % 5 == 0;  // also before the first save is done
    ASSERT_TRUE(early || ::read(ends[0], &step, sizeof(step)) == sizeof(step));
    last = std::max(last, step);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed by itself";
    while (::read(ends[0], &step, sizeof(step)) == sizeof(step)) last = std::max(last, step);
    ::close(ends[0]);

    const auto entries = listCheckpoints(run_);
    ASSERT_OK(entries);
    for (const CheckpointEntry& entry : *entries) EXPECT_EQ(entry.damage, "") << entry.path;
    if (last > 0) {
      ASSERT_FALSE(entries->empty());
      EXPECT_GE(entries->front().step, last);
      ASSERT_OK(readCheckpoint(entries->front().path));
      last = entries->front().step;
    }
    if (!fs::exists(run_ + "/ckpt")) continue;
    for (const std::string& name : names()) left += name.starts_with(".tmp-");
    ASSERT_OK(pruneCheckpoints(run_, 4, {}));
    for (const std::string& name : names()) EXPECT_FALSE(name.starts_with(".tmp-")) << name;
  }
  EXPECT_GT(left, 0) << "no save was interrupted, so the test shows nothing";
}

TEST_F(Checkpoints, ALivingSaveIsLeftAlone) {
  save(1);
  int ready[2], stop[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(stop), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string folder = run_ + "/ckpt/.tmp-step_00000002-1.0";
    fs::create_directory(folder);
    const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
    char byte = ::flock(lock, LOCK_EX) == 0;
    if (::write(ready[1], &byte, 1) == 1) (void)!::read(stop[0], &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_OK(pruneCheckpoints(run_, 1, {}));
  EXPECT_EQ(names(), (std::vector<std::string>{".tmp-step_00000002-1.0", "step_00000001"}));
  ASSERT_EQ(::write(stop[1], &byte, 1), 1);
  ::waitpid(child, nullptr, 0);
  ASSERT_OK(pruneCheckpoints(run_, 1, {}));
  EXPECT_EQ(names(), std::vector<std::string>{"step_00000001"});
  for (int end : {ready[0], ready[1], stop[0], stop[1]}) ::close(end);
}

/// The arrays of a file that are those a module wants.
Result<NamedArrays> matchedArrays(const NamedArrays& file,
                                  const std::vector<std::pair<std::string, Type>>& wanted,
                                  const std::string& where) {
  TG_TRY(const TensorSource matched, matchTensors(sourceOf(file), wanted, where));
  return readAll(matched);
}

TEST(MatchTensors, ListsEveryMismatch) {
  const NamedArrays file = {{"a", arrayOf(DType::f32, {2}, {1, 0.1f})},
                            {"b", arrayOf(DType::f32, {3}, {1, 2, 3})},
                            {"c", arrayOf(DType::i32, {1}, {7})},
                            {"big", arrayOf(DType::f32, {1}, {1e9})}};
  const auto type = [](DType dtype, Shape shape) { return Type::tensor(dtype, shape); };
  const auto good = matchedArrays(file,
                                  {{"big", type(DType::f32, {1})},
                                   {"c", type(DType::u32, {1})},
                                   {"b", type(DType::f32, {3})},
                                   {"a", type(DType::f16, {2})}},
                                  "m");
  ASSERT_OK(good);
  EXPECT_EQ((*good)[0].first, "big");
  EXPECT_EQ((*good)[1].second.dtype, DType::u32);
  EXPECT_EQ((*good)[3].second.at(1), 0.0999755859375) << "0.1 rounded to f16";
  EXPECT_FAILS(matchedArrays(file,
                             {{"a", type(DType::f32, {1, 2})},
                              {"c", type(DType::f32, {1})},
                              {"big", type(DType::f16, {1})},
                              {"d", type(DType::f32, {4})}},
                             "m.st"),
               "m.st", "shape: a is tensor<2xf32>, expected tensor<1x2xf32>", "type: c is tensor<1xi32>",
               "type: big is", "element 0 is 1000000000, which does not fit f16", "missing: d tensor<4xf32>",
               "not wanted: b tensor<3xf32>");
}

TEST(MatchTensors, NumbersAnElementOfALaterPiece) {
  const int64_t count = kPieceBytes / 2 + 5;
  NamedArrays file = {{"large", HostArray::zeros(DType::f32, {count})}};
  file[0].second.f32()[static_cast<size_t>(count) - 2] = 70000;
  const std::string told = fmt::format("element {} is 70000, which does not fit f16", count - 2);
  EXPECT_FAILS(matchedArrays(file, {{"large", Type::tensor(DType::f16, {count})}}, "m"), told.c_str());
}

TEST(MatchTensors, NamesOfTheTypescriptLibrary) {
  const Type matrix = Type::tensor(DType::f32, {2, 2}), row = Type::tensor(DType::f32, {2});
  const NamedArrays file = {{"l.0.W", arrayOf(DType::f32, {4}, {1, 2, 3, 4})},
                            {"l.0.b", arrayOf(DType::f32, {2}, {5, 6})},
                            {"norm.g", arrayOf(DType::f32, {2}, {7, 8})},
                            {"norm.b", arrayOf(DType::f32, {2}, {9, 10})},
                            {"W", arrayOf(DType::f32, {2, 2}, {11, 12, 13, 14})}};
  const auto good = matchedArrays(
      file, {{"l.0.w", matrix}, {"l.0.b", row}, {"norm.gain", row}, {"norm.bias", row}, {"w", matrix}}, "m");
  ASSERT_OK(good);
  EXPECT_EQ((*good)[0].first, "l.0.w");
  EXPECT_EQ((*good)[0].second.shape, (Shape{2, 2}));
  EXPECT_EQ((*good)[0].second.at(3), 4);
  EXPECT_EQ((*good)[3].second.at(1), 10);
  EXPECT_EQ((*good)[4].second.at(0), 11);
  EXPECT_FAILS(matchedArrays(file, {{"l.0.w", row}, {"norm.gain", row}}, "m"),
               "shape: l.0.w is tensor<4xf32>, expected tensor<2xf32>", "not wanted: l.0.b",
               "not wanted: norm.b", "not wanted: W");
  // A name of its own comes first.
  const auto own = matchedArrays({{"w", arrayOf(DType::f32, {2}, {1, 2})}}, {{"w", row}}, "m");
  ASSERT_OK(own);
}

TEST_F(Checkpoints, WhatAPathMeans) {
  const std::string folder = save(4);
  EXPECT_EQ(trainedKind(run_), TrainedKind::run);
  EXPECT_EQ(trainedKind(folder), TrainedKind::checkpoint);
  EXPECT_EQ(trainedKind(folder + "/model.safetensors"), TrainedKind::file);
  EXPECT_EQ(trainedKind(path("nowhere")), TrainedKind::none);
  for (const std::string& given : {run_, run_ + "/", folder, folder + "/"}) {
    const auto found = openWeights(given);
    ASSERT_OK(found);
    EXPECT_EQ(found->file, folder + "/model.safetensors");
    EXPECT_EQ(found->run, run_);
    EXPECT_HAS(found->taken, "step 4");
    EXPECT_EQ(found->vocabulary, "ab\\n");
  }
  fs::rename(folder, path("copy"));
  const auto alone = openWeights(path("copy"));
  ASSERT_OK(alone);
  EXPECT_EQ(alone->run, "");
  EXPECT_FAILS(openWeights(run_), "has no checkpoint");
  EXPECT_FAILS(openWeights(path("nowhere")), "nowhere: no such file, run or checkpoint");
  fs::create_directory(path("plain"));
  EXPECT_FAILS(openWeights(path("plain")), "neither a run nor a checkpoint");
}

}  // namespace
}  // namespace tg
