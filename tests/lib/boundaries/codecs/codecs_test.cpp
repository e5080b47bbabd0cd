#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/tensors/pack.h"

namespace sluice::codecs_test {

using Sizes = std::vector<std::int64_t>;

std::shared_ptr<const Codec> codec(const std::string& name) {
  return find_row(codecs(), name, "codec").make();
}

at::Tensor received(const at::Tensor& tensor, const std::string& name) {
  return as_received({tensor}, codec(name).get()).at(0);
}

Message packed(const at::Tensor& tensor, const std::string& name) {
  Message message;
  pack({tensor}, "h", codec(name).get(), message);
  return message;
}

std::size_t bytes_of(const at::Tensor& tensor, const std::string& name) {
  return payload_bytes(packed(tensor, name));
}

at::Tensor numbers(const Sizes& sizes) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(1));
}

TEST(Codecs, NoneMakesNothingAndTheOthersKnowTheirNames) {
  EXPECT_EQ(codecs().front().name, "none");
  EXPECT_EQ(codec("none"), nullptr);
  for (const CodecRow& row : codecs().subspan(1)) {
    const auto made = row.make();
    if (row.make.goes_both_ways)  // layers at the cut, and no code
      EXPECT_EQ(made, nullptr);
    else
      EXPECT_EQ(made->name(), row.name);
  }
}

class EveryCodec : public testing::TestWithParam<const char*> {
 protected:
  /// The strides that a message without a codec keeps too.
  void expect_kept(const at::Tensor& tensor) const {
    const at::Tensor back = received(tensor, GetParam());
    const at::Tensor plain = received(tensor, "none");
    Message message;
    pack({tensor}, "h", message);
    EXPECT_EQ(back.sizes(), tensor.sizes());
    EXPECT_EQ(back.strides(), unpack(message, "h").at(0).strides());
    EXPECT_EQ(back.scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(back.allclose(plain, 0.01, 0.02));
  }
};

TEST_P(EveryCodec, ChangesNumbersButSlightly) {
  const at::Tensor tensor = numbers({32, 100});
  const at::Tensor back = received(tensor, GetParam());
  EXPECT_FALSE(back.equal(tensor));
  EXPECT_LT((back - tensor).abs().max().item<double>(), 0.02);
}

TEST_P(EveryCodec, ChangesNothingTheSecondTime) {
  for (const Sizes& sizes : {Sizes{7, 33}, Sizes{4, 3, 5, 5}, Sizes{2, 6, 8}}) {
    const at::Tensor once = received(numbers(sizes), GetParam());
    EXPECT_TRUE(received(once, GetParam()).equal(once));
  }
}

TEST_P(EveryCodec, KeepsSizesTypeAndStrides) {
  expect_kept(numbers({6, 10}));
  expect_kept(numbers({2, 3, 4, 5}));
  expect_kept(numbers({2, 3, 4}));
  expect_kept(numbers({2, 3, 2, 2, 2}));
  expect_kept(numbers({9}));
  expect_kept(numbers({}));
}

TEST_P(EveryCodec, KeepsChannelsLast) {
  expect_kept(numbers({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast));
  expect_kept(numbers({2, 3, 1, 1}).contiguous(at::MemoryFormat::ChannelsLast));
  expect_kept(numbers({1, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast));
}

TEST_P(EveryCodec, KeepsOtherOrdersOfTheDimensions) {
  expect_kept(numbers({6, 10}).t());
  expect_kept(numbers({4, 2, 8}).transpose(0, 1));
  expect_kept(numbers({4, 2, 3, 5}).permute({3, 1, 0, 2}));
}

TEST_P(EveryCodec, DoesNotAskHowATensorLies) {
  const at::Tensor tensor = numbers({3, 4, 5, 6});
  const at::Tensor back = received(tensor, GetParam());
  for (const at::Tensor& same :
       {tensor.contiguous(at::MemoryFormat::ChannelsLast),
        tensor.permute({3, 0, 2, 1}).contiguous().permute({1, 3, 2, 0})})
    EXPECT_TRUE(received(same, GetParam()).equal(back)) << same.strides();
}

TEST_P(EveryCodec, TakesWhatHasGaps) {
  expect_kept(numbers({4, 6}).slice(1, 0, 6, 2));
}

TEST_P(EveryCodec, EncodesARepeatedDimensionOnce) {
  const at::Tensor column = numbers({50, 1});
  expect_kept(column.expand({50, 40}));
  expect_kept(column.t().expand({40, 50}));
  EXPECT_EQ(bytes_of(column.expand({50, 40}), GetParam()),
            bytes_of(column, GetParam()));
}

TEST_P(EveryCodec, TakesEmptyTensors) {
  expect_kept(at::empty({0, 3}));
  expect_kept(at::empty({3, 0}));
}

TEST_P(EveryCodec, GivesDoublesBackAsDoubles) {
  expect_kept(numbers({4, 5}).to(at::kDouble));
}

TEST_P(EveryCodec, KeepsShorterFloats) {
  expect_kept(numbers({4, 50}).to(at::kBFloat16));
  expect_kept(numbers({4, 50}).to(at::kHalf));
}

TEST_P(EveryCodec, LeavesIntegersAsTheyLie) {
  const at::Tensor labels = at::arange(5);
  const at::Tensor back = received(labels, GetParam());
  EXPECT_EQ(back.const_data_ptr(), labels.const_data_ptr());
}

TEST_P(EveryCodec, KeepsTheOrderOfTensorsThatItTakesAndOthers) {
  const Tensors sent = {at::ones({2, 2}), at::arange(3), at::zeros({4})};
  const Tensors back = as_received(sent, codec(GetParam()).get());
  ASSERT_EQ(back.size(), 3U);
  for (std::size_t i = 0; i < sent.size(); ++i)
    EXPECT_TRUE(back[i].equal(sent[i]));
}

TEST_P(EveryCodec, TouchesNoGraph) {
  at::Tensor leaf = numbers({2, 3}).requires_grad_();
  EXPECT_FALSE(received(leaf * 2, GetParam()).requires_grad());
}

TEST_P(EveryCodec, IsReceivedOnAnAlignedAddress) {
  const at::Tensor back = received(numbers({103}).slice(0, 3), GetParam());
  EXPECT_EQ(
      reinterpret_cast<std::uintptr_t>(back.const_data_ptr()) % kAlignment, 0U);
}

/// What unpack() says of the message that `change` made worse.
void expect_refused(const std::string& name,
                    const std::function<void(Message&)>& change) {
  Message message = packed(at::ones({4, 6}), name);
  EXPECT_NO_THROW(unpack(message, "h", codec(name).get()));
  change(message);
  EXPECT_THROW(unpack(message, "h", codec(name).get()), LinkError);
}

TEST_P(EveryCodec, RefusesPartsOfAnotherType) {
  expect_refused(GetParam(), [](Message& message) {
    message.tensors[0] = view_of(at::ones({4, 6}, at::kShort), "h.0.0");
  });
}

TEST_P(EveryCodec, RefusesATensorWithoutParts) {
  expect_refused(GetParam(), [](Message& message) {
    message.tensors.erase(message.tensors.begin(), message.tensors.end() - 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Codecs, EveryCodec,
                         testing::Values("fp16", "bf16", "int8"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(NoCodec, PacksAsPackDoes) {
  const at::Tensor tensor = numbers({4, 5});
  const Message message = packed(tensor, "none");
  ASSERT_EQ(message.tensors.size(), 1U);
  EXPECT_EQ(message.tensors[0].name, "h.0");
  EXPECT_EQ(received(tensor, "none").const_data_ptr(), tensor.const_data_ptr());
}

std::vector<float> through(const std::string& name,
                           const std::vector<float>& values) {
  const at::Tensor back = received(at::tensor(values), name);
  return {back.const_data_ptr<float>(),
          back.const_data_ptr<float>() + back.numel()};
}

using Values = std::vector<float>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Fp16Codec, KeepsWhatItCanRepresent) {
  const Values exact = {0.0F,   -0.0F,    1,        -1.5F,     65504,
                        -65504, 0x1p-14F, 0x1p-24F, -0x3p-24F, 1 + 0x1p-10F};
  EXPECT_EQ(through("fp16", exact), exact);
  EXPECT_TRUE(std::signbit(through("fp16", {-0.0F})[0]));
}

TEST(Fp16Codec, RoundsHalfToEven) {
  EXPECT_EQ(through("fp16", {1 + 0x1p-11F, 1 + 0x3p-11F, 0x1p-25F, 0x3p-25F}),
            (Values{1, 1 + 0x1p-9F, 0, 0x1p-23F}));
}

TEST(Fp16Codec, SaturatesBeyondItsLargestNumber) {
  EXPECT_EQ(through("fp16", {65519, 65520, -1e6F, kInfinity, -kInfinity}),
            (Values{65504, 65504, -65504, 65504, -65504}));
}

TEST(Bf16Codec, KeepsWhatItCanRepresent) {
  const Values exact = {0,         1,         -1.5F,     0x1.fep127F,
                        0x1p-126F, 0x1p-133F, kInfinity, -kInfinity};
  EXPECT_EQ(through("bf16", exact), exact);
}

TEST(Bf16Codec, RoundsHalfToEvenAndWhatIsTooLargeToInfinity) {
  EXPECT_EQ(through("bf16", {1 + 0x1p-8F, 1 + 0x3p-8F, -1 - 0x1.2p-8F,
                             std::numeric_limits<float>::max()}),
            (Values{1, 1 + 0x1p-6F, -1 - 0x1p-7F, kInfinity}));
}

TEST(TwoByteCodecs, KeepNan) {
  for (const char* name : {"fp16", "bf16"})
    for (const float value : through(name, {kNan, -kNan}))
      EXPECT_TRUE(std::isnan(value)) << name;
}

TEST(Fp16Codec, HasTheBitsOfLibTorch) {
  const at::Tensor tensor = numbers({64, 999}) * at::logspace(-8, 6, 999);
  EXPECT_TRUE(
      received(tensor, "fp16")
          .equal(tensor.clamp(-65504, 65504).to(at::kHalf).to(at::kFloat)));
}

TEST(Bf16Codec, HasTheBitsOfLibTorch) {
  const at::Tensor tensor = numbers({64, 999}) * at::logspace(-8, 6, 999);
  EXPECT_TRUE(
      received(tensor, "bf16").equal(tensor.to(at::kBFloat16).to(at::kFloat)));
}

TEST(TwoByteCodecs, SendHalfTheBytes) {
  const at::Tensor tensor = numbers({32, 100});
  EXPECT_EQ(bytes_of(tensor, "none"), 12800U);
  EXPECT_EQ(bytes_of(tensor, "fp16"), 6400U);
  EXPECT_EQ(bytes_of(tensor, "bf16"), 6400U);
}

TEST(TwoByteCodecs, LeaveTensorsOfTwoBytesAsTheyLie) {
  const at::Tensor tensor = numbers({4, 5}).to(at::kBFloat16);
  for (const char* name : {"fp16", "bf16"})
    EXPECT_EQ(received(tensor, name).const_data_ptr(), tensor.const_data_ptr());
}

// A byte for each number, and 4 for each row.
TEST(Int8Codec, HasARowForEachSampleAndForEachPlaceOfASequence) {
  EXPECT_EQ(bytes_of(numbers({32, 100}), "int8"), 3200U + 4 * 32);
  EXPECT_EQ(bytes_of(numbers({8, 3, 10, 10}), "int8"), 2400U + 4 * 8);
  EXPECT_EQ(bytes_of(numbers({8, 16, 64}), "int8"), 8192U + 4 * 8 * 16);
}

TEST(Int8Codec, AnOutlierSpoilsItsOwnSampleOnly) {
  for (const Sizes& sizes : {Sizes{3, 50}, Sizes{3, 2, 5, 5}, Sizes{3, 4, 9}}) {
    const at::Tensor tensor = numbers(sizes);
    const at::Tensor alone = received(tensor, "int8");
    tensor[1].fill_(1e6);
    const at::Tensor back = received(tensor, "int8");
    EXPECT_TRUE(back[0].equal(alone[0]));
    EXPECT_TRUE(back[2].equal(alone[2]));
  }
}

TEST(Int8Codec, RefusesAnotherNumberOfScales) {
  expect_refused("int8", [](Message& message) {
    message.tensors[1] = view_of(at::ones({5}), "h.0.1");
  });
}

}  // namespace sluice::codecs_test
