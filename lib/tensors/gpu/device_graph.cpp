#include "lib/tensors/gpu/device_graph.h"

#include <map>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "lib/base/error.h"
#include "lib/tensors/streams.h"

#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#define SLUICE_HAS_GRAPHS 1
#elif defined(SLUICE_LIBTORCH_HAS_CUDA)
#include <ATen/cuda/CUDAGraph.h>
#endif

namespace sluice {

#ifdef SLUICE_HAS_GRAPHS

class DeviceGraph::Backend {
 public:
  explicit Backend(const c10::Device& device)
      : graph_(at::create_graph_impl(device.type())) {
    SLUICE_CHECK(graph_ != nullptr, "no graphs on '{}'", device.str());
  }

  /// Begins a capture of this thread's operations alone.
  void begin() { graph_->capture_begin({}, at::GraphCaptureMode::ThreadLocal); }
  void end() { graph_->capture_end(); }
  void replay() { graph_->replay(); }

 private:
  std::unique_ptr<at::GraphImplInterface> graph_;
};

bool can_capture_graphs(const c10::Device& device) {
  return !device.is_cpu() && at::has_graph_impl(device.type());
}

#elif defined(SLUICE_LIBTORCH_HAS_CUDA)

class DeviceGraph::Backend {
 public:
  explicit Backend(const c10::Device& device) {
    SLUICE_CHECK(device.is_cuda(), "no graphs on '{}'", device.str());
  }

  /// Begins a capture of this thread's operations alone.
  void begin() { graph_.capture_begin({}, cudaStreamCaptureModeThreadLocal); }
  void end() { graph_.capture_end(); }
  void replay() { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};

bool can_capture_graphs(const c10::Device& device) {
  return device.is_cuda();
}

#else

class DeviceGraph::Backend {
 public:
  explicit Backend(const c10::Device& device) {
    throw InternalError("no graphs on '{}' with this LibTorch", device.str());
  }
  void begin() {}
  void end() {}
  void replay() {}
};

bool can_capture_graphs(const c10::Device& /*device*/) {
  return false;
}

#endif

namespace {

/// A stream for each thread and device: CUDA captures in no default stream.
c10::Stream captures_of_this_thread(const c10::Device& device) {
  thread_local std::map<c10::DeviceIndex, c10::Stream> streams;
  const auto known = streams.find(device.index());
  if (known != streams.end()) return known->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return streams
      .emplace(device.index(), guard.getStreamFromGlobalPool(device, false))
      .first->second;
}

}  // namespace

DeviceGraph::DeviceGraph(const c10::Device& device,
                         const std::function<void()>& work)
    : backend_(std::make_unique<Backend>(device)) {
  const c10::Stream computing = computing_on(device);
  const c10::Stream capturing = captures_of_this_thread(device);
  order(computing, capturing);
  {
    const c10::StreamGuard on(capturing);
    backend_->begin();
    try {
      work();
    } catch (...) {
      try {
        backend_->end();
      } catch (const c10::Error&) {
        // The capture is as good as gone; what `work` threw says why.
      }
      throw;
    }
    backend_->end();
  }
  order(capturing, computing);
}

DeviceGraph::~DeviceGraph() = default;

void DeviceGraph::replay() {
  backend_->replay();
}

}  // namespace sluice
