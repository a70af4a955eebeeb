// SPDX-License-Identifier: Apache-2.0
// Runs modules of stage spirv on a Vulkan device: makes buffers and pipelines, records each function's commands once,
// and replays the recordings in every call.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>

#include "ir/diagnostic.h"
#include "ir/module.h"
#include "ir/target.h"
#include "runtime/collective/engine.h"
#include "runtime/device_collective.h"
#include "runtime/runner.h"
#include "runtime/vulkan/recording.h"
#include "runtime/vulkan/upload.h"

namespace tg {

class NcclDevice;

/// Buffers of other sessions, mapped to the first `reserve` bytes of a module's @persistent. The module's own params
/// and states lie after them.
struct BorrowedBuffers {
  struct Window {
    int64_t base = 0;  ///< where the buffer begins in @persistent
    std::shared_ptr<vulkan::Buffer> buffer;
  };
  std::vector<Window> windows;  ///< they do not overlap
  int64_t reserve = 0;          ///< not less than the last window's end
};

/// The times of one measured call.
struct RunTimes {
  using Clock = std::chrono::steady_clock;
  std::string key;  ///< the function's key
  /// When the call began, and when the host had written the inputs, had submitted the commands, saw them complete and
  /// had read the results.
  Clock::time_point begin, written, submitted, finished, read;
  std::vector<vulkan::DeviceTime> device;  ///< as Recording::times gives them
};

/// Records the commands of each function once for each of its lanes (the input and result buffers of a call in flight),
/// and replays them. Not thread-safe.
class Executor : public Runner {
 public:
  /// Makes the buffers, pipelines and recordings of a verified module. The module's own params and states are zero.
  /// Errors: another stage, a binary that does not match its kernel, an exceeded limit, too little memory, errors of
  /// the driver. `onDiagnostic`, which may be empty, receives a note for each kernel that takes the driver long to
  /// compile. `ranks` runs the module's collectives; null means that this is the only rank.
  static Result<std::unique_ptr<Executor>>
  create(const Module& module, std::shared_ptr<vulkan::Device> device, const BorrowedBuffers& borrowed = {},
         const DiagnosticHandler& onDiagnostic = {}, std::shared_ptr<collective::Engine> ranks = nullptr);

  /// The sibling's params and states must have the same homes as this module's.
  Result<void> addFunction(std::shared_ptr<const Module> sibling, const std::string& function,
                           const std::string& key) override;
  void dropFunction(const std::string& key) override { functions_.erase(key); }
  /// The size of @persistent in bytes.
  int64_t persistentBytes() const { return persistent_.empty() ? 0 : persistent_.back().end(); }

  Result<void> setStorages(const NamedArrays& values) override;
  Result<NamedArrays> storages(const std::vector<std::string>& names) override;
  Result<void> writeRows(const std::string& name, int64_t first, std::span<const std::byte> rows) override;
  Result<void> readRows(const std::string& name, int64_t first, std::span<std::byte> rows) override;
  Result<std::shared_ptr<StorageCopy>> copyStorages() override;
  Result<ParamBuffer> share(const std::string& name) override;
  /// Waits for the oldest call if kLanes calls are in flight. Waits for this call itself if it is measured, if captures
  /// are wanted, or if a result is too large for a lane.
  Result<std::shared_ptr<PendingCall>> begin(const std::string& function, const InputViews& inputs,
                                             bool captures) override;
  Result<NamedArrays> paramGrads(const std::string& function) override;
  /// The contents of the function's captures, whichever call wrote them.
  Result<NamedArrays> captured(const std::string& function);

  /// The commands in the function's text; copies to and from lanes do not count.
  Result<vulkan::CommandCounts> counts(const std::string& function) const;
  /// The labels that graphics debuggers show for the function's dispatches: the kernel, what it computes, and at most
  /// eight of the params and states that it binds.
  Result<std::vector<std::string>> labels(const std::string& function) const;

  /// The driver's statistics on the kernel of each command, in the order of `RunTimes::device`. Empty for fills and
  /// copies, and for all commands if the device was not opened for statistics.
  Result<std::vector<vulkan::KernelStatistics>> statistics(const std::string& function) const;

  /// Uses no device memory besides the module's buffers from now on: inputs are copied at the start of their call, not
  /// while earlier calls run.
  void saveMemory() { savesMemory_ = true; }

  /// Chooses the timestamps of later calls (or none). The times of calls with timestamps are kept until `takeTimes`.
  void measure(vulkan::Timestamps timestamps);
  /// The measured calls since `measure` or the last `takeTimes`.
  Result<std::vector<RunTimes>> takeTimes();
  /// The cost of each collective so far. Waits for those in flight.
  Result<std::vector<CollectiveTimes>> collectiveTimes() const;

 private:
  /// The place of one value in a Vulkan buffer.
  struct Slot {
    std::string name;
    Type type;
    vulkan::Buffer* buffer = nullptr;
    int64_t offset = 0;  ///< in bytes
  };
  /// One of the Vulkan buffers that together hold a buffer of the module's text.
  struct Segment {
    int64_t base = 0;
    std::shared_ptr<vulkan::Buffer> buffer;
    int64_t end() const { return base + buffer->bytes(); }
  };
  /// Ordered by base. Segments made by the executor end at multiples of the target's allocation size.
  using Segments = std::vector<Segment>;
  /// The places of a function's values.
  struct Values {
    std::vector<Slot> inputs, results, captures, grads;
  };
  /// The kernels of a function that watch their loops, each with the index of its status word: the device sets the word
  /// if it ends a loop early. The words are read back as an additional last result of the function.
  struct Watched {
    struct Kernel {
      std::string name;
      Loc loc;
      int64_t word;
    };
    std::vector<Kernel> kernels;
    std::string device;
    int64_t iterations = 0;  ///< the device ends loops after this many
  };
  class Call;
  class Copied;
  struct Lane;
  struct LaneSet;
  static constexpr size_t kLanes = 3;  ///< most calls in flight: a step, the next one and its update
  /// A begin or a wait of a collective, which splits a function's commands into several recordings.
  struct CollectivePoint {
    size_t at = 0;  ///< the number of commands before it
    int64_t id = 0;
    bool begins = false;
    CollectiveArgs args;  ///< of a collective that begins here
  };
  /// The commands up to a collective point, and the collective to begin or wait for after them.
  struct Chunk {
    std::unique_ptr<vulkan::Recording> recording;  ///< null if there are no commands
    DeviceCollective* collective = nullptr;
    bool begins = false;
  };
  /// A function recorded for one lane.
  struct LaneRecording {
    Values values;
    std::unique_ptr<vulkan::Upload> upload;  ///< of the inputs, if it runs beside other work; else null
    std::map<int64_t, std::unique_ptr<DeviceCollective>> collectives;  ///< by id
    std::vector<Chunk> chunks;                     ///< the parts before each collective point
    std::unique_ptr<vulkan::Recording> recording;  ///< the commands after the last collective point
  };
  struct Function {
    std::string name;
    Values values;                                         ///< as placed by the module's text
    std::shared_ptr<const Watched> watched;                ///< null if no kernel watches its loops
    std::vector<std::shared_ptr<vulkan::Buffer>> buffers;  ///< keeps the buffers of the recordings alive
    std::vector<vulkan::Command> commands;
    std::vector<CollectivePoint> collectivePoints;  ///< in the order of the commands
    std::shared_ptr<LaneSet> laneSet;
    std::map<int64_t, StagingBuffers> staging;     ///< by collective id; shared by the lanes
    std::array<LaneRecording, kLanes> recordings;  ///< one for each lane; made on first use
    size_t lane = 0;                               ///< the last call's lane
    std::unique_ptr<vulkan::Recording> timed;      ///< the commands with timestamps; made on first use
  };
  struct Program;

  Executor() = default;
  Result<void> addModule(const Module& module, const std::string& only, const std::string& key);
  bool mapsIo(int64_t bytes) const;
  Result<Segments> makeSegments(const Item& item, int64_t from, const Target& target) const;
  Result<void> makePersistent(const Item& item, const Target& target);
  Result<void> makeBuffers(const Module& module, const Target& target, Program& program);
  Result<void> shareStorage(const Module& module, const Program& program);
  Result<void> makePipelines(const Module& module, Program& program, const std::set<std::string>& wanted);
  Result<Function> makeFunction(const Item& func, const Program& program);
  Result<void> watch(const Item& func, const Program& program, Function& function) const;
  static Result<void> checkLoops(const Watched* watched, NamedArrays& results);
  Result<Function*> find(const std::string& function) const;
  static Result<size_t> freeLane(LaneSet& set);
  static bool fitsLane(const Slot& slot);
  static int64_t strideInLane(const Slot& slot);
  static int64_t laneBytes(const Values& values);
  static std::vector<vulkan::Copy> stage(std::vector<Slot>& slots, vulkan::Buffer& lane, int64_t& offset,
                                         bool toDevice);
  Result<void> recordLane(Function& function, size_t lane);
  Result<void> uploadBeside(const Function& function, Lane& lane, int64_t bytes,
                            std::span<vulkan::Copy> copies, LaneRecording& out);
  Result<std::unique_ptr<DeviceCollective>> makeCollective(Function& function, const CollectivePoint& point);
  Result<void> addChunk(Function& function, LaneRecording& out, std::vector<vulkan::Command> commands,
                        const CollectivePoint& point);
  Result<RunOutputs> runTimed(const std::string& key, Function& function, const InputViews& inputs,
                              bool captures);
  Result<const Slot*> storageSlot(const std::string& name) const;
  static Result<Slot> rowsOf(const Slot& slot, int64_t first, size_t bytes);
  static std::vector<const std::byte*> valuesOf(std::span<const Slot> slots, const InputViews& inputs);
  static Result<void> write(vulkan::Device& device, std::span<const Slot> slots,
                            std::span<const std::byte* const> values, const vulkan::Buffer* lane);
  static Result<void> readInto(vulkan::Device& device, std::span<const Slot> slots,
                               std::span<std::byte* const> values, const vulkan::Buffer* lane);
  static Result<NamedArrays> read(vulkan::Device& device, std::span<const Slot> slots,
                                  const vulkan::Buffer* lane = nullptr);

  std::shared_ptr<vulkan::Device> device_;
  DiagnosticHandler onDiagnostic_;
  std::shared_ptr<collective::Engine> ranks_;  ///< null for a single rank
  std::shared_ptr<NcclDevice> nccl_;           ///< set by the first collective if the engine is NCCL's
  int64_t reserve_ = 0;                        ///< borrowed bytes of @persistent
  Segments persistent_;                        ///< windows on borrowed buffers, then this executor's own
  Segments arena_;                             ///< large enough for every function added so far
  std::unordered_map<std::string, Slot> storage_;
  std::map<std::string, std::unique_ptr<Function>> functions_;
  bool savesMemory_ = false;
  vulkan::Timestamps timestamps_ = vulkan::Timestamps::none;
  std::vector<RunTimes> times_;  ///< with `device` still empty
};

}  // namespace tg
