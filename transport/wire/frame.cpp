#include "transport/wire/frame.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"
#include "transport/wire/bytes.h"

namespace sluice {
namespace {

// The first byte is no text, so that a browser or a shell is refused at once.
constexpr std::uint32_t kFrameMagic = 0x434C539C;  // 9C 'S' 'L' 'C'
constexpr std::size_t kCrcOffset = 8;
constexpr std::size_t kFrameReserved = 4;
constexpr std::uint16_t kChecksPayload = 1;  // a flag

std::uint32_t crc_of_header(std::span<const std::byte> bytes) {
  std::array<std::byte, kHeaderBytes> copy = {};
  std::copy(bytes.begin(), bytes.end(), copy.begin());
  std::fill_n(copy.begin() + kCrcOffset, 4, std::byte{0});
  return crc32c(copy);
}

bool has_block(FrameType type) {
  return type == FrameType::data || type == FrameType::hello;
}

void check_lengths(const FrameHeader& header, const FrameLimits& limits) {
  if (header.block_bytes > limits.max_block_bytes ||
      header.block_bytes % kAlignment != 0) {
    throw LinkError(
        "frame announces a block of {} bytes; allowed are multiples "
        "of {} up to {}",
        header.block_bytes, kAlignment, limits.max_block_bytes);
  }
  if (header.payload_bytes > limits.max_payload_bytes ||
      header.payload_bytes % kAlignment != 0) {
    throw LinkError(
        "frame announces a payload of {} bytes; allowed are "
        "multiples of {} up to {}",
        header.payload_bytes, kAlignment, limits.max_payload_bytes);
  }
}

// Checks that each field is there exactly when the type has a use for it.
void check_fields(const FrameHeader& header) {
  const FrameType type = header.type;
  const bool is_data = type == FrameType::data;
  const bool is_credit = type == FrameType::credit;
  const bool is_beat = type == FrameType::beat;
  if ((header.block_bytes > 0) != has_block(type) ||
      (header.block_crc > 0 && !has_block(type)) ||
      (header.sequence > 0) != is_data || (header.count > 0) != is_credit ||
      (header.payload_bytes > 0 && !is_data) ||
      (header.checks_payload && !is_data) ||
      (header.payload_crc > 0 && !header.checks_payload) ||
      (header.received > 0 && !is_credit && !is_beat) ||
      (header.progress > 0 && !is_beat)) {
    throw LinkError("frame of type {} has fields that don't belong to it",
                    static_cast<int>(type));
  }
}

void put_tensor(ByteWriter& out, const TensorView& tensor, std::uint64_t offset,
                const FrameLimits& limits) {
  const std::size_t bytes =
      stored_bytes(tensor.dtype, tensor.sizes, tensor.strides);
  SLUICE_CHECK(tensor.buffer.bytes == bytes,
               "tensor '{}' has a buffer of {} bytes and needs {}", tensor.name,
               tensor.buffer.bytes, bytes);
  SLUICE_CHECK(tensor.name.size() <= limits.max_name_bytes,
               "tensor name of {} bytes; at most {} are allowed",
               tensor.name.size(), limits.max_name_bytes);
  out.put(static_cast<std::uint8_t>(tensor.dtype));
  out.put(static_cast<std::uint8_t>(tensor.sizes.size()));
  out.put(static_cast<std::uint16_t>(tensor.name.size()));
  out.put(std::uint32_t{0});
  out.put(offset);
  for (const std::int64_t size : tensor.sizes) out.put(size);
  for (const std::int64_t stride : tensor.strides) out.put(stride);
  out.put_text(tensor.name);
  out.pad_to(8);
}

std::vector<std::int64_t> take_numbers(ByteReader& in, std::size_t count) {
  std::vector<std::int64_t> numbers(count);
  for (std::int64_t& number : numbers) number = in.take<std::int64_t>();
  return numbers;
}

// stored_bytes() checks the shape; here it is the peer that is wrong, so
// LinkError.
std::size_t checked_bytes(const TensorView& tensor) {
  try {
    return stored_bytes(tensor.dtype, tensor.sizes, tensor.strides);
  } catch (const UserError& error) {
    throw LinkError("{}", error.what());
  }
}

// Reads the entry of a tensor, whose payload must start at `offset`.
TensorView take_tensor(ByteReader& in, std::uint64_t offset,
                       const FrameLimits& limits) {
  const auto dtype = in.take<std::uint8_t>();
  const auto dimensions = in.take<std::uint8_t>();
  const auto name_bytes = in.take<std::uint16_t>();
  in.take_zeros(4);
  if (!is_dtype(dtype)) throw LinkError("tensor of unknown dtype {}", dtype);
  if (dimensions > kMaxDimensions) {
    throw LinkError("tensor has {} dimensions; at most {} are allowed",
                    dimensions, kMaxDimensions);
  }
  if (name_bytes > limits.max_name_bytes) {
    throw LinkError("tensor name of {} bytes; at most {} are allowed",
                    name_bytes, limits.max_name_bytes);
  }
  if (const auto found = in.take<std::uint64_t>(); found != offset) {
    throw LinkError("tensor's payload is said to start at {}, not at {}", found,
                    offset);
  }
  TensorView tensor;
  tensor.dtype = DType{dtype};
  tensor.sizes = take_numbers(in, dimensions);
  tensor.strides = take_numbers(in, dimensions);
  tensor.name = in.take_text(name_bytes);
  in.take_zeros((8 - name_bytes % 8) % 8);
  tensor.buffer.bytes = checked_bytes(tensor);
  return tensor;
}

}  // namespace

std::uint32_t crc32c_of_payload(const Message& message) {
  std::uint32_t crc = 0;
  for (const TensorView& tensor : message.tensors) {
    crc = crc32c({tensor.buffer.data, tensor.buffer.bytes}, crc);
  }
  return crc;
}

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::array<std::byte, kHeaderBytes> encode_header(const FrameHeader& header) {
  ByteWriter out;
  out.put(kFrameMagic);
  out.put(kWireVersion);
  out.put(static_cast<std::uint8_t>(header.type));
  out.put(header.checks_payload ? kChecksPayload : std::uint16_t{0});
  out.put(std::uint32_t{0});  // the header's own CRC
  out.put(header.block_crc);
  out.put(header.sequence);
  out.put(header.block_bytes);
  out.put(header.count);
  out.put(header.payload_bytes);
  out.put(header.payload_crc);
  out.put(std::uint32_t{0});
  out.put(header.received);
  out.put(header.progress);
  const std::vector<std::byte> written = out.take();
  std::array<std::byte, kHeaderBytes> bytes = {};
  std::copy(written.begin(), written.end(), bytes.begin());
  const std::uint32_t crc = crc_of_header(bytes);
  std::memcpy(bytes.data() + kCrcOffset, &crc, sizeof crc);
  return bytes;
}

FrameHeader decode_header(std::span<const std::byte> bytes,
                          const FrameLimits& limits) {
  if (bytes.size() != kHeaderBytes) {
    throw LinkError("frame header of {} bytes, not {}", bytes.size(),
                    kHeaderBytes);
  }
  ByteReader in(bytes);
  if (in.take<std::uint32_t>() != kFrameMagic) {
    throw LinkError("what arrived is no frame of Sluice");
  }
  if (const auto version = in.take<std::uint8_t>(); version != kWireVersion) {
    throw LinkError("frame of wire version {}; this program speaks {}", version,
                    kWireVersion);
  }
  const auto type = in.take<std::uint8_t>();
  const auto flags = in.take<std::uint16_t>();
  if (in.take<std::uint32_t>() != crc_of_header(bytes)) {
    throw LinkError("frame header was damaged: its checksum is wrong");
  }
  if (type < static_cast<std::uint8_t>(FrameType::hello) ||
      type > static_cast<std::uint8_t>(FrameType::end)) {
    throw LinkError("frame of unknown type {}", type);
  }
  if ((flags & ~kChecksPayload) != 0) {
    throw LinkError("frame has unknown flags {:#x}", flags);
  }
  FrameHeader header;
  header.type = FrameType{type};
  header.block_crc = in.take<std::uint32_t>();
  header.sequence = in.take<std::uint64_t>();
  header.block_bytes = in.take<std::uint32_t>();
  header.count = in.take<std::uint32_t>();
  header.payload_bytes = in.take<std::uint64_t>();
  header.checks_payload = flags == kChecksPayload;
  header.payload_crc = in.take<std::uint32_t>();
  in.take_zeros(kFrameReserved);
  header.received = in.take<std::uint64_t>();
  header.progress = in.take<std::uint64_t>();
  check_lengths(header, limits);
  check_fields(header);
  return header;
}

std::vector<std::byte> encode_frame(FrameHeader header,
                                    std::vector<std::byte> block) {
  header.block_bytes = static_cast<std::uint32_t>(block.size());
  header.block_crc = crc32c(block);
  const auto bytes = encode_header(header);
  block.insert(block.begin(), bytes.begin(), bytes.end());
  return block;
}

std::vector<std::byte> encode_frame(FrameType type) {
  return encode_frame(FrameHeader{.type = type});
}

std::vector<std::byte> encode_message(const Message& message,
                                      std::uint64_t sequence,
                                      const FrameLimits& limits,
                                      bool checksum) {
  SLUICE_CHECK(message.tensors.size() <= limits.max_tensors,
               "message of {} tensors; at most {} are allowed",
               message.tensors.size(), limits.max_tensors);
  SLUICE_CHECK(is_message_kind(static_cast<std::uint8_t>(message.kind)),
               "message of unknown kind {}", static_cast<int>(message.kind));
  SLUICE_CHECK(message.round >= 0 && message.round <= kMostRounds,
               "message of round {}; at most {} are allowed", message.round,
               kMostRounds);
  ByteWriter out;
  out.put(static_cast<std::uint8_t>(message.kind));
  out.put(std::uint8_t{0});
  out.put(static_cast<std::uint16_t>(message.round));
  out.put(static_cast<std::uint32_t>(message.tensors.size()));
  out.put(message.batch);
  out.put(message.turn);
  out.put(message.weight_version);
  std::uint64_t payload = 0;
  for (const TensorView& tensor : message.tensors) {
    put_tensor(out, tensor, payload, limits);
    payload += padded(tensor.buffer.bytes);
  }
  out.pad_to(kAlignment);
  std::vector<std::byte> block = out.take();
  SLUICE_CHECK(payload <= limits.max_payload_bytes,
               "message of {} bytes; at most {} are allowed", payload,
               limits.max_payload_bytes);
  return encode_frame(
      {.type = FrameType::data,
       .sequence = sequence,
       .payload_bytes = payload,
       .checks_payload = checksum,
       .payload_crc = checksum ? crc32c_of_payload(message) : 0},
      std::move(block));
}

void check_block(std::span<const std::byte> block, const FrameHeader& header) {
  if (block.size() != header.block_bytes) {
    throw LinkError("frame's block has {} bytes; its header announced {}",
                    block.size(), header.block_bytes);
  }
  if (crc32c(block) != header.block_crc) {
    throw LinkError("frame's block was damaged: its checksum is wrong");
  }
}

void check_payload(std::uint32_t crc, const FrameHeader& header) {
  if (crc != header.payload_crc) {
    throw LinkError(
        "message {} was damaged: the checksum of its payload is "
        "wrong",
        header.sequence);
  }
}

Message decode_message(std::span<const std::byte> block,
                       const FrameHeader& header, const FrameLimits& limits) {
  check_block(block, header);
  ByteReader in(block);
  const auto kind = in.take<std::uint8_t>();
  if (!is_message_kind(kind)) {
    throw LinkError("message of unknown kind {}", kind);
  }
  in.take_zeros(1);
  const auto round = in.take<std::uint16_t>();
  const auto tensors = in.take<std::uint32_t>();
  if (tensors > limits.max_tensors) {
    throw LinkError("message of {} tensors; at most {} are allowed", tensors,
                    limits.max_tensors);
  }
  Message message;
  message.kind = MessageKind{kind};
  message.batch = in.take<std::int64_t>();
  message.turn = in.take<std::int64_t>();
  message.weight_version = in.take<std::int64_t>();
  message.round = round;
  std::uint64_t payload = 0;
  for (std::uint32_t i = 0; i < tensors; ++i) {
    message.tensors.push_back(take_tensor(in, payload, limits));
    const std::uint64_t bytes = message.tensors.back().buffer.bytes;
    if (bytes > header.payload_bytes - payload) {
      throw LinkError("tensor of {} bytes in a payload of {}", bytes,
                      header.payload_bytes);
    }
    payload += padded(bytes);
  }
  if (payload != header.payload_bytes) {
    throw LinkError("tensors of {} bytes in a payload of {}", payload,
                    header.payload_bytes);
  }
  if (in.left() >= kAlignment) throw LinkError("message block is too long");
  in.take_zeros(in.left());
  return message;
}

}  // namespace sluice
