#include <gtest/gtest.h>

#include "tests/modules/build.h"

namespace sluice::vgg_test {

const SampleSpec kCifar = {{3, 32, 32}, 10};

TEST(Vgg, HeadsSeeTheMapsThatThePaperShowsThem) {
  const std::vector<SampleShape> expected = {
      {128, 32, 32}, {256, 32, 32}, {256, 16, 16}, {512, 16, 16},
      {512, 8, 8},   {512, 4, 4},   {1024},        {10}};
  EXPECT_EQ(shapes(build_model("vgg8b", {}, kCifar)), expected);
}

TEST(Vgg, EntriesMayEndInTheirPools) {
  const std::vector<SampleShape> expected = {
      {128, 32, 32}, {256, 16, 16}, {256, 16, 16}, {512, 8, 8},
      {512, 4, 4},   {512, 2, 2},   {1024},        {10}};
  EXPECT_EQ(shapes(build_model("vgg8b", table({{"head_before_pool", false}}),
                               kCifar)),
            expected);
}

TEST(Vgg, WhereEntriesEndDoesNotChangeTheNetwork) {
  const auto run = [](bool before) {
    return run_blocks(
        build_model("vgg8b",
                    table({{"width", 0.0625}, {"head_before_pool", before}})),
        {0}, {});
  };
  const Outcome one = run(true);
  const Outcome other = run(false);
  EXPECT_TRUE(at::equal(one.outputs, other.outputs));
  EXPECT_TRUE(at::equal(one.gradients[0].second, other.gradients[0].second));
}

TEST(Vgg, ElevenHasNineConvolutions) {
  const std::vector<SampleShape> expected = {
      {128, 32, 32}, {128, 32, 32}, {128, 32, 32}, {256, 32, 32},
      {256, 16, 16}, {512, 16, 16}, {512, 8, 8},   {512, 8, 8},
      {512, 4, 4},   {1024},        {10}};
  EXPECT_EQ(shapes(build_model("vgg11b", {}, kCifar)), expected);
}

std::int64_t convolution(std::int64_t in, std::int64_t out) {
  return 9 * in * out + out + 2 * out;  // weight, bias, norm
}

TEST(Vgg, EightBHas8Point9MillionParametersOnCifar) {
  const std::int64_t expected =
      convolution(3, 128) + convolution(128, 256) + convolution(256, 256) +
      convolution(256, 512) + 2 * convolution(512, 512) +
      (512 * 2 * 2 * 1024 + 1024 + 2 * 1024) + (1024 * 10 + 10);
  EXPECT_EQ(expected, 8'903'434);
  EXPECT_EQ(parameter_count(build_model("vgg8b", {}, kCifar)), expected);
}

TEST(Vgg, EightBHas7Point3MillionParametersOnMnist) {
  EXPECT_EQ(parameter_count(build_model("vgg8b")),
            8'903'434 - 9 * 2 * 128 - 3 * 512 * 1024);
}

TEST(Vgg, ElevenBHas11Point6MillionParametersOnCifar) {
  EXPECT_EQ(parameter_count(build_model("vgg11b", {}, kCifar)), 11'559'946);
}

TEST(Vgg, WidthMultipliesTheConvolutionsOnly) {
  const std::vector<SampleShape> found =
      shapes(build_model("vgg11b", table({{"width", 3.0}}), kCifar));
  EXPECT_EQ(found[0], (SampleShape{384, 32, 32}));
  EXPECT_EQ(found[8], (SampleShape{1536, 4, 4}));
  EXPECT_EQ(found[9], (SampleShape{1024}));
}

TEST(Vgg, CostOfItsSecondEntryIsThatOfConvolutionNormAndNonlinearity) {
  EXPECT_EQ(build_model("vgg8b", {}, kCifar).layers[1].flops,
            256.0 * 32 * 32 * (9 * 128 + 2 + 1));
}

TEST(Vgg, DropsWholeChannels) {
  const Model model =
      build_model("vgg8b", table({{"width", 0.0625},
                                  {"dropout", 0.5},
                                  {"activation", "leaky_relu"},
                                  {"head_before_pool", false}}));
  const at::Tensor zeros =
      make_layer(model, 0)->forward({samples(model)}, {}).front() == 0;
  const at::Tensor whole = zeros.flatten(2).all(2);  // [N, C]
  EXPECT_TRUE(at::equal(whole, zeros.flatten(2).any(2)));
  EXPECT_TRUE(whole.any().item<bool>());
  EXPECT_FALSE(whole.all().item<bool>());
}

}  // namespace sluice::vgg_test
