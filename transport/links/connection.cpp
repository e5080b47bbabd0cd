#include "transport/links/connection.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/error.h"
#include "transport/links/connection_core.h"

namespace sluice {
namespace {

class SocketSender final : public Sender {
 public:
  explicit SocketSender(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}
  SocketSender(const SocketSender&) = delete;
  SocketSender& operator=(const SocketSender&) = delete;
  ~SocketSender() override { connection_->mailbox().drop_sender(); }

  void send(Message message) override { connection_->send(std::move(message)); }
  bool ready() const override { return connection_->mailbox().can_send(); }
  void ring(std::shared_ptr<Bell> bell) override {
    connection_->ring(std::move(bell));
  }
  void close() override { connection_->mailbox().close(); }

 private:
  std::shared_ptr<Connection> connection_;
};

class SocketReceiver final : public Receiver {
 public:
  explicit SocketReceiver(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}
  SocketReceiver(const SocketReceiver&) = delete;
  SocketReceiver& operator=(const SocketReceiver&) = delete;
  ~SocketReceiver() override { connection_->mailbox().drop_receiver(); }

  std::optional<Message> receive() override { return connection_->receive(); }
  bool ready() const override { return connection_->mailbox().ready(); }
  std::optional<MessageHead> next() const override {
    return connection_->mailbox().next_head();
  }
  std::optional<std::chrono::steady_clock::time_point> next_arrived()
      const override {
    return connection_->mailbox().next_arrived();
  }
  void ring(std::shared_ptr<Bell> bell) override {
    connection_->ring(std::move(bell));
  }
  std::size_t waiting_bytes() const override {
    return connection_->mailbox().waiting_bytes();
  }

 private:
  std::shared_ptr<Connection> connection_;
};

}  // namespace

Link open_link(IoThread& io, Stream stream, LinkOptions options,
               std::vector<std::byte> first) {
  SLUICE_CHECK(options.capacity_send > 0 && options.capacity_receive > 0,
               "link from {} to {} without room for a message", options.here,
               options.there);
  SLUICE_CHECK(
      (options.reconnect.count() > 0) == (options.reconnector != nullptr),
      "link from {} to {} reconnects within {} ms, {} a reconnector",
      options.here, options.there, options.reconnect.count(),
      options.reconnector ? "with" : "without");
  SLUICE_CHECK(&stream.executor().context() == &io.context(),
               "the socket of {} belongs to another thread", options.here);
  auto connection = std::make_shared<Connection>(
      io, std::move(stream), std::move(options), std::move(first));
  Connection::start(connection);
  return {.sender = std::make_unique<SocketSender>(connection),
          .receiver = std::make_unique<SocketReceiver>(connection)};
}

}  // namespace sluice
