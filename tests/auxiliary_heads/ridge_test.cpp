// The head that is solved by ridge regression (deep stacking).
#include <cstdint>
#include <memory>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "tests/auxiliary_heads/boundary_site.h"

namespace sluice::ridge_head_test {

std::shared_ptr<Head> ridge(double lambda, double decay = 0,
                            const SampleShape& features = {5}) {
  ConfigNode options;
  options.set("lambda", ConfigNode{.value = lambda});
  options.set("decay", ConfigNode{.value = decay});
  return make_head("ridge", site_of(features), options);
}

HeadResult result_of(Head& head, const at::Tensor& features) {
  return head.forward({features}, {.labels = six_labels()});
}

at::Tensor targets() {
  return at::one_hot(six_labels(), 3).to(at::kDouble);
}

at::Tensor with_ones(const at::Tensor& features) {
  return at::cat(
      {features, at::ones({features.size(0), 1}, features.options())}, 1);
}

/// U of mean squares with a weight: by the inverse.
at::Tensor solution(const at::Tensor& h, double lambda) {
  const at::Tensor gram =
      at::mm(h.t(), h) / 6 + lambda * at::eye(h.size(1), h.options());
  return at::mm(at::inverse(gram), at::mm(h.t(), targets()) / 6);
}

TEST(Ridge, PredictsByTheSolutionOfTheNormalEquations) {
  const auto head = ridge(0.1);
  const at::Tensor features = features_of({5});
  const at::Tensor h = with_ones(features.detach().to(at::kDouble));
  const HeadResult result = result_of(*head, features);
  const at::Tensor expected = at::mm(h, solution(h, 0.1));
  EXPECT_TRUE(
      at::allclose(result.logits.to(at::kDouble), expected, 1e-5, 1e-5));
  EXPECT_FALSE(at::allclose(result.logits.to(at::kDouble),
                            at::mm(h, solution(h, 0.2)), 1e-2, 1e-2));
  EXPECT_NEAR(result.loss.item<double>(),
              (expected - targets()).square().mean().item<double>(), 1e-6);
}

/// As U is a minimum, it need not be differentiated: the gradient is that of
/// the minimum, through the inverse.
TEST(Ridge, TeachesTheLayerByTheGradientOfTheMinimum) {
  const at::Tensor features = features_of({5});
  const at::Tensor found = torch::autograd::grad(
      {result_of(*ridge(0.1), features).loss}, {features})[0];
  const at::Tensor leaf =
      features.detach().to(at::kDouble).clone().requires_grad_();
  const at::Tensor h = with_ones(leaf);
  const at::Tensor u = solution(h, 0.1);
  const at::Tensor off = (at::mm(h, u) - targets()).square().mean();
  const at::Tensor minimum = off + 0.1 * u.square().sum() / 3;
  const at::Tensor expected =
      torch::autograd::grad({minimum}, {leaf}, {}, /*retain_graph=*/true)[0];
  EXPECT_TRUE(at::allclose(found.to(at::kDouble), expected, 1e-4, 1e-6));
  // The loss alone, through the inverse, has another one.
  EXPECT_FALSE(at::allclose(torch::autograd::grad({off}, {leaf})[0], expected,
                            1e-2, 1e-4));
}

TEST(Ridge, SolutionOfAGreatWeightPredictsAndTeachesNothing) {
  const at::Tensor features = features_of({5});
  const HeadResult result = result_of(*ridge(1e9), features);
  EXPECT_LT(result.logits.abs().max().item<double>(), 1e-6);
  result.loss.backward();
  EXPECT_LT(features.grad().abs().max().item<double>(), 1e-6);
}

TEST(Ridge, HasMeansOverBatchesThatFade) {
  const at::Tensor first = features_of({5}, "first").detach();
  const at::Tensor second = features_of({5}, "second").detach();
  const auto head = ridge(0.1, 0.5);
  result_of(*head, first);
  const at::Tensor found = result_of(*head, second).logits.to(at::kDouble);
  const at::Tensor a = with_ones(first.to(at::kDouble));
  const at::Tensor b = with_ones(second.to(at::kDouble));
  // Weights 1 and 2 of 3: the first was halved.
  const auto mean = [](const at::Tensor& of_a, const at::Tensor& of_b) {
    return (of_a + 2 * of_b) / 18;
  };
  const at::Tensor gram =
      mean(at::mm(a.t(), a), at::mm(b.t(), b)) + 0.1 * at::eye(6, a.options());
  const at::Tensor cross =
      mean(at::mm(a.t(), targets()), at::mm(b.t(), targets()));
  EXPECT_TRUE(at::allclose(found, at::mm(b, at::mm(at::inverse(gram), cross)),
                           1e-5, 1e-5));
  EXPECT_FALSE(
      at::allclose(result_of(*ridge(0.1), second).logits.to(at::kDouble), found,
                   1e-2, 1e-2));
}

TEST(Ridge, HasNothingThatIsStepped) {
  EXPECT_TRUE(ridge(0.1)->parameters().empty());
  EXPECT_EQ(ridge(0.1)->buffers().size(), 3U);
}

}  // namespace sluice::ridge_head_test
