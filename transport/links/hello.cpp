#include "transport/links/hello.h"

#include <array>

#include <boost/asio/buffer.hpp>

#include "lib/base/error.h"
#include "transport/wire/bytes.h"

namespace sluice {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kMaxAddress = 256;
constexpr std::uint32_t kMaxAddresses = 4096;
// A hello is read only after the peer has proved that it holds the secret.
constexpr FrameLimits kHelloLimits{
    .max_payload_bytes = 0,
    .max_block_bytes = std::size_t{1} << 20,
};

std::string take_bounded(ByteReader& in, std::uint32_t length, std::size_t most,
                         const char* what) {
  if (length > most)
    throw LinkError("hello with {} of {} bytes; at most {}", what, length,
                    most);
  return in.take_text(length);
}

void check_session(const Hello& mine, const Hello& theirs) {
  if (theirs.session == mine.session) return;
  if (mine.session == Session{}) {
    throw FencedLinkError("{} is still in a link with an earlier process of {}",
                          block_name(theirs.from), block_name(mine.from));
  }
  throw FencedLinkError("{} knows nothing of this link: it was started anew",
                        block_name(theirs.from));
}

}  // namespace

std::string block_name(std::uint32_t block) {
  return block == 0 ? "the launcher" : fmt::format("block {}", block);
}

std::vector<std::byte> encode_hello(const Hello& hello) {
  if (hello.run.size() > kMaxRunText)
    throw UserError(
        "the config that ranks compare has {} bytes; at most {} are allowed",
        hello.run.size(), kMaxRunText);
  const std::string refusal = hello.refusal.substr(0, kMaxRefusal);
  ByteWriter out;
  out.put(hello.from);
  out.put(hello.to);
  out.put(hello.blocks);
  out.put(static_cast<std::uint32_t>(hello.addresses.size()));
  out.put(hello.capacity_send);
  out.put(hello.capacity_receive);
  out.put(hello.reconnect_ms);
  for (const std::byte byte : hello.session) {
    out.put(std::to_integer<std::uint8_t>(byte));
  }
  out.put(hello.received);
  out.put(hello.taken);
  out.put(static_cast<std::uint32_t>(hello.run.size()));
  out.put(static_cast<std::uint32_t>(refusal.size()));
  for (const std::string& address : hello.addresses) {
    SLUICE_CHECK(address.size() <= kMaxAddress, "address '{}' is too long",
                 address);
    out.put(static_cast<std::uint16_t>(address.size()));
    out.put_text(address);
  }
  out.put_text(hello.run);
  out.put_text(refusal);
  out.pad_to(kAlignment);
  return encode_frame(FrameHeader{.type = FrameType::hello}, out.take());
}

Hello decode_hello(std::span<const std::byte> block) {
  ByteReader in(block);
  Hello hello;
  hello.from = in.take<std::uint32_t>();
  hello.to = in.take<std::uint32_t>();
  hello.blocks = in.take<std::uint32_t>();
  const auto addresses = in.take<std::uint32_t>();
  if (addresses > kMaxAddresses) {
    throw LinkError("hello with {} addresses; at most {} are allowed",
                    addresses, kMaxAddresses);
  }
  hello.capacity_send = in.take<std::uint64_t>();
  hello.capacity_receive = in.take<std::uint64_t>();
  hello.reconnect_ms = in.take<std::uint64_t>();
  for (std::byte& byte : hello.session)
    byte = std::byte{in.take<std::uint8_t>()};
  hello.received = in.take<std::uint64_t>();
  hello.taken = in.take<std::uint64_t>();
  const auto run_bytes = in.take<std::uint32_t>();
  const auto refusal_bytes = in.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < addresses; ++i) {
    const auto length = in.take<std::uint16_t>();
    if (length > kMaxAddress) {
      throw LinkError("hello with an address of {} bytes; at most {}", length,
                      kMaxAddress);
    }
    hello.addresses.push_back(in.take_text(length));
  }
  hello.run = take_bounded(in, run_bytes, kMaxRunText, "a text of its run");
  hello.refusal = take_bounded(in, refusal_bytes, kMaxRefusal, "a refusal");
  in.take_zeros(in.left());
  return hello;
}

void check_agreement(const Hello& mine, const Hello& theirs) {
  const std::string here = block_name(mine.from);
  const std::string there = block_name(theirs.from);
  if (!theirs.refusal.empty()) throw Disagreement("{}", theirs.refusal);
  if (theirs.from != mine.to || theirs.to != mine.from) {
    throw LinkError("{} expected {}, but met {}, which looks for {}", here,
                    block_name(mine.to), there, block_name(theirs.to));
  }
  check_session(mine, theirs);
  if (theirs.blocks != mine.blocks) {
    throw LinkError("{} belongs to a run of {} blocks, but {} to one of {}",
                    here, mine.blocks, there, theirs.blocks);
  }
  if (theirs.capacity_receive != mine.capacity_send ||
      theirs.capacity_send != mine.capacity_receive) {
    throw LinkError(
        "{} and {} disagree on their link: it sends {} and receives {} "
        "messages ahead here, and receives {} and sends {} there",
        here, there, mine.capacity_send, mine.capacity_receive,
        theirs.capacity_receive, theirs.capacity_send);
  }
  if (theirs.reconnect_ms != mine.reconnect_ms) {
    throw LinkError(
        "{} and {} disagree on how long they try to reconnect: {} ms and {} ms",
        here, there, mine.reconnect_ms, theirs.reconnect_ms);
  }
}

void check_identity(const Greeting& proved, const Hello& hello) {
  if (hello.from != proved.from || hello.to != proved.to) {
    throw LinkError("{} greeted {}, but {} had proved itself to {}",
                    block_name(hello.from), block_name(hello.to),
                    block_name(proved.from), block_name(proved.to));
  }
}

asio::awaitable<void> write_hello(Stream& stream, Hello hello) {
  const std::vector<std::byte> frame = encode_hello(hello);
  std::array<asio::const_buffer, 1> parts{asio::buffer(frame)};
  co_await stream.write(parts);
}

asio::awaitable<Hello> read_hello(Stream& stream) {
  std::array<std::byte, kHeaderBytes> bytes = {};
  std::array<asio::mutable_buffer, 1> first{asio::buffer(bytes)};
  co_await stream.read(first);
  const FrameHeader header = decode_header(bytes, kHelloLimits);
  if (header.type != FrameType::hello) {
    throw LinkError("a frame of type {} came instead of a greeting",
                    static_cast<int>(header.type));
  }
  std::vector<std::byte> block(header.block_bytes);
  std::array<asio::mutable_buffer, 1> rest{asio::buffer(block)};
  co_await stream.read(rest);
  check_block(block, header);
  co_return decode_hello(block);
}

}  // namespace sluice
