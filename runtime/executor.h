// SPDX-License-Identifier: Apache-2.0
// Runs modules of stage spirv on a Vulkan device.
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
#include "runtime/runner.h"
#include "runtime/travel.h"
#include "runtime/vulkan/recording.h"

namespace tg {

class NcclDevice;

/// Buffers of other sessions, seen as the first `reserve` bytes of a module's @persistent. What the module
/// places there is theirs; its own params and states lie behind.
struct BorrowedBuffers {
  struct Window {
    int64_t base = 0;  ///< where the buffer's first byte stands in @persistent
    std::shared_ptr<vulkan::Buffer> buffer;
  };
  std::vector<Window> windows;  ///< apart from each other
  int64_t reserve = 0;          ///< behind the last window
};

/// A call that was measured.
struct RunTimes {
  using Clock = std::chrono::steady_clock;
  std::string key;  ///< of the function
  /// When it began, and when the host had written the inputs, had submitted the commands, heard that they
  /// were done and had read the results.
  Clock::time_point begin, written, submitted, finished, read;
  std::vector<vulkan::DeviceTime> device;  ///< as Recording::times
};

/// Each function is recorded once for each of its lanes and replayed. Not for several threads at once.
class Executor : public Runner {
 public:
  /// Makes the buffers, pipelines and recordings of a verified module. Own params and states are zero.
  /// Errors: another stage, a binary that is not of its kernel, a limit, memory, the driver's refusals.
  /// `onDiagnostic`, which may be empty, hears a note of each kernel that the driver compiles for long. `ranks`
  /// joins this one with others; null: there is one alone.
  static Result<std::unique_ptr<Executor>>
  create(const Module& module, std::shared_ptr<vulkan::Device> device, const BorrowedBuffers& borrowed = {},
         const DiagnosticHandler& onDiagnostic = {}, std::shared_ptr<collective::Engine> ranks = nullptr);

  /// The sibling's params and states must have the same homes as here.
  Result<void> addFunction(std::shared_ptr<const Module> sibling, const std::string& function,
                           const std::string& key) override;
  void dropFunction(const std::string& key) override { functions_.erase(key); }
  /// Bytes of @persistent.
  int64_t persistentBytes() const { return persistent_.empty() ? 0 : persistent_.back().end(); }

  Result<void> setStorages(const NamedArrays& values) override;
  Result<NamedArrays> storages(const std::vector<std::string>& names) override;
  Result<void> writeRows(const std::string& name, int64_t first, std::span<const std::byte> rows) override;
  Result<void> readRows(const std::string& name, int64_t first, std::span<std::byte> rows) override;
  Result<std::shared_ptr<StorageCopy>> copyStorages() override;
  Result<ParamBuffer> share(const std::string& name) override;
  /// Waits for the oldest of kLanes calls that nobody has taken, and for this one where it is measured,
  /// captures are wanted or a result is too large for a lane.
  Result<std::shared_ptr<PendingCall>> begin(const std::string& function, const Inputs& inputs,
                                             bool captures) override;
  Result<NamedArrays> paramGrads(const std::string& function) override;
  /// What lies where the function keeps its captures, whoever wrote it.
  Result<NamedArrays> captured(const std::string& function);

  /// Of the function's text; copies from and to lanes do not count.
  Result<vulkan::CommandCounts> counts(const std::string& function) const;
  /// What graphics debuggers show for the function's dispatches: the kernel, what it computes, and the params
  /// and states whose bytes it binds, eight at most.
  Result<std::vector<std::string>> labels(const std::string& function) const;

  /// What the driver tells of each command's kernel, in the order of its times: nothing of fills and copies, and
  /// nothing at all on a device that was not opened for it.
  Result<std::vector<vulkan::KernelStatistics>> statistics(const std::string& function) const;

  /// From now on `run` uses recordings with these timestamps and remembers its times, or no longer does.
  void measure(vulkan::Timestamps timestamps);
  /// The calls since `measure` or the last `takeTimes`.
  Result<std::vector<RunTimes>> takeTimes();
  /// What each collective has cost. Waits for what is under way.
  Result<std::vector<TravelTimes>> travels() const;
  const std::shared_ptr<vulkan::Device>& device() const { return device_; }

 private:
  /// Bytes of a buffer that hold a value.
  struct Slot {
    std::string name;
    Type type;
    vulkan::Buffer* buffer = nullptr;
    int64_t offset = 0, pitch = 0;  ///< bytes; elements from one row to the next, 0 when dense
  };
  /// A buffer, or the part of one that is a buffer of its own, as the module's text sees it.
  struct Segment {
    int64_t base = 0;
    std::shared_ptr<vulkan::Buffer> buffer;
    int64_t end() const { return base + buffer->bytes(); }
  };
  /// In order of their bases. Those that the executor makes end at multiples of the target's allocation.
  using Segments = std::vector<Segment>;
  /// Where a function's values lie.
  struct Values {
    std::vector<Slot> inputs, results, captures, grads;
  };
  /// The kernels of a function that watch their loops, each with the number of its word. The words are one
  /// result more than the function's, the last.
  struct Watched {
    struct Kernel {
      std::string name;
      Loc loc;
      int64_t word;
    };
    std::vector<Kernel> kernels;
    std::string device;
    int64_t iterations = 0;  ///< after which the device ends loops
  };
  class Call;
  class Copied;
  struct Lane;
  struct Port;
  static constexpr size_t kLanes = 3;  ///< a step, the next one and its update
  /// Where the host brings this rank together with others: ranges leave, or what left under this id is back.
  struct Meeting {
    size_t at = 0;  ///< behind so many of the function's commands
    int64_t id = 0;
    bool begins = false;
    Cargo cargo;  ///< where it begins
  };
  /// Commands up to a meeting, null where there are none, and what travels then or is waited for.
  struct Leg {
    std::unique_ptr<vulkan::Recording> recording;
    Travel* travel = nullptr;
    bool begins = false;
  };
  /// A function whose values go through one of its port's lanes.
  struct Passage {
    Values values;
    std::map<int64_t, std::unique_ptr<Travel>> travels;  ///< by id
    std::vector<Leg> legs;                               ///< up to the last meeting
    std::unique_ptr<vulkan::Recording> recording;        ///< what comes then
  };
  struct Function {
    std::string name;
    Values values;                                         ///< as the module's text places them
    std::shared_ptr<const Watched> watched;                ///< null: no loop may be cut
    std::vector<std::shared_ptr<vulkan::Buffer>> buffers;  ///< outlive the recordings that name them
    std::vector<vulkan::Command> commands;
    std::vector<Meeting> meetings;  ///< by their places among the commands
    std::shared_ptr<Port> port;
    std::map<int64_t, TravelRoom> rooms;       ///< by id, of the passages' travels
    std::array<Passage, kLanes> passages;      ///< the later ones made when first used
    size_t lane = 0;                           ///< of the last call
    std::unique_ptr<vulkan::Recording> timed;  ///< the commands with timestamps, made when first measured
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
  static Result<size_t> freeLane(Port& port);
  static bool fitsLane(const Slot& slot);
  static int64_t strideInLane(const Slot& slot);
  static int64_t laneBytes(const Values& values);
  static std::vector<vulkan::Copy> stage(std::vector<Slot>& slots, vulkan::Buffer& lane, int64_t& offset,
                                         bool toDevice);
  Result<void> makePassage(Function& function, size_t lane);
  Result<std::unique_ptr<Travel>> makeTravel(Function& function, const Meeting& meeting);
  Result<void> makeLeg(Function& function, Passage& passage, std::vector<vulkan::Command> commands,
                       const Meeting& meeting);
  Result<RunOutputs> runTimed(const std::string& key, Function& function, const Inputs& inputs,
                              bool captures);
  Result<const Slot*> storageSlot(const std::string& name) const;
  static Result<Slot> rowsOf(const Slot& slot, int64_t first, size_t bytes);
  static std::vector<const std::byte*> valuesOf(std::span<const Slot> slots, const Inputs& inputs);
  static Result<void> write(vulkan::Device& device, std::span<const Slot> slots,
                            std::span<const std::byte* const> values, const vulkan::Buffer* lane);
  static Result<void> readInto(vulkan::Device& device, std::span<const Slot> slots,
                               std::span<std::byte* const> values, const vulkan::Buffer* lane);
  static Result<NamedArrays> read(vulkan::Device& device, std::span<const Slot> slots,
                                  const vulkan::Buffer* lane = nullptr);

  std::shared_ptr<vulkan::Device> device_;
  DiagnosticHandler onDiagnostic_;
  std::shared_ptr<collective::Engine> ranks_;  ///< null: one alone
  std::shared_ptr<NcclDevice> gpu_;            ///< where ranks reduce on their GPUs, since the first travel
  int64_t reserve_ = 0;                        ///< bytes of @persistent that are borrowed
  Segments persistent_;                        ///< the windows on borrowed buffers, then this executor's own
  Segments arena_;                             ///< large enough for every function so far
  std::unordered_map<std::string, Slot> storage_;
  std::map<std::string, std::unique_ptr<Function>> functions_;
  vulkan::Timestamps timestamps_ = vulkan::Timestamps::none;
  std::vector<RunTimes> times_;  ///< without `device`
};

}  // namespace tg
