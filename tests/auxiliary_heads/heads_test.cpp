#include "auxiliary_heads/heads.h"

#include <ostream>

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/addmm.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/auxiliary_heads/site.h"

namespace sluice {
namespace {

struct Case {
  std::string_view head;
  SampleShape features;
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.head << " on " << value.features.size() << "-d samples";
}

HeadResult run(Head& head, const at::Tensor& features) {
  return head.forward({features}, six_labels(), {});
}

class HeadContract : public testing::TestWithParam<Case> {
 protected:
  Site site_ = site_of(GetParam().features);
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
  EXPECT_EQ(run(*head_, features_).logits.sizes().vec(),
            (std::vector<std::int64_t>{6, 3}));
}

TEST_P(HeadContract, GradientReachesTheFeatures) {
  run(*head_, features_).loss.backward();
  EXPECT_GT(features_.grad().abs().max().item<double>(), 0);
}

TEST_P(HeadContract, GradientReachesEveryParameter) {
  run(*head_, features_).loss.backward();
  for (const auto& item : head_->named_parameters())
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
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
  Site above = site_;
  above.layer += 1;
  EXPECT_FALSE(
      at::equal(make_head(GetParam().head, site_)->parameters().front(),
                make_head(GetParam().head, above)->parameters().front()));
}

TEST_P(HeadContract, FeaturesWithoutAKnownShapeAreRefused) {
  EXPECT_THROW(make_head(GetParam().head, site_of({4, 4})), UserError);
}

INSTANTIATE_TEST_SUITE_P(
    Heads, HeadContract,
    testing::Values(Case{"linear", {8}}, Case{"linear", {8, 5, 4}},
                    Case{"predsim", {8}}, Case{"predsim", {8, 5, 4}},
                    Case{"predsim", {3, 5, 4}}, Case{"predsim", {8, 1, 1}}));

TEST(LinearHead, IsTheLossOfALinearClassifier) {
  const Site site = site_of({5});
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

TEST(Heads, AnUnknownOptionIsRefused) {
  ConfigNode options;
  options.set("poool", ConfigNode{.value = std::int64_t{2}});
  EXPECT_THROW(make_head("linear", site_of({5}), options), UserError);
}

}  // namespace
}  // namespace sluice
