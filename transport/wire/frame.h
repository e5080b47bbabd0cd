#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/crc32c.h"
#include "lib/base/messages/message.h"

// The wire format; transport/README.md has it as tables and as an example.
//
//   frame = header (64 bytes) | block (0 or more times 64 bytes) | payload
namespace sluice {

inline constexpr std::uint8_t kWireVersion = 4;
inline constexpr std::size_t kHeaderBytes = 64;

enum class FrameType : std::uint8_t {
  hello = 1,   ///< the first of each direction: who I am (hello.h)
  data = 2,    ///< one message
  credit = 3,  ///< `count` more messages were taken off my channel
  bye = 4,     ///< my sender was closed: no data comes any more
  quit = 5,    ///< my sender went without being closed
  stop = 6,    ///< my receiver went: send no more data
  beat = 7,    ///< I live: my learner's progress, and what I received
  end = 8,     ///< I have received all, and go; of links that reconnect
};

/// What is believed of a peer before any memory is taken.
struct FrameLimits {
  std::uint64_t max_payload_bytes = std::uint64_t{4} << 30;
  std::size_t max_block_bytes = std::size_t{128} << 10;
  std::size_t max_tensors = 256;
  std::size_t max_name_bytes = 256;
};

/// All of the header that is not the same in every frame.
struct FrameHeader {
  FrameType type = FrameType::data;
  std::uint64_t sequence = 0;  ///< data: 1, 2, ... ; else 0
  std::uint32_t count = 0;     ///< credit: 1 or more; else 0
  std::uint32_t block_bytes = 0;
  std::uint32_t block_crc = 0;
  std::uint64_t payload_bytes = 0;
  bool checks_payload = false;    ///< data: payload_crc is there
  std::uint32_t payload_crc = 0;  ///< of the tensors' bytes, without padding
  std::uint64_t received = 0;     ///< credit, beat: the last data sequence
  std::uint64_t progress = 0;     ///< beat: moves while the learner does

  bool operator==(const FrameHeader&) const = default;
};

/// CRC-32C of the bytes of all tensors, one after the other.
std::uint32_t crc32c_of_payload(const Message& message);

/// The next multiple of kAlignment: where the next payload starts.
std::uint64_t padded(std::uint64_t bytes);

std::array<std::byte, kHeaderBytes> encode_header(const FrameHeader& header);

/// Throws LinkError for everything that is not a header of this version within
/// the limits.
FrameHeader decode_header(std::span<const std::byte> bytes,
                          const FrameLimits& limits);

/// Header and message block of a data frame: all of it but the payload, which
/// is each tensor's bytes, padded with zeros to kAlignment. Throws UserError
/// for a tensor that TensorView doesn't allow and InternalError for a message
/// beyond the limits. With `checksum`, the payload is read for its CRC.
std::vector<std::byte> encode_message(const Message& message,
                                      std::uint64_t sequence,
                                      const FrameLimits& limits,
                                      bool checksum = false);

/// A frame without payload; the block's length and CRC are filled in.
std::vector<std::byte> encode_frame(FrameHeader header,
                                    std::vector<std::byte> block = {});
std::vector<std::byte> encode_frame(FrameType type);

/// The message of a data frame. The tensors have no memory yet: buffer.bytes is
/// what each needs. Payloads follow in the tensors' order, each padded to
/// kAlignment, and are header.payload_bytes together. Throws LinkError.
Message decode_message(std::span<const std::byte> block,
                       const FrameHeader& header, const FrameLimits& limits);

/// Throws LinkError unless the block is the one that the header announced.
void check_block(std::span<const std::byte> block, const FrameHeader& header);

/// Throws LinkError unless the CRC of the payload that came is its header's.
void check_payload(std::uint32_t crc, const FrameHeader& header);

}  // namespace sluice
