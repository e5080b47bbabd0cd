// Whatever arrives on a socket: a frame or a LinkError; and a frame that is
// taken is written again as the same bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/error.h"
#include "transport/links/hello.h"
#include "transport/wire/frame.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

// Where the header's fields lie (transport/README.md).
constexpr std::size_t kHeaderCrc = 8;
constexpr std::size_t kBlockCrc = 12;
constexpr std::size_t kBlockBytes = 24;

void put(Bytes& frame, std::size_t offset, std::uint32_t value) {
  std::memcpy(frame.data() + offset, &value, sizeof value);
}

// Gives the frame the checksums and the block length that fit the rest, so that
// the fuzzer gets past them.
Bytes repaired(Bytes frame) {
  frame.resize(std::max(kHeaderBytes, frame.size() / kAlignment * kAlignment));
  const auto block = std::span(frame).subspan(kHeaderBytes);
  put(frame, kBlockBytes, static_cast<std::uint32_t>(block.size()));
  put(frame, kBlockCrc, crc32c(block));
  put(frame, kHeaderCrc, 0);
  put(frame, kHeaderCrc, crc32c(std::span(frame).first(kHeaderBytes)));
  return frame;
}

void require_same(const Bytes& a, std::span<const std::byte> b) {
  if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) std::abort();
}

void check(std::span<const std::byte> frame) {
  const FrameLimits limits;
  try {
    const FrameHeader header = decode_header(
        frame.first(std::min(frame.size(), kHeaderBytes)), limits);
    const auto block = frame.subspan(kHeaderBytes);
    if (header.type == FrameType::data) {
      const Message message = decode_message(block, header, limits);
      if (payload_bytes(message) > header.payload_bytes) std::abort();
      const Bytes again = encode_message(message, header.sequence, limits);
      require_same(
          encode_frame(header, {again.begin() + kHeaderBytes, again.end()}),
          frame);
    } else if (header.type == FrameType::hello) {
      check_block(block, header);
      encode_hello(decode_hello(block));  // it may be padded with more zeros
    } else {
      require_same(encode_frame(header), frame.first(kHeaderBytes));
    }
  } catch (const LinkError&) {
    return;  // any damage may be refused
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const sluice::Bytes frame(begin, begin + size);
  sluice::check(frame);
  sluice::check(sluice::repaired(frame));
  return 0;
}
