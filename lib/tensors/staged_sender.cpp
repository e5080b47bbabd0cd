#include "lib/tensors/staged_sender.h"

#include <utility>

#include <ATen/ATen.h>

#include "lib/base/channel_around.h"
#include "lib/tensors/pack.h"
#include "lib/tensors/staging.h"

namespace sluice {
namespace {

class StagedSender final : public SenderAround {
 public:
  StagedSender(std::unique_ptr<Sender> channel,
               std::shared_ptr<DeviceTraffic> traffic)
      : SenderAround(std::move(channel)), traffic_(std::move(traffic)) {}

  void send(Message message) override {
    for (TensorView& tensor : message.tensors) {
      if (tensor.buffer.device.kind == Device::Kind::cpu) continue;
      tensor = staged(std::move(tensor));
      if (traffic_) ++traffic_->through_host;
    }
    inner().send(std::move(message));
  }

 private:
  std::shared_ptr<DeviceTraffic> traffic_;
};

}  // namespace

TensorView staged(TensorView tensor) {
  if (tensor.buffer.device.kind == Device::Kind::cpu) return tensor;
  ToHost copy = copy_to_host(stored_elements(tensor));
  tensor.buffer.device = {};
  tensor.buffer.data = static_cast<std::byte*>(copy.tensor.data_ptr());
  tensor.buffer.owner = std::make_shared<at::Tensor>(std::move(copy.tensor));
  tensor.buffer.wait_ready = std::move(copy.wait);
  tensor.buffer.is_ready = std::move(copy.is_there);
  return tensor;
}

std::unique_ptr<Sender> staged_sender(std::unique_ptr<Sender> channel,
                                      std::shared_ptr<DeviceTraffic> traffic) {
  return std::make_unique<StagedSender>(std::move(channel), std::move(traffic));
}

}  // namespace sluice
