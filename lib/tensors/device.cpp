#include "lib/tensors/device.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// GPUs that configs may name; LibTorch's interface for all of them is enough.
struct GpuKind {
  std::string_view name;  ///< of devices
  std::string_view spoken;
  c10::DeviceType type;
};
constexpr std::array kGpuKinds = {
    GpuKind{"cuda", "CUDA", c10::DeviceType::CUDA},
    GpuKind{"xpu", "XPU", c10::DeviceType::XPU}};

/// The type of a name; nullptr: it is the name of none.
const GpuKind* kind_of(std::string_view name) {
  const auto found = std::find_if(
      kGpuKinds.begin(), kGpuKinds.end(), [&](const GpuKind& kind) {
        return name.substr(0, name.find(':')) == kind.name;
      });
  return found == kGpuKinds.end() ? nullptr : &*found;
}

/// -1: the name has none; -2: what is there is none.
int number_in(std::string_view name, const GpuKind& kind) {
  if (name == kind.name) return -1;
  name.remove_prefix(std::min(name.size(), kind.name.size() + 1));
  int number = -1;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number =
      error == std::errc() && end == name.data() + name.size() && number >= 0;
  return is_number ? number : -2;
}

}  // namespace

int count_gpus(c10::DeviceType type) {
  if (!c10::impl::hasDeviceGuardImpl(type)) return 0;
  return c10::impl::VirtualGuardImpl(type).deviceCount();
}

void check_device_name(const std::string& name) {
  if (name == "cpu") return;
  const GpuKind* const kind = kind_of(name);
  if (kind == nullptr || number_in(name, *kind) == -2)
    throw UserError(
        "device '{}': there are \"cpu\", \"cuda\" and \"cuda:0\", \"cuda:1\" "
        "..., and the same of \"xpu\"",
        name);
}

c10::Device device_for(const std::string& name, int block,
                       std::optional<int> local_rank) {
  check_device_name(name);
  if (name == "cpu") return c10::DeviceType::CPU;
  const GpuKind& kind = *kind_of(name);
  if (!c10::impl::hasDeviceGuardImpl(kind.type))
    throw UserError(
        "block {}: device '{}': this program is linked to a LibTorch without "
        "{}; build it against one with {}, or set device = \"cpu\"",
        block, name, kind.spoken, kind.spoken);
  const int here = count_gpus(kind.type);
  const int number = number_in(name, kind);
  if (here == 0 || number >= here)
    throw UserError(
        "block {}: device '{}': this machine has {} GPUs that {} can use",
        block, name, here, kind.spoken);
  const int index =
      number >= 0 ? number : local_rank.value_or(block - 1) % here;
  return {kind.type, static_cast<c10::DeviceIndex>(index)};
}

}  // namespace sluice
