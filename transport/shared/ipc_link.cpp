#include "transport/shared/ipc_link.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/messages/channel_around.h"
#include "transport/shared/ipc_parcel.h"

namespace sluice {
namespace {

// A message has a tensor or two on the GPU; and one message more than the
// channel holds is being sent, another one being received.
constexpr std::size_t kSlotsPerMessage = 4;
constexpr std::size_t kMostParcels = 256;

// Most allocations that an end opens of a peer: more are none of ours.
constexpr std::size_t kMostOpen = 4096;

class IpcSender final : public SenderAround {
 public:
  IpcSender(std::unique_ptr<Sender> channel, BufferSource slots,
            std::size_t count, std::shared_ptr<IpcDevice> device,
            std::shared_ptr<DeviceTraffic> traffic)
      : SenderAround(std::move(channel)),
        slots_(std::move(slots)),
        device_(std::move(device)),
        traffic_(std::move(traffic)) {
    std::vector<Buffer> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(slots_(kParcelBytes));
    for (const Buffer& slot : all) places_[slot.data];
  }

  void send(Message message) override {
    for (TensorView& tensor : message.tensors)
      if (tensor.buffer.device.kind != Device::Kind::cpu) hand_over(tensor);
    inner().send(std::move(message));
  }

 private:
  // A slot's place on the GPU.
  struct Place {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    IpcDevice::Event ready = {};
    IpcDevice::Event taken = {};
    Parcel parcel = {};  // with the handles
  };

  void hand_over(TensorView& tensor) {
    if (tensor.buffer.device.index != device_->own_device()) return;
    if (tensor.buffer.bytes == 0) {
      tensor.buffer = allocate_buffer(0);  // nothing to hand over
      return;
    }
    Buffer slot = slots_(kParcelBytes);
    const auto found = places_.find(slot.data);
    if (found == places_.end() ||
        !make_room(found->second, tensor.buffer.bytes))
      return;
    Place& place = found->second;
    fill(place, tensor);
    write_parcel(place.parcel, {slot.data, kParcelBytes});
    tensor = {.name = std::string(kParcelMark) + tensor.name,
              .dtype = DType::uint8,
              .sizes = {static_cast<std::int64_t>(kParcelBytes)},
              .strides = {1},
              .buffer = std::move(slot)};
    tensor.buffer.bytes = kParcelBytes;
    ++traffic_->by_ipc;
  }

  // At least doubles, so that the memory that is left behind, which the peer
  // has open, is no more than what is in use.
  bool make_room(Place& place, std::size_t bytes) {
    if (place.bytes >= bytes) return true;
    const std::size_t wanted = std::max(bytes, 2 * place.bytes);
    if (wanted >= refused_) return false;
    std::byte* const memory = device_->allocate(wanted);
    if (memory == nullptr) {
      refuse(wanted);
      return false;
    }
    if (place.memory == nullptr) make_events(place);
    place.memory = memory;
    place.bytes = wanted;
    place.parcel.memory = device_->handle_of_memory(memory);
    return true;
  }

  void refuse(std::size_t wanted) {
    refused_ = wanted;
    traffic_->why_host =
        fmt::format("the GPU has no {} bytes left for CUDA IPC", wanted);
    if (traffic_->tell) traffic_->tell(traffic_->why_host);
  }

  void make_events(Place& place) {
    place.ready = device_->make_event();
    place.taken = device_->make_event();
    place.parcel.device = device_->id();
    place.parcel.ready = device_->handle_of_event(place.ready);
    place.parcel.taken = device_->handle_of_event(place.taken);
  }

  void fill(Place& place, const TensorView& tensor) {
    const IpcDevice::Stream current = device_->current();
    device_->wait(current, place.taken);
    device_->copy(current, place.memory, tensor.buffer.data,
                  tensor.buffer.bytes);
    device_->record(current, place.ready);
    place.parcel.bytes = tensor.buffer.bytes;
    place.parcel.dtype = tensor.dtype;
    place.parcel.sizes = tensor.sizes;
    place.parcel.strides = tensor.strides;
  }

  BufferSource slots_;
  std::shared_ptr<IpcDevice> device_;
  std::shared_ptr<DeviceTraffic> traffic_;
  std::map<const std::byte*, Place> places_;  // by the address of the slot
  std::size_t refused_ = SIZE_MAX;            // bytes that there weren't
};

class IpcReceiver final : public ReceiverAround {
 public:
  IpcReceiver(std::unique_ptr<Receiver> channel,
              std::shared_ptr<IpcDevice> device, DeviceId peer)
      : ReceiverAround(std::move(channel)),
        device_(std::move(device)),
        peer_(peer) {}
  IpcReceiver(const IpcReceiver&) = delete;
  IpcReceiver& operator=(const IpcReceiver&) = delete;
  // Nothing here may throw, in whatever state the GPU is: the streams are those
  // of before, and of the thread that received.
  ~IpcReceiver() override {
    if (arriving_) device_->finish(*arriving_);
    for (const auto& [handle, memory] : memory_) device_->close_memory(memory);
    for (const auto& [handle, event] : events_) device_->close_event(event);
  }

  std::optional<Message> receive() override {
    std::optional<Message> message = inner().receive();
    if (!message) return message;
    for (TensorView& tensor : message->tensors)
      if (tensor.name.starts_with(kParcelMark)) unpack(tensor);
    return message;
  }

 private:
  using Key = decltype(IpcHandle::bytes);

  // A process that has ended takes its events along: that its GPU's work can't
  // be waited for is the link's failure, not ours.
  void unpack(TensorView& tensor) {
    try {
      take(tensor);
    } catch (const InternalError& error) {
      throw LinkError("parcel of a GPU: {}", error.what());
    }
  }

  // The slot goes back when the parcel's buffer does: with `taken` recorded.
  void take(TensorView& tensor) {
    Parcel parcel = read_parcel({tensor.buffer.data, tensor.buffer.bytes});
    if (parcel.device != peer_)
      throw LinkError("parcel of another GPU than the neighbour's");
    const std::byte* const memory = memory_of(parcel.memory);
    const IpcDevice::Event ready = event_of(parcel.ready);
    const IpcDevice::Event taken = event_of(parcel.taken);
    if (!arriving_) arriving_ = device_->arriving();
    const IpcDevice::Stream copies = *arriving_;
    const Buffer own = device_->allocate_arriving(parcel.bytes);
    device_->wait(copies, ready);
    device_->copy(copies, own.data, memory, parcel.bytes);
    // Both the sender's next copy and what is computed here wait for this
    // event.
    device_->record(copies, taken);
    device_->hand_to_current(taken, own);
    tensor = {.name = tensor.name.substr(kParcelMark.size()),
              .dtype = parcel.dtype,
              .sizes = std::move(parcel.sizes),
              .strides = std::move(parcel.strides),
              .buffer = own};
  }

  const std::byte* memory_of(const IpcHandle& handle) {
    const auto known = memory_.find(handle.bytes);
    if (known != memory_.end()) return known->second;
    check_room(memory_.size());
    return memory_[handle.bytes] = device_->open_memory(handle);
  }

  IpcDevice::Event event_of(const IpcHandle& handle) {
    const auto known = events_.find(handle.bytes);
    if (known != events_.end()) return known->second;
    check_room(events_.size());
    return events_[handle.bytes] = device_->open_event(handle);
  }

  static void check_room(std::size_t open) {
    if (open >= kMostOpen)
      throw LinkError("parcels of more than {} memories or events of a GPU",
                      kMostOpen);
  }

  std::shared_ptr<IpcDevice> device_;
  const DeviceId peer_;
  std::optional<IpcDevice::Stream> arriving_;
  std::map<Key, std::byte*> memory_;
  std::map<Key, IpcDevice::Event> events_;
};

}  // namespace

SharedMemoryOptions with_parcels(SharedMemoryOptions options,
                                 std::size_t capacity) {
  constexpr std::size_t kMostMessages = kMostParcels / kSlotsPerMessage - 2;
  options.slots = kSlotsPerMessage * (std::min(capacity, kMostMessages) + 2);
  options.slot_bytes = kParcelBytes;
  return options;
}

std::unique_ptr<Sender> ipc_sender(std::unique_ptr<Sender> channel,
                                   const BufferSource& slots, std::size_t count,
                                   std::shared_ptr<IpcDevice> device,
                                   std::shared_ptr<DeviceTraffic> traffic) {
  return std::make_unique<IpcSender>(std::move(channel), slots, count,
                                     std::move(device), std::move(traffic));
}

std::unique_ptr<Receiver> ipc_receiver(std::unique_ptr<Receiver> channel,
                                       std::shared_ptr<IpcDevice> device,
                                       DeviceId peer) {
  return std::make_unique<IpcReceiver>(std::move(channel), std::move(device),
                                       peer);
}

}  // namespace sluice
