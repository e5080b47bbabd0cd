#include "lib/tensors/gpu/graphed_function.h"

#include <algorithm>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// Layouts of tensors; nothing for undefined ones.
std::vector<Layout> layouts_of_defined(const Tensors& tensors) {
  std::vector<Layout> layouts;
  for (const at::Tensor& tensor : tensors)
    layouts.push_back(tensor.defined() ? layout_of(tensor) : Layout{});
  return layouts;
}

/// The device of all tensors; the CPU where they have none in common.
c10::Device device_of(const Tensors& tensors) {
  c10::Device device(c10::kCPU);
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (!device.is_cpu() && device != tensor.device()) return c10::kCPU;
    device = tensor.device();
    if (device.is_cpu()) return device;
  }
  return device;
}

}  // namespace

Tensors GraphedFunction::operator()(const Tensors& operands,
                                    const Constants& constants,
                                    const Work& work) {
  const Call call{layouts_of_defined(operands), constants};
  calls_ = call == last_ ? calls_ + 1 : 0;
  last_ = call;
  if (!graph_ || call != captured_) {
    const bool is_warm = calls_ >= kGraphWarmUps;
    if (!is_warm || !can_capture_graphs(device_of(operands)))
      return work(operands);
    capture(operands, work);
    captured_ = call;
  }
  copy_values(operands, operands_);
  graph_->replay();
  return results_;
}

void GraphedFunction::capture(const Tensors& operands, const Work& work) {
  operands_ = laid_out_copies(operands);
  graph_ = std::make_unique<DeviceGraph>(device_of(operands),
                                         [&] { results_ = work(operands_); });
}

}  // namespace sluice
