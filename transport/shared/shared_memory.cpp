#include "transport/shared/shared_memory.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/messages/channel_around.h"
#include "transport/links/transport.h"
#include "transport/shared/shared_connection.h"

namespace sluice {
namespace {

class SharedSender final : public Sender {
 public:
  explicit SharedSender(std::shared_ptr<SharedConnection> connection)
      : connection_(std::move(connection)) {}
  SharedSender(const SharedSender&) = delete;
  SharedSender& operator=(const SharedSender&) = delete;
  ~SharedSender() override { connection_->drop_sender(); }

  void send(Message message) override { connection_->send(std::move(message)); }
  bool ready() const override { return connection_->can_send(); }
  void ring(std::shared_ptr<Bell> bell) override {
    connection_->ring(std::move(bell));
  }
  void close() override { connection_->close_sender(); }
  const SharedConnection& connection() const { return *connection_; }

 private:
  std::shared_ptr<SharedConnection> connection_;
};

class SharedReceiver final : public Receiver {
 public:
  explicit SharedReceiver(std::shared_ptr<SharedConnection> connection)
      : connection_(std::move(connection)) {}
  SharedReceiver(const SharedReceiver&) = delete;
  SharedReceiver& operator=(const SharedReceiver&) = delete;
  ~SharedReceiver() override { connection_->drop_receiver(); }

  std::optional<Message> receive() override { return connection_->receive(); }
  bool ready() const override { return connection_->ready(); }
  std::optional<MessageHead> next() const override {
    return connection_->next_head();
  }
  std::optional<std::chrono::steady_clock::time_point> next_arrived()
      const override {
    return connection_->next_arrived();
  }
  void ring(std::shared_ptr<Bell> bell) override {
    connection_->ring(std::move(bell));
  }
  std::size_t waiting_bytes() const override {
    return connection_->waiting_bytes();
  }
  const SharedConnection& connection() const { return *connection_; }

 private:
  std::shared_ptr<SharedConnection> connection_;
};

}  // namespace

Link open_shared_link(IoThread& io, Stream stream, LinkOptions options,
                      std::vector<std::byte> first) {
  SLUICE_CHECK(options.capacity_send > 0 && options.capacity_receive > 0,
               "link from {} to {} without room for a message", options.here,
               options.there);
  options.reconnect = Deadline(0);  // a socket within a host doesn't break
  Socket socket = std::move(stream.socket());
  SLUICE_CHECK(&socket.get_executor().context() == &io.context(),
               "the socket of {} belongs to another thread", options.here);
  const auto connection = std::make_shared<SharedConnection>(
      io, std::move(socket), std::move(options), std::move(first));
  connection->start();
  return {.sender = std::make_unique<SharedSender>(connection),
          .receiver = std::make_unique<SharedReceiver>(connection)};
}

BufferSource slots_of(const Sender& sender) {
  const auto* const shared = dynamic_cast<const SharedSender*>(&sender);
  if (shared == nullptr) return allocate_buffer;
  return [pool = shared->connection().slots()](std::size_t bytes) {
    return pool->take(bytes);
  };
}

BufferSource free_slots_of(const Sender& sender, std::size_t count) {
  const auto* const shared = dynamic_cast<const SharedSender*>(&sender);
  if (shared == nullptr) return [](std::size_t) { return Buffer(); };
  return [pool = shared->connection().slots(), count](std::size_t bytes) {
    return pool->take_free(bytes, count);
  };
}

namespace {

std::string pin_slots_of(SharedArea* area, std::size_t count,
                         const PinMemory& pin) {
  if (area == nullptr || area->shape().slots == 0)
    return "the link has no slots";
  std::string why = area->take_slots(count);
  if (why.empty()) area->keep(pin(area->slots(count), why));
  return why;
}

/// Receiver for a link whose tensors lie in slots.
class SlotReceiver final : public ReceiverAround {
 public:
  SlotReceiver(std::unique_ptr<Receiver> receiver,
               std::span<const std::byte> slots, BufferSource buffers)
      : ReceiverAround(std::move(receiver)),
        slots_(slots),
        buffers_(std::move(buffers)) {}

  std::optional<Message> receive() override {
    std::optional<Message> message = inner().receive();
    if (!message) return message;
    for (TensorView& tensor : message->tensors)
      if (lies_in_slot(tensor.buffer)) tensor.buffer = copy_of(tensor.buffer);
    return message;
  }

 private:
  bool lies_in_slot(const Buffer& buffer) const {
    // Pointers into different memory are ordered by std::less and its like
    // alone.
    const std::less_equal<const std::byte*> is_before;
    const std::less<const std::byte*> is_truly_before;
    return is_before(slots_.data(), buffer.data) &&
           is_truly_before(buffer.data, slots_.data() + slots_.size());
  }
  Buffer copy_of(const Buffer& slot) const {
    Buffer copy = buffers_(slot.bytes);
    copy.bytes = slot.bytes;
    std::memcpy(copy.data, slot.data, slot.bytes);
    return copy;
  }

  const std::span<const std::byte> slots_;
  const BufferSource buffers_;
};

}  // namespace

std::string pin_slots(const Sender& sender, std::size_t count,
                      const PinMemory& pin) {
  const auto* const shared = dynamic_cast<const SharedSender*>(&sender);
  return pin_slots_of(
      shared == nullptr ? nullptr : &shared->connection().own_area(), count,
      pin);
}

std::string pin_slots(const Receiver& receiver, std::size_t count,
                      const PinMemory& pin) {
  const auto* const shared = dynamic_cast<const SharedReceiver*>(&receiver);
  return pin_slots_of(
      shared == nullptr ? nullptr : shared->connection().peers_area(), count,
      pin);
}

std::span<const std::byte> memory_of_slots(const Receiver& receiver) {
  const auto* const shared = dynamic_cast<const SharedReceiver*>(&receiver);
  const SharedArea* const area =
      shared == nullptr ? nullptr : shared->connection().peers_area();
  if (area == nullptr) return {};
  return area->slots(area->shape().slots);
}

std::unique_ptr<Receiver> out_of_slots(std::unique_ptr<Receiver> receiver,
                                       std::span<const std::byte> slots,
                                       BufferSource buffers) {
  return std::make_unique<SlotReceiver>(std::move(receiver), slots,
                                        std::move(buffers));
}

std::uint64_t copied_bytes(const Sender& sender) {
  const auto* const shared = dynamic_cast<const SharedSender*>(&sender);
  return shared == nullptr ? 0 : shared->connection().copied_in();
}

std::uint64_t copied_bytes(const Receiver& receiver) {
  const auto* const shared = dynamic_cast<const SharedReceiver*>(&receiver);
  return shared == nullptr ? 0 : shared->connection().copied_out();
}

Transport shared_memory_transport() {
  Transport transport = unix_transport();
  transport.open = open_shared_link;
  return transport;
}

}  // namespace sluice
