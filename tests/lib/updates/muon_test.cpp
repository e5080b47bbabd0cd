#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/lib/updates/rules.h"

namespace sluice::muon_test {

/// By how much a weight of zeros moves along such a gradient, at rate 1, in
/// units of the scale that makes it orthogonal.
at::Tensor step_along(const at::Tensor& gradient,
                      const std::string& name = "layers.1.weight",
                      const OptimizerKeys& more = {}) {
  const NamedTensors weights = {{name, at::zeros_like(gradient)}};
  OptimizerKeys keys = {{"name", "muon"}, {"scale", "original"}};
  keys.insert(keys.end(), more.begin(), more.end());
  OptimizerOptions options = options_of(keys);
  options.last_layer = "layers.7.";
  make_optimizer(options, weights)->step({gradient}, 1);
  return -weights[0].second;
}

at::Tensor random(at::IntArrayRef sizes) {
  static auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  return at::randn(sizes, generator, at::kDouble);
}

TEST(Muon, BringsSingularValuesToAbout1) {
  for (const at::Tensor& gradient :
       {random({20, 30}), random({12, 40}) * 1e-4}) {
    const at::Tensor values = at::linalg_svdvals(step_along(gradient));
    EXPECT_GT(values.min().item<double>(), 0.68);
    EXPECT_LT(values.max().item<double>(), 1.2);
  }
}

TEST(Muon, MovesTallMatricesAsWideOnesScaledByTheirShape) {
  const at::Tensor wide = random({12, 48});
  EXPECT_TRUE(at::allclose(step_along(wide.t().contiguous()),
                           2 * step_along(wide).t(), 1e-10, 1e-10));
}

TEST(Muon, KeepsSingularVectors) {
  // By the SVD: the polynomial of five steps, applied to the singular values.
  const at::Tensor gradient = random({6, 9});
  const auto [u, s, vh] = at::linalg_svd(gradient, false);
  at::Tensor values = s / s.norm();
  for (int step = 0; step < 5; ++step)
    values = 3.4445 * values - 4.775 * values.pow(3) + 2.0315 * values.pow(5);
  EXPECT_TRUE(at::allclose(step_along(gradient), u.mm(values.diag()).mm(vh),
                           1e-8, 1e-8));
}

TEST(Muon, LeavesTheDirectionOfAnOrthogonalMatrix) {
  const auto [q, r] = at::linalg_qr(random({7, 7}));
  const at::Tensor step = step_along(q);
  EXPECT_TRUE(at::allclose(step / step.norm(), q / q.norm(), 1e-8, 1e-8));
}

TEST(Muon, HasPyTorchsWeightsAfter30Steps) {
  // Figures of torch.optim.Muon in float64, its bfloat16 taken out; lr = 0.02,
  // weight decay 0.1.
  const auto trained = [](const char* scale) {
    const at::Tensor w =
        at::tensor({0.5, -0.5, 1.0, 2.0, 0.0, 1.0}, at::kDouble).view({3, 2});
    const auto rule = make_optimizer(
        options_of({{"name", "muon"}, {"weight_decay", 0.1}, {"scale", scale}}),
        {{"w", w}});
    for (int t = 0; t < 30; ++t)
      rule->step(
          {at::sin(0.7 * t + at::arange(6, at::kDouble).square()).view({3, 2}) +
           0.1 * w},
          0.02);
    return std::vector<double>(w.data_ptr<double>(), w.data_ptr<double>() + 6);
  };
  EXPECT_LT(
      largest_difference(trained("original"),
                         {0.205014667752, -0.520810072837, 0.895357095394,
                          1.66404700597, 0.0565240354121, 0.709603635145}),
      1e-10);
  EXPECT_LT(
      largest_difference(trained("match_rms_adamw"),
                         {0.390988237117, -0.486001135932, 0.930147368203,
                          1.82118787783, 0.0193014165023, 0.871974497088}),
      1e-10);
}

TEST(Muon, TakesAConvolutionAsAMatrixOfItsOutputs) {
  const at::Tensor gradient = random({8, 3, 5, 5});
  const at::Tensor flat = step_along(gradient.flatten(1));
  EXPECT_TRUE(step_along(gradient).flatten(1).equal(flat));
  const at::Tensor last = gradient.contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(at::allclose(step_along(last).flatten(1), flat, 1e-10, 1e-10));
  const at::Tensor tall = random({40, 2, 3, 3});
  EXPECT_EQ(step_along(tall).sizes(), tall.sizes());
}

/// AdamW's first step moves every weight by the rate.
bool is_by_adamw(const at::Tensor& step) {
  return at::allclose(step.abs(), at::ones_like(step), 1e-5, 1e-5);
}

TEST(Muon, LeavesVectorsOutputsHeadsAndEmbeddingsToAdamW) {
  const at::Tensor matrix = random({6, 9});
  EXPECT_FALSE(is_by_adamw(step_along(matrix)));
  EXPECT_TRUE(is_by_adamw(step_along(random({6}), "layers.1.bias")));
  EXPECT_TRUE(is_by_adamw(step_along(matrix, "layers.7.weight")));
  EXPECT_FALSE(is_by_adamw(step_along(matrix, "layers.77.weight")));
  EXPECT_TRUE(is_by_adamw(step_along(matrix, "heads.2.classifier.weight")));
  EXPECT_TRUE(is_by_adamw(step_along(matrix, "layers.0.token.weight")));
}

TEST(Muon, LeavesToAdamWWhatItsPatternsName) {
  const OptimizerKeys keys = {
      {"adamw", ConfigNode::Array{{.value = "*gate*"}}}};
  EXPECT_TRUE(
      is_by_adamw(step_along(random({6, 9}), "layers.1.gate.weight", keys)));
  EXPECT_FALSE(
      is_by_adamw(step_along(random({6, 9}), "layers.0.token.weight", keys)));
}

TEST(Muon, AZeroGradientMovesNothing) {
  EXPECT_EQ(step_along(at::zeros({4, 5})).abs().max().item<double>(), 0);
}

}  // namespace sluice::muon_test
