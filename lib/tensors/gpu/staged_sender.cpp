#include "lib/tensors/gpu/staged_sender.h"

#include <exception>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/messages/channel_around.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/pack.h"

namespace sluice {
namespace {

class StagedSender final : public SenderAround {
 public:
  StagedSender(std::unique_ptr<Sender> channel,
               std::shared_ptr<DeviceTraffic> traffic, BufferSource slots)
      : SenderAround(std::move(channel)),
        traffic_(std::move(traffic)),
        slots_(std::move(slots)) {}

  void send(Message message) override {
    for (TensorView& tensor : message.tensors) {
      if (tensor.buffer.device.kind == Device::Kind::cpu) continue;
      tensor = staged(std::move(tensor), slots_);
      if (traffic_) ++traffic_->through_host;
    }
    inner().send(std::move(message));
  }

 private:
  std::shared_ptr<DeviceTraffic> traffic_;
  BufferSource slots_;
};

/// Slot that a copy fills, owned by the copy until it has completed.
class FilledSlot {
 public:
  FilledSlot(Buffer slot, HostCopy copy)
      : slot_(std::move(slot)), copy_(std::move(copy)) {}
  FilledSlot(const FilledSlot&) = delete;
  FilledSlot& operator=(const FilledSlot&) = delete;
  ~FilledSlot() {
    try {
      if (!copy_.is_there()) copy_.wait();
    } catch (const std::exception&) {
      // A device that has failed copies nothing any more.
    }
  }

 private:
  Buffer slot_;
  HostCopy copy_;
};

TensorView staged_in(Buffer slot, const at::Tensor& source, TensorView tensor) {
  HostCopy copy =
      copy_to_host(source, at::from_blob(slot.data, source.sizes(),
                                         source.options().device(at::kCPU)));
  tensor.buffer = {.data = slot.data,
                   .bytes = slot.bytes,
                   .wait_ready = copy.wait,
                   .is_ready = copy.is_there};
  tensor.buffer.owner =
      std::make_shared<FilledSlot>(std::move(slot), std::move(copy));
  return tensor;
}

}  // namespace

TensorView staged(TensorView tensor) {
  return staged(std::move(tensor), nullptr);
}

TensorView staged(TensorView tensor, const BufferSource& slots) {
  if (tensor.buffer.device.kind == Device::Kind::cpu) return tensor;
  const at::Tensor source = stored_elements(tensor);
  if (slots && tensor.buffer.bytes > kSmallCopy)
    if (Buffer slot = slots(tensor.buffer.bytes); slot.data != nullptr)
      return staged_in(std::move(slot), source, std::move(tensor));
  HostCopy copy = copy_to_host(source);
  tensor.buffer.device = {};
  tensor.buffer.data = static_cast<std::byte*>(copy.tensor.data_ptr());
  tensor.buffer.owner = std::make_shared<at::Tensor>(std::move(copy.tensor));
  tensor.buffer.wait_ready = std::move(copy.wait);
  tensor.buffer.is_ready = std::move(copy.is_there);
  return tensor;
}

std::unique_ptr<Sender> staged_sender(std::unique_ptr<Sender> channel,
                                      std::shared_ptr<DeviceTraffic> traffic,
                                      BufferSource slots) {
  return std::make_unique<StagedSender>(std::move(channel), std::move(traffic),
                                        std::move(slots));
}

}  // namespace sluice
