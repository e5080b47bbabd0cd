// What ATen asks of CUDA beside operations.
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tests/simcuda/machine.h"

namespace sluice::simcuda {
namespace {

struct Hooks final : public at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs /*arguments*/) {}

  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  std::string showConfig() const override { return "  - Simulated GPU\n"; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(visible_devices());
  }
  int getNumGPUs() const override { return visible_devices(); }
  c10::DeviceIndex current_device() const override {
    return static_cast<c10::DeviceIndex>(simcuda::current_device());
  }
  at::Device getDeviceFromPtr(void* data) const override {
    const Lock lock(machine().mutex);
    const Allocation* const found = find_allocation(data);
    TORCH_CHECK(found != nullptr, "simulated GPU: not an address of a device");
    return {kCuda, static_cast<c10::DeviceIndex>(found->device)};
  }
  void deviceSynchronize(c10::DeviceIndex device) const override {
    c10::impl::getDeviceGuardImpl(kCuda)->synchronizeDevice(device);
  }

  bool isPinnedPtr(const void* data) const override {
    const Lock lock(machine().mutex);
    return find_pinned(data) != nullptr;
  }
  at::Allocator* getPinnedMemoryAllocator() const override {
    return &pinned_allocator();
  }

  /// Operations are done on the CPU, with its generator.
  const at::Generator& getDefaultGenerator(
      c10::DeviceIndex /*device*/) const override {
    static const at::Generator one = at::make_generator<at::CPUGeneratorImpl>();
    return one;
  }
};

}  // namespace
}  // namespace sluice::simcuda

namespace at {
// The macro wants its registry's namespace.
C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", sluice::simcuda::Hooks)
}  // namespace at
