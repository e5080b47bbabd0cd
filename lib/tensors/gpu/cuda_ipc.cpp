#include "lib/tensors/gpu/cuda_ipc.h"

#include <cstddef>
#include <cstdint>

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include "lib/base/error.h"
#include "lib/tensors/streams.h"

namespace sluice {
namespace {

constexpr const char* kRemedyForIpc =
    "set cuda_ipc = false, and tensors pass through the host";

// LibTorch's guard around each call: when it goes back to a device that this
// process doesn't use, it doesn't start CUDA there. Not around those that must
// not throw: after an error that sticks, such as an illegal address, the guard
// does, while the functions of CudaIpc, which set the device too, ignore it.
class CudaIpcDevice final : public IpcDevice {
 public:
  CudaIpcDevice(const CudaIpc& cuda, const c10::Device& device)
      : cuda_(cuda), device_(device) {
    const c10::DeviceGuard on(device_);
    id_ = cuda_.id_of(own_device());
  }

  int own_device() const override { return device_.index(); }
  DeviceId id() const override { return id_; }
  bool may_reach(const DeviceId& id) const override {
    const c10::DeviceGuard on(device_);
    return cuda_.may_reach(own_device(), id);
  }

  std::byte* allocate(std::size_t bytes) override {
    const c10::DeviceGuard on(device_);
    std::byte* const memory = cuda_.allocate(own_device(), bytes);
    if (memory != nullptr) return memory;
    // LibTorch keeps what it was given back, which may be all the rest.
    if (auto* const caching = dynamic_cast<c10::DeviceAllocator*>(
            c10::GetAllocator(device_.type())))
      caching->emptyCache();
    return cuda_.allocate(own_device(), bytes);
  }
  Event make_event() override {
    const c10::DeviceGuard on(device_);
    return {cuda_.make_event(own_device())};
  }
  IpcHandle handle_of_memory(std::byte* memory) override {
    const c10::DeviceGuard on(device_);
    return cuda_.handle_of_memory(own_device(), memory);
  }
  IpcHandle handle_of_event(const Event& event) override {
    const c10::DeviceGuard on(device_);
    return cuda_.handle_of_event(own_device(), event.handle);
  }

  std::byte* open_memory(const IpcHandle& handle) override {
    const c10::DeviceGuard on(device_);
    std::byte* memory = nullptr;
    if (const char* why = cuda_.open_memory(own_device(), handle, &memory))
      throw LinkError("memory of a neighbour's GPU can't be opened: {}", why);
    return memory;
  }
  Event open_event(const IpcHandle& handle) override {
    const c10::DeviceGuard on(device_);
    Event event;
    if (const char* why = cuda_.open_event(own_device(), handle, &event.handle))
      throw LinkError("an event of a neighbour's GPU can't be opened: {}; {}",
                      why, kRemedyForIpc);
    return event;
  }
  void close_memory(std::byte* memory) noexcept override {
    cuda_.close_memory(own_device(), memory);
  }
  void close_event(const Event& event) noexcept override {
    cuda_.close_event(own_device(), event.handle);
  }

  Stream current() override { return {computing_on(device_).native_handle()}; }
  Stream arriving() override { return {copies().native_handle()}; }
  void wait(const Stream& stream, const Event& event) override {
    const c10::DeviceGuard on(device_);
    cuda_.wait(own_device(), stream.handle, event.handle);
  }
  void record(const Stream& stream, const Event& event) override {
    const c10::DeviceGuard on(device_);
    cuda_.record(own_device(), stream.handle, event.handle);
  }
  void copy(const Stream& stream, std::byte* to, const std::byte* from,
            std::size_t bytes) override {
    const c10::DeviceGuard on(device_);
    cuda_.copy(own_device(), stream.handle, to, from, bytes);
  }

  Buffer allocate_arriving(std::size_t bytes) override {
    const auto tensor = std::make_shared<at::Tensor>();
    {
      const c10::StreamGuard on(copies());
      *tensor = at::empty({static_cast<std::int64_t>(bytes)},
                          at::TensorOptions(device_).dtype(at::kByte));
    }
    return {
        .data = static_cast<std::byte*>(tensor->data_ptr()),
        .bytes = bytes,
        .device = {.kind = sluice::Device::Kind::cuda, .index = own_device()},
        .owner = tensor};
  }
  void hand_to_current(const Event& filled, const Buffer& buffer) override {
    wait(current(), filled);
    // Allocated in the one stream, used and released in the other.
    static_cast<const at::Tensor*>(buffer.owner.get())
        ->record_stream(computing_on(device_));
  }
  void finish(const Stream& stream) noexcept override {
    cuda_.finish(own_device(), stream.handle);
  }

 private:
  c10::Stream copies() const {
    return copies_of_this_thread(device_, CopyWay::arriving);
  }

  const CudaIpc& cuda_;
  const c10::Device device_;
  DeviceId id_ = {};
};

}  // namespace

bool has_cuda_ipc(const c10::Device& device) {
  const CudaIpc* const cuda = cuda_ipc();
  if (cuda == nullptr || !device.is_cuda()) return false;
  const c10::DeviceGuard on(device);
  return cuda->has_ipc(device.index());
}

std::shared_ptr<IpcDevice> cuda_ipc_device(const c10::Device& device,
                                           const CudaIpc* cuda) {
  SLUICE_CHECK(cuda != nullptr, "this program was built without nvcc");
  return std::make_shared<CudaIpcDevice>(*cuda, device);
}

}  // namespace sluice
