#include "lib/boundaries/codecs/zstd.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/tensors/pack.h"

namespace sluice::zstd_test {

using Sizes = std::vector<std::int64_t>;

const CodecSite kSite = {.features = {6}, .samples = 64};

std::shared_ptr<const Codec> codec_named(const std::string& name) {
  return find_row(codecs(), name, "codec").make();
}

/// Both ends of a boundary's activations.
struct Stream {
  explicit Stream(std::shared_ptr<const Codec> of)
      : codec(std::move(of)),
        sender(codec->sender(kSite)),
        receiver(codec->receiver(kSite)) {}

  Message packed(const at::Tensor& features) const {
    Message message;
    pack({features}, "h",
         {codec.get(), sender.get(), 0, at::arange(features.size(0))}, message);
    return message;
  }
  at::Tensor taken(const Message& message) const {
    return unpack(message, "h", {codec.get(), receiver.get(), 0, {}}).at(0);
  }

  std::shared_ptr<const Codec> codec;
  std::unique_ptr<CodecEnd> sender;
  std::unique_ptr<CodecEnd> receiver;
};

bool are_same_bits(const at::Tensor& left, const at::Tensor& right) {
  return left.sizes() == right.sizes() && left.strides() == right.strides() &&
         left.contiguous().view(at::kInt).equal(
             right.contiguous().view(at::kInt));
}

/// Features as layers have them: of images, of images with their channels last,
/// of a sequence, and of a repeated row.
std::vector<at::Tensor> features(std::uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor images = at::randn({4, 6, 8, 10}).relu();
  return {images, images.contiguous(at::MemoryFormat::ChannelsLast),
          at::randn({4, 12, 32}), at::randn({4, 1, 32}).expand({4, 12, 32}),
          at::randn({4, 64})};
}

TEST(Zstd, GivesTheBitsOfEachCodec) {
  for (const CodecRow& row : codecs()) {
    if (row.make() == nullptr) continue;
    for (std::size_t i = 0; i < features(1).size(); ++i) {
      if (row.name == "downsample" && features(1)[i].dim() != 4) continue;
      const Stream plain(row.make());
      const Stream packed(in_zstd(row.make(), 3));
      for (const std::uint64_t visit : {1, 2, 3}) {
        const at::Tensor now = features(visit)[i];
        EXPECT_TRUE(are_same_bits(packed.taken(packed.packed(now)),
                                  plain.taken(plain.packed(now))))
            << row.name << ", features " << i;
      }
    }
  }
}

TEST(Zstd, MakesCodesSmaller) {
  at::manual_seed(2);
  // Most of them are near 0 beside the row's largest.
  const at::Tensor values = at::randn({64, 1000}).pow(3);
  for (const std::string name : {"int8", "hadamard4", "delta"}) {
    const Stream plain(codec_named(name));
    const Stream packed(in_zstd(codec_named(name), 1));
    for (const bool is_later : {false, true}) {
      const auto without = static_cast<double>(
          payload_bytes(plain.packed(is_later ? values * 0.9 : values)));
      const auto with = static_cast<double>(
          payload_bytes(packed.packed(is_later ? values * 0.9 : values)));
      EXPECT_LT(with, without) << name;
      if (name != "delta" || is_later) {
        EXPECT_LT(with, 0.9 * without) << name;
      }
    }
  }
}

// A byte for the caller, and a flag for each part.
TEST(Zstd, SendsAsItIsWhatItWouldNotMakeSmaller) {
  at::manual_seed(3);
  const at::Tensor bits = at::randint(0x0400, 0x7bff, {64, 1000});
  const at::Tensor values =
      bits.to(at::kShort).view(at::kHalf).to(at::kFloat);  // any of 2 bytes
  const Stream fp16(in_zstd(codec_named("fp16"), 1));
  EXPECT_EQ(payload_bytes(fp16.packed(values)), 2U * 64 * 1000 + 1 + 1);
  const at::Tensor few = at::zeros({2, 4});
  const Stream int8(in_zstd(codec_named("int8"), 19));
  EXPECT_EQ(payload_bytes(int8.packed(few)),
            payload_bytes(Stream(codec_named("int8")).packed(few)) + 1 + 2);
}

TEST(Zstd, IsOfTheCodecInPlans) {
  const std::shared_ptr<const Codec> codec = codec_named("int8");
  EXPECT_EQ(&in_zstd(codec, 1)->for_plans(), codec.get());
}

TEST(Zstd, GoesOnFromTheStateOfTheCodec) {
  const auto codec = in_zstd(codec_named("delta"), 1);
  const Stream whole(codec);
  const at::Tensor first = at::randn({4, 64});
  whole.taken(whole.packed(first));
  const Stream again(codec);
  again.sender->restore(whole.sender->state());
  again.receiver->restore(whole.receiver->state());
  EXPECT_EQ(again.sender->bytes(), whole.sender->bytes());
  const at::Tensor next = first * 0.9;
  EXPECT_TRUE(
      again.taken(again.packed(next)).equal(whole.taken(whole.packed(next))));
}

/// The parts of a packed message, with one of them replaced.
Message with_part(Tensors parts, std::size_t at, const at::Tensor& part) {
  parts.at(at) = part;
  Message message;
  pack(parts, "h.0", message);
  message.tensors.push_back(view_of(at::empty({0}), "h.0.like"));
  return message;
}

TEST(Zstd, RefusesFramesThatAreNone) {
  const Stream stream(in_zstd(codec_named("int8"), 1));
  const Tensors parts = unpack(stream.packed(at::zeros({16, 1000})), "h.0");
  const at::Tensor frame = parts.at(2);
  ASSERT_LT(frame.numel(), 100);
  EXPECT_NO_THROW(stream.taken(with_part(parts, 2, frame)));
  // Numbers of the frame's header say its size (RFC 8878, 3.1.1.1).
  at::Tensor larger = frame.clone();
  larger[6] = 255;
  const std::vector<at::Tensor> wrong = {at::empty({0}, at::kByte),
                                         frame.narrow(0, 0, frame.numel() - 1),
                                         frame.to(at::kInt),
                                         at::full({40}, 7, at::kByte),
                                         larger,
                                         frame.narrow(0, 0, 5)};
  for (const at::Tensor& each : wrong)
    EXPECT_THROW(stream.taken(with_part(parts, 2, each)), LinkError)
        << each.sizes();
}

// A codec's loops go by the sizes of its first part.
TEST(Zstd, RefusesAFirstPartThatIsRepeated) {
  const Stream stream(in_zstd(codec_named("int8"), 1));
  const Tensors parts = {at::zeros({}, at::kByte), at::zeros({2}, at::kByte),
                         at::zeros({}, at::kChar).expand({1, 1024, 1024, 1024}),
                         at::zeros({1})};
  EXPECT_THROW(stream.taken(with_part(parts, 3, parts[3])), LinkError);
}

TEST(Zstd, KeepsTheStridesOfADimensionOfSize1) {
  const Stream stream(in_zstd(codec_named("int8"), 1));
  for (const Sizes& sizes : {Sizes{4, 1, 16, 16},
                             {4, 16, 1, 16},
                             {1, 1, 8, 9},
                             {4, 300, 1, 1},
                             {1, 300, 2, 1}})
    for (const auto format :
         {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const at::Tensor zeros =
          at::empty(sizes, at::TensorOptions().memory_format(format)).zero_();
      EXPECT_EQ(stream.taken(stream.packed(zeros)).strides(), zeros.strides())
          << zeros.sizes() << " " << zeros.strides();
    }
}

// A message of a few bytes can't make its receiver take terabytes.
TEST(Zstd, RefusesALayoutThatItsBytesCannotFill) {
  const Stream stream(in_zstd(codec_named("int8"), 1));
  const Tensors parts = unpack(stream.packed(at::zeros({16, 1000})), "h.0");
  const at::Tensor huge = at::zeros({}, at::kByte).expand({1 << 20, 1 << 20});
  EXPECT_THROW(stream.taken(with_part(parts, 4, huge)), LinkError);
  EXPECT_THROW(stream.taken(with_part(
                   parts, 4, at::zeros({}, at::kByte).expand({16, 0}))),
               LinkError);
}

}  // namespace sluice::zstd_test
