#include "auxiliary_heads/heads.h"

#include <ostream>

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/addmm.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/auxiliary_heads/boundary_site.h"

namespace sluice::heads_test {

struct Case {
  std::string_view head;
  SampleShape features;
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.head << " on " << value.features.size() << "-d samples";
}

HeadResult run(Head& head, const at::Tensor& features) {
  return head.forward({features}, {.labels = labels_for(features)});
}

class HeadContract : public testing::TestWithParam<Case> {
 protected:
  BoundarySite site_ = site_of(GetParam().features);
  std::shared_ptr<Head> head_ = make_head(GetParam().head, site_);
  at::Tensor features_ = features_of(GetParam().features);

  /// Weights that no first step leaves at zero.
  void SetUp() override {
    for (at::Tensor& parameter : head_->parameters())
      parameter.detach().add_(0.1);
  }
};

TEST_P(HeadContract, LossIsAFiniteScalar) {
  const HeadResult result = run(*head_, features_);
  EXPECT_EQ(result.loss.dim(), 0);
  EXPECT_TRUE(result.loss.isfinite().item<bool>());
}

TEST_P(HeadContract, LogitsHaveAColumnPerClass) {
  std::vector<std::int64_t> expected = labels_for(features_).sizes().vec();
  expected.push_back(3);
  EXPECT_EQ(run(*head_, features_).logits.sizes().vec(), expected);
}

TEST_P(HeadContract, GradientReachesTheFeatures) {
  run(*head_, features_).loss.backward();
  EXPECT_GT(features_.grad().abs().max().item<double>(), 0);
}

/// Whether this is a bias before a norm, which takes its gradient away.
bool is_bias_before_norm(const std::string& name) {
  return name.ends_with(".bias") &&
         (name.find(".conv") != name.npos || name.find(".linear") != name.npos);
}

TEST_P(HeadContract, GradientReachesEveryParameter) {
  run(*head_, features_).loss.backward();
  for (const auto& item : head_->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    if (is_bias_before_norm(item.key())) continue;
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
  }
}

TEST_P(HeadContract, DetachedFeaturesTeachItTheSameAndGetNothing) {
  run(*head_, features_).loss.backward();
  const auto twin = make_head(GetParam().head, site_);
  for (at::Tensor& parameter : twin->parameters()) parameter.detach().add_(0.1);
  const at::Tensor detached = features_.detach();
  run(*twin, detached).loss.backward();
  for (std::size_t i = 0; i < head_->parameters().size(); ++i)
    EXPECT_TRUE(
        at::equal(twin->parameters()[i].grad(), head_->parameters()[i].grad()));
  EXPECT_FALSE(detached.grad().defined());
}

TEST_P(HeadContract, FeaturesAreNotWritten) {
  const at::Tensor before = features_.detach().clone();
  run(*head_, features_);
  EXPECT_TRUE(at::equal(features_, before));
}

TEST_P(HeadContract, SameSiteGivesTheSameWeights) {
  const auto one = make_head(GetParam().head, site_)->parameters();
  const auto other = make_head(GetParam().head, site_)->parameters();
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_TRUE(at::equal(one[i], other[i]));
}

TEST_P(HeadContract, AnotherLayerGivesOtherWeights) {
  BoundarySite above = site_;
  above.layer += 1;
  EXPECT_FALSE(
      at::equal(make_head(GetParam().head, site_)->parameters().back(),
                make_head(GetParam().head, above)->parameters().back()));
}

TEST_P(HeadContract, FeaturesWithoutAKnownShapeAreRefused) {
  EXPECT_THROW(make_head(GetParam().head, site_of({4, 4, 4, 4})), UserError);
}

INSTANTIATE_TEST_SUITE_P(
    Heads, HeadContract,
    testing::Values(Case{"linear", {8}}, Case{"linear", {8, 5, 4}},
                    Case{"predsim", {8}}, Case{"predsim", {8, 5, 4}},
                    Case{"predsim", {3, 5, 4}}, Case{"predsim", {8, 1, 1}},
                    Case{"mlp_sr", {8}}, Case{"mlp_sr", {8, 9, 6}},
                    Case{"mlp_sr", {8, 3, 2}}, Case{"conv", {8, 5, 4}},
                    Case{"conv", {8, 1, 1}}, Case{"full_conv", {8, 5, 4}},
                    Case{"1c2f", {8, 5, 4}}, Case{"mono_forward", {8}},
                    Case{"mono_forward", {8, 5, 4}},
                    Case{"vocabulary", {7, 8}}));

/// Features of a model of images whose layers pass tokens.
BoundarySite site_of_tokens(const SampleShape& features) {
  static const Model model{.layers = {},
                           .sample = {.shape = {3, 8, 8}, .classes = 3}};
  BoundarySite site = site_of(features);
  site.model = &model;
  return site;
}

TEST(Heads, HeadsOfTextsRefuseTokensOfImagesAndNameTheHeadForThem) {
  for (const char* head : {"vocabulary", "conv"}) {
    try {
      make_head(head, site_of_tokens({7, 8}));
      FAIL() << head << ": no error";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("there is the head 'linear'"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(LinearHead, ClassifiesTheMeanOfAnImagesTokens) {
  const auto head = make_head("linear", site_of_tokens({7, 8}));
  const at::Tensor tokens = features_of({7, 8});
  const auto parameters = head->named_parameters();
  const at::Tensor logits =
      at::addmm(parameters["classifier.bias"], tokens.detach().mean(1),
                parameters["classifier.weight"].t());
  const HeadResult result = head->forward({tokens}, {.labels = six_labels()});
  EXPECT_TRUE(at::equal(result.logits, logits));
}

TEST(LinearHead, IsTheLossOfALinearClassifier) {
  const BoundarySite site = site_of({5});
  const auto head = make_head("linear", site);
  const at::Tensor features = features_of({5});
  const auto parameters = head->named_parameters();
  const at::Tensor logits = at::addmm(parameters["classifier.bias"], features,
                                      parameters["classifier.weight"].t());
  EXPECT_TRUE(
      at::equal(run(*head, features).loss, site.loss(logits, six_labels())));
}

TEST(LinearHead, AveragesMapsToAPixelByDefault) {
  const auto head = make_head("linear", site_of({5, 4, 4}));
  const at::Tensor features = features_of({5, 4, 4});
  const at::Tensor averaged =
      features.detach().mean({2, 3}, /*keepdim=*/true).expand({6, 5, 4, 4});
  EXPECT_TRUE(at::allclose(run(*head, features).logits,
                           run(*head, averaged.contiguous()).logits));
}

TEST(LinearHead, PoolSetsTheNumberOfInputs) {
  ConfigNode options;
  options.set("pool", ConfigNode{.value = std::int64_t{2}});
  const auto head = make_head("linear", site_of({5, 7, 7}), options);
  EXPECT_EQ(head->named_parameters()["classifier.weight"].size(1), 5 * 2 * 2);
}

}  // namespace sluice::heads_test
