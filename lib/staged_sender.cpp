#include "lib/staged_sender.h"

#include <utility>

#include <ATen/ATen.h>

#include "lib/pack.h"
#include "lib/staging.h"

namespace sluice {
namespace {

class StagedSender final : public Sender {
 public:
  StagedSender(std::unique_ptr<Sender> channel,
               std::shared_ptr<DeviceTraffic> traffic)
      : channel_(std::move(channel)), traffic_(std::move(traffic)) {}

  void send(Message message) override {
    for (TensorView& tensor : message.tensors) {
      if (tensor.buffer.device.kind == Device::Kind::cpu) continue;
      tensor = staged(std::move(tensor));
      if (traffic_) ++traffic_->through_host;
    }
    channel_->send(std::move(message));
  }
  bool ready() const override { return channel_->ready(); }
  void ring(std::shared_ptr<Bell> bell) override {
    channel_->ring(std::move(bell));
  }
  void close() override { channel_->close(); }

 private:
  std::unique_ptr<Sender> channel_;
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
  return tensor;
}

std::unique_ptr<Sender> staged_sender(std::unique_ptr<Sender> channel,
                                      std::shared_ptr<DeviceTraffic> traffic) {
  return std::make_unique<StagedSender>(std::move(channel), std::move(traffic));
}

}  // namespace sluice
