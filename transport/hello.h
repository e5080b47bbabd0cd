#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>

#include "transport/frame.h"

namespace sluice {

/// A connected stream socket of any kind.
using Socket = boost::asio::generic::stream_protocol::socket;

/// What both ends tell each other first. Blocks count from 1; 0 is the
/// launcher.
struct Hello {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t blocks = 0;
  std::uint64_t capacity_send = 1;     ///< messages, of the sender of this
  std::uint64_t capacity_receive = 1;  ///< messages
  /// Of a worker: where it listens. Of the launcher: of all workers, block 1
  /// first (one that has nobody below listens nowhere: "").
  std::vector<std::string> addresses = {};
};

/// "block 2" or "the launcher".
std::string block_name(std::uint32_t block);

/// A whole frame.
std::vector<std::byte> encode_hello(const Hello& hello);
/// Throws LinkError.
Hello decode_hello(std::span<const std::byte> block);

/// Throws LinkError unless `theirs` answers `mine`: the same two ends, number
/// of blocks and capacities.
void check_agreement(const Hello& mine, const Hello& theirs);

/// On the I/O thread, each. Throw LinkError. The socket must outlive them.
boost::asio::awaitable<void> write_hello(Socket& socket, Hello hello);
boost::asio::awaitable<Hello> read_hello(Socket& socket);

}  // namespace sluice
