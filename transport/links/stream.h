#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "transport/wire/handshake.h"
#include "transport/wire/secret.h"

namespace sluice {

class Tls;

/// A connected stream socket of any kind.
using Socket = boost::asio::generic::stream_protocol::socket;

/// The bytes that go over a connected socket, in both directions, plain or with
/// TLS 1.3. All but the constructor on the I/O thread; a read and a write may
/// run at the same time, and the stream must outlive them. Plain
/// bytes go by scatter/gather, without a copy of ours; what TLS writes is
/// copied once.
class Stream {
 public:
  /// Called whenever bytes moved; it must outlive the read or write.
  using MoveCallback = std::function<void()>;

  explicit Stream(Socket socket);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;

  /// Puts TLS on the connection, before anything else was read or written. A
  /// new key comes after so many bytes: far below what AES-GCM is good for.
  /// Throws LinkError unless the peer does the same with the same secret.
  boost::asio::awaitable<void> encrypt(
      Side side, Secret secret, std::uint64_t bytes_per_key = kBytesPerKey);

  Socket& socket() { return *socket_; }
  Socket::executor_type executor() { return socket_->get_executor(); }

  /// Fills all of the buffers. The list, which must outlive it, is used up.
  /// Throws LinkError.
  boost::asio::awaitable<void> read(
      std::span<boost::asio::mutable_buffer> buffers,
      const MoveCallback* moved = nullptr);
  /// Writes all of the buffers, likewise.
  boost::asio::awaitable<void> write(
      std::span<boost::asio::const_buffer> buffers,
      const MoveCallback* moved = nullptr);
  /// Writes what can be without waiting, some `budget` bytes at most, and takes
  /// it off the list and the budget; whether that was all. Errors are left for
  /// write().
  bool try_write(std::vector<boost::asio::const_buffer>& buffers,
                 std::size_t& budget);

  bool is_open() const { return socket_->is_open(); }
  /// close() and shutdown_send() end reads and writes that wait.
  void close();
  void shutdown_send();
  /// Forgets what no write has needed since the last call; called now and then.
  void tidy();

 private:
  static constexpr std::uint64_t kBytesPerKey = std::uint64_t{64} << 30;

  // Bytes that were moved since others in the loop had their turn.
  class Share {
   public:
    /// Whether the others are due, after so many bytes more.
    bool is_used_up(std::size_t bytes);
    void renew() { used_ = 0; }

   private:
    std::size_t used_ = 0;
  };

  boost::asio::awaitable<void> wait_writable();
  boost::asio::awaitable<void> let_others();

  std::unique_ptr<Socket> socket_;
  // Waits until the socket can be written. The socket itself never does: once
  // it had, the loop would wake whenever the peer has read something.
  std::optional<boost::asio::posix::stream_descriptor> writable_;
  Share read_share_;
  Share write_share_;
  bool waits_ = false;
  bool has_waited_ = false;
  std::unique_ptr<Tls> tls_;  // refers to the socket
};

}  // namespace sluice
