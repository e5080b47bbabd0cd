#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <c10/core/Device.h>

namespace sluice {

/// Calls that run as ever before their operations are captured: LibTorch and
/// CUDA's libraries make and choose by then what they keep.
inline constexpr std::int64_t kGraphWarmUps = 2;

/// Whether this program can capture graphs there: on CUDA's GPUs, with a
/// LibTorch that has an interface for them.
bool can_capture_graphs(const c10::Device& device);

/// Operations of a GPU that are captured once, with their addresses and
/// numbers, and started together as one launch, as often as wanted (CUDA
/// graphs). Memory that is allocated during the capture stays as long as the
/// graph; other memory that its operations use is the caller's to keep.
class DeviceGraph {
 public:
  /// Captures what `work` starts on the device, in a stream of its own that is
  /// the current one meanwhile; none of it is done. Throws c10::Error where it
  /// makes the host wait, or does something else that CUDA can't capture.
  DeviceGraph(const c10::Device& device, const std::function<void()>& work);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  /// Starts the operations in the current stream.
  void replay();

 private:
  class Backend;
  std::unique_ptr<Backend> backend_;
};

}  // namespace sluice
