#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/modules/build.h"

namespace sluice::revnet_test {

const SampleSpec kCifar = {{3, 32, 32}, 10};

Model small_revnet(const SampleSpec& sample = kCifar) {
  return build_model(
      "revnet", table({{"width", std::int64_t{8}}, {"blocks", list({3, 1})}}),
      sample);
}

double largest(const at::Tensor& difference) {
  return difference.abs().max().item<double>();
}

TEST(RevNet, IsCutAtItsBlocks) {
  EXPECT_EQ(shapes(small_revnet()), (std::vector<SampleShape>{{8, 32, 32},
                                                              {8, 32, 32},
                                                              {8, 32, 32},
                                                              {8, 32, 32},
                                                              {16, 16, 16},
                                                              {16, 16, 16},
                                                              {10}}));
}

/// Convolutions without biases, two figures of each channel of a norm.
TEST(RevNet, HasTheParametersOfItsConvolutionsAndNorms) {
  const std::int64_t stem = 9 * 3 * 8 + 2 * 8;
  const std::int64_t first_stage = 3 * 2 * (9 * 4 * 4 + 2 * 4);
  const std::int64_t halving =
      9 * 8 * 16 + 2 * 16 + 9 * 16 * 16 + 2 * 16 + 8 * 16 + 2 * 16;
  const std::int64_t second_stage = 2 * (9 * 8 * 8 + 2 * 8);
  EXPECT_EQ(parameter_count(small_revnet()),
            stem + first_stage + halving + second_stage + 16 * 10 + 10);
}

TEST(RevNet, AllButTheStemTheHalvingsAndTheEndHaveAnInverse) {
  const Model model = small_revnet();
  std::vector<bool> found;
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    found.push_back(make_layer(model, i)->is_reversible());
  EXPECT_EQ(found,
            (std::vector<bool>{false, true, true, true, false, true, false}));
  EXPECT_THROW(make_layer(model, 0)->inverse({at::zeros({4, 8, 32, 32})}, {}),
               InternalError);
}

/// The reversible blocks of the first stage.
Block reversible_part(std::uint64_t seed) {
  return make_block(small_revnet(), 1, 1, 3, seed, MemoryFormat::channels_last);
}

at::Tensor maps() {
  return at::randn({4, 8, 32, 32}, Pass{}.generator("maps"))
      .contiguous(at::MemoryFormat::ChannelsLast);
}

TEST(RevNet, AnInverseGivesTheInputBackButForRounding) {
  const at::NoGradGuard no_grad;
  Block block = reversible_part(1);
  ASSERT_TRUE(block.is_reversible());
  const at::Tensor input = maps();
  const Tensors output = block.forward({input}, {});
  EXPECT_GT(largest(output.at(0) - input), 0.1);
  const Tensors back = block.inverse(output, {});
  EXPECT_LT(largest(back.at(0) - input), 1e-4);
  EXPECT_EQ(back.at(0).strides(), input.strides());
}

TEST(RevNet, TheInverseOfOtherWeightsGivesAnotherInput) {
  const at::NoGradGuard no_grad;
  const at::Tensor input = maps();
  const Tensors output = reversible_part(1).forward({input}, {});
  EXPECT_GT(largest(reversible_part(2).inverse(output, {}).at(0) - input), 0.1);
}

TEST(RevNet, ABlockWithALayerWithoutAnInverseHasNone) {
  EXPECT_FALSE(make_block(small_revnet(), 1, 0, 1, 1, MemoryFormat::contiguous)
                   .is_reversible());
}

}  // namespace sluice::revnet_test
