#include "transport/stream.h"

#include <cstddef>
#include <string>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "lib/base/error.h"
#include "transport/completion.h"
#include "transport/tls.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Asio's own completion conditions cap each system call at 64 KiB, which costs
// up to 40 % of the bandwidth.
constexpr std::size_t kAtOnce = std::size_t{1} << 30;

}  // namespace

Stream::Stream(Socket socket)
    : socket_(std::make_unique<Socket>(std::move(socket))) {}

Stream::~Stream() = default;
Stream::Stream(Stream&& other) noexcept = default;

Stream& Stream::operator=(Stream&& other) noexcept {
  tls_ = std::move(other.tls_);  // before the socket that it refers to
  socket_ = std::move(other.socket_);
  return *this;
}

asio::awaitable<void> Stream::encrypt(Side side, Secret secret,
                                      std::uint64_t bytes_per_key) {
  tls_ = std::make_unique<Tls>(*socket_, side, secret, bytes_per_key);
  co_await tls_->handshake();
}

asio::awaitable<void> Stream::read(
    std::span<const asio::mutable_buffer> buffers, const Moved* moved) {
  if (tls_) {
    co_await tls_->read(buffers, moved);
    co_return;
  }
  const auto [error, bytes] = co_await asio::async_read(
      *socket_, buffers, transfer_all(moved, kAtOnce), kResult);
  check_peer(error);
}

asio::awaitable<void> Stream::write(std::span<const asio::const_buffer> buffers,
                                    const Moved* moved) {
  if (tls_) {
    co_await tls_->write(buffers, moved);
    co_return;
  }
  const auto [error, bytes] = co_await asio::async_write(
      *socket_, buffers, transfer_all(moved, kAtOnce), kResult);
  check_peer(error);
}

void Stream::close() {
  error_code ignored;
  socket_->close(ignored);
}

void Stream::shutdown_send() {
  error_code ignored;
  socket_->shutdown(Socket::shutdown_send, ignored);
}

}  // namespace sluice
