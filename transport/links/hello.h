#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "lib/base/error.h"
#include "transport/links/stream.h"
#include "transport/wire/frame.h"
#include "transport/wire/handshake.h"

namespace sluice {

/// Two processes of one run were started with different things, or are of
/// builds that can't talk to each other: both say the same of it.
class Disagreement final : public UserError {
 public:
  using UserError::UserError;
};

/// First message of both ends to each other, once they have proved that they
/// belong to the run (handshake.h). Blocks count from 1; 0 is the launcher.
struct Hello {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t blocks = 0;
  std::uint64_t capacity_send = 1;     ///< messages, of the sender of this
  std::uint64_t capacity_receive = 1;  ///< messages
  std::uint64_t reconnect_ms = 0;      ///< how long it tries to; 0: not at all
  /// The session of a link that goes on after its connection broke; else zeros.
  Session session = {};
  std::uint64_t received = 0;  ///< messages that came over the link so far
  std::uint64_t taken = 0;     ///< how many of them its user received
  /// From a worker: the address where it listens. From the launcher: the
  /// addresses of all workers, block 1 first (a worker without a peer of a
  /// lower number listens nowhere: "").
  std::vector<std::string> addresses = {};
  /// Between ranks: what the sender was started with, as its users compare it
  /// (RendezvousOptions::run); opaque here. Else empty.
  std::string run = {};
  /// Why the sender refuses the receiver; empty: it doesn't. From one that
  /// calls: why it has ended before it took part.
  std::string refusal = {};
};

inline constexpr std::size_t kMaxRunText = std::size_t{512} << 10;
inline constexpr std::size_t kMaxRefusal = 4096;

/// The peer doesn't know the link that goes on here, or is in another one: one
/// of the two processes was started anew.
class FencedLinkError final : public LinkError {
 public:
  using LinkError::LinkError;
};

/// Name of an end: "block 2" or "the launcher".
std::string block_name(std::uint32_t block);

/// A whole frame. Throws UserError for a `run` beyond kMaxRunText; a refusal is
/// cut to kMaxRefusal.
std::vector<std::byte> encode_hello(const Hello& hello);
/// Throws LinkError.
Hello decode_hello(std::span<const std::byte> block);

/// Throws LinkError unless `theirs` answers `mine`: the same two ends, number
/// of blocks, capacities, and reconnection; FencedLinkError for another
/// session. Throws Disagreement when `theirs` is a refusal.
void check_agreement(const Hello& mine, const Hello& theirs);

/// Throws LinkError unless the hello is from the peer that proved itself.
void check_identity(const Greeting& proved, const Hello& hello);

/// Hellos are written and read on the I/O thread. Both throw LinkError. The
/// stream must outlive them.
boost::asio::awaitable<void> write_hello(Stream& stream, Hello hello);
boost::asio::awaitable<Hello> read_hello(Stream& stream);

}  // namespace sluice
