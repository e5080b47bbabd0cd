#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>

#include "transport/handshake.h"
#include "transport/secret.h"

namespace sluice {

class Tls;

/// A connected stream socket of any kind.
using Socket = boost::asio::generic::stream_protocol::socket;

/// The bytes that go over a connected socket, in both directions, plain or with
/// TLS 1.3. All but the constructor on the I/O thread; a read and a write may
/// run at the same time, and the stream must outlive them. Plain bytes go by
/// scatter/gather, without a copy of ours; what TLS writes is copied once.
class Stream {
 public:
  /// Called whenever bytes moved; it must outlive the read or write.
  using Moved = std::function<void()>;

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

  /// Fills all of the buffers, which must outlive it. Throws LinkError.
  boost::asio::awaitable<void> read(
      std::span<const boost::asio::mutable_buffer> buffers,
      const Moved* moved = nullptr);
  /// Writes all of the buffers, likewise.
  boost::asio::awaitable<void> write(
      std::span<const boost::asio::const_buffer> buffers,
      const Moved* moved = nullptr);

  bool is_open() const { return socket_->is_open(); }
  /// Both end what waits.
  void close();
  void shutdown_send();

 private:
  static constexpr std::uint64_t kBytesPerKey = std::uint64_t{64} << 30;

  std::unique_ptr<Socket> socket_;
  std::unique_ptr<Tls> tls_;  // refers to the socket
};

}  // namespace sluice
