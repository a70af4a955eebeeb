// SPDX-License-Identifier: Apache-2.0
// How the values of calls reach the device and come back: by lanes, so that the host fills one while the
// device works on what another holds. Internal to the executor.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "runtime/executor.h"

namespace tg {

/// A buffer up to here is mapped and its own lane, so that a call needs no copies: kernels read inputs and
/// write results there. Larger ones (kept gradients, captures, many rows) stay where kernels are fast.
constexpr int64_t kMappedIoBytes = int64_t(1) << 20;
/// Of values copied from and to lanes. Larger ones are moved piece by piece while the device rests.
constexpr int64_t kLaneValueBytes = int64_t(64) << 20;

/// A call whose results are in its lane until somebody takes them or the lane is needed.
class Executor::Call : public PendingCall {
 public:
  Call(std::shared_ptr<vulkan::Device> device, std::shared_ptr<vulkan::Buffer> lane, uint64_t submission,
       std::vector<Slot> results, std::shared_ptr<const Watched> watched)
      : device_(std::move(device)), lane_(std::move(lane)), submission_(submission),
        results_(std::move(results)), watched_(std::move(watched)) {}

  Result<RunOutputs> take() override;
  /// Waits for the call and empties the lane.
  Result<void> fetch();
  bool holdsLane() const { return lane_ != nullptr; }
  RunOutputs& outputs() { return outputs_; }

 private:
  std::shared_ptr<vulkan::Device> device_;
  std::shared_ptr<vulkan::Buffer> lane_;  ///< null once the results are here
  uint64_t submission_;
  std::vector<Slot> results_;
  std::shared_ptr<const Watched> watched_;
  Error cut_;  ///< what of the watched loops was not done
  RunOutputs outputs_;
};

struct Executor::Lane {
  std::shared_ptr<vulkan::Buffer> buffer;  ///< mapped; null until first used
  uint64_t submission = 0;                 ///< of the last call
  std::weak_ptr<Call> call;
};

/// The lanes of a module whose @io is mapped, or of one function.
struct Executor::Port {
  /// What the text calls @io, and the first lane is; null where values are copied.
  std::shared_ptr<vulkan::Buffer> io;
  int64_t bytes = 0;  ///< of a lane
  std::array<Lane, kLanes> lanes;
};

}  // namespace tg
