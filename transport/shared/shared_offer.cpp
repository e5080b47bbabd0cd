#include "transport/shared/shared_offer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "transport/wire/bytes.h"
#include "transport/wire/completion.h"

namespace sluice {
namespace {

namespace asio = boost::asio;

constexpr std::uint32_t kOfferMagic = 0x4D534C9C;  // 9C 'L' 'S' 'M'
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kFiles = std::tuple_size_v<OfferedFiles>;

struct alignas(cmsghdr) Control {
  std::byte bytes[CMSG_SPACE(kFiles * sizeof(int))] = {};
};

bool must_wait() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

// Takes what there is: bytes into `rest`, descriptors into `files`.
ssize_t receive_some(int socket, std::span<std::byte> rest,
                     std::vector<FileDescriptor>& files) {
  iovec part{.iov_base = rest.data(), .iov_len = rest.size()};
  Control control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t count =
      ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0) return count;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= each->cmsg_len;
         at += sizeof(int)) {
      int file = -1;
      std::memcpy(&file, reinterpret_cast<std::byte*>(each) + at, sizeof file);
      files.emplace_back(file);
    }
  }
  return count;
}

}  // namespace

std::array<std::byte, 64> encode_shape(const AreaShape& shape) {
  std::array<std::byte, 64> bytes = {};
  ByteWriter out;
  out.put(kOfferMagic);
  out.put(kVersion);
  out.put(shape.ring_bytes);
  out.put(shape.slots);
  out.put(shape.slot_bytes);
  const std::vector<std::byte> written = out.take();
  std::copy(written.begin(), written.end(), bytes.begin());
  return bytes;
}

AreaShape decode_shape(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  if (in.take<std::uint32_t>() != kOfferMagic) {
    throw LinkError("what arrived is no offer of shared memory");
  }
  if (const auto version = in.take<std::uint32_t>(); version != kVersion) {
    throw LinkError("shared memory of version {}; this program speaks {}",
                    version, kVersion);
  }
  AreaShape shape;
  shape.ring_bytes = in.take<std::uint64_t>();
  shape.slots = in.take<std::uint64_t>();
  shape.slot_bytes = in.take<std::uint64_t>();
  in.take_zeros(in.left());
  return shape;
}

asio::awaitable<void> send_offer(Socket& socket, AreaShape shape,
                                 OfferedFiles files) {
  std::array<std::byte, 64> bytes = encode_shape(shape);
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  Control control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof files);
  std::memcpy(CMSG_DATA(rights), files.data(), sizeof files);
  for (;;) {
    const ssize_t count = ::sendmsg(socket.native_handle(), &message,
                                    MSG_DONTWAIT | MSG_NOSIGNAL);
    // The offer is so short that the system sends it as a whole.
    if (count == static_cast<ssize_t>(bytes.size())) co_return;
    if (count >= 0) throw LinkError("an offer of shared memory was cut short");
    if (!must_wait()) throw PeerGoneError("it is gone: {}", errno_text());
    const auto [error] =
        co_await socket.async_wait(Socket::wait_write, kResult);
    if (error) throw PeerGoneError("it is gone: {}", error.message());
  }
}

asio::awaitable<Offer> receive_offer(Socket& socket) {
  std::array<std::byte, 64> bytes = {};
  std::vector<FileDescriptor> files;
  std::span<std::byte> rest = bytes;
  while (!rest.empty()) {
    const ssize_t count = receive_some(socket.native_handle(), rest, files);
    if (count > 0) {
      rest = rest.subspan(static_cast<std::size_t>(count));
    } else if (count == 0) {
      throw PeerGoneError("it is gone");
    } else if (must_wait()) {
      const auto [error] =
          co_await socket.async_wait(Socket::wait_read, kResult);
      if (error) throw PeerGoneError("it is gone: {}", error.message());
    } else {
      throw PeerGoneError("it is gone: {}", errno_text());
    }
  }
  const AreaShape shape = decode_shape(bytes);
  if (files.size() != kFiles) {
    throw LinkError("it offers shared memory with {} descriptors instead of {}",
                    files.size(), kFiles);
  }
  co_return Offer{.shape = shape,
                  .memory = std::move(files[0]),
                  .io_bell = EventFd(std::move(files[1])),
                  .end_bell = EventFd(std::move(files[2]))};
}

}  // namespace sluice
