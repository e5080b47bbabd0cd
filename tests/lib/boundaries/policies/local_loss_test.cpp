// The invariants of greedy local losses: what reaches a block, and what can't.
// Labels L1-L8 and B1-B6 are those of the specification.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "lib/base/messages/memory_channel.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/pack.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::local_loss_test {

constexpr const char* kMlp =
    "blocks = ['0', '1', '2-']\n"
    "model = {name = 'mlp', hidden = [48, 40], batch_norm = true, dropout = "
    "0.25}\n";
constexpr const char* kGreedy =
    "boundary = {policy = 'local_loss', head = {name = 'predsim'}}\n";
constexpr const char* kBackprop = "boundary = {policy = 'backprop'}\n";
constexpr const char* kRate = "optimizer = {lr = 0.05, momentum = 0.9}\n";

Experiment experiment_of(const std::string& boundary, int turns) {
  return small_experiment("turns = " + std::to_string(turns) + "\n" + kMlp +
                          boundary + kRate);
}

NamedTensors gradients_of(Seat& worker) {
  NamedTensors named;
  for (std::size_t i = 0; i < worker.gradients().size(); ++i)
    named.emplace_back(std::to_string(i), worker.gradients()[i]);
  return named;
}

/// The gradients of block 1 after one turn, when the weights above it have been
/// moved before.
NamedTensors gradients_below_moved_weights(const std::string& boundary,
                                           double by) {
  Training training(experiment_of(boundary, 1));
  const at::NoGradGuard no_grad;
  for (int block = 2; block <= 3; ++block)
    for (auto& [name, weight] : training.block(block).weights())
      if (weight.is_floating_point()) at::Tensor(weight).mul_(1 + by);
  {
    const at::AutoGradMode with_grad(true);
    training.train();
  }
  return gradients_of(training.block(1));
}

TEST(LocalLoss, L3_WeightsAboveNeverChangeTheGradient) {
  EXPECT_EQ(difference(gradients_below_moved_weights(kGreedy, 0),
                       gradients_below_moved_weights(kGreedy, 0.5)),
            "");
}

TEST(Backprop, L3_WeightsAboveChangeTheGradient) {
  EXPECT_NE(difference(gradients_below_moved_weights(kBackprop, 0),
                       gradients_below_moved_weights(kBackprop, 0.5)),
            "");
}

/// A head that gets other labels.
class MislabellingPolicy final : public Lower {
 public:
  explicit MislabellingPolicy(std::unique_ptr<Lower> policy)
      : policy_(std::move(policy)) {}
  Traits traits() const override { return policy_->traits(); }
  Signal signal(const BatchContext& context) override {
    const at::Tensor labels = (context.labels + 1).remainder(10);
    return policy_->signal({.turn = context.turn,
                            .batch = context.batch,
                            .features = context.features,
                            .labels = labels,
                            .from_above = context.from_above,
                            .pass = context.pass});
  }
  NamedTensors parameters() const override { return policy_->parameters(); }
  NamedTensors buffers() const override { return policy_->buffers(); }

 private:
  std::unique_ptr<Lower> policy_;
};

TEST(LocalLoss, B2_LabelsOfAHeadChangeTheGradientsOfItsBlockOnly) {
  Experiment experiment = experiment_of(kGreedy, 1);
  Training right(experiment);
  right.train();
  MakeLower& make = experiment.phases[0][1].make.lower;
  make = [make](const BoundarySite& site) {
    return std::make_unique<MislabellingPolicy>(make(site));
  };
  Training wrong(experiment);
  wrong.train();
  const auto changed = [&](int block) {
    return !difference(gradients_of(right.block(block)),
                       gradients_of(wrong.block(block)))
                .empty();
  };
  EXPECT_FALSE(changed(1));
  EXPECT_TRUE(changed(2));
  EXPECT_FALSE(changed(3));
}

/// Block 1 of the experiment alone: nothing above it exists.
std::unique_ptr<Seat> lone_block(const Experiment& experiment,
                                 Receiver** received) {
  static constexpr std::size_t kRoom = 1000;
  static std::vector<Link> ends;  // keep the far ends alive
  auto [mine, theirs] = memory_link(kRoom, kRoom, std::chrono::seconds(10));
  *received = theirs.receiver.get();
  ends.push_back(std::move(theirs));
  return make_seat(experiment, 1, {.above = std::move(mine)}, nullptr, {});
}

TEST(LocalLoss, B6_BlocksAboveCanBeDeleted) {
  const Experiment experiment = experiment_of(kGreedy, 20);
  Training whole(experiment);
  whole.train();
  Receiver* above = nullptr;
  const auto alone = lone_block(experiment, &above);
  const Grant grant{.end_turn = 20};
  for (const Action& action : actions_of(experiment.plans[0].blocks[0], grant))
    alone->execute(action);
  EXPECT_EQ(difference(alone->weights(), whole.block(1).weights()), "");
}

TEST(LocalLoss, L4_WhatIsPassedUpIsFromBeforeTheUpdate) {
  const Experiment experiment = experiment_of(kGreedy, 1);
  Receiver* above = nullptr;
  const auto block = lone_block(experiment, &above);
  block->execute({Op::forward, 0, 0});
  const at::Tensor expected = unpack(*above->receive(), "h")[0].clone();

  Receiver* later = nullptr;
  const auto same = lone_block(experiment, &later);
  for (const Op kind : {Op::forward, Op::backward, Op::update})
    same->execute({kind, 0, 0});
  EXPECT_TRUE(unpack(*later->receive(), "h")[0].equal(expected));
  same->execute({Op::forward, 0, 1});
  EXPECT_FALSE(unpack(*later->receive(), "h")[0].equal(expected))
      << "the update changed nothing";
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

TEST(LocalLoss, SeveralBlocksAreNotBackprop) {
  const std::string rest =
      std::string("blocks = 2\nmodel = {hidden = [48, 40]}\n") + kRate;
  const NamedTensors backprop = trained(rest + kBackprop);
  EXPECT_GT(distance(backprop, trained(rest + kGreedy)), 1e-3);
}

std::string blend(double backprop, double local) {
  return "boundary = {policy = 'blend', sources = [{policy = 'backprop', "
         "weight "
         "= " +
         std::to_string(backprop) +
         "}, {policy = 'local_loss', head = {name = 'linear'}, weight = " +
         std::to_string(local) + "}]}\n";
}
constexpr const char* kLinear =
    "boundary = {policy = 'local_loss', head = {name = 'linear'}}\n";

/// The weights of the layers: heads exist in only one of two methods.
NamedTensors layers_of(NamedTensors all) {
  std::erase_if(all, [](const auto& named) {
    return !named.first.starts_with("layers.");
  });
  return all;
}

TEST(Blend, BlendOfBackpropAloneIsBackprop) {
  const std::string rest = std::string(kMlp) + kRate;
  EXPECT_EQ(difference(layers_of(trained(rest + blend(1, 0))),
                       trained(rest + kBackprop)),
            "");
}

TEST(Blend, BlendOfALocalLossAloneIsThatLocalLoss) {
  const std::string rest = std::string(kMlp) + kRate;
  EXPECT_EQ(difference(trained(rest + blend(0, 1)), trained(rest + kLinear)),
            "");
}

TEST(Blend, IsCutWithoutBackprop) {
  EXPECT_FALSE(small_experiment(kMlp + blend(0, 1))
                   .plans[0]
                   .blocks[0]
                   .gradients.from_above);
  EXPECT_TRUE(small_experiment(kMlp + blend(0.5, 1))
                  .plans[0]
                  .blocks[0]
                  .gradients.from_above);
}

/// Two blocks, so that the blend is linear in its sources.
NamedTensors first_gradient(const std::string& boundary) {
  Training training(small_experiment(
      "turns = 1\nblocks = 2\nmodel = {hidden = [48]}\n" + boundary + kRate));
  training.train();
  NamedTensors gradients = gradients_of(training.block(1));
  gradients.resize(2);  // of the block's own weight and bias
  return gradients;
}

TEST(Blend, IsTheWeightedSumOfItsSources) {
  const NamedTensors local = first_gradient(kLinear);
  NamedTensors expected = first_gradient(kBackprop);
  EXPECT_GT(distance(expected, local), 1e-3);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i].second = 0.75 * expected[i].second + 0.5 * local[i].second;
  EXPECT_LT(distance(expected, first_gradient(blend(0.75, 0.5))), 1e-6);
}

}  // namespace sluice::local_loss_test
