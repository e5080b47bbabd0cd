// Mono-Forward (arXiv:2501.09238) as its equations say it: G = a M^T, the
// gradient of its cross entropy is (softmax(G) - one-hot) / N.
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/auxiliary_heads/boundary_site.h"

namespace sluice::mono_forward_head_test {

std::shared_ptr<Head> mono_forward(const SampleShape& features,
                                   std::int64_t pool = 0) {
  ConfigNode options;
  options.set("pool", ConfigNode{.value = pool});
  return make_head("mono_forward", site_of(features), options);
}

at::Tensor projection_of(const Head& head) {
  return head.named_parameters()["projection.weight"];
}

HeadResult result_of(Head& head, const at::Tensor& features) {
  return head.forward({features}, {.labels = six_labels()});
}

/// dL/dG: [N, classes].
at::Tensor error_at(const at::Tensor& goodness) {
  const at::Tensor wanted = at::one_hot(six_labels(), 3).to(at::kFloat);
  return (at::softmax(goodness, 1) - wanted) / 6;
}

TEST(MonoForward, ProjectsActivationsToAGoodnessOfEachClass) {
  const auto head = mono_forward({5});
  const at::Tensor features = features_of({5});
  EXPECT_TRUE(at::allclose(result_of(*head, features).logits,
                           at::mm(features, projection_of(*head).t())));
}

TEST(MonoForward, HasAMatrixAndNothingElse) {
  const std::vector<std::string> expected = {"projection.weight"};
  EXPECT_EQ(mono_forward({5})->named_parameters().keys(), expected);
  EXPECT_EQ(projection_of(*mono_forward({5})).sizes().vec(),
            (SampleShape{3, 5}));
}

TEST(MonoForward, TeachesTheLayerByTheErrorOfItsGoodness) {
  const auto head = mono_forward({5});
  const at::Tensor features = features_of({5});
  const HeadResult result = result_of(*head, features);
  result.loss.backward();
  const at::Tensor expected =
      at::mm(error_at(result.logits.detach()), projection_of(*head).detach());
  EXPECT_TRUE(at::allclose(features.grad(), expected, 1e-5, 1e-7));
}

TEST(MonoForward, TeachesItsMatrixByTheErrorOfItsGoodness) {
  const auto head = mono_forward({5});
  const at::Tensor features = features_of({5});
  const HeadResult result = result_of(*head, features);
  result.loss.backward();
  const at::Tensor expected =
      at::mm(error_at(result.logits.detach()).t(), features.detach());
  EXPECT_TRUE(at::allclose(projection_of(*head).grad(), expected, 1e-5, 1e-7));
}

TEST(MonoForward, WhatIsAddedToAllClassesAlikeChangesNothing) {
  const auto head = mono_forward({5});
  const at::Tensor features = features_of({5}).detach();
  const double before = result_of(*head, features).loss.item<double>();
  projection_of(*head).detach().add_(0.5);
  EXPECT_NEAR(result_of(*head, features).loss.item<double>(), before, 1e-5);
}

TEST(MonoForward, ProjectsEveryPixelOfMaps) {
  const auto head = mono_forward({5, 4, 3});
  const at::Tensor features = features_of({5, 4, 3});
  EXPECT_TRUE(
      at::allclose(result_of(*head, features).logits,
                   at::mm(features.flatten(1), projection_of(*head).t())));
}

TEST(MonoForward, PoolSetsHowManyPixelsAreProjected) {
  EXPECT_EQ(projection_of(*mono_forward({5, 7, 7}, 2)).size(1), 5 * 2 * 2);
  EXPECT_EQ(projection_of(*mono_forward({5}, 2)).size(1), 5) << "no maps";
}

}  // namespace sluice::mono_forward_head_test
