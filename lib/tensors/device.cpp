#include "lib/tensors/device.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::string_view kCuda = "cuda";

/// -1: the name has none.
int number_in(std::string_view name) {
  if (name == kCuda) return -1;
  name.remove_prefix(std::min(name.size(), kCuda.size() + 1));
  int number = -1;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number =
      error == std::errc() && end == name.data() + name.size() && number >= 0;
  return is_number ? number : -2;
}

}  // namespace

int count_gpus() {
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return 0;
  return c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).deviceCount();
}

void check_device_name(const std::string& name) {
  if (name == "cpu") return;
  const bool is_cuda = name == kCuda || name.starts_with("cuda:");
  if (!is_cuda || number_in(name) == -2)
    throw UserError(
        "device '{}': there are \"cpu\", \"cuda\" and \"cuda:0\", \"cuda:1\" "
        "...",
        name);
}

c10::Device device_for(const std::string& name, int block,
                       std::optional<int> local_rank) {
  check_device_name(name);
  if (name == "cpu") return c10::DeviceType::CPU;
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA))
    throw UserError(
        "block {}: device '{}': this program is linked to a LibTorch for CPUs; "
        "build it against a CUDA build of LibTorch, or set device = \"cpu\"",
        block, name);
  const int here = count_gpus();
  const int number = number_in(name);
  if (here == 0 || number >= here)
    throw UserError(
        "block {}: device '{}': this machine has {} GPUs that CUDA can use",
        block, name, here);
  const int index =
      number >= 0 ? number : local_rank.value_or(block - 1) % here;
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)};
}

}  // namespace sluice
