#include "lib/tensors/cuda_ipc.h"

#include <map>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include "lib/base/error.h"
#include "lib/tensors/device.h"
#include "lib/tensors/streams.h"

namespace sluice {
namespace {

constexpr const char* kRemedy =
    "set cuda_ipc = false, and tensors pass through the host";

c10::Device gpu(int index) {
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)};
}

// LibTorch's guard around each call: when it goes back to a device that this
// process doesn't use, it doesn't start CUDA there. Not around those that must
// not throw: after an error that sticks, such as an illegal address, the guard
// does, while the functions of CudaIpc, which set the device too, ignore it.
class CudaIpcDevice final : public IpcDevice {
 public:
  CudaIpcDevice(const CudaIpc& cuda, const c10::Device& device)
      : cuda_(cuda), device_(device), id_(cuda.id_of(device.index())) {
    for (int index = 0; index < count_gpus(); ++index)
      devices_[cuda_.id_of(index)] = index;
  }

  int own_device() const override { return device_.index(); }
  DeviceId id() const override { return id_; }
  std::optional<int> find(const DeviceId& id) const override {
    const auto found = devices_.find(id);
    if (found == devices_.end()) return std::nullopt;
    return found->second;
  }

  std::byte* allocate(std::size_t bytes) override {
    const c10::DeviceGuard on(gpu(own_device()));
    return cuda_.allocate(own_device(), bytes);
  }
  Event make_event() override {
    const c10::DeviceGuard on(gpu(own_device()));
    return {cuda_.make_event(own_device()), own_device()};
  }
  IpcHandle handle_of_memory(std::byte* memory) override {
    const c10::DeviceGuard on(gpu(own_device()));
    return cuda_.handle_of_memory(own_device(), memory);
  }
  IpcHandle handle_of_event(const Event& event) override {
    const c10::DeviceGuard on(gpu(event.device));
    return cuda_.handle_of_event(event.device, event.handle);
  }

  std::byte* open_memory(int device, const IpcHandle& handle) override {
    const c10::DeviceGuard on(gpu(device));
    std::byte* memory = nullptr;
    if (const char* why = cuda_.open_memory(device, handle, &memory))
      throw LinkError("memory of a neighbour's GPU can't be opened: {}; {}",
                      why, kRemedy);
    return memory;
  }
  Event open_event(int device, const IpcHandle& handle) override {
    const c10::DeviceGuard on(gpu(device));
    Event event{.device = device};
    if (const char* why = cuda_.open_event(device, handle, &event.handle))
      throw LinkError("an event of a neighbour's GPU can't be opened: {}; {}",
                      why, kRemedy);
    return event;
  }
  void close_memory(int device, std::byte* memory) noexcept override {
    cuda_.close_memory(device, memory);
  }
  void close_event(const Event& event) noexcept override {
    cuda_.close_event(event.device, event.handle);
  }

  Stream copies_on(int device, Way way) override {
    return {copies(device, way).native_handle(), device};
  }
  void wait(const Stream& stream, const Event& event) override {
    const c10::DeviceGuard on(gpu(stream.device));
    cuda_.wait(stream.device, stream.handle, event.handle);
  }
  void record(const Stream& stream, const Event& event) override {
    const c10::DeviceGuard on(gpu(stream.device));
    cuda_.record(stream.device, stream.handle, event.handle);
  }
  void copy(const Stream& stream, std::byte* to, const std::byte* from,
            std::size_t bytes) override {
    const c10::DeviceGuard on(gpu(stream.device));
    cuda_.copy(stream.device, stream.handle, to, from, bytes);
  }
  void follow_current(const Stream& stream) override {
    order(computing_on(device_), known(stream));
  }

  void keep_for(const Stream& stream, const Buffer& buffer) override {
    static_cast<const at::Tensor*>(buffer.owner.get())
        ->record_stream(known(stream));
  }
  Buffer allocate_for(const Stream& stream, std::size_t bytes) override {
    const c10::Stream own = copies(own_device(), Way::arriving);
    const auto tensor = std::make_shared<at::Tensor>();
    {
      const c10::StreamGuard on(own);
      *tensor = at::empty({static_cast<std::int64_t>(bytes)},
                          at::TensorOptions(device_).dtype(at::kByte));
    }
    // The memory was another tensor's in that stream.
    order(own, known(stream));
    return {
        .data = static_cast<std::byte*>(tensor->data_ptr()),
        .bytes = bytes,
        .device = {.kind = sluice::Device::Kind::cuda, .index = own_device()},
        .owner = tensor};
  }
  void hand_to_current(const Stream& stream, const Buffer& buffer) override {
    const c10::Stream computing = computing_on(device_);
    order(known(stream), computing);
    // Allocated in the one stream, used and released in the other.
    static_cast<const at::Tensor*>(buffer.owner.get())
        ->record_stream(computing);
  }
  void finish(const Stream& stream) noexcept override {
    cuda_.finish(stream.device, stream.handle);
  }

 private:
  static c10::Stream copies(int device, Way way) {
    return copies_of_this_thread(gpu(device), way == Way::leaving
                                                  ? CopyWay::leaving
                                                  : CopyWay::arriving);
  }
  /// Only copies_on() makes them.
  static c10::Stream known(const Stream& stream) {
    for (const Way way : {Way::leaving, Way::arriving})
      if (copies(stream.device, way).native_handle() == stream.handle)
        return copies(stream.device, way);
    throw InternalError("a stream that is none of the copies'");
  }

  const CudaIpc& cuda_;
  const c10::Device device_;
  const DeviceId id_;
  std::map<DeviceId, int> devices_;
};

}  // namespace

bool has_cuda_ipc(const c10::Device& one, const c10::Device& other) {
  const CudaIpc* const cuda = cuda_ipc();
  return cuda != nullptr && one.is_cuda() && other.is_cuda() &&
         cuda->can_reach(one.index(), other.index()) &&
         cuda->can_reach(other.index(), one.index());
}

std::shared_ptr<IpcDevice> cuda_ipc_device(const c10::Device& device,
                                           const CudaIpc* cuda) {
  SLUICE_CHECK(cuda != nullptr, "this program was built without nvcc");
  return std::make_shared<CudaIpcDevice>(*cuda, device);
}

}  // namespace sluice
