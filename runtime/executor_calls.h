// SPDX-License-Identifier: Apache-2.0
// Inputs and results of calls in flight. Each call has a lane, a host-visible buffer, so that the host fills one lane
// while the device works on another. Internal to the executor.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "runtime/executor.h"

namespace tg {

/// If @io is at most this large, it is itself host-visible and each lane is a copy of it: kernels access inputs and
/// results in the lane directly, and a call needs no copies. A larger @io (kept gradients, captures, many rows) is in
/// device memory.
constexpr int64_t kMappedIoBytes = int64_t(1) << 20;
/// The largest value that is copied through a lane. Larger ones are transferred in pieces while the device is idle.
constexpr int64_t kLaneValueBytes = int64_t(64) << 20;

/// Inputs of at least so many bytes are uploaded beside the work of earlier calls, if the device can do that. They go to
/// the lane's memory on the device, and the call copies them from there to @io.
constexpr int64_t kLeastUpload = int64_t(1) << 20;

/// A call whose results stay in its lane until they are taken, or until another call needs the lane.
class Executor::Call : public PendingCall {
 public:
  Call(std::shared_ptr<vulkan::Device> device, std::shared_ptr<vulkan::Buffer> lane, uint64_t submission,
       std::vector<Slot> results, std::shared_ptr<const Watched> watched)
      : device_(std::move(device)), lane_(std::move(lane)), submission_(submission),
        results_(std::move(results)), watched_(std::move(watched)) {}

  Result<RunOutputs> take() override;
  /// Waits for the call, copies its results and releases the lane.
  Result<void> fetch();
  bool holdsLane() const { return lane_ != nullptr; }
  RunOutputs& outputs() { return outputs_; }

 private:
  std::shared_ptr<vulkan::Device> device_;
  std::shared_ptr<vulkan::Buffer> lane_;  ///< null once the results have been copied
  uint64_t submission_;
  std::vector<Slot> results_;
  std::shared_ptr<const Watched> watched_;
  Error cut_;  ///< set if the device ended a watched loop early
  RunOutputs outputs_;
};

struct Executor::Lane {
  std::shared_ptr<vulkan::Buffer> buffer;  ///< host-visible; null until first used
  /// On the device, if inputs are uploaded beside other work; else null.
  std::shared_ptr<vulkan::Buffer> inputs;
  uint64_t submission = 0;  ///< the last call's submission
  std::weak_ptr<Call> call;
};

/// The lanes of a module with mapped @io, or of one function.
struct Executor::LaneSet {
  /// The @io buffer of the text, which is also the first lane. If null, values are copied between lanes and @io.
  std::shared_ptr<vulkan::Buffer> io;
  int64_t bytes = 0;  ///< size of a lane
  std::array<Lane, kLanes> lanes;
};

}  // namespace tg
