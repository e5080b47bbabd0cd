#include "transport/links/authenticate.h"

#include <array>
#include <vector>

#include <boost/asio/buffer.hpp>

#include "transport/links/hello.h"

namespace sluice {
namespace {

namespace asio = boost::asio;

asio::awaitable<void> write_output(Stream& stream, Handshake& handshake) {
  const std::vector<std::byte> bytes = handshake.output();
  std::array<asio::const_buffer, 1> parts{asio::buffer(bytes)};
  if (!bytes.empty()) co_await stream.write(parts);
}

}  // namespace

asio::awaitable<Handshake> authenticate(Stream& stream, Side side,
                                        Identity mine) {
  Greeting greeting{
      .versions = mine.versions, .from = mine.from, .to = mine.to};
  fill_randomly(greeting.nonce);
  Handshake handshake(side, mine.secret, greeting);
  co_await write_output(stream, handshake);
  while (handshake.awaited() > 0) {
    std::vector<std::byte> bytes(handshake.awaited());
    std::array<asio::mutable_buffer, 1> parts{asio::buffer(bytes)};
    co_await stream.read(parts);
    handshake.take(bytes);
    co_await write_output(stream, handshake);
  }
  if (handshake.verdict() == Verdict::other_version) {
    throw VersionError("{} can't be talked to: {}",
                       block_name(handshake.theirs().from), handshake.reason());
  }
  if (handshake.verdict() == Verdict::stranger) {
    throw LinkError("{}", handshake.reason());
  }
  co_return handshake;
}

}  // namespace sluice
