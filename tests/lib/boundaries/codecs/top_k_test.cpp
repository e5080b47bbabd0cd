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

namespace sluice::top_k_test {

using Sizes = std::vector<std::int64_t>;

BoundaryCodecs codecs_with(double ratio, bool has_feedback = true) {
  ConfigNode options{.value = ConfigNode::Table{}};
  options.set("ratio", {.value = ratio});
  options.set("error_feedback", {.value = has_feedback});
  Fields fields(&options, "codec");
  return find_row(codecs(), "top_k", "codec").make.configure(fields, {});
}

at::Tensor numbers(const Sizes& sizes, std::uint64_t seed = 1) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

at::Tensor received(const at::Tensor& tensor, double ratio) {
  return as_received({tensor}, codecs_with(ratio).up.get()).at(0);
}

std::size_t bytes_of(const at::Tensor& tensor, double ratio) {
  Message message;
  pack({tensor}, "h", codecs_with(ratio).up.get(), message);
  return payload_bytes(message);
}

/// Whether two tensors have the same bits.
bool are_same_bits(const at::Tensor& left, const at::Tensor& right) {
  return left.sizes() == right.sizes() && left.strides() == right.strides() &&
         left.contiguous().view(at::kInt).equal(
             right.contiguous().view(at::kInt));
}

TEST(TopK, KeepsTheLargestMagnitudesOfEachRow) {
  const at::Tensor row = at::tensor({1.0F, -5.0F, 0.5F, 3.0F, -2.0F, 0.0F});
  EXPECT_TRUE(
      received(row.view({1, 6}), 0.5)
          .equal(
              at::tensor({0.0F, -5.0F, 0.0F, 3.0F, -2.0F, 0.0F}).view({1, 6})));
  const at::Tensor rows = numbers({4, 3, 20});
  const at::Tensor back = received(rows, 0.1);
  EXPECT_EQ(back.ne(0).sum().item<std::int64_t>(), 4 * 3 * 2);
  EXPECT_TRUE(back.ne(0).sum(2).eq(2).all().item<bool>());
}

TEST(TopK, TakesTheFirstOfEqualMagnitudes) {
  const at::Tensor row = at::tensor({2.0F, -2.0F, 2.0F, -2.0F}).view({1, 4});
  EXPECT_TRUE(received(row, 0.5).equal(
      at::tensor({2.0F, -2.0F, 0.0F, 0.0F}).view({1, 4})));
}

// 4 bytes for a value; 1 for a place in rows up to 256, 2 up to 32768, else 4.
TEST(TopK, SendsAValueAndAPlaceForEachThatIsKept) {
  const auto shape = [](std::size_t) { return std::size_t{3}; };
  EXPECT_EQ(bytes_of(numbers({32, 256}), 0.05),
            std::size_t{32} * 13 * 5 + shape(2));
  EXPECT_EQ(bytes_of(numbers({32, 257}), 0.05),
            std::size_t{32} * 13 * 6 + shape(2));
  EXPECT_EQ(bytes_of(numbers({8, 16, 64}), 0.05),
            std::size_t{128} * 4 * 5 + shape(3));
  EXPECT_EQ(bytes_of(numbers({2, 3, 20, 20}), 0.1),
            std::size_t{2} * 120 * 6 + shape(4));
  EXPECT_EQ(bytes_of(numbers({1, 32769}), 0.001),
            std::size_t{33} * 8 + shape(2));
}

TEST(TopK, TopKOfAllHasTheBitsWithoutACodec) {
  const Tensors all = {
      numbers({6, 10}),
      numbers({2, 3, 4, 5}),
      numbers({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast),
      numbers({4, 2, 8}).transpose(0, 1),
      numbers({2, 300}),
      at::tensor({0.0F, -0.0F, std::numeric_limits<float>::infinity(),
                  std::numeric_limits<float>::quiet_NaN()}),
      numbers({})};
  for (const at::Tensor& tensor : all) {
    Message message;
    pack({tensor}, "h", message);
    EXPECT_TRUE(are_same_bits(received(tensor, 1), unpack(message, "h").at(0)))
        << tensor.sizes();
  }
}

TEST(TopK, KeepsSizesTypesAndStrides) {
  const Tensors all = {
      numbers({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast),
      numbers({4, 2, 8}).transpose(0, 1),
      numbers({50, 1}).expand({50, 40}),
      numbers({9}),
      numbers({}),
      at::empty({0, 3}),
      at::empty({3, 0}),
      numbers({4, 5}).to(at::kDouble),
      numbers({4, 50}).to(at::kBFloat16)};
  for (const at::Tensor& tensor : all) {
    const at::Tensor back = received(tensor, 0.3);
    Message message;
    pack({tensor}, "h", message);
    EXPECT_EQ(back.sizes(), tensor.sizes());
    EXPECT_EQ(back.strides(), unpack(message, "h").at(0).strides())
        << tensor.sizes();
    EXPECT_EQ(back.scalar_type(), tensor.scalar_type());
  }
}

// A gradient that was under way is sent again so.
TEST(TopK, ChangesNothingTheSecondTime) {
  for (const Sizes& sizes : {Sizes{7, 33}, Sizes{4, 3, 5, 5}, Sizes{2, 6, 8}}) {
    at::Tensor tensor = numbers(sizes);
    tensor = at::where(tensor.gt(0), tensor, at::full_like(tensor, -0.0));
    const at::Tensor once = received(tensor, 0.6);
    EXPECT_TRUE(are_same_bits(received(once, 0.6), once)) << sizes;
  }
}

TEST(TopK, ASampleOrAPlaceDoesNotChangeOthers) {
  const at::Tensor tensor = numbers({3, 4, 20});
  const at::Tensor alone = received(tensor, 0.2);
  tensor[1][2].fill_(1e6);
  const at::Tensor back = received(tensor, 0.2);
  for (int sample = 0; sample < 3; ++sample)
    for (int place = 0; place < 4; ++place)
      if (sample != 1 || place != 2) {
        EXPECT_TRUE(back[sample][place].equal(alone[sample][place]));
      }
}

TEST(TopK, ShowsWhatDiverged) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    const at::Tensor tensor = numbers({2, 64});
    tensor[0][3] = bad;
    const at::Tensor back = received(tensor, 0.05);
    EXPECT_FALSE(back[0].isfinite().all().item<bool>());
    EXPECT_TRUE(back[1].isfinite().all().item<bool>());
  }
}

TEST(TopK, NumbersThatWereNotSentHaveNoGradient) {
  const auto codec = codecs_with(0.5).up;
  const at::Tensor h =
      at::tensor({0.0F, -5.0F, 0.5F, 3.0F, 0.0F, 0.0F, 0.0F, -2.0F})
          .view({2, 4});
  const at::Tensor came = as_received({h}, codec.get()).at(0);
  const at::Tensor back = masked({at::ones({2, 4})}, {came}, codec.get()).at(0);
  // The second row sent a zero, too: its first one.
  EXPECT_TRUE(
      back.equal(at::tensor({0.0F, 1.0F, 0.0F, 1.0F, 1.0F, 0.0F, 0.0F, 1.0F})
                     .view({2, 4})));
}

TEST(TopK, MaskedGradientsKeepTheirLayout) {
  const at::Tensor gradient =
      numbers({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto back = [&](double ratio) {
    return masked({gradient}, {gradient}, codecs_with(ratio).up.get()).at(0);
  };
  EXPECT_EQ(back(0.5).strides(), gradient.strides());
  EXPECT_EQ(back(0.5).ne(0).sum().item<std::int64_t>(), 2 * 30);
  EXPECT_TRUE(back(1).is_same(gradient));
  EXPECT_TRUE(masked({gradient}, {gradient}, nullptr).at(0).is_same(gradient));
}

TEST(TopK, ActivationsHaveNoState) {
  const BoundaryCodecs with = codecs_with(0.1);
  EXPECT_EQ(with.up->sender({}), nullptr);
  EXPECT_EQ(with.up->receiver({}), nullptr);
  EXPECT_EQ(with.down->receiver({}), nullptr);
  EXPECT_NE(with.down->sender({}), nullptr);
  EXPECT_EQ(codecs_with(0.1, false).down->sender({}), nullptr);
}

/// What comes of gradients that are sent one after the other.
struct Stream {
  explicit Stream(double ratio)
      : codec(codecs_with(ratio).down), end(codec->sender({})) {}

  at::Tensor send(const at::Tensor& gradient, std::int64_t slot = 0) const {
    Message message;
    pack({gradient}, "gradient", {codec.get(), end.get(), slot, {}}, message);
    return unpack(message, "gradient", codec.get()).at(0);
  }
  at::Tensor held(const std::string& name) const {
    for (const auto& [own, tensor] : end->state())
      if (own == name) return tensor;
    return {};
  }

  std::shared_ptr<const Codec> codec;
  std::unique_ptr<CodecEnd> end;
};

// Eighths, which add up without rounding.
at::Tensor eighths(const Sizes& sizes, std::uint64_t seed) {
  return (numbers(sizes, seed) * 8).round() / 8;
}

TEST(TopKFeedback, SentAndHeldAddUpToAllGradients) {
  const Stream stream(0.1);
  at::Tensor wanted = at::zeros({6, 40});
  at::Tensor sent = at::zeros({6, 40});
  for (std::uint64_t turn = 1; turn <= 20; ++turn) {
    const at::Tensor gradient = eighths({6, 40}, turn);
    wanted += gradient;
    sent += stream.send(gradient);
    const at::Tensor held = stream.held("gradient.0.0");
    EXPECT_TRUE((sent + held).equal(wanted)) << turn;
    EXPECT_GT(held.abs().max().item<float>(), 0);
  }
}

TEST(TopKFeedback, SendsLaterWhatItLeftOut) {
  const Stream stream(0.5);
  EXPECT_TRUE(stream.send(at::tensor({3.0F, 2.0F}).view({1, 2}))
                  .equal(at::tensor({3.0F, 0.0F}).view({1, 2})));
  EXPECT_TRUE(stream.send(at::tensor({3.0F, 2.0F}).view({1, 2}))
                  .equal(at::tensor({0.0F, 4.0F}).view({1, 2})));
}

TEST(TopKFeedback, FeedbackOfAllHasTheBitsWithoutACodec) {
  const Stream stream(1);
  for (std::uint64_t turn = 1; turn <= 3; ++turn) {
    at::Tensor gradient =
        numbers({2, 3, 4, 5}, turn).contiguous(at::MemoryFormat::ChannelsLast);
    gradient[0][0][0][0] = -0.0F;
    EXPECT_TRUE(are_same_bits(stream.send(gradient), gradient));
  }
}

TEST(TopKFeedback, ASmallerBatchLeavesTheOtherRowsWhatTheyHave) {
  const Stream stream(0.25);
  stream.send(eighths({3, 8}, 1));
  const at::Tensor before = stream.held("gradient.0.0").clone();
  stream.send(eighths({1, 8}, 2));
  const at::Tensor after = stream.held("gradient.0.0");
  EXPECT_TRUE(after.slice(0, 1).equal(before.slice(0, 1)));
  EXPECT_FALSE(after[0].equal(before[0]));
  stream.send(eighths({5, 8}, 3));
  EXPECT_EQ(stream.held("gradient.0.0").size(0), 5);
}

TEST(TopKFeedback, AMicroBatchHasRowsOfItsOwn) {
  const Stream both(0.25);
  const Stream first(0.25);
  const Stream second(0.25);
  for (std::uint64_t turn = 1; turn <= 3; ++turn)
    for (std::int64_t slot = 0; slot < 2; ++slot) {
      const at::Tensor gradient =
          eighths({3, 8}, 2 * turn + static_cast<std::uint64_t>(slot));
      EXPECT_TRUE(both.send(gradient, slot)
                      .equal((slot == 0 ? first : second).send(gradient)));
    }
}

TEST(TopKFeedback, GoesOnFromItsState) {
  const Stream whole(0.1);
  for (std::uint64_t turn = 1; turn <= 4; ++turn)
    whole.send(numbers({4, 30}, turn));
  const Stream again(0.1);
  again.end->restore(whole.end->state());
  const Stream anew(0.1);
  const at::Tensor gradient = numbers({4, 30}, 5);
  const at::Tensor expected = whole.send(gradient);
  EXPECT_TRUE(again.send(gradient).equal(expected));
  EXPECT_FALSE(anew.send(gradient).equal(expected));
}

TEST(TopK, RefusesWhatItDoesNotSend) {
  const auto codec = codecs_with(0.5).up;
  const Tensors good = codec->encode(numbers({4, 6}));
  EXPECT_NO_THROW(codec->decode(good));
  const auto with = [&](std::size_t place, const at::Tensor& part) {
    Tensors parts = good;
    parts[place] = part;
    return parts;
  };
  const at::Tensor byte = at::zeros({}, at::kByte);
  const auto places = [](const std::vector<std::int64_t>& row) {
    return at::tensor(row, at::kLong).to(at::kByte).expand({4, 3}).contiguous();
  };
  EXPECT_NO_THROW(codec->decode(with(2, places({0, 4, 5}))));
  const std::vector<Tensors> wrong = {{},
                                      {good[0]},
                                      with(0, good[1]),
                                      with(1, good[1].narrow(0, 0, 2)),
                                      with(1, good[1].narrow(1, 0, 2)),
                                      with(1, good[1].to(at::kDouble)),
                                      with(1, at::ones({1, 1}).expand({4, 3})),
                                      with(2, good[2].to(at::kLong)),
                                      with(2, places({0, 4, 6})),
                                      with(2, places({0, 0, 1})),
                                      with(2, places({2, 1, 3})),
                                      with(3, byte.expand({4, 600})),
                                      with(4, byte.expand({1, 1})),
                                      with(4, byte.expand({1, 3}))};
  for (const Tensors& parts : wrong)
    EXPECT_THROW(codec->decode(parts), LinkError);
}

}  // namespace sluice::top_k_test
