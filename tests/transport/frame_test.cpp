#include "transport/wire/frame.h"

#include <cstring>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::frame_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr FrameLimits kLimits;
using Bytes = std::vector<std::byte>;

TensorView floats(std::string name, std::vector<std::int64_t> sizes,
                  std::vector<std::int64_t> strides) {
  const std::size_t bytes = stored_bytes(DType::float32, sizes, strides);
  return {.name = std::move(name),
          .sizes = std::move(sizes),
          .strides = std::move(strides),
          .buffer = allocate_buffer(bytes)};
}

Message two_tensors() {
  return {.kind = MessageKind::gradient,
          .batch = 7,
          .turn = 8,
          .weight_version = 9,
          .round = 3,
          .tensors = {floats("h", {2, 3}, {1, 2}),
                      floats("labels", {5, 4}, {0, 1})}};
}

// The frame's two halves, as a reader gets them.
struct EncodedFrame {
  FrameHeader header;
  Bytes block;
};

EncodedFrame encoded(const Message& message) {
  const Bytes frame = encode_message(message, 1, kLimits);
  const std::span<const std::byte> bytes(frame);
  return {decode_header(bytes.first(kHeaderBytes), kLimits),
          Bytes(frame.begin() + kHeaderBytes, frame.end())};
}

Message decoded(const EncodedFrame& frame) {
  return decode_message(frame.block, frame.header, kLimits);
}

// A block that was changed, with a checksum that says it was not.
EncodedFrame forged(EncodedFrame frame, std::size_t offset, std::uint64_t value,
                    std::size_t bytes) {
  std::memcpy(frame.block.data() + offset, &value, bytes);
  frame.header.block_crc = crc32c(frame.block);
  return frame;
}

// Offsets within the block of a message's first tensor.
constexpr std::size_t kTensor = 32;
constexpr std::size_t kOffset = kTensor + 8;
constexpr std::size_t kSizes = kTensor + 16;

EncodedFrame matrix() {
  return encoded({.tensors = {floats("h", {2, 3}, {3, 1})}});
}

TEST(Crc32c, HasTheCheckValueOfTheStandard) {
  const std::string_view digits = "123456789";  // RFC 3720, B.4 (iSCSI)
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xE3069283u);
}

TEST(Crc32c, GoesOnFromAnEarlierPart) {
  const std::string_view digits = "123456789";
  const auto bytes = std::as_bytes(std::span(digits));
  EXPECT_EQ(crc32c(bytes.subspan(4), crc32c(bytes.first(4))), 0xE3069283u);
}

TEST(FrameHeader, IsReadAsItWasWritten) {
  const FrameHeader header{.type = FrameType::data,
                           .sequence = 3,
                           .block_bytes = 128,
                           .block_crc = 5,
                           .payload_bytes = 64,
                           .checks_payload = true,
                           .payload_crc = 6};
  EXPECT_EQ(decode_header(encode_header(header), kLimits), header);
}

TEST(FrameHeader, FrameHeaderOfABeatIsReadAsItWasWritten) {
  const FrameHeader header{
      .type = FrameType::beat, .received = 3, .progress = 4};
  EXPECT_EQ(decode_header(encode_header(header), kLimits), header);
}

TEST(FrameHeader, StartsWithAByteThatIsNoText) {
  const auto bytes = encode_header({.type = FrameType::bye});
  EXPECT_GE(std::to_integer<int>(bytes[0]), 0x80);
}

TEST(FrameHeader, IsRefusedWhenCutAnywhere) {
  const auto bytes = encode_header({.type = FrameType::bye});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(decode_header(std::span(bytes).first(length), kLimits),
                 LinkError);
  }
}

TEST(FrameHeader, IsRefusedWithAnyBitFlipped) {
  const auto bytes = encode_header({.type = FrameType::credit, .count = 2});
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_THROW(decode_header(flipped, kLimits), LinkError) << "bit " << bit;
  }
}

TEST(FrameHeader, FrameHeaderOfAnotherVersionSaysWhich) {
  auto bytes = encode_header({.type = FrameType::bye});
  bytes[4] = std::byte{9};
  EXPECT_THAT([&] { decode_header(bytes, kLimits); },
              ThrowsMessage<LinkError>(HasSubstr("wire version 9")));
}

void expect_refused(const FrameHeader& header) {
  EXPECT_THROW(decode_header(encode_header(header), kLimits), LinkError);
}

TEST(FrameHeader, FrameHeaderOfUnknownTypeIsRefused) {
  expect_refused({.type = FrameType{0}});
  expect_refused({.type = FrameType{9}});
}

TEST(FrameHeader, WithFieldsOfAnotherTypeIsRefused) {
  expect_refused({.type = FrameType::bye, .block_crc = 1});
  expect_refused({.type = FrameType::bye, .received = 1});
  expect_refused({.type = FrameType::credit, .count = 1, .progress = 1});
  expect_refused({.sequence = 1, .block_bytes = 64, .payload_crc = 1});
  expect_refused({.type = FrameType::beat, .checks_payload = true});
}

TEST(FrameHeader, WithAHugePayloadIsRefused) {
  expect_refused({.sequence = 1,
                  .block_bytes = 64,
                  .payload_bytes = std::uint64_t{1} << 63});
  expect_refused({.sequence = 1,
                  .block_bytes = 64,
                  .payload_bytes = kLimits.max_payload_bytes + 64});
}

TEST(FrameHeader, WithAHugeBlockIsRefused) {
  expect_refused({.sequence = 1, .block_bytes = 0xFFFFFFC0});
}

TEST(FrameHeader, WithLengthsThatAreNotPaddedIsRefused) {
  expect_refused({.sequence = 1, .block_bytes = 65});
  expect_refused({.sequence = 1, .block_bytes = 64, .payload_bytes = 1});
}

TEST(FrameHeader, FrameHeaderOfDataNeedsABlockAndASequenceNumber) {
  expect_refused({.sequence = 1});
  expect_refused({.block_bytes = 64});
}

TEST(FrameHeader, FrameHeaderOfControlFramesHasNothingElse) {
  expect_refused({.type = FrameType::credit});
  expect_refused({.type = FrameType::bye, .sequence = 1});
  expect_refused({.type = FrameType::bye, .block_bytes = 64});
  expect_refused({.type = FrameType::stop, .payload_bytes = 64});
  expect_refused({.type = FrameType::quit, .count = 1});
}

TEST(MessageBlock, KeepsEveryField) {
  const Message message = decoded(encoded(two_tensors()));
  EXPECT_EQ(message.kind, MessageKind::gradient);
  EXPECT_EQ(message.batch, 7);
  EXPECT_EQ(message.turn, 8);
  EXPECT_EQ(message.weight_version, 9);
  EXPECT_EQ(message.round, 3);
  ASSERT_EQ(message.tensors.size(), 2u);
  EXPECT_EQ(message.tensors[0].name, "h");
  EXPECT_EQ(message.tensors[1].name, "labels");
  EXPECT_EQ(message.tensors[1].dtype, DType::float32);
  EXPECT_EQ(message.tensors[1].sizes, (std::vector<std::int64_t>{5, 4}));
  EXPECT_EQ(message.tensors[1].strides, (std::vector<std::int64_t>{0, 1}));
}

TEST(MessageBlock, SaysHowManyBytesEachTensorNeeds) {
  const Message message = decoded(encoded(two_tensors()));
  EXPECT_EQ(message.tensors[0].buffer.bytes, 24u);
  EXPECT_EQ(message.tensors[1].buffer.bytes, 16u);
  EXPECT_EQ(message.tensors[0].buffer.data, nullptr);
}

TEST(MessageBlock, EncodesToTheSameBytesAgain) {
  const EncodedFrame frame = encoded(two_tensors());
  Message message = decoded(frame);
  EXPECT_EQ(encoded(message).block, frame.block);
}

TEST(MessageBlock, MayHaveNoTensors) {
  EXPECT_TRUE(decoded(encoded({.batch = 1})).tensors.empty());
}

TEST(MessageBlock, IsRefusedWhenCutAnywhere) {
  const EncodedFrame whole = encoded(two_tensors());
  for (std::size_t length = 0; length < whole.block.size(); ++length) {
    EncodedFrame cut = whole;
    cut.block.resize(length);
    EXPECT_THROW(decoded(cut), LinkError) << length;
    cut.header.block_bytes = static_cast<std::uint32_t>(length);
    cut.header.block_crc = crc32c(cut.block);
    // The zeros at the end may go: they only pad the frame to 64 bytes.
    if (length >= kTensor + 48 + 8 + 16 + 32 + 8) continue;
    EXPECT_THROW(decoded(cut), LinkError) << length;
  }
}

TEST(MessageBlock, IsRefusedWithAnyBitFlipped) {
  const EncodedFrame whole = encoded(two_tensors());
  for (std::size_t bit = 0; bit < whole.block.size() * 8; ++bit) {
    EncodedFrame flipped = whole;
    flipped.block[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_THROW(decoded(flipped), LinkError) << "bit " << bit;
  }
}

TEST(MessageBlock, WithUnknownKindIsRefused) {
  EXPECT_THROW(decoded(forged(matrix(), 0, 0, 1)), LinkError);
  EXPECT_THROW(decoded(forged(matrix(), 0, 15, 1)), LinkError);
}

TEST(MessageBlock, WithTooManyTensorsIsRefused) {
  EXPECT_THROW(decoded(forged(matrix(), 4, 257, 4)), LinkError);
  EXPECT_THROW(decoded(forged(matrix(), 4, 0xFFFFFFFF, 4)), LinkError);
}

TEST(MessageBlock, WithUnknownDtypeIsRefused) {
  EXPECT_THROW(decoded(forged(matrix(), kTensor, 0, 1)), LinkError);
  EXPECT_THROW(decoded(forged(matrix(), kTensor, 11, 1)), LinkError);
}

TEST(MessageBlock, WithTooManyDimensionsIsRefused) {
  EXPECT_THROW(decoded(forged(matrix(), kTensor + 1, 9, 1)), LinkError);
  EXPECT_THROW(decoded(forged(matrix(), kTensor + 1, 255, 1)), LinkError);
}

TEST(MessageBlock, WithALongNameIsRefused) {
  EXPECT_THROW(decoded(forged(matrix(), kTensor + 2, 257, 2)), LinkError);
  EXPECT_THROW(decoded(forged(matrix(), kTensor + 2, 65535, 2)), LinkError);
}

TEST(MessageBlock, WithAnOffsetOfItsOwnIsRefused) {
  EXPECT_THROW(decoded(forged(matrix(), kOffset, 64, 8)), LinkError);
}

TEST(MessageBlock, WithSizesThatDontFillThePayloadIsRefused) {
  EXPECT_THROW(decoded(forged(matrix(), kSizes, 200, 8)), LinkError);
  EXPECT_THROW(decoded(forged(matrix(), kSizes, 0, 8)), LinkError);
}

TEST(MessageBlock, WithSizesThatWrapAroundIsRefused) {
  // 2^62 * 3 * 4 bytes is 0 modulo 2^64 but for the factor 3.
  constexpr std::uint64_t kWraps = std::uint64_t{1} << 62;
  EXPECT_THROW(decoded(forged(matrix(), kSizes, kWraps, 8)), LinkError);
}

TEST(MessageBlock, WithNegativeSizesIsRefused) {
  EXPECT_THROW(decoded(forged(matrix(), kSizes,
                              std::numeric_limits<std::uint64_t>::max(), 8)),
               LinkError);
}

TEST(MessageBlock, WithStridesThatAreNotDenseIsRefused) {
  EXPECT_THROW(decoded(forged(matrix(), kSizes + 16, 4, 8)), LinkError);
}

TEST(Encoding, RefusesABufferOfAnotherSize) {
  Message message = two_tensors();
  message.tensors[0].buffer = allocate_buffer(8);
  EXPECT_THROW(encode_message(message, 1, kLimits), InternalError);
}

TEST(Encoding, RefusesWhatTheReaderWouldRefuse) {
  EXPECT_THROW(
      encode_message(two_tensors(), 1, FrameLimits{.max_payload_bytes = 64}),
      InternalError);
  EXPECT_THROW(encode_message(two_tensors(), 1, FrameLimits{.max_tensors = 1}),
               InternalError);
  EXPECT_THROW(
      encode_message(two_tensors(), 1, FrameLimits{.max_name_bytes = 2}),
      InternalError);
}

}  // namespace sluice::frame_test
