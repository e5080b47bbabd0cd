#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/ipc_device.h"

namespace sluice {

/// Stands in for a GPU that several processes share: its memory is the host's,
/// and what is put into streams is done later, in any order that streams and
/// events allow. So whoever forgets an event sees wrong bytes.
class FakeGpu {
 public:
  using Operation = std::size_t;  // from 1
  /// Which of the streams that could go on does.
  enum class Order { random, first_stream, last_stream };

  explicit FakeGpu(Order order = Order::random, unsigned seed = 1)
      : order_(order), random_(seed) {}

  std::size_t add_stream() {
    streams_.emplace_back();
    return streams_.size() - 1;
  }

  Operation put(std::size_t stream, std::function<void()> work,
                Operation after = 0) {
    done_.push_back(false);
    streams_.at(stream).push_back({done_.size(), std::move(work), after});
    return done_.size();
  }

  /// Does `count` operations, or as many as there are.
  void run(std::size_t count) {
    while (count-- > 0 && run_one()) {
    }
  }
  void run_all() {
    while (run_one()) {
    }
    for (const auto& stream : streams_)
      if (!stream.empty()) throw InternalError("the streams are locked");
  }

 private:
  struct Entry {
    Operation number;
    std::function<void()> work;
    Operation after;  // 0: of nothing
  };

  bool run_one() {
    std::vector<std::size_t> able;
    for (std::size_t i = 0; i < streams_.size(); ++i)
      if (!streams_[i].empty() && is_done(streams_[i].front().after))
        able.push_back(i);
    if (able.empty()) return false;
    std::deque<Entry>& stream = streams_[able[choose(able.size())]];
    const Entry entry = std::move(stream.front());
    stream.pop_front();
    if (entry.work) entry.work();
    done_[entry.number - 1] = true;
    return true;
  }

  std::size_t choose(std::size_t count) {
    if (order_ == Order::first_stream) return 0;
    if (order_ == Order::last_stream) return count - 1;
    return random_() % count;
  }
  bool is_done(Operation operation) const {
    return operation == 0 || done_[operation - 1];
  }

  const Order order_;
  std::mt19937 random_;
  std::deque<std::deque<Entry>> streams_;
  std::vector<bool> done_;
};

/// What CUDA's driver knows of all processes of the host.
struct FakeHost {
  struct SharedHandle {
    int process = 0;
    std::vector<std::byte> memory = {};  // of memory
    FakeGpu::Operation recorded = 0;     // of an event
    std::set<int> opened_by = {};
  };

  FakeGpu gpu;
  std::deque<SharedHandle> shared = {};  // a handle says which
  std::deque<std::vector<std::byte>> tensors = {};
  std::size_t free_bytes = std::size_t{1} << 30;
};

inline constexpr std::byte kGarbage{0xEE};

/// A process that uses it.
class FakeProcess final : public IpcDevice {
 public:
  FakeProcess(FakeHost& host, int process)
      : host_(host),
        process_(process),
        current_(host.gpu.add_stream()),
        arriving_(host.gpu.add_stream()) {}

  int own_device() const override { return 0; }
  DeviceId id() const override { return name; }
  bool may_reach(const DeviceId& /*id*/) const override { return reaches; }

  std::byte* allocate(std::size_t bytes) override {
    ++asked;
    if (bytes > host_.free_bytes) return nullptr;
    host_.free_bytes -= bytes;
    ++allocations;
    host_.shared.push_back({process_, std::vector<std::byte>(bytes, kGarbage)});
    return host_.shared.back().memory.data();
  }
  Event make_event() override {
    host_.shared.push_back({process_});
    return {&host_.shared.back()};
  }
  IpcHandle handle_of_memory(std::byte* memory) override {
    for (std::size_t i = 0; i < host_.shared.size(); ++i)
      if (host_.shared[i].memory.data() == memory) return handle_of(i);
    throw InternalError("no memory of ours");
  }
  IpcHandle handle_of_event(const Event& event) override {
    for (std::size_t i = 0; i < host_.shared.size(); ++i)
      if (&host_.shared[i] == event.handle) return handle_of(i);
    throw InternalError("no event of ours");
  }

  std::byte* open_memory(const IpcHandle& handle) override {
    return open(handle).memory.data();
  }
  Event open_event(const IpcHandle& handle) override { return {&open(handle)}; }
  void close_memory(std::byte* memory) noexcept override {
    --open_now;
    for (FakeHost::SharedHandle& shared : host_.shared)
      if (shared.memory.data() == memory) shared.opened_by.erase(process_);
  }
  void close_event(const Event& /*event*/) noexcept override { --open_now; }

  Stream current() override { return stream(current_); }
  Stream arriving() override {
    if (refuses) throw InternalError("the GPU is lost");
    return stream(arriving_);
  }
  void wait(const Stream& of, const Event& event) override {
    if (refuses) throw InternalError("the GPU is lost");
    host_.gpu.put(number(of), nullptr,
                  static_cast<FakeHost::SharedHandle*>(event.handle)->recorded);
  }
  void record(const Stream& of, const Event& event) override {
    static_cast<FakeHost::SharedHandle*>(event.handle)->recorded =
        host_.gpu.put(number(of), nullptr);
  }
  void copy(const Stream& of, std::byte* to, const std::byte* from,
            std::size_t bytes) override {
    host_.gpu.put(number(of), [=] { std::memcpy(to, from, bytes); });
  }
  Buffer allocate_arriving(std::size_t bytes) override {
    return tensor_memory(bytes);
  }
  void hand_to_current(const Event& filled, const Buffer& /*buffer*/) override {
    if (hands_over) wait(current(), filled);
  }
  void finish(const Stream& /*of*/) noexcept override { host_.gpu.run_all(); }

  /// Computes a tensor: its bytes are there when the current stream comes to
  /// it.
  TensorView compute(const TensorView& wanted) {
    TensorView tensor = wanted;
    tensor.buffer = tensor_memory(wanted.buffer.bytes);
    host_.gpu.put(current_, [to = tensor.buffer.data, from = wanted.buffer] {
      if (from.bytes > 0) std::memcpy(to, from.data, from.bytes);
    });
    return tensor;
  }
  /// Reads a tensor where the current stream comes to it: into memory of the
  /// host, whose bytes are there after run_all().
  TensorView read(const TensorView& tensor) {
    TensorView host = tensor;
    host.buffer = allocate_buffer(tensor.buffer.bytes);
    Buffer from = tensor.buffer;
    if (from.device != sluice::Device()) from.owner = nullptr;  // a stream's
    host_.gpu.put(current_, [to = host.buffer, from] {
      if (to.bytes > 0) std::memcpy(to.data, from.data, to.bytes);
    });
    return host;
  }

  DeviceId name = {std::byte{7}};
  bool refuses = false;
  bool reaches = true;
  bool hands_over = true;  ///< false: a mistake, for a test
  int asked = 0;
  int allocations = 0;
  int opened = 0;  // ever
  int open_now = 0;

 private:
  static Stream stream(std::size_t number) {
    return {reinterpret_cast<void*>(number)};
  }
  static std::size_t number(const Stream& stream) {
    return reinterpret_cast<std::size_t>(stream.handle);
  }
  static IpcHandle handle_of(std::size_t index) {
    IpcHandle handle;
    std::memcpy(handle.bytes.data(), &index, sizeof index);
    return handle;
  }
  FakeHost::SharedHandle& open(const IpcHandle& handle) {
    std::size_t index = 0;
    std::memcpy(&index, handle.bytes.data(), sizeof index);
    if (index >= host_.shared.size() || handle != handle_of(index))
      throw LinkError("invalid resource handle");
    FakeHost::SharedHandle& shared = host_.shared[index];
    if (shared.process == process_)
      throw LinkError("it can't be opened where it was made");
    if (!shared.opened_by.insert(process_).second)
      throw LinkError("it is open already");
    ++opened;
    ++open_now;
    return shared;
  }

  // As LibTorch's allocator has it: what is released may be written by whoever
  // comes next in the current stream, and that is done here at once.
  Buffer tensor_memory(std::size_t bytes) {
    std::vector<std::byte>& memory =
        host_.tensors.emplace_back(bytes, kGarbage);
    const auto spoil = [&host = host_,
                        current = current_](std::vector<std::byte>* released) {
      host.gpu.put(current, [released] {
        std::fill(released->begin(), released->end(), kGarbage);
      });
    };
    return {.data = memory.data(),
            .bytes = bytes,
            .device = {.kind = sluice::Device::Kind::cuda},
            .owner = std::shared_ptr<std::vector<std::byte>>(&memory, spoil)};
  }

  FakeHost& host_;
  const int process_;
  const std::size_t current_;
  const std::size_t arriving_;
};

}  // namespace sluice
