#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/tensors/pack.h"

namespace sluice::delta_test {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Sizes = std::vector<std::int64_t>;
using Indices = std::vector<std::int64_t>;

constexpr std::int64_t kSamples = 20;

std::shared_ptr<const Codec> codec_of(std::int64_t bits,
                                      std::int64_t limit_mb = 1,
                                      std::int64_t disk_mb = 0) {
  ConfigNode options{.value = ConfigNode::Table{}};
  options.set("bits", {.value = bits});
  options.set("limit_mb", {.value = limit_mb});
  options.set("disk_mb", {.value = disk_mb});
  Fields fields(&options, "codec");
  return find_row(codecs(), "delta", "codec")
      .make.configure(fields, {.up = true, .down = false})
      .up;
}

at::Tensor numbers(const Sizes& sizes, std::uint64_t seed = 1) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

/// Both ends of a boundary's activations.
struct Stream {
  explicit Stream(std::int64_t bits) : Stream(codec_of(bits), kSite) {}
  Stream(std::shared_ptr<const Codec> of, const CodecSite& site)
      : codec(std::move(of)),
        sender(codec->sender(site)),
        receiver(codec->receiver(site)) {}

  Message packed(const at::Tensor& features, const Indices& samples) const {
    Message message;
    pack({features}, "h",
         {codec.get(), sender.get(), 0, at::tensor(samples, at::kLong)},
         message);
    return message;
  }
  at::Tensor taken(const Message& message) const {
    return unpack(message, "h", {codec.get(), receiver.get(), 0, {}}).at(0);
  }
  at::Tensor send(const at::Tensor& features, const Indices& samples) const {
    return taken(packed(features, samples));
  }

  inline static const CodecSite kSite = {.features = {8}, .samples = kSamples};
  std::shared_ptr<const Codec> codec;
  std::unique_ptr<CodecEnd> sender;
  std::unique_ptr<CodecEnd> receiver;
};

bool are_same_bits(const at::Tensor& left, const at::Tensor& right) {
  return left.sizes() == right.sizes() && left.strides() == right.strides() &&
         left.contiguous().view(at::kInt).equal(
             right.contiguous().view(at::kInt));
}

/// Empty where both ends keep the same bits.
std::string difference_of_ends(const Stream& stream) {
  const NamedTensors left = stream.sender->state();
  const NamedTensors right = stream.receiver->state();
  if (left.size() != right.size() || left.empty()) return "other tensors";
  for (std::size_t i = 0; i < left.size(); ++i)
    if (left[i].first != right[i].first ||
        !left[i].second.equal(right[i].second))
      return left[i].first;
  return "";
}

TEST(Delta, SendsASampleAsItIsWhenItComesForTheFirstTime) {
  const Stream stream(4);
  const at::Tensor features = numbers({3, 8});
  EXPECT_TRUE(are_same_bits(stream.send(features, {4, 0, 9}), features));
  const at::Tensor next = numbers({3, 8}, 2);
  const at::Tensor back = stream.send(next, {1, 9, 4});
  EXPECT_TRUE(back[0].equal(next[0]));
  EXPECT_FALSE(back[1].equal(next[1]));
}

/// The largest error of a difference, in steps of its row.
double steps_off(const at::Tensor& back, const at::Tensor& sent,
                 const at::Tensor& before, double levels) {
  const at::Tensor scale =
      std::get<0>((sent - before).abs().max(1, true)) / levels;
  return ((back - sent).abs() / scale).max().item<double>();
}

TEST(Delta, SendsTheDifferenceFromWhatTheReceiverHas) {
  for (const std::int64_t bits : {4, 8}) {
    const double levels = bits == 4 ? 7 : 127;
    const Stream stream(bits);
    at::Tensor before = stream.send(numbers({3, 8}), {4, 0, 9});
    for (std::uint64_t turn = 2; turn < 6; ++turn) {
      const at::Tensor features = numbers({3, 8}, turn);
      const at::Tensor back = stream.send(features, {4, 0, 9});
      EXPECT_LT(steps_off(back, features, before, levels), 0.5001);
      EXPECT_GT(steps_off(back, features, before, levels), 0.05);
      before = back;
    }
  }
}

// The error of one visit is part of the next difference: none adds up.
TEST(Delta, ErrorsOfASampleThatStaysVanish) {
  const Stream stream(4);
  stream.send(numbers({2, 8}), {0, 1});
  const at::Tensor features = numbers({2, 8}, 2);
  double error = 10;
  for (int visit = 0; visit < 4; ++visit) {
    const double now =
        (stream.send(features, {0, 1}) - features).abs().max().item<double>();
    EXPECT_LT(now, error / 5);
    error = now;
  }
}

TEST(Delta, BothEndsKeepTheSameBits) {
  for (const std::int64_t bits : {4, 8, 32}) {
    const Stream stream(bits);
    for (std::uint64_t turn = 0; turn < 12; ++turn) {
      const auto first = static_cast<std::int64_t>(turn * 3 % kSamples);
      stream.send(numbers({3, 8}, turn),
                  {first, (first + 7) % kSamples, (first + 13) % kSamples});
      ASSERT_EQ(difference_of_ends(stream), "") << bits << " bits";
    }
  }
}

TEST(Delta, DeltaOf32BitsHasTheBitsWithoutACodec) {
  const Stream stream(32);
  for (std::uint64_t turn = 1; turn < 5; ++turn) {
    at::Tensor features =
        numbers({2, 3, 4, 5}, turn).contiguous(at::MemoryFormat::ChannelsLast);
    features[0][0][0][0] = -0.0F;
    features[1][2][3][4] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(are_same_bits(stream.send(features, {3, 5}), features));
  }
  EXPECT_NE(payload_bytes(stream.packed(numbers({2, 3, 4, 5}), {3, 6})), 0U);
}

// 4 bytes for each sample's number; half a byte for a number and 4 for a row's
// scale, in rows of int8; and 3 that say how the tensor lies.
TEST(Delta, SendsHalfABytePerNumberAndAScaleForEachRow) {
  const auto bytes = [](const Sizes& sizes, std::int64_t bits) {
    const Stream stream(bits);
    Indices samples;
    for (std::int64_t i = 0; i < sizes[0]; ++i) samples.push_back(i);
    const std::size_t first =
        payload_bytes(stream.packed(numbers(sizes), samples));
    const at::Tensor plain = numbers(sizes);
    EXPECT_EQ(first, plain.nbytes() + 4 * samples.size() + 3);
    return payload_bytes(stream.packed(plain, samples));
  };
  EXPECT_EQ(bytes({12, 100}, 4), 12U * (4 + 50 + 4) + 3);
  EXPECT_EQ(bytes({12, 7}, 4), 12U * (4 + 4 + 4) + 3);
  EXPECT_EQ(bytes({12, 16, 64}, 4), 12U * (4 + 16 * (32 + 4)) + 3);
  EXPECT_EQ(bytes({12, 3, 10, 10}, 8), 12U * (4 + 300 + 4) + 3);
  EXPECT_EQ(bytes({12, 100}, 32), 12U * (4 + 400) + 3);
}

TEST(Delta, KeepsTypesAndStrides) {
  const Stream stream(8);
  for (const at::ScalarType type : {at::kDouble, at::kBFloat16, at::kFloat})
    for (int visit = 0; visit < 2; ++visit) {
      const at::Tensor features = numbers({4, 2, 8}).transpose(0, 1).to(type);
      const at::Tensor back = stream.send(features, {2, 7});
      EXPECT_EQ(back.scalar_type(), type);
      EXPECT_EQ(back.strides(), features.strides());
    }
}

TEST(Delta, TakesRowsThatAreRepeated) {
  const Stream stream(32);
  const at::Tensor features = numbers({1, 8}).expand({3, 8});
  EXPECT_TRUE(stream.send(features, {0, 1, 2}).equal(features));
  EXPECT_TRUE(stream.send(features * 2, {0, 1, 2}).equal(features * 2));
}

TEST(Delta, EvaluationsAreSentAsTheyAreAndKeepNothing) {
  const Stream stream(4);
  stream.send(numbers({2, 8}), {0, 1});
  const at::Tensor features = numbers({5, 8}, 2);
  EXPECT_TRUE(
      as_received({features}, stream.codec.get()).at(0).equal(features));
  Message message;
  pack({features}, "h", stream.codec.get(), message);
  EXPECT_TRUE(stream.taken(message).equal(features));
  EXPECT_EQ(difference_of_ends(stream), "");
}

TEST(Delta, ARowThatDivergedBecomesNan) {
  const Stream stream(4);
  stream.send(numbers({2, 8}), {0, 1});
  at::Tensor features = numbers({2, 8}, 2);
  features[0][3] = std::numeric_limits<float>::infinity();
  const at::Tensor back = stream.send(features, {0, 1});
  EXPECT_TRUE(back[0].isnan().all().item<bool>());
  EXPECT_FALSE(back[1].isnan().any().item<bool>());
}

TEST(Delta, GoesOnFromItsState) {
  const Stream whole(4);
  whole.send(numbers({3, 8}), {1, 2, 3});
  whole.send(numbers({3, 8}, 2), {3, 4, 5});
  const Stream again(4);
  again.sender->restore(whole.sender->state());
  again.receiver->restore(whole.receiver->state());
  const Stream anew(4);
  const at::Tensor features = numbers({3, 8}, 3);
  const at::Tensor expected = whole.send(features, {5, 0, 1});
  EXPECT_TRUE(again.send(features, {5, 0, 1}).equal(expected));
  EXPECT_FALSE(anew.send(features, {5, 0, 1}).equal(expected));
}

TEST(Delta, RefusesMoreMemoryThanItsLimit) {
  const auto end = [](std::int64_t samples, std::int64_t limit_mb) {
    return [=] {
      codec_of(4, limit_mb)
          ->sender({.boundary = 2, .features = {64, 32}, .samples = samples});
    };
  };
  EXPECT_NO_THROW(end(128, 1)());
  EXPECT_THAT(end(129, 1), ThrowsMessage<UserError>(HasSubstr(
                               "boundary 2: codec 'delta' keeps the last "
                               "activation of each of 129 samples at both "
                               "ends, 2 MB each, and limit_mb = 1, disk_mb = "
                               "0: raise one of them")));
  EXPECT_NO_THROW(end(129, 2)());
  EXPECT_THAT(end(std::int64_t{1} << 60, 2),
              ThrowsMessage<UserError>(HasSubstr("raise one of them")));
}

/// 20 samples of 2^18 numbers: 20 MB.
const CodecSite kLarge = {.features = {64, 4096}, .samples = kSamples};

TEST(Delta, HasTheSameBitsOnDisk) {
  const Stream memory(codec_of(4, 20), kLarge);
  const Stream disk(codec_of(4, 1, 20), kLarge);
  for (std::uint64_t turn = 1; turn < 4; ++turn) {
    const at::Tensor features = numbers({3, 64, 4096}, turn);
    const Indices samples = {0, 7, static_cast<std::int64_t>(turn)};
    EXPECT_TRUE(are_same_bits(disk.send(features, samples),
                              memory.send(features, samples)));
  }
  EXPECT_EQ(difference_of_ends(disk), "");
  EXPECT_EQ(disk.sender->bytes(), 0);
  EXPECT_EQ(memory.sender->bytes(), 20 << 20);
}

TEST(Delta, GoesOnFromItsStateOnDisk) {
  const Stream whole(codec_of(4, 1, 20), kLarge);
  whole.send(numbers({3, 64, 4096}), {1, 2, 3});
  const NamedTensors state = whole.sender->state();
  // What is saved doesn't move with what is kept.
  const at::Tensor features = numbers({3, 64, 4096}, 2);
  const at::Tensor expected = whole.send(features, {3, 2, 9});
  for (const std::int64_t limit_mb : {20, 1}) {
    const Stream again(codec_of(4, limit_mb, 20), kLarge);
    again.sender->restore(state);
    again.receiver->restore(state);
    EXPECT_TRUE(again.send(features, {3, 2, 9}).equal(expected)) << limit_mb;
  }
}

TEST(Delta, RefusesMoreOfTheDiskThanItsLimit) {
  EXPECT_NO_THROW(Stream(codec_of(4, 1, 20), kLarge));
  EXPECT_THROW(Stream(codec_of(4, 1, 19), kLarge), UserError);
}

// Each tensor has a table; what comes can't make an end keep more of them.
TEST(Delta, LimitsHoldForAllTensorsTogether) {
  const CodecSite site{.features = {64, 256}, .samples = kSamples};
  const Stream sender(codec_of(4, 1, 4), site);  // 1.25 MB each
  const Stream receiver(codec_of(4, 1, 2), site);
  Message message;
  const at::Tensor features = numbers({2, 64, 256});
  pack({features, features}, "h",
       {sender.codec.get(), sender.sender.get(), 0, at::arange(2)}, message);
  EXPECT_NO_THROW(
      unpack(message, "h", {sender.codec.get(), sender.receiver.get(), 0, {}}));
  EXPECT_THROW(unpack(message, "h",
                      {receiver.codec.get(), receiver.receiver.get(), 0, {}}),
               LinkError);
}

TEST(Delta, HasThreeNumbersOfBits) {
  EXPECT_THROW(codec_of(5), UserError);
  for (const std::int64_t bits : {4, 8, 32}) EXPECT_NO_THROW(codec_of(bits));
}

TEST(Delta, RefusesBatchesWhoseRowsAreNoSamples) {
  const Stream stream(4);
  EXPECT_THAT(
      [&] {
        stream.packed(numbers({4, 8}), {0, 1});
      },
      ThrowsMessage<UserError>(HasSubstr("2 samples has 4 rows")));
}

class HostileDelta : public testing::Test {
 protected:
  HostileDelta() { stream_.send(numbers({3, 8}), {0, 1, 2}); }

  /// The parts of a message of two samples that are known and one that isn't.
  Tensors good() const {
    return unpack(stream_.packed(numbers({3, 8}, 2), {0, 5, 2}), "h.0");
  }
  at::Tensor decode(const Tensors& parts) const {
    return stream_.receiver->decode(parts, {.tensor = "h.0"});
  }

  Stream stream_{8};
};

TEST_F(HostileDelta, IsRefusedAndLeavesTheStateAsItWas) {
  const Tensors parts = good();
  const auto with = [&](std::size_t place, const at::Tensor& part) {
    Tensors changed = parts;
    changed[place] = part;
    return changed;
  };
  const auto samples = [&](const Indices& all) {
    return with(1, at::tensor(all, at::kLong).to(at::kInt));
  };
  const at::Tensor byte = at::zeros({}, at::kByte);
  const std::vector<Tensors> wrong = {
      {},
      {parts[0]},
      with(0, parts[3]),
      with(1, parts[1].to(at::kLong)),
      samples({0, 5}),
      samples({0, 5, 2, 3}),
      samples({0, 5, 20}),
      samples({0, 5, -1}),
      samples({0, 5, 0}),
      samples({0, 1, 2}),  // none is new
      samples({3, 5, 4}),  // all are new
      samples({}),
      with(1, at::zeros({1}, at::kInt).expand({3})),
      with(2, parts[2].narrow(0, 0, 1)),
      with(2, parts[2].to(at::kByte)),
      with(3, parts[3].narrow(0, 0, 1)),
      with(3, at::ones({1, 1}).expand({2, 1})),
      with(4, parts[4].narrow(1, 0, 4)),
      with(4, numbers({1, 1000000})),
      with(5, byte.expand({3, 9})),
      with(5, byte.expand({2, 8})),
      with(6, byte.expand({1, 3}))};
  const NamedTensors before = stream_.receiver->state();
  for (std::size_t i = 0; i < wrong.size(); ++i)
    EXPECT_THROW(decode(wrong[i]), LinkError) << i;
  const NamedTensors after = stream_.receiver->state();
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(before[i].second.equal(after[i].second)) << before[i].first;
  EXPECT_NO_THROW(decode(parts));
}

}  // namespace sluice::delta_test
