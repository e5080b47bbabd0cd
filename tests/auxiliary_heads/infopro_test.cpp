#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "auxiliary_heads/contrast.h"
#include "lib/base/error.h"
#include "modules/models.h"
#include "tests/auxiliary_heads/boundary_site.h"

namespace sluice::infopro_test {

using at::Tensor;

const Model& model() {
  static const Model resnet = make_model("resnet20", {{2, 9, 7}, 3});
  return resnet;
}

/// Site with maps [16, 9, 7], as block k of K.
BoundarySite site_at(std::int64_t block = 1, std::int64_t blocks = 2) {
  BoundarySite site = site_of({16, 9, 7});
  site.block = block;
  site.blocks = blocks;
  site.model = &model();
  return site;
}

ConfigNode pair_of(double first, double last) {
  ConfigNode::Array values;
  values.emplace_back().value = first;
  values.emplace_back().value = last;
  return ConfigNode{.value = values};
}

ConfigNode options_of(const ConfigNode& lambda1, const ConfigNode& lambda2,
                      const std::string& objective) {
  ConfigNode options;
  options.set("lambda1", lambda1);
  options.set("lambda2", lambda2);
  options.set("objective", ConfigNode{.value = objective});
  return options;
}

Tensor image() {
  return at::sigmoid(features_of({2, 9, 7}, "image").detach());
}

HeadResult run(Head& head, const Tensor& features) {
  return head.forward({features},
                      {.labels = six_labels(), .raw_input = image()});
}

/// Log of each pair's share, written out sample by sample.
double plain_contrast(const Tensor& rows, const std::vector<int>& labels,
                      double temperature) {
  const auto similarity = [&](std::int64_t i, std::int64_t j) {
    return (rows[i].dot(rows[j]) / (rows[i].norm() * rows[j].norm()))
               .item<double>() /
           temperature;
  };
  double sum = 0;
  const auto count = std::ssize(labels);
  for (std::int64_t i = 0; i < count; ++i) {
    double all = 0;
    for (std::int64_t j = 0; j < count; ++j)
      if (j != i) all += std::exp(similarity(i, j));
    double own = 0;
    int others = 0;
    for (std::int64_t j = 0; j < count; ++j) {
      if (j == i || labels[static_cast<std::size_t>(j)] !=
                        labels[static_cast<std::size_t>(i)])
        continue;
      own -= std::log(std::exp(similarity(i, j)) / all);
      ++others;
    }
    if (others > 0) sum += own / others;
  }
  return sum / static_cast<double>(count);
}

TEST(SupervisedContrast, IsTheFormulaOverAllPairs) {
  const Tensor rows = features_of({5}).to(at::kDouble);
  EXPECT_NEAR(supervised_contrast(rows, six_labels(), 0.5).item<double>(),
              plain_contrast(rows, {0, 1, 2, 0, 1, 0}, 0.5), 1e-12);
}

TEST(SupervisedContrast, GoesDownAlongItsGradient) {
  const Tensor rows = features_of({5});
  const Tensor before = supervised_contrast(rows, six_labels(), 0.5);
  before.backward();
  const Tensor moved = rows.detach() - 0.1 * rows.grad();
  EXPECT_LT(supervised_contrast(moved, six_labels(), 0.5).item<double>(),
            before.item<double>());
}

TEST(SupervisedContrast, WithoutTwoOfAClassIsZero) {
  const Tensor rows = features_of({5});
  const Tensor loss = supervised_contrast(rows, at::arange(6), 0.07);
  loss.backward();
  EXPECT_EQ(loss.item<double>(), 0);
  EXPECT_EQ(rows.grad().abs().max().item<double>(), 0);
  EXPECT_EQ(supervised_contrast(rows[0].view({1, 5}), at::arange(1), 0.07)
                .item<double>(),
            0);
}

TEST(InfoPro, WithoutReconstructionHasTheBitsOfItsClassifierAlone) {
  const auto infopro =
      make_head("infopro", site_at(),
                options_of(pair_of(0, 0), pair_of(1, 1), "cross_entropy"));
  const auto alone = make_head("1c2f", site_at());
  const Tensor one = features_of({16, 9, 7});
  const Tensor other = features_of({16, 9, 7});
  const HeadResult left = run(*infopro, one);
  const HeadResult right = run(*alone, other);
  left.loss.backward();
  right.loss.backward();
  EXPECT_TRUE(at::equal(left.loss, right.loss));
  EXPECT_TRUE(at::equal(one.grad(), other.grad()));
  EXPECT_FALSE(infopro->needs().raw_input);
}

TEST(InfoPro, ReconstructionChangesTheGradient) {
  const auto with =
      make_head("infopro", site_at(),
                options_of(pair_of(0.1, 0), pair_of(1, 1), "cross_entropy"));
  const auto alone = make_head("1c2f", site_at());
  const Tensor one = features_of({16, 9, 7});
  const Tensor other = features_of({16, 9, 7});
  run(*with, one).loss.backward();
  run(*alone, other).loss.backward();
  EXPECT_FALSE(at::allclose(one.grad(), other.grad()));
  EXPECT_TRUE(with->needs().raw_input);
}

TEST(InfoPro, RebuildsTheInputBehindAResize) {
  const auto head =
      make_head("infopro", site_at(),
                options_of(pair_of(2, 0), pair_of(0, 1), "contrast"));
  const Tensor features = features_of({16, 5, 4});  // of a smaller map
  const auto weights = head->named_parameters();
  Tensor x = at::upsample_bilinear2d(features, {9, 7}, true);
  x = at::conv2d(x, weights["decoder.conv1.weight"],
                 weights["decoder.conv1.bias"], 1, 1);
  x = at::relu(at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false));
  x = at::sigmoid(at::conv2d(x, weights["decoder.conv2.weight"],
                             weights["decoder.conv2.bias"], 1, 1));
  ASSERT_EQ(x.sizes(), image().sizes());
  const Tensor expected =
      -2 * (image() * x.log() + (1 - image()) * (1 - x).log()).mean();
  EXPECT_TRUE(at::allclose(run(*head, features).loss, expected, 1e-5, 1e-6));
}

TEST(InfoPro, SumsItsLosses) {
  const auto loss = [](const ConfigNode& lambda1, const ConfigNode& lambda2) {
    const auto head = make_head("infopro", site_at(),
                                options_of(lambda1, lambda2, "contrast"));
    return run(*head, features_of({16, 9, 7})).loss.item<double>();
  };
  const ConfigNode none = pair_of(0, 0);
  const ConfigNode one = pair_of(1, 1);
  EXPECT_NEAR(loss(pair_of(0.5, 0), pair_of(3, 0)),
              0.5 * loss(one, none) + 3 * loss(none, one), 1e-5);
}

TEST(InfoPro, WeightsGoLinearlyFromTheFirstHeadToTheLast) {
  const auto loss = [](std::int64_t block, const ConfigNode& lambda1,
                       const ConfigNode& lambda2) {
    const auto head = make_head("infopro", site_at(block, 5),
                                options_of(lambda1, lambda2, "contrast"));
    return run(*head, features_of({16, 9, 7})).loss.item<double>();
  };
  const ConfigNode none = pair_of(0, 0);
  const double rebuilt = loss(2, pair_of(1, 1), none);
  const double contrast = loss(2, none, pair_of(1, 1));
  EXPECT_NEAR(loss(2, pair_of(4, 1), pair_of(0, 3)), 3 * rebuilt + contrast,
              1e-5);
  const auto last =
      make_head("infopro", site_at(4, 5),
                options_of(pair_of(1, 0), pair_of(0, 1), "contrast"));
  EXPECT_FALSE(last->needs().raw_input);
}

TEST(InfoPro, AtASiteWhereBothWeightsAreZeroIsRefused) {
  EXPECT_THROW(make_head("infopro", site_at(),
                         options_of(pair_of(0, 1), pair_of(0, 1), "contrast")),
               UserError);
}

}  // namespace sluice::infopro_test
