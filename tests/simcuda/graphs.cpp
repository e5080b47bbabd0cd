// Graphs of captured operations, as LibTorch asks for them
// (ATen/accelerator/Graph.h).
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/GraphImplInterface.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "tests/simcuda/capture.h"
#include "tests/simcuda/machine.h"

namespace sluice::simcuda {
namespace {

class SimulatedGraph final : public at::GraphImplInterface {
 public:
  explicit SimulatedGraph(const at::GraphImplArgs& /*arguments*/) {}
  ~SimulatedGraph() override {
    const Lock lock(machine().mutex);
    release();
  }

  void capture_begin(at::MempoolId_t pool,
                     at::GraphCaptureMode /*mode*/) override {
    const Lock lock(machine().mutex);
    const int device = current_device();
    TORCH_CHECK(pool == at::MempoolId_t(),
                "simulated GPU: graphs that share a "
                "pool aren't simulated");
    TORCH_CHECK(current_stream(device) != 0,
                "CUDA graphs must be captured on a non-default stream");
    TORCH_CHECK(memory_ == nullptr && !capture_,
                "This CUDAGraph instance already owns a captured graph");
    check_no_capture("the begin of another capture");
    check_works(device);
    device_ = device;
    capture_ = std::make_unique<Capture>(computing_on(device));
    machine().captures[capture_->stream()] = capture_.get();
  }

  void capture_end() override {
    const Lock lock(machine().mutex);
    TORCH_CHECK(capture_, "simulated GPU: no capture has begun");
    const std::unique_ptr<Capture> ended = std::move(capture_);
    machine().captures.erase(ended->stream());
    memory_ = ended->memory();
    steps_ = ended->finish();
    TORCH_CHECK(computing_on(device_) == ended->stream(),
                "Capture must end on the same stream it began on.");
  }

  void instantiate() override {}

  /// One operation of the current stream.
  void replay() override {
    const Lock lock(machine().mutex);
    TORCH_CHECK(memory_ != nullptr,
                "Called CUDAGraph::replay without a preceding successful "
                "capture.");
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const Use use = start(computing_on(device_), "the replay of a graph");
    ++machine().counts.launches;
    for (const GraphStep& step : steps_) step(use);
    memory_->captured.clear();
  }

  void reset() override {
    const Lock lock(machine().mutex);
    release();
  }

  at::MempoolId_t pool() const override { return {}; }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& /*path*/) override {}

 private:
  void release() {
    if (capture_) machine().captures.erase(capture_->stream());
    const std::shared_ptr<GraphMemory> of_capture =
        capture_ ? capture_->memory() : nullptr;
    capture_ = nullptr;
    steps_.clear();
    for (const auto& memory : {std::exchange(memory_, nullptr), of_capture})
      if (memory) release_memory(*memory);
  }

  int device_ = 0;
  std::unique_ptr<Capture> capture_;
  std::shared_ptr<GraphMemory> memory_;  // nullptr: nothing is captured
  std::vector<GraphStep> steps_;
};

}  // namespace
}  // namespace sluice::simcuda

namespace at {
// The macro wants its registry's namespace.
REGISTER_GRAPH_IMPL(CUDA, sluice::simcuda::SimulatedGraph)
}  // namespace at
