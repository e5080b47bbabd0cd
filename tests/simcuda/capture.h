#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include <ATen/core/stack.h>

#include "tests/simcuda/clock.h"

namespace sluice::simcuda {

struct Allocation;

/// Memory that was allocated while a graph was captured: pieces stay where they
/// are as long as the graph, whether a tensor has them or not.
struct GraphMemory {
  using Bytes = std::vector<std::byte>;

  bool is_kept = true;                                   ///< the graph is there
  std::multimap<std::size_t, std::byte*> released = {};  ///< by their size
  /// What the capture left, by its start, until a replay puts it there: what
  /// is captured meanwhile goes on from it.
  std::map<const std::byte*, Bytes> captured = {};
};

/// What an operation of a graph does when that is replayed, as part of the use
/// that is the replay.
using GraphStep = std::function<void(const Use& replay)>;

/// A stream whose operations are captured. They run on copies of the memory
/// that they use, so that their results have shapes, and what depends on values
/// goes the usual way; the memory itself stays as it is.
class Capture {
 public:
  explicit Capture(std::size_t stream) : stream_(stream) {}

  void add(GraphStep step) { steps_.push_back(std::move(step)); }
  /// The bytes of the allocation as captured operations have left them.
  std::byte* bytes_of(const Allocation& allocation);
  /// Memory of that size that the capture has had before; nullptr: none.
  std::byte* reused(std::size_t bytes);

  std::size_t stream() const { return stream_; }
  bool is_of_this_thread() const {
    return thread_ == std::this_thread::get_id();
  }
  const std::shared_ptr<GraphMemory>& memory() const { return memory_; }
  /// Leaves what is captured in memory().
  std::vector<GraphStep> finish();

 private:
  const std::size_t stream_;
  const std::thread::id thread_ = std::this_thread::get_id();
  const std::shared_ptr<GraphMemory> memory_ = std::make_shared<GraphMemory>();
  std::map<const std::byte*, GraphMemory::Bytes> copies_;
  std::vector<GraphStep> steps_;
};

// The caller holds the machine's lock.

/// nullptr: the stream isn't captured.
Capture* capture_of(std::size_t stream);
/// Capture of the thread's current stream of the device.
Capture* capture_here(int device);

/// Throws what CUDA answers to a call that no captured stream takes.
[[noreturn]] void refuse_in_capture(std::string_view call);
/// Refuses it to a thread that has begun a capture, whatever stream it is for:
/// a wait of the host, memory by another way than the graph's.
void check_no_capture(std::string_view call);
/// Refuses operations that CUDA can't capture, since the host has to read what
/// they compute, or that would give the same random numbers at every replay.
void check_can_be_captured(const c10::FunctionSchema& operation,
                           const torch::jit::Stack& arguments);

}  // namespace sluice::simcuda
