#include "transport/connection.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "lib/base/error.h"
#include "transport/frame.h"
#include "transport/mailbox.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = Mailbox::Clock;

constexpr auto kResult = asio::as_tuple(asio::use_awaitable);

// Asio's own completion conditions cap each system call at 64 KiB, which costs
// up to 40 % of the bandwidth.
constexpr std::size_t kAtOnce = std::size_t{1} << 30;

// How long a connection whose ends are gone may stand still, at most, before
// what it has left to write is given up.
constexpr Deadline kLinger = std::chrono::seconds(5);

constexpr std::array<std::byte, kAlignment> kPadding = {};

std::string text_of(const error_code& error) {
  return error == asio::error::eof ? "it is gone"
                                   : "it is gone: " + error.message();
}

/// The socket of a link, and the two coroutines that own it: one always reads,
/// so that a peer is never kept from writing; the other writes what the mailbox
/// has. All but the constructor and mailbox() runs on the I/O thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Socket socket, LinkOptions options, std::vector<std::byte> first);

  static void start(const std::shared_ptr<Connection>& self);
  Mailbox& mailbox() { return mailbox_; }

 private:
  // They hold the connection until both have ended.
  static asio::awaitable<void> read_all(std::shared_ptr<Connection> self);
  static asio::awaitable<void> write_all(std::shared_ptr<Connection> self);

  asio::awaitable<void> read_frame();
  asio::awaitable<void> read_message(FrameHeader header);
  template <class Buffers>
  asio::awaitable<void> read_exactly(Buffers buffers);
  asio::awaitable<void> write_frames();
  asio::awaitable<void> write(Outgoing out);
  auto condition();
  void on_wake();
  void linger();
  void close();

  const LinkOptions options_;
  const Socket::executor_type executor_;
  Mailbox mailbox_;
  Socket socket_;
  asio::steady_timer wake_;
  asio::steady_timer linger_;
  bool lingering_ = false;
  std::vector<std::byte> first_;
  std::array<std::byte, kHeaderBytes> header_ = {};
  std::array<std::byte, kAlignment> skipped_ = {};
};

Connection::Connection(Socket socket, LinkOptions options,
                       std::vector<std::byte> first)
    : options_(std::move(options)),
      executor_(socket.get_executor()),
      mailbox_(options_,
               [this] {  // called by the ends, which hold the connection
                 asio::post(executor_,
                            [self = shared_from_this()] { self->on_wake(); });
               }),
      socket_(std::move(socket)),
      wake_(executor_, Clock::time_point::max()),
      linger_(executor_),
      first_(std::move(first)) {}

void Connection::start(const std::shared_ptr<Connection>& self) {
  asio::co_spawn(self->executor_, read_all(self), asio::detached);
  asio::co_spawn(self->executor_, write_all(self), asio::detached);
}

// Lifts the cap, and notes that bytes moved.
auto Connection::condition() {
  return [this](const error_code& error, std::size_t) {
    mailbox_.moved();
    return error ? 0 : kAtOnce;
  };
}

asio::awaitable<void> Connection::read_all(std::shared_ptr<Connection> self) {
  std::string reason;
  try {
    for (;;) co_await self->read_frame();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  self->mailbox_.reading_ended(reason);
  self->close();
}

template <class Buffers>
asio::awaitable<void> Connection::read_exactly(Buffers buffers) {
  const auto [error, bytes] =
      co_await asio::async_read(socket_, buffers, condition(), kResult);
  if (error) throw LinkError("{}", text_of(error));
}

asio::awaitable<void> Connection::read_frame() {
  co_await read_exactly(asio::buffer(header_));
  const FrameHeader header = decode_header(header_, options_.limits);
  switch (header.type) {
    case FrameType::hello:
      throw LinkError("it greeted twice");
    case FrameType::data:
      co_await read_message(header);
      break;
    case FrameType::credit:
      mailbox_.credit(header.count);
      break;
    case FrameType::bye:
    case FrameType::quit:
    case FrameType::stop:
      mailbox_.end_of_peer(header.type);
      break;
  }
}

asio::awaitable<void> Connection::read_message(FrameHeader header) {
  mailbox_.admit(header);
  std::vector<std::byte> block(header.block_bytes);
  co_await read_exactly(asio::buffer(block));
  Message message = decode_message(block, header, options_.limits);
  std::vector<asio::mutable_buffer> parts;
  for (TensorView& tensor : message.tensors) {
    const std::size_t bytes = tensor.buffer.bytes;
    tensor.buffer = options_.buffers(bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.buffer.data);
    SLUICE_CHECK(tensor.buffer.bytes >= bytes && address % kAlignment == 0,
                 "no aligned memory for {} bytes was supplied", bytes);
    tensor.buffer.bytes = bytes;
    parts.emplace_back(tensor.buffer.data, bytes);
    parts.emplace_back(skipped_.data(), padded(bytes) - bytes);
  }
  co_await read_exactly(std::move(parts));
  mailbox_.deliver(std::move(message));
}

// The reader may still have messages to fetch, and sees the end by itself. The
// peer closes its side when it has read our last frame; to close ours first
// could throw that frame away.
asio::awaitable<void> Connection::write_all(std::shared_ptr<Connection> self) {
  try {
    co_await self->write_frames();
  } catch (const std::exception& error) {
    self->mailbox_.sending_failed(error.what());
  }
  error_code ignored;
  self->socket_.shutdown(Socket::shutdown_send, ignored);
}

asio::awaitable<void> Connection::write_frames() {
  // Named, because g++ 12 destroys a braced argument of co_await twice.
  Outgoing first{.head = std::move(first_)};
  if (!first.head.empty()) co_await write(std::move(first));
  while (!mailbox_.nothing_left()) {
    Outgoing out = mailbox_.next();
    if (out.head.empty()) {
      co_await wake_.async_wait(kResult);
    } else {
      co_await write(std::move(out));
    }
  }
}

asio::awaitable<void> Connection::write(Outgoing out) {
  std::vector<asio::const_buffer> parts{asio::buffer(out.head)};
  for (const TensorView& tensor : out.message.tensors) {
    const std::size_t bytes = tensor.buffer.bytes;
    parts.emplace_back(tensor.buffer.data, bytes);
    parts.emplace_back(kPadding.data(), padded(bytes) - bytes);
  }
  const auto [error, bytes] =
      co_await asio::async_write(socket_, parts, condition(), kResult);
  if (error) throw LinkError("{}", text_of(error));
}

void Connection::close() {
  error_code ignored;
  socket_.close(ignored);
  linger_.cancel();
  wake_.cancel();
}

void Connection::on_wake() {
  wake_.cancel();
  if (!socket_.is_open()) return;
  if (!mailbox_.reading()) return close();
  if (mailbox_.abandoned() && !std::exchange(lingering_, true)) linger();
}

// Closes the socket once nothing has moved for so long.
void Connection::linger() {
  const Clock::time_point moved = mailbox_.last_move();
  linger_.expires_after(std::min(options_.deadline, kLinger));
  linger_.async_wait([self = shared_from_this(), moved](error_code error) {
    if (error) return;
    if (moved == self->mailbox_.last_move()) {
      self->close();
    } else {
      self->linger();
    }
  });
}

class SocketSender final : public Sender {
 public:
  explicit SocketSender(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}
  SocketSender(const SocketSender&) = delete;
  SocketSender& operator=(const SocketSender&) = delete;
  ~SocketSender() override { connection_->mailbox().drop_sender(); }

  void send(Message message) override {
    connection_->mailbox().send(std::move(message));
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

  std::optional<Message> receive() override {
    return connection_->mailbox().receive();
  }
  bool ready() const override { return connection_->mailbox().ready(); }
  std::size_t waiting_bytes() const override {
    return connection_->mailbox().waiting_bytes();
  }

 private:
  std::shared_ptr<Connection> connection_;
};

}  // namespace

Link open_link(IoThread& io, Socket socket, LinkOptions options,
               std::vector<std::byte> first) {
  SLUICE_CHECK(options.capacity_send > 0 && options.capacity_receive > 0,
               "link from {} to {} without room for a message", options.here,
               options.there);
  SLUICE_CHECK(&socket.get_executor().context() == &io.context(),
               "the socket of {} belongs to another thread", options.here);
  auto connection = std::make_shared<Connection>(
      std::move(socket), std::move(options), std::move(first));
  Connection::start(connection);
  return {.sender = std::make_unique<SocketSender>(connection),
          .receiver = std::make_unique<SocketReceiver>(connection)};
}

}  // namespace sluice
