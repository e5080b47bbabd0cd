#pragma once

#include <array>
#include <cstddef>

#include <boost/asio/awaitable.hpp>

#include "transport/links/event_fd.h"
#include "transport/links/file_descriptor.h"
#include "transport/links/hello.h"
#include "transport/shared/shared_area.h"

namespace sluice {

/// Offer of each end to the other on their UNIX socket after the hellos: the
/// memory that it sends through, and what to wake it with.
struct Offer {
  AreaShape shape = {};
  FileDescriptor memory = {};
  EventFd io_bell;   ///< wakes its I/O thread
  EventFd end_bell;  ///< wakes an end that waits in send() or receive()
};

/// The descriptors of the memory, the I/O bell and the end bell.
using OfferedFiles = std::array<int, 3>;

/// The bytes that the descriptors travel with (transport/README.md).
std::array<std::byte, 64> encode_shape(const AreaShape& shape);
/// Throws LinkError.
AreaShape decode_shape(std::span<const std::byte> bytes);

/// Both run on the I/O thread and throw LinkError. The socket must outlive
/// them; the descriptors must stay open until the offer is sent.
boost::asio::awaitable<void> send_offer(Socket& socket, AreaShape shape,
                                        OfferedFiles files);
boost::asio::awaitable<Offer> receive_offer(Socket& socket);

}  // namespace sluice
