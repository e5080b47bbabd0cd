// The codec downsample: what it makes of maps, against loops, and of gradients,
// against autograd through the same averages.
#include "lib/boundaries/codecs/downsample.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/tensors/pack.h"

namespace sluice::downsample_test {

using Sizes = std::vector<std::int64_t>;

std::shared_ptr<const Codec> codec() {
  return find_row(codecs(), kDownsample, "codec").make();
}

at::Tensor received(const at::Tensor& tensor) {
  return as_received({tensor}, codec().get()).at(0);
}

at::Tensor numbers(const Sizes& sizes) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(1));
}

/// The mean of what there is of the square of 2 x 2 that has the pixel.
double mean_around(const at::Tensor& map, std::int64_t row,
                   std::int64_t column) {
  double sum = 0;
  int count = 0;
  for (std::int64_t i = row / 2 * 2; i < row / 2 * 2 + 2; ++i)
    for (std::int64_t j = column / 2 * 2; j < column / 2 * 2 + 2; ++j) {
      if (i >= map.size(0) || j >= map.size(1)) continue;
      sum += map[i][j].item<double>();
      ++count;
    }
  return sum / count;
}

TEST(Downsample, GivesEachPixelTheMeanOfItsSquare) {
  for (const Sizes& sizes : {Sizes{2, 3, 4, 6}, Sizes{1, 2, 5, 3},
                             Sizes{2, 1, 1, 4}, Sizes{1, 1, 3, 1}}) {
    const at::Tensor maps = numbers(sizes);
    const at::Tensor back = received(maps);
    ASSERT_EQ(back.sizes(), maps.sizes());
    for (std::int64_t n = 0; n < sizes[0]; ++n)
      for (std::int64_t c = 0; c < sizes[1]; ++c)
        for (std::int64_t i = 0; i < sizes[2]; ++i)
          for (std::int64_t j = 0; j < sizes[3]; ++j)
            EXPECT_NEAR(back[n][c][i][j].item<double>(),
                        mean_around(maps[n][c], i, j), 1e-6);
    EXPECT_FALSE(back.equal(maps));
  }
}

TEST(Downsample, ChangesNothingTheSecondTime) {
  for (const Sizes& sizes : {Sizes{2, 3, 4, 6}, Sizes{2, 3, 7, 5}}) {
    const at::Tensor once = received(numbers(sizes));
    EXPECT_TRUE(received(once).equal(once));
  }
}

/// <A x, y> = <x, A y>.
TEST(Downsample, IsItsOwnTranspose) {
  for (const Sizes& sizes : {Sizes{2, 3, 4, 6}, Sizes{2, 3, 7, 5}}) {
    const at::Tensor x = numbers(sizes);
    const at::Tensor y = numbers(sizes).flip({0, 3});
    const auto product = [](const at::Tensor& a, const at::Tensor& b) {
      return (a.to(at::kDouble) * b.to(at::kDouble)).sum().item<double>();
    };
    EXPECT_NEAR(product(received(x), y), product(x, received(y)), 1e-4);
    EXPECT_GT(std::abs(product(x, y) - product(received(x), y)), 1e-2);
  }
}

TEST(Downsample, SendsTheGradientOfWhatWasSent) {
  at::Tensor features = numbers({2, 3, 4, 6}).requires_grad_();
  const auto loss = [](const at::Tensor& maps) {
    return (maps.tanh() * at::arange(6, at::kFloat)).square().sum();
  };
  const at::Tensor averaged =
      at::upsample_nearest2d(at::avg_pool2d(features, 2), {4, 6});
  const at::Tensor expected =
      torch::autograd::grad({loss(averaged)}, {features})[0];
  at::Tensor above = received(features).requires_grad_();
  const at::Tensor from_above =
      torch::autograd::grad({loss(above)}, {above})[0];
  EXPECT_TRUE(received(from_above).allclose(expected, 1e-5, 1e-5));
  EXPECT_FALSE(from_above.allclose(expected, 1e-2, 1e-2));
}

TEST(Downsample, SendsAQuarterOfTheBytes) {
  const auto bytes = [](const Sizes& sizes) {
    Message message;
    pack({numbers(sizes)}, "h", codec().get(), message);
    return payload_bytes(message);
  };
  // Beside the means a byte for the caller, and one for the sizes.
  EXPECT_EQ(bytes({8, 16, 4, 6}), 8U * 16 * 2 * 3 * 4 + 2);
  EXPECT_EQ(bytes({8, 16, 5, 6}), 8U * 16 * 3 * 3 * 4 + 2);
}

TEST(Downsample, KeepsTypeAndOrderInMemory) {
  for (const Sizes& sizes : {Sizes{2, 3, 4, 6}, Sizes{2, 3, 2, 2}}) {
    const at::Tensor maps = numbers(sizes);
    const at::Tensor turned = maps.contiguous(at::MemoryFormat::ChannelsLast);
    EXPECT_EQ(received(maps).strides(), maps.strides());
    EXPECT_EQ(received(turned).strides(), turned.strides());
    EXPECT_TRUE(received(turned).equal(received(maps)));
    EXPECT_EQ(received(maps.to(at::kDouble)).scalar_type(), at::kDouble);
    EXPECT_EQ(received(maps.to(at::kBFloat16)).scalar_type(), at::kBFloat16);
  }
}

/// As the gradient of a mean over pixels comes down.
TEST(Downsample, TakesARepeatedDimension) {
  const at::Tensor column = numbers({2, 3, 1, 1}).expand({2, 3, 4, 6});
  EXPECT_TRUE(received(column).equal(column));
  EXPECT_EQ(received(at::empty({0, 3, 4, 6})).sizes(), Sizes({0, 3, 4, 6}));
}

TEST(Downsample, SendsWhatAreNoMapsAsItIs) {
  for (const Sizes& sizes : {Sizes{6, 10}, Sizes{2, 5, 8}, Sizes{9}}) {
    const at::Tensor tensor = numbers(sizes);
    EXPECT_TRUE(received(tensor).equal(tensor));
  }
  EXPECT_TRUE(can_downsample({3, 1, 2}));
  EXPECT_FALSE(can_downsample({3, 1, 1}));
  EXPECT_FALSE(can_downsample({8}));
  EXPECT_FALSE(can_downsample({5, 8}));
}

TEST(Downsample, RefusesPartsThatItCannotHaveSent) {
  const at::Tensor byte = at::zeros({1}, at::kByte);
  const auto decoding = [&](const at::Tensor& means, const Sizes& sizes) {
    return [&byte, means, sizes] {
      codec()->decode({byte, means, byte.expand(sizes)});
    };
  };
  EXPECT_NO_THROW(decoding(numbers({2, 3, 2, 3}), {2, 3, 4, 5})());
  EXPECT_THROW(decoding(numbers({2, 3, 2, 3}), {2, 3, 4, 7})(), LinkError);
  EXPECT_THROW(decoding(numbers({2, 3, 2, 3}), {2, 4, 4, 5})(), LinkError);
  EXPECT_THROW(decoding(numbers({2, 3, 2}), {2, 3, 4})(), LinkError);
  EXPECT_THROW(decoding(numbers({2, 3, 2, 3}).to(at::kShort), {2, 3, 4, 5})(),
               LinkError);
  EXPECT_THROW(codec()->decode({numbers({2, 3, 2, 3})}), LinkError);
}

}  // namespace sluice::downsample_test
