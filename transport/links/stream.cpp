#include "transport/links/stream.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <fcntl.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "transport/links/file_descriptor.h"
#include "transport/links/tls.h"
#include "transport/wire/completion.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// What has been moved is left out, and what is empty; false when that is all.
template <class Buffer>
bool skip(std::span<Buffer>& buffers, std::size_t bytes) {
  while (!buffers.empty() && bytes >= buffers.front().size()) {
    bytes -= buffers.front().size();
    buffers = buffers.subspan(1);
  }
  if (buffers.empty()) return false;
  buffers.front() += bytes;
  return true;
}

}  // namespace

Stream::Stream(Socket socket)
    : socket_(std::make_unique<Socket>(std::move(socket))) {
  socket_->non_blocking(true);
}

Stream::~Stream() = default;
Stream::Stream(Stream&& other) noexcept = default;

Stream& Stream::operator=(Stream&& other) noexcept {
  tls_ = std::move(other.tls_);  // before the socket that it refers to
  socket_ = std::move(other.socket_);
  writable_ = std::move(other.writable_);
  return *this;
}

asio::awaitable<void> Stream::encrypt(Side side, Secret secret,
                                      std::uint64_t bytes_per_key) {
  tls_ = std::make_unique<Tls>(*socket_, side, secret, bytes_per_key);
  co_await tls_->handshake();
}

asio::awaitable<void> Stream::read(std::span<asio::mutable_buffer> buffers,
                                   const MoveCallback* moved) {
  if (tls_) {
    co_await tls_->read(buffers, moved);
    co_return;
  }
  while (skip(buffers, 0)) {
    error_code error;
    const std::size_t bytes = socket_->read_some(buffers, error);
    if (error == asio::error::would_block) {
      read_share_.renew();
      std::tie(error) =
          co_await socket_->async_wait(Socket::wait_read, kResult);
    } else if (!error) {
      if (moved != nullptr) (*moved)();
      skip(buffers, bytes);
      if (read_share_.is_used_up(bytes)) co_await let_others();
    }
    check_peer(error);
  }
}

asio::awaitable<void> Stream::write(std::span<asio::const_buffer> buffers,
                                    const MoveCallback* moved) {
  if (tls_) {
    co_await tls_->write(buffers, moved);
    co_return;
  }
  while (skip(buffers, 0)) {
    error_code error;
    const std::size_t bytes = socket_->write_some(buffers, error);
    if (error == asio::error::would_block) {
      write_share_.renew();
      co_await wait_writable();
      continue;
    }
    check_peer(error);
    if (moved != nullptr) (*moved)();
    skip(buffers, bytes);
    if (write_share_.is_used_up(bytes)) co_await let_others();
  }
}

bool Stream::try_write(std::vector<asio::const_buffer>& buffers,
                       std::size_t& budget) {
  std::span<asio::const_buffer> left(buffers);
  error_code error;
  while (!tls_ && !error && budget > 0 && skip(left, 0)) {
    const std::size_t bytes = socket_->write_some(left, error);
    skip(left, bytes);
    budget -= std::min(budget, bytes);
  }
  skip(left, 0);
  buffers.erase(buffers.begin(), buffers.end() - std::ssize(left));
  return buffers.empty();
}

// A frame counts as 4 KiB at least, because small ones cost time too.
bool Stream::Share::is_used_up(std::size_t bytes) {
  constexpr std::size_t kLeast = std::size_t{4} << 10;
  constexpr std::size_t kShare = std::size_t{1} << 20;
  used_ += std::max(bytes, kLeast);
  if (used_ < kShare) return false;
  used_ = 0;
  return true;
}

asio::awaitable<void> Stream::let_others() {
  co_await asio::post(executor(), asio::use_awaitable);
}

asio::awaitable<void> Stream::wait_writable() {
  if (!writable_) {
    FileDescriptor copy(::fcntl(socket_->native_handle(), F_DUPFD_CLOEXEC, 0));
    if (!copy)
      throw LinkError("no descriptor is left for its connection: {}",
                      errno_text());
    writable_.emplace(executor());
    writable_->assign(copy.get());
    copy.release();
  }
  waits_ = has_waited_ = true;
  const auto [error] = co_await writable_->async_wait(
      asio::posix::stream_descriptor::wait_write, kResult);
  waits_ = false;
  check_peer(error);
}

void Stream::tidy() {
  if (!waits_ && !std::exchange(has_waited_, false)) writable_.reset();
}

void Stream::close() {
  if (!socket_) return;  // it was moved from
  error_code ignored;
  socket_->close(ignored);
  if (writable_) writable_->close(ignored);
}

void Stream::shutdown_send() {
  error_code ignored;
  socket_->shutdown(Socket::shutdown_send, ignored);
}

}  // namespace sluice
