// The codec downsample: what it makes of maps, against loops, and of gradients,
// against autograd through the same averages.
#include "lib/boundaries/codecs/downsample.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/sample_source.h"
#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/tensors/pack.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::downsample_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

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

// In runs.

std::string net(const std::string& boundary) {
  return "blocks = ['0-1', '2-']\nmodel = {name = 'conv3', channels = 8}\n"
         "optimizer = {lr = 0.05}\nboundary = {" +
         boundary + "}\n";
}

NamedTensors trained(const std::string& boundary) {
  Training training(small_experiment(net(boundary) + "turns = 6\n"));
  training.train();
  return training.weights();
}

/// With one step from the top that of back-propagation over the same messages,
/// with auxiliary variables as without.
TEST(DownsampledRun, OfVariablesIsBackPropagationOverSmallMessages) {
  const NamedTensors small =
      trained("policy = 'backprop', codec = 'downsample'");
  for (const char* policy : {"penalty", "augmented_lagrangian"})
    EXPECT_EQ(difference(trained("policy = '" + std::string(policy) +
                                 "', codec = 'downsample'"),
                         small),
              "")
        << policy;
  EXPECT_GT(distance(trained("policy = 'backprop'"), small), 1e-5);
  const NamedTensors kept = trained(
      "policy = 'penalty', codec = 'downsample', memory = 'sample', step_size "
      "= 0.5");
  EXPECT_GT(distance(small, kept), 1e-5);
}

/// [n, n]: the means of pairs, at both places of the pair.
at::Tensor averaging(std::int64_t n) {
  const at::Tensor matrix = at::zeros({n, n});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      if (i / 2 == j / 2) matrix[i][j] = i / 2 * 2 + 1 < n ? 0.5 : 1.0;
  return matrix;
}

at::Tensor averaged(const at::Tensor& maps) {
  return at::matmul(at::matmul(averaging(maps.size(2)), maps),
                    averaging(maps.size(3)).t());
}

/// Three convolutions and a linear layer by autograd and SGD, uncut; with
/// averages where the messages of `lines` are downsampled, or without.
NamedTensors plainly_trained(const std::string& lines, bool with_averages) {
  const Training start(small_experiment(lines));
  NamedTensors named;
  for (const auto& [name, tensor] : start.weights())
    named.emplace_back(name, tensor.detach().clone().requires_grad_());
  const auto crossing = [&](const at::Tensor& maps) {
    return with_averages ? averaged(maps) : maps;
  };
  const auto convolved = [&](std::size_t layer, const at::Tensor& maps) {
    return at::relu(at::conv2d(maps, named[2 * layer].second,
                               named[2 * layer + 1].second, 1, 2));
  };
  SampleSource source(start.experiment.data->train.samples(),
                      {.batch_size = start.experiment.batch_size,
                       .seed = start.experiment.seed});
  for (std::int64_t turn = 0; turn < 30; ++turn) {
    const Batch batch = source.batch(turn);
    at::Tensor h = crossing(at::max_pool2d(convolved(0, batch.inputs), 3));
    h = crossing(at::avg_pool2d(convolved(1, h), 3));
    h = at::avg_pool2d(convolved(2, h), 3).flatten(1);
    const at::Tensor loss = at::cross_entropy_loss(
        at::linear(h, named[6].second, named[7].second), batch.labels);
    const auto gradients = torch::autograd::grad({loss}, values_of(named));
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < named.size(); ++i)
      named[i].second.sub_(gradients[i], 0.05);
  }
  for (auto& [name, tensor] : named) tensor = tensor.detach();
  return named;
}

TEST(DownsampledRun, HasTheWeightsOfAveragesInPlainAutogradOver30Turns) {
  const auto lines = [](const std::string& codec) {
    return "turns = 30\nblocks = ['0', '1', '2-']\noptimizer = {lr = 0.05}\n"
           "model = {name = 'conv3', channels = 6, batch_norm = false}\n"
           "boundary = {policy = 'penalty', codec = '" +
           codec + "'}\n";
  };
  const std::string small = lines("downsample");
  Training training(small_experiment(small));
  training.train();
  const NamedTensors found = training.weights();
  ASSERT_EQ(found.size(), 8U);
  EXPECT_EQ(found[0].first, "layers.0.conv.weight");
  EXPECT_EQ(found[7].first, "layers.3.linear.bias");
  EXPECT_LT(distance(plainly_trained(small, true), found), 1e-5);
  EXPECT_GT(distance(plainly_trained(small, false), found), 1e-4);
}

TEST(DownsampledRun, WantsMaps) {
  const auto reading = [](const std::string& lines) {
    return [lines] { small_experiment(lines); };
  };
  EXPECT_NO_THROW(reading(net("codec = 'downsample'"))());
  EXPECT_THAT(
      reading("blocks = ['0', '1-']\nmodel = {hidden = [24, 20]}\n"
              "boundary = {codec = 'downsample'}\n"),
      ThrowsMessage<UserError>(HasSubstr("the features at boundary 1 are [24]: "
                                         "set codec = 'none' there")));
  EXPECT_NO_THROW(reading("blocks = 1\nboundary = {codec = 'downsample'}\n")());
}

}  // namespace sluice::downsample_test
