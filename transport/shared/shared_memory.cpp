#include "transport/shared/shared_memory.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/error.h"
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
