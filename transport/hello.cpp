#include "transport/hello.h"

#include <array>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "lib/base/error.h"
#include "transport/bytes.h"

namespace sluice {
namespace {

namespace asio = boost::asio;

constexpr auto kResult = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kMaxAddress = 256;
constexpr std::uint32_t kMaxAddresses = 4096;
// 64 KiB or so: a hello comes from somebody whom we don't know yet.
constexpr FrameLimits kHelloLimits{
    .max_payload_bytes = 0,
    .max_block_bytes = std::size_t{64} << 10,
};

}  // namespace

std::string block_name(std::uint32_t block) {
  return block == 0 ? "the launcher" : fmt::format("block {}", block);
}

std::vector<std::byte> encode_hello(const Hello& hello) {
  ByteWriter out;
  out.put(hello.from);
  out.put(hello.to);
  out.put(hello.blocks);
  out.put(static_cast<std::uint32_t>(hello.addresses.size()));
  out.put(hello.capacity_send);
  out.put(hello.capacity_receive);
  for (const std::string& address : hello.addresses) {
    SLUICE_CHECK(address.size() <= kMaxAddress, "address '{}' is too long",
                 address);
    out.put(static_cast<std::uint16_t>(address.size()));
    out.put_text(address);
  }
  out.pad_to(kAlignment);
  return encode_frame(FrameType::hello, out.take());
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
  for (std::uint32_t i = 0; i < addresses; ++i) {
    const auto length = in.take<std::uint16_t>();
    if (length > kMaxAddress) {
      throw LinkError("hello with an address of {} bytes; at most {}", length,
                      kMaxAddress);
    }
    hello.addresses.push_back(in.take_text(length));
  }
  in.take_zeros(in.left());
  return hello;
}

void check_agreement(const Hello& mine, const Hello& theirs) {
  const std::string here = block_name(mine.from);
  const std::string there = block_name(theirs.from);
  if (theirs.from != mine.to || theirs.to != mine.from) {
    throw LinkError("{} expected {}, but met {}, which looks for {}", here,
                    block_name(mine.to), there, block_name(theirs.to));
  }
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
}

asio::awaitable<void> write_hello(Socket& socket, Hello hello) {
  const std::vector<std::byte> frame = encode_hello(hello);
  const auto [error, bytes] =
      co_await asio::async_write(socket, asio::buffer(frame), kResult);
  if (error) {
    throw LinkError("{} could not greet {}: {}", block_name(hello.from),
                    block_name(hello.to), error.message());
  }
}

asio::awaitable<Hello> read_hello(Socket& socket) {
  std::array<std::byte, kHeaderBytes> bytes = {};
  const auto [error, count] =
      co_await asio::async_read(socket, asio::buffer(bytes), kResult);
  if (error) throw LinkError("no greeting came: {}", error.message());
  const FrameHeader header = decode_header(bytes, kHelloLimits);
  if (header.type != FrameType::hello) {
    throw LinkError("a frame of type {} came instead of a greeting",
                    static_cast<int>(header.type));
  }
  std::vector<std::byte> block(header.block_bytes);
  const auto [failure, size] =
      co_await asio::async_read(socket, asio::buffer(block), kResult);
  if (failure) throw LinkError("greeting ended: {}", failure.message());
  check_block(block, header);
  co_return decode_hello(block);
}

}  // namespace sluice
