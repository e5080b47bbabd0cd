// Calls of a network with replicas: checkpoints, runs, evaluations, what is
// refused, and policies of one's own.
#include "tests/experiments/api/replica_network.h"

#include <memory>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/metrics/records.h"
#include "lib/replicas/replica_policy.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::replica_network_test {

using namespace replica_network;
using testing::AllOf;
using testing::HasSubstr;

constexpr Rules kDiloco = {"diloco",
                           "count = 2, policy = 'average', every = 4, outer_lr "
                           "= 0.7, outer_momentum = 0.9",
                           "boundary = {policy = 'delayed_gradient'}"};

class ReplicaNetwork : public testing::TestWithParam<const char*> {
 protected:
  NetworkOptions options(const Rules& rules = kDiloco) const {
    return options_of(experiment_, rules, GetParam());
  }
  const Experiment experiment_ = experiment_of(kDiloco);
  const Folder folder_;
};

TEST_P(ReplicaNetwork, GoesOnFromACheckpointBetweenTwoAverages) {
  Network through(options());
  train_on(experiment_, through, 10);
  Network first(options());
  train_on(experiment_, first, 6);
  const std::string saved = first.save(folder_.path());
  train_on(experiment_, first, 2);
  EXPECT_NE(difference(first.weights(), through.weights()), "");
  first.load(saved);
  EXPECT_EQ(first.turns(), 6);
  train_on(experiment_, first, 4);
  EXPECT_EQ(difference(first.weights(), through.weights()), "");
}

TEST_P(ReplicaNetwork, GoesOnWithARun) {
  Network through(options());
  train_on(experiment_, through, 10);
  NetworkOptions written = options();
  written.run.folder = folder_.path() + "/run";
  written.settings += "checkpoint.every_turns = 3\n";
  {
    Network first(written);
    train_on(experiment_, first, 7);
  }
  written.run.resume = true;
  Network again(written);
  EXPECT_EQ(again.turns(), 6);
  train_on(experiment_, again, 4);
  EXPECT_EQ(difference(again.weights(), through.weights()), "");
  again.finish();
  EXPECT_EQ(difference(again.weights(), through.weights()), "");
  EXPECT_THAT(complaint_of([&] { train_on(experiment_, again, 1); }),
              HasSubstr("has been finished"));
}

TEST_P(ReplicaNetwork, ARunGoesOnWithItsOwnReplicas) {
  NetworkOptions written = options();
  written.run.folder = folder_.path() + "/run";
  {
    Network first(written);
    train_on(experiment_, first, 2);
    first.save();
  }
  for (const char* replicas : {"count = 4, policy = 'average', every = 4, "
                               "outer_lr = 0.7, outer_momentum = 0.9",
                               "count = 2, policy = 'elastic'"}) {
    NetworkOptions other = options({"other", replicas, kDiloco.more});
    other.run = {.folder = written.run.folder, .resume = true};
    EXPECT_THAT(complaint_of([&] { Network net(other); }),
                AllOf(HasSubstr("replicas"), HasSubstr("initial_weights")))
        << replicas;
  }
}

TEST_P(ReplicaNetwork, EvaluationsDisturbNothing) {
  Network plain(options());
  train_on(experiment_, plain, 10);
  Network evaluated(options());
  const Batch batch = turn_of(experiment_, 100);
  for (int i = 0; i < 10; ++i) {
    train_on(experiment_, evaluated, 1);
    evaluated.evaluate(batch.inputs, batch.labels);
  }
  EXPECT_EQ(difference(evaluated.weights(), plain.weights()), "");
}

TEST_P(ReplicaNetwork, LoadsCheckpointsOfItsOwnReplicasAlone) {
  Network first(options());
  train_on(experiment_, first, 2);
  const std::string saved = first.save(folder_.path());
  for (const char* count : {"count = 1", "count = 4", "count = [2, 1]"}) {
    const Rules rules{"other", count};
    Network other(options(rules));
    EXPECT_THAT(complaint_of([&] { other.load(saved); }),
                AllOf(HasSubstr("replicas.count = 2, and here it is"),
                      HasSubstr("initial_weights")))
        << count;
  }
  Network elastic(
      options({"elastic", "count = 2, policy = 'elastic'", kDiloco.more}));
  EXPECT_THAT(complaint_of([&] { elastic.load(saved); }),
              HasSubstr("saved with other keys of [replicas]"));
}

TEST_P(ReplicaNetwork, FiguresOfAStepAreMeansOverTheReplicas) {
  Network net(options({"average", "count = 2, policy = 'average', every = 9"}));
  train_on(experiment_, net, 2);
  const Batch batch = turn_of(experiment_, 2);
  const Step step = net.step(batch.inputs, batch.labels);
  const auto one = step.record(2, 1).read<records::Train>();
  const auto two = step.record(2, 2).read<records::Train>();
  EXPECT_EQ(two.replica, 2);
  EXPECT_NE(one.loss, two.loss);
  EXPECT_DOUBLE_EQ(step.loss(), (*one.loss + *two.loss) / 2);
}

INSTANTIATE_TEST_SUITE_P(Engines, ReplicaNetwork,
                         testing::Values("virtual", "threads"));

TEST(ReplicaNetworks, ABatchThatCantBeDealtOutEquallyIsRefused) {
  const Experiment experiment = experiment_of(kDiloco);
  Network net(options_of(experiment, kDiloco, "virtual"));
  const Batch batch = turn_of(experiment, 0);
  EXPECT_THAT(complaint_of([&] {
                net.step(batch.inputs.narrow(0, 0, 7),
                         batch.labels.narrow(0, 0, 7));
              }),
              HasSubstr("7 samples can't be dealt out equally to 2 replicas"));
  train_on(experiment, net, 1);  // it has changed nothing
  EXPECT_EQ(net.turns(), 1);
}

/// What making a network with such replicas complains about.
std::string complaint_about(const char* replicas) {
  const Experiment experiment = experiment_of(kDiloco);
  const Rules rules{"refused", replicas};
  return complaint_of(
      [&] { Network(options_of(experiment, rules, "threads")); });
}

TEST(ReplicaNetworks, KeysOfReplicasWithClocksOfTheirOwnAreRefused) {
  for (const char* keys :
       {"count = 4, start_with = 2", "count = 2, deal = 'arrival'",
        "count = 2, backup = 1", "count = 2, policy = 'average', quorum = 1",
        "count = 2, policy = 'server', softsync = 2",
        "count = 2, policy = 'server', push = 'movement', every = [1, 2]"})
    EXPECT_THAT(complaint_about(keys), HasSubstr("clocks of their own"))
        << keys;
}

TEST(ReplicaNetworks, KeysThatOnlyARunKnowsAreRefused) {
  EXPECT_THAT(complaint_about("count = 2, group = 'mpi'"),
              HasSubstr("under mpirun"));
  EXPECT_THAT(
      complaint_about("count = 4, policy = 'neighbours', adopt_every = 1"),
      HasSubstr("set turns_per_epoch"));
}

/// Means as those of `average`, times a number.
class OwnMean final : public ReplicaPolicy {
 public:
  explicit OwnMean(double factor) : factor_(factor) {}
  Tensors combine(const Tensors& /*mine*/, Mixture mixture) override {
    for (at::Tensor& mean : mixture.mean) mean.mul_(factor_);
    return std::move(mixture.mean);
  }

 private:
  const double factor_;
};

ReplicaKind own_mean(Fields& fields) {
  ReplicaKind kind{
      .exchange = {.what = ExchangedTensors::weights, .agrees = true}};
  double factor = 1;
  fields.key("factor", factor, {.text = "of the mean"});
  kind.make = [factor](const NamedTensors& /*parameters*/,
                       const ReplicaSite& /*site*/) -> ReplicaRules {
    return {.policy = std::make_shared<OwnMean>(factor)};
  };
  return kind;
}

NamedTensors trained_with_own_mean(const char* replicas) {
  const Rules rules{"own", replicas};
  const Experiment experiment = experiment_of(kDiloco);
  NetworkOptions options = options_of(experiment, rules, "threads");
  options.replica_policies = {{"own_mean", "a mean", own_mean}};
  Network net(options);
  train_on(experiment, net, kTurns);
  return net.weights();
}

TEST(ReplicaNetworks, APolicyOfOnesOwnHasTheBitsOfOursThatDoesTheSame) {
  const NamedTensors ours =
      trained_with_own_mean("count = 2, policy = 'average'");
  EXPECT_EQ(
      difference(trained_with_own_mean("count = 2, policy = 'own_mean'"), ours),
      "");
  EXPECT_NE(difference(trained_with_own_mean(
                           "count = 2, policy = 'own_mean', factor = 0.9"),
                       ours),
            "");
}

TEST(ReplicaNetworks, APolicyOfOnesOwnHasANameOfItsOwnAndAMaker) {
  const Experiment experiment = experiment_of(kDiloco);
  NetworkOptions options = options_of(experiment, kDiloco, "virtual");
  options.replica_policies = {{"average", "mine", own_mean}};
  EXPECT_THAT(complaint_of([&] { Network net(options); }),
              HasSubstr("replica policy 'average' is there already"));
  options.replica_policies = {{"own_mean", "mine", nullptr}};
  EXPECT_THAT(complaint_of([&] { Network net(options); }),
              HasSubstr("'own_mean': its row has nothing that makes it"));
}

}  // namespace sluice::replica_network_test
