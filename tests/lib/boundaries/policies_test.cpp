// Every policy by itself: its ends are given tensors, and no run is around
// them.
#include <algorithm>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "auxiliary_heads/predictors/predictors.h"
#include "lib/boundaries/policies/plug_ins.h"
#include "tests/auxiliary_heads/boundary_site.h"

namespace sluice::policies_test {

ConfigNode table(ConfigNode::Table entries) {
  return {.value = std::move(entries)};
}

ConfigNode source(const char* policy) {
  return table(
      {{"policy", {.value = std::string(policy)}}, {"weight", {.value = 0.5}}});
}

/// Keys that a policy must have said, or that make its case clearer.
ConfigNode options_for(std::string_view policy) {
  if (policy == "fully_decoupled") return table({{"beta", {.value = 0.5}}});
  if (policy != "blend") return table({});
  return table({{"sources",
                 {.value = ConfigNode::Array{source("backprop"),
                                             source("local_loss")}}}});
}

/// Boundary 1 of 2, below it features [6, 4], and what has come for a batch.
struct Boundary {
  explicit Boundary(const PolicyRow& row) {
    const ConfigNode options = options_for(row.name);
    Fields fields(&options, "boundary");
    const MakeBoundary make = row.make.configure(
        fields, {heads(), configure_synthesizer, configure_input_model});
    lower = make.lower(site);
    upper = make.upper(site);
  }

  Signal signal() {
    const bool is_taken = lower->traits().from_above && !lower->traits().cut;
    return lower->signal({.features = features,
                          .labels = labels,
                          .from_above = is_taken ? from_above : Tensors{},
                          .pass = {.seed = 11}});
  }

  BoundarySite site = site_of({4});
  Tensors features = {features_of({4})};
  at::Tensor labels = six_labels();
  Tensors from_above = {at::randn({6, 4}, Pass{}.generator("from above"))};
  std::unique_ptr<Lower> lower;
  std::unique_ptr<Upper> upper;
};

class EachPolicy : public testing::TestWithParam<PolicyRow> {};

TEST_P(EachPolicy, GivesAGradientForEachFeature) {
  Boundary boundary(GetParam());
  const Signal signal = boundary.signal();
  ASSERT_EQ(signal.gradients.size(), 1U);
  EXPECT_EQ(signal.gradients[0].sizes(), boundary.features[0].sizes());
  EXPECT_TRUE(signal.gradients[0].isfinite().all().item<bool>());
  EXPECT_FALSE(signal.gradients[0].requires_grad());
  EXPECT_EQ(signal.parameter_gradients.size(),
            boundary.lower->parameters().size());
}

TEST_P(EachPolicy, TakesAGradientFromAboveOrIsACut) {
  const Traits traits = Boundary(GetParam()).lower->traits();
  EXPECT_TRUE(traits.from_above || traits.cut);
  EXPECT_GE(traits.delay, 0);
}

TEST_P(EachPolicy, LeavesWhatItIsGivenAsItWas) {
  Boundary boundary(GetParam());
  const at::Tensor features = boundary.features[0].detach().clone();
  const at::Tensor from_above = boundary.from_above[0].clone();
  boundary.signal();
  EXPECT_TRUE(boundary.features[0].equal(features));
  EXPECT_TRUE(boundary.from_above[0].equal(from_above));
}

TEST_P(EachPolicy, TakesThePayloadFromBelowAtItsUpperEnd) {
  Boundary boundary(GetParam());
  const at::Tensor given = at::ones({6, 4});
  const Payload payload = boundary.upper->inputs(
      {}, [&] { return Payload{.features = {given}, .labels = six_labels()}; });
  ASSERT_EQ(payload.features.size(), 1U);
  EXPECT_TRUE(payload.features[0].equal(given));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, EachPolicy, testing::ValuesIn(policies().begin(), policies().end()),
    [](const auto& info) { return std::string(info.param.name); });

/// That times the gradient from above is the signal.
double scale_of(std::string_view policy) {
  Boundary boundary(find_row(policies(), policy, "policy"));
  const at::Tensor signal = boundary.signal().gradients[0];
  const double scale = (signal / boundary.from_above[0]).mean().item<double>();
  EXPECT_TRUE(signal.allclose(boundary.from_above[0] * scale)) << policy;
  return scale;
}

TEST(Policies, FromAbovePassTheGradientTimesTheirScale) {
  EXPECT_EQ(scale_of("backprop"), 1);
  EXPECT_EQ(scale_of("delayed_gradient"), 1);
  EXPECT_EQ(scale_of("features_replay"), 1);
  EXPECT_EQ(scale_of("fully_decoupled"), 0.5);
}

at::Tensor signal_of(std::string_view policy) {
  return Boundary(find_row(policies(), policy, "policy")).signal().gradients[0];
}

TEST(Policies, ABlendIsTheWeightedSumOfItsSources) {
  const at::Tensor sum =
      0.5 * signal_of("backprop") + 0.5 * signal_of("local_loss");
  EXPECT_TRUE(signal_of("blend").allclose(sum));
}

TEST(Policies, ASynthesizerThatHasNotLearnedSaysZero) {
  EXPECT_FALSE(signal_of("synthetic_gradient").any().item<bool>());
}

TEST(Policies, AProjectionIsAFunctionOfTheLabel) {
  const at::Tensor signal = signal_of("target_projection");
  EXPECT_TRUE(signal[0].equal(signal[3]));  // both are of label 0
  EXPECT_FALSE(signal[0].equal(signal[1]));
}

}  // namespace sluice::policies_test
