// The graph with which a synthesizer has answered is that of its lesson where
// it has not learned in between: same bits, one forward less.
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "auxiliary_heads/heads.h"
#include "auxiliary_heads/predictors/predictors.h"
#include "lib/boundaries/policies/plug_ins.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::synthesizer_graph_test {

int& forwards() {
  static int count = 0;
  return count;
}

class CountedPredictor final : public Predictor {
 public:
  explicit CountedPredictor(std::shared_ptr<Predictor> synthesizer)
      : inner_(register_module("inner", std::move(synthesizer))) {}
  at::Tensor forward(const at::Tensor& features, const at::Tensor& labels,
                     const Pass& pass) override {
    ++forwards();
    return inner_->forward(features, labels, pass);
  }

 private:
  std::shared_ptr<Predictor> inner_;
};

MakePredictor configure_counted(Fields& fields) {
  return [make = configure_synthesizer(fields)](const BoundarySite& site) {
    return std::make_shared<CountedPredictor>(make(site));
  };
}

/// A policy at features [4, 5, 5], and its calls: maps, whose BatchNorm
/// moves statistics.
class SynthesizerGraph : public testing::Test {
 protected:
  SynthesizerGraph() {
    forwards() = 0;
    const ConfigNode none;
    Fields fields(&none, "boundary");
    BoundarySite site;
    site.features = {4, 5, 5};
    site.classes = 3;
    policy_ = find_row(policies(), "synthetic_gradient", "policy")
                  .make.configure(fields, {heads(), configure_counted})
                  .lower(site);
    for (const auto& [name, tensor] : policy_->learners())
      if (name.find("last") != std::string::npos)
        tensor.detach().normal_(0, 0.1, Pass{}.generator("last"));
  }

  BatchContext context(std::int64_t batch) {
    features_ = {at::randn({6, 4, 5, 5}, Pass{.batch = batch}.generator("h"))};
    above_ = {at::randn({6, 4, 5, 5}, Pass{.batch = batch}.generator("g"))};
    return {.batch = batch,
            .features = features_,
            .labels = labels_,
            .from_above = above_};
  }
  at::Tensor signal(std::int64_t batch) {
    return policy_->signal(context(batch)).gradients[0];
  }
  Lesson learn(std::int64_t batch) { return policy_->learn(context(batch)); }
  void step(const Lesson& lesson) {
    const at::NoGradGuard no_grad;
    const NamedTensors learners = policy_->learners();
    for (std::size_t i = 0; i < learners.size(); ++i)
      learners[i].second.variable_data().sub_(lesson.gradients[i], 0.01);
  }

  std::unique_ptr<Lower> policy_;
  Tensors features_;
  Tensors above_;
  at::Tensor labels_ = at::arange(6).remainder(3);
};

TEST_F(SynthesizerGraph, IsThatOfTheSignal) {
  const Lesson fresh = learn(0);
  EXPECT_EQ(forwards(), 1);
  const at::Tensor answer = signal(0);
  EXPECT_FALSE(answer.requires_grad());
  const Lesson kept = learn(0);
  EXPECT_EQ(forwards(), 2);
  EXPECT_TRUE(kept.loss.equal(fresh.loss));
  EXPECT_GT(kept.loss.item<double>(), 0);
  for (std::size_t i = 0; i < fresh.gradients.size(); ++i)
    EXPECT_TRUE(kept.gradients[i].equal(fresh.gradients[i])) << i;
}

TEST_F(SynthesizerGraph, IsForgottenWhenItHasLearnedInBetween) {
  signal(1);
  step(learn(0));
  const Lesson late = learn(1);
  EXPECT_EQ(forwards(), 3);
  const Lesson fresh = learn(1);
  EXPECT_TRUE(late.loss.equal(fresh.loss));
}

TEST_F(SynthesizerGraph, RunsAgainWhereLessonsComeTurnsLater) {
  signal(0);
  for (std::int64_t batch = 1; batch < 5; ++batch) {
    signal(batch);
    step(learn(batch - 1));
  }
  EXPECT_EQ(forwards(), 9);
}

NamedTensors trained(int target_delay) {
  Training training(small_experiment(
      "blocks = ['0', '1-']\nmodel = {name = 'conv3', channels = 8}\n"
      "optimizer = {lr = 0.01}\nboundary = {policy = 'synthetic_gradient', "
      "target_delay = " +
      std::to_string(target_delay) + ", synthesizer = {hidden = 1}}\n"));
  training.train();
  return training.weights();
}

std::int64_t batches_seen(int target_delay) {
  for (const auto& [name, tensor] : trained(target_delay))
    if (name == "synthesizers.0.norm1.num_batches_tracked")
      return tensor.item<std::int64_t>();
  return -1;
}

TEST_F(SynthesizerGraph, MovesStatisticsOnceForABatch) {
  EXPECT_EQ(batches_seen(0), 20);
  EXPECT_EQ(batches_seen(1), 40) << "twice where it must run again";
}

}  // namespace sluice::synthesizer_graph_test
