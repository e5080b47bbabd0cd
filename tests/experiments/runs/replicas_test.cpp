// Replicas of blocks, as networks train by them.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runs/seats/assembly.h"
#include "lib/base/error.h"
#include "lib/metrics/record.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/simulation/costs.h"
#include "tests/experiments/helpers/trained_replicas.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::replicas_test {

using replica_runs::parameters_of;
using replica_runs::trained;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kNet =
    "blocks = ['0', '1-']\nbatch_size = 8\n"
    "model = {hidden = [24, 20], dropout = 0.2}\n";
constexpr const char* kMaps =
    "blocks = ['0', '1-']\nbatch_size = 8\n"
    "model = {name = 'conv3', channels = 8}\n";

std::string sgd(double lr) {
  return "optimizer = {name = 'sgd', momentum = 0.9, lr = " +
         std::to_string(lr) + "}\n";
}

std::string replicas(int count, const std::string& more = "") {
  return "replicas = {count = " + std::to_string(count) + more + "}\n";
}

std::string turns(int count) {
  return "turns = " + std::to_string(count) + "\n";
}

class ExactMethods : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Replicas, ExactMethods,
    testing::Values("boundary.policy = 'backprop'\n",
                    "boundary = {policy = 'local_loss', head = {name = "
                    "'linear'}}\n",
                    "boundary.policy = 'local_loss'\noptimizer = {name = "
                    "'adamw', lr = 1e-3}\n",
                    "boundary.policy = 'target_projection'\n"));

// A sum in the order of the replicas is a sum in the order of the batches.
TEST_P(ExactMethods, ExactMethodsOfReplicasHaveTheBitsOfAccumulatedTurns) {
  for (const int count : {2, 3, 4}) {
    const auto together =
        trained(std::string(kNet) + GetParam() + replicas(count) + turns(6));
    const auto one =
        trained(std::string(kNet) + GetParam() + turns(6 * count) +
                "accumulate = {batches = " + std::to_string(count) +
                ", rule = 'mean'}\n");
    for (const NamedTensors& replica : together)
      EXPECT_EQ(difference(replica, one[0]), "") << count << " replicas";
  }
}

TEST_P(ExactMethods, ExactMethodsOfReplicasGoElsewhereThanOneReplica) {
  const std::string lines = std::string(kNet) + GetParam() + turns(6);
  EXPECT_GT(distance(trained(lines + replicas(2))[0], trained(lines)[0]), 1e-5);
}

std::string clip(const std::string& scope, const std::string& at = "update") {
  return "optimizer = {name = 'sgd', momentum = 0.9, lr = 0.05, clip = {norm "
         "= 0.1, scope = '" +
         scope + "', at = '" + at + "'}}\n";
}

TEST(Replicas, ThatClipByTheNormOfTheModelHaveTheBitsOfAccumulatedTurns) {
  const std::string net = std::string(kNet) + "boundary.policy = 'backprop'\n";
  for (const int count : {2, 3}) {
    const auto together =
        trained(net + clip("model") + replicas(count) + turns(6));
    const auto one =
        trained(net + clip("model") + turns(6 * count) +
                "accumulate = {batches = " + std::to_string(count) +
                ", rule = 'mean'}\n");
    for (const NamedTensors& replica : together)
      EXPECT_EQ(difference(replica, one[0]), "") << count << " replicas";
    const auto by_block =
        trained(net + clip("block") + replicas(count) + turns(6));
    EXPECT_GT(distance(together[0], by_block[0]), 1e-5);
  }
}

/// All batches are the same sample, so both replicas have the same share.
TEST(Replicas, ReplicasOfTheSameShareClipAsOneDoes) {
  const std::string net =
      "blocks = ['0', '1-']\nbatch_size = 1\nmodel = {hidden = [24, 20]}\n"
      "data = {train = 1, test = 16}\nboundary.policy = 'backprop'\n" +
      turns(6);
  for (const char* at : {"update", "replica"}) {
    const auto one = trained(net + clip("model", at));
    for (const char* policy : {"all_reduce", "average"})
      for (const NamedTensors& replica :
           trained(net + clip("model", at) +
                   replicas(2, std::string(", policy = '") + policy + "'")))
        EXPECT_EQ(difference(replica, one[0]), "") << policy << ", " << at;
    EXPECT_GT(distance(trained(net + clip("block", at))[0], one[0]), 1e-5);
  }
}

TEST(Replicas, ThatClipByTheNormOfTheModelDoSoInAnyOrder) {
  for (const char* at : {"update", "replica"}) {
    const std::string net = std::string(kNet) + clip("model", at) + turns(5) +
                            replicas(2) +
                            "pipeline.micro_batches = 4\npipeline.order = '";
    const auto plain = trained(net + "turns'\n");
    for (const char* order : {"gpipe", "1f1b"})
      EXPECT_EQ(difference(trained(net + order + "'\n")[0], plain[0]), "")
          << order << ", " << at;
  }
}

class Orders : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Replicas, Orders,
                         testing::Values("turns", "gpipe", "1f1b", "zb-h1"));

TEST_P(Orders, OrdersOfPipelinesChangeNoBitOfReplicas) {
  const std::string net = std::string(kNet) + turns(5) + replicas(2) +
                          "pipeline.micro_batches = 4\npipeline.order = '";
  const auto plain = trained(net + "turns'\n");
  const auto ordered = trained(net + GetParam() + "'\n");
  EXPECT_EQ(difference(ordered[0], plain[0]), "");
  EXPECT_EQ(difference(ordered[1], plain[1]), "");
}

class Policies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Replicas, Policies,
    testing::Values("policy = 'all_reduce'", "shard = true",
                    "policy = 'average', every = 2",
                    "policy = 'average', every = 2, outer_lr = 0.7, "
                    "outer_momentum = 0.9, outer_nesterov = true",
                    "policy = 'average', every = 2, outer_momentum = 0.5, "
                    "outer_per_rate = true",
                    "policy = 'average', every = 3, overlap = 2, mixing = "
                    "0.25, outer_momentum = 0.5",
                    "policy = 'gossip', graph = 'complete', pairs = true, mix "
                    "= 'after', every = 2, outer_lr = 0.7, outer_momentum = "
                    "0.3",
                    "policy = 'server', push = 'movement', every = 2, outer_lr "
                    "= 0.7, outer_momentum = 0.9, outer_every = 2",
                    "policy = 'elastic', every = 2", "policy = 'gossip'",
                    "policy = 'gossip', pairs = true",
                    "policy = 'gossip', graph = 'hops', rotate = true, mix = "
                    "'after'",
                    "policy = 'server', push = 'movement', every = 2, "
                    "per_update = true",
                    "policy = 'gossip', graph = 'random', mix = 'after', "
                    "push_sum = true",
                    "policy = 'neighbours'", "policy = 'server'",
                    "policy = 'shared'",
                    "policy = 'elastic', one_by_one = true"));

TEST_P(Policies, PoliciesOfOneReplicaHaveTheBitsOfNone) {
  const std::string net =
      std::string(kNet) + "boundary.policy = 'delayed_gradient'\n" + turns(8);
  EXPECT_EQ(
      difference(trained(net + replicas(1, std::string(", ") + GetParam()))[0],
                 trained(net)[0]),
      "");
}

TEST_P(Policies, GoWithDelaysAndAgreeOnWhatIsEvaluated) {
  for (const char* policy :
       {"delayed_gradient", "features_replay", "fully_decoupled"}) {
    const std::string net = std::string(kMaps) + "boundary.policy = '" +
                            policy + "'\n" + turns(8) +
                            (std::string(policy) == "features_replay"
                                 ? "boundary.statistics = 'forward'\n"
                                 : "");
    const auto both =
        trained(net + replicas(2, std::string(", ") + GetParam()));
    EXPECT_GT(distance(both[0], trained(net)[0]), 1e-5) << policy;
  }
}

TEST(Replicas, ThatAverageAfterEachUpdateAreSynchronous) {
  const std::string net = std::string(kNet) + turns(10) + sgd(0.05);
  const auto sums = trained(net + replicas(3));
  const auto means = trained(net + replicas(3, ", policy = 'average'"));
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_LT(distance(means[r], sums[r]), 1e-6);
    EXPECT_EQ(difference(means[r], means[0]), "");
  }
}

TEST(Replicas, DifferBetweenTwoAveragesAndAreEqualAfterOne) {
  const std::string net = std::string(kNet) + sgd(0.05);
  const std::string three = replicas(2, ", policy = 'average', every = 3");
  const auto between = trained(net + turns(5) + three);
  const auto after = trained(net + turns(6) + three);
  EXPECT_GT(distance(between[0], between[1]), 1e-5);
  EXPECT_EQ(difference(after[0], after[1]), "");
}

TEST(Replicas, MeetAfterEachUpdateBeforeTheyTrainAlone) {
  const std::string net = std::string(kNet) + sgd(0.05);
  const std::string four = ", policy = 'average', every = 4";
  const std::string alone = replicas(2, four);
  const std::string later = replicas(2, four + ", each_before = 3");
  const std::string each = replicas(2, ", policy = 'average'");
  EXPECT_EQ(difference(trained(net + turns(3) + later)[1],
                       trained(net + turns(3) + each)[1]),
            "");
  const auto between = trained(net + turns(7) + later);
  EXPECT_GT(distance(between[0], between[1]), 1e-5);
  const auto after = trained(net + turns(8) + later);
  EXPECT_EQ(difference(after[0], after[1]), "");
  EXPECT_GT(distance(after[0], trained(net + turns(8) + alone)[0]), 1e-5);
}

TEST(Replicas, ByAServerAreRefusedGradientsThatAreTooLate) {
  const std::string net = std::string(kNet) + turns(4) + sgd(0.05) +
                          replicas(3, ", policy = 'server'");
  EXPECT_NO_THROW(trained(net + "max_staleness = 2\n"));
  EXPECT_THAT([&] { trained(net + "max_staleness = 1\n"); },
              ThrowsMessage<Error>(
                  HasSubstr("2 steps of the other replicas old; max_staleness "
                            "is 1")));
}

TEST(Replicas, AtRateZeroStayWhereTheyWere) {
  for (const char* policy :
       {"", ", policy = 'average'", ", policy = 'elastic'"}) {
    const std::string net = std::string(kNet) + sgd(0);
    EXPECT_LT(distance(trained(net + turns(4) + replicas(2, policy))[1],
                       trained(net + turns(1))[0]),
              1e-7)
        << policy;
  }
}

TEST(Replicas, KeepStatisticsOfTheirOwn) {
  const auto both = trained(std::string(kMaps) + turns(4) + replicas(2));
  EXPECT_GT(distance(both[0], both[1]), 1e-5);
  EXPECT_EQ(difference(parameters_of(both[0]), parameters_of(both[1])), "");
}

TEST(Replicas, StaggeredAverageTheirBlocksOneAfterTheOther) {
  const auto both =
      trained(std::string(kNet) + sgd(0.05) + turns(4) +
              replicas(2, ", policy = 'average', every = 4, stagger = true"));
  // Block 2's own average came two updates ago.
  const auto of = [&](const char* name, std::size_t replica) {
    for (const auto& [each, tensor] : both[replica])
      if (each == name) return tensor;
    throw InternalError("no {}", name);
  };
  EXPECT_TRUE(
      of("layers.0.linear.weight", 0).equal(of("layers.0.linear.weight", 1)));
  EXPECT_FALSE(
      of("layers.1.linear.weight", 0).equal(of("layers.1.linear.weight", 1)));
}

constexpr const char* kDiLoCo =
    ", policy = 'average', every = 4, stagger = true, outer_lr = 0.7, "
    "outer_momentum = 0.9, outer_nesterov = true";

TEST(Replicas, ReplicasWhoseWeightsDoNotTravelHaveTheBitsOfDiLoCo) {
  const std::string net = std::string(kNet) + sgd(0.05) + turns(10);
  const auto with = [&](const std::string& more) {
    return trained(net + replicas(2, kDiLoCo + more));
  };
  const auto plain = with("");
  const auto same = with(", overlap = 0, mixing = 0.0");
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(difference(same[r], plain[r]), "");
    EXPECT_GT(distance(with(", overlap = 1")[r], plain[r]), 1e-5);
    EXPECT_GT(distance(with(", mixing = 0.5")[r], plain[r]), 1e-5);
  }
}

/// Grants end where an average is on its way.
TEST(Replicas, ReplicasWhoseWeightsTravelTrainAlikeWhateverIsEvaluated) {
  const std::string net =
      "data = {train = 64, test = 16}\n" + std::string(kNet) + sgd(0.05) +
      turns(13) +
      replicas(2, std::string(kDiLoCo) + ", overlap = 3, mixing = 0.25");
  const auto plain = trained(net + "evaluate_every = 0\n");
  for (const char* every : {"0.25", "0.5", "0.75"})
    EXPECT_EQ(difference(trained(net + "evaluate_every = " + every + "\n")[1],
                         plain[1]),
              "")
        << every;
}

TEST(Replicas, ReplicasThatSendAllOfTheirMovementsAreNotCompressed) {
  const std::string net = std::string(kNet) + sgd(0.05) + turns(8);
  const std::string average = ", policy = 'average', every = 2";
  const auto with = [&](const std::string& more) {
    return trained(net + replicas(3, average + more));
  };
  const auto dense = with("");
  const auto all = with(", compress = 'top_k', ratio = 1.0");
  const auto some = with(", compress = 'top_k', ratio = 0.05");
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(difference(all[r], dense[r]), "");
    EXPECT_GT(distance(some[r], dense[r]), 1e-5);
    EXPECT_EQ(difference(some[r], some[0]), "");
  }
  // Without error feedback, and with less of it.
  EXPECT_GT(distance(with(", compress = 'top_k', ratio = 0.05, error_feedback "
                          "= false")[0],
                     some[0]),
            1e-6);
  EXPECT_GT(distance(with(", compress = 'top_k', ratio = 0.05, error_decay = "
                          "0.5")[0],
                     some[0]),
            1e-6);
}

constexpr const char* kPairsOfAll =
    ", policy = 'gossip', graph = 'complete', pairs = true, mix = 'after', "
    "every = 3";

TEST(Replicas, ReplicasOfOnePairAreDiLoCoWithAHeavyBall) {
  const std::string net = std::string(kNet) + sgd(0.05) + turns(10);
  const std::string outer = ", outer_lr = 0.7, outer_momentum = 0.3";
  const auto pair = trained(net + replicas(2, kPairsOfAll + outer));
  const auto both =
      trained(net + replicas(2, ", policy = 'average', every = 3" + outer));
  for (std::size_t r = 0; r < 2; ++r)
    EXPECT_EQ(difference(pair[r], both[r]), "");
  EXPECT_GT(distance(trained(net + replicas(4, kPairsOfAll + outer))[0],
                     trained(net + replicas(4,
                                            ", policy = 'average', every = "
                                            "3" +
                                                outer))[0]),
            1e-5);
}

TEST(Replicas, ReplicasWithAPlainOuterStepHaveTheBitsOfGossip) {
  const std::string net = std::string(kNet) + sgd(0.05) + turns(10);
  const auto with = [&](const std::string& more) {
    return trained(net + replicas(4, kPairsOfAll + more));
  };
  const auto plain = with("");
  EXPECT_EQ(
      difference(with(", outer_lr = 1.0, outer_momentum = 0.0")[2], plain[2]),
      "");
  for (const char* other :
       {", outer_lr = 0.7", ", outer_momentum = 0.3", ", outer_pull = 0.5"})
    EXPECT_GT(distance(with(other)[2], plain[2]), 1e-5) << other;
}

TEST(Replicas, ReplicasOfAServerThatStepsByMovementsMayAddThemAsTheyAre) {
  const std::string net = std::string(kNet) + sgd(0.05) + turns(8);
  const auto with = [&](const std::string& more) {
    return trained(net + replicas(3,
                                  ", policy = 'server', push = 'movement', "
                                  "every = 2" +
                                      more));
  };
  const auto plain = with("");
  EXPECT_EQ(difference(with(", outer_lr = 1.0, outer_momentum = 0.0, "
                            "outer_every = 1")[1],
                       plain[1]),
            "");
  const auto delayed =
      with(", outer_lr = 0.7, outer_momentum = 0.5, outer_every = 3");
  EXPECT_GT(distance(delayed[1], plain[1]), 1e-5);
  EXPECT_GT(
      distance(with(", outer_lr = 0.7, outer_momentum = 0.5")[1], delayed[1]),
      1e-5);
}

TEST(Replicas, ReplicasOfAServerThatStepsByMovementsComeInTurnWithoutATime) {
  const std::string net =
      "blocks = 1\nbatch_size = 8\nmodel = {hidden = [24, 20]}\n" + sgd(0.05) +
      turns(8) +
      replicas(3,
               ", policy = 'server', push = 'movement', every = 2, outer_lr "
               "= 0.7, outer_momentum = 0.5, outer_every = 2");
  const auto lockstep = trained(net);
  const auto free = trained(net + "schedule = 'free'\n");
  for (std::size_t r = 0; r < 3; ++r)
    EXPECT_EQ(difference(free[r], lockstep[r]), "");
}

TEST(Replicas, ReplicasThatMakeAsManyUpdatesToAPushHaveTheBitsOfOneNumber) {
  const auto with = [](const std::string& every, const std::string& deal) {
    Costs costs{.jitter = 0.5, .seed = 5};
    for (const double slowness : {1.0, 1.6, 3.1})
      costs.blocks.push_back({.seconds = {{Op::forward, 1}, {Op::backward, 2}},
                              .slowness = slowness});
    return trained(
        "blocks = 1\nbatch_size = 8\nmodel = {hidden = [24, 20]}\n"
        "schedule = 'free'\n" +
            sgd(0.05) + turns(9) +
            replicas(3,
                     ", policy = 'server', push = 'movement', "
                     "outer_lr = 0.7, outer_momentum = 0.5, "
                     "outer_every = 3, every = " +
                         every + ", deal = '" + deal + "'"),
        costs);
  };
  for (const char* deal : {"shares", "arrival"}) {
    const auto fixed = with("3", deal);
    EXPECT_EQ(difference(with("[3, 3, 3]", deal)[1], fixed[1]), "") << deal;
    EXPECT_GT(distance(with("[3, 2, 1]", deal)[1], fixed[1]), 1e-5) << deal;
  }
}

/// SGD with that momentum, and maybe more keys.
std::string elastic_sgd(const char* momentum, const std::string& more = "") {
  return std::string("optimizer = {name = 'sgd', lr = 0.05, momentum = ") +
         momentum + more + "}\n";
}

TEST(Replicas, ReplicasThatLookAheadWithoutAMomentumAreThoseOfPlainElastic) {
  const std::string net =
      std::string(kNet) + turns(8) +
      replicas(2, ", policy = 'elastic', every = 2, one_by_one = true");
  const std::string ahead = ", look_ahead = true";
  EXPECT_EQ(difference(trained(net + elastic_sgd("0.0", ahead))[1],
                       trained(net + elastic_sgd("0.0"))[1]),
            "");
  EXPECT_GT(distance(trained(net + elastic_sgd("0.9", ahead))[1],
                     trained(net + elastic_sgd("0.9"))[1]),
            1e-5);
}

TEST(Replicas, OnTheCompleteGraphHaveTheBitsOfAnAverage) {
  const std::string net = std::string(kNet) + sgd(0.05) + turns(6);
  const auto means = trained(net + replicas(3, ", policy = 'average'"));
  const auto mixed =
      trained(net + replicas(3,
                             ", policy = 'gossip', graph = 'complete', mix = "
                             "'after'"));
  const auto early =
      trained(net + replicas(3, ", policy = 'gossip', graph = 'complete'"));
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(difference(mixed[r], means[r]), "");
    // Mixed before the update, replicas have steps of their own.
    EXPECT_GT(distance(early[r], means[r]), 1e-5);
  }
  EXPECT_GT(distance(early[0], early[1]), 1e-5);
}

TEST(Replicas, ReplicasOfAPushToWhichAllSendAlikeHaveTheBitsOfGossip) {
  const std::string net = std::string(kNet) + sgd(0.05) + turns(6);
  const std::string hops = ", policy = 'gossip', graph = 'hops', mix = 'after'";
  const auto plain = trained(net + replicas(4, hops));
  const auto pushed = trained(net + replicas(4, hops + ", push_sum = true"));
  for (std::size_t r = 0; r < 4; ++r)
    EXPECT_EQ(difference(pushed[r], plain[r]), "");
  const std::string random =
      ", policy = 'gossip', graph = 'random', mix = 'after', push_sum = true";
  EXPECT_GT(distance(trained(net + replicas(4, random))[0], plain[0]), 1e-5);
}

TEST(Replicas, ThatTheirNeighboursTeachStayEqualWhereAllAreNeighbours) {
  for (const int count : {2, 3, 4}) {
    const auto all = trained(std::string(kNet) + sgd(0.05) + turns(6) +
                             replicas(count, ", policy = 'neighbours'"));
    for (std::size_t r = 1; r < all.size(); ++r) {
      if (count <= 3) {
        EXPECT_EQ(difference(all[r], all[0]), "") << count;
      } else {
        EXPECT_GT(distance(all[r], all[0]), 1e-5) << count;
      }
    }
  }
}

/// Plain SGD with the sum of the gradients, whatever the order.
TEST(Replicas, ReplicasOfTwoThatAreNeighboursSumTheirGradients) {
  const auto at = [](const char* rate, const char* policy) {
    return trained(std::string(kNet) + turns(6) +
                   "optimizer = {name = 'sgd', lr = " + rate + "}\n" +
                   replicas(2, std::string(", policy = ") + policy));
  };
  const auto taught = at("0.05", "'neighbours'");
  EXPECT_LT(distance(taught[0], at("0.1", "'all_reduce'")[0]), 1e-5);
  EXPECT_GT(distance(taught[0], at("0.05", "'all_reduce'")[0]), 1e-4);
}

/// SGD whose gradients are corrected so.
std::string corrected_sgd(const std::string& correction) {
  return "optimizer = {name = 'sgd', lr = 0.05, correction = {" + correction +
         "}}\n";
}

TEST(Replicas, ReplicasOfAServerAreCorrectedByHowStaleTheirGradientsAre) {
  const std::string net =
      std::string(kNet) + turns(6) + replicas(3, ", policy = 'server'");
  const auto plain = trained(net + corrected_sgd("name = 'none'"));
  const auto compensated = [&](const char* strength) {
    return trained(net + corrected_sgd(std::string("name = 'delay_compensation'"
                                                   ", strength = ") +
                                       strength));
  };
  EXPECT_EQ(difference(compensated("0.0")[1], plain[1]), "");
  EXPECT_GT(distance(compensated("10.0")[1], plain[1]), 1e-6);
  EXPECT_GT(
      distance(trained(net + corrected_sgd("name = 'staleness_aware'"))[1],
               plain[1]),
      1e-5);
  EXPECT_GT(distance(plain[0], plain[1]), 1e-5);
}

/// How often block 1 of each replica counted a staleness, by (replica, d_upd).
class Staleness final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") != "staleness" || record.number("block", 0) != 1 ||
        record.text("counter") != "d_upd")
      return;
    counts[{record.number("replica", 0), record.number("value", -1)}] =
        record.number("times", 0);
  }
  std::map<std::pair<double, double>, double> counts;
};

TEST(Replicas, ReplicasOfAServerCountAsManyUpdatesAsThereAreOthers) {
  const auto sink = std::make_shared<Staleness>();
  Training(small_experiment(std::string(kNet) + turns(6) +
                            replicas(3, ", policy = 'server'")),
           sink)
      .train();
  const std::map<std::pair<double, double>, double> expected = {
      {{1, 0}, 1}, {{1, 2}, 5}, {{2, 1}, 1}, {{2, 2}, 5}, {{3, 2}, 6}};
  EXPECT_EQ(sink->counts, expected);
}

TEST(Replicas, ReplicasOfAServerThatAddsMovementsAreDownpourAndAgn) {
  const std::string net =
      std::string(kNet) + turns(6) + "optimizer = {name = 'sgd', lr = 0.05}\n";
  const auto of = [&](const std::string& keys) {
    return trained(net + replicas(3, ", policy = 'server'" + keys));
  };
  const auto gradients = of("");
  // AGN of one update is Downpour.
  EXPECT_LT(
      distance(of(", push = 'movement', per_update = true")[1], gradients[1]),
      1e-6);
  const std::string two = ", push = 'movement', every = 2";
  EXPECT_GT(distance(of(two + ", per_update = true")[1], of(two)[1]), 1e-4);
  EXPECT_GT(distance(of(two)[1], gradients[1]), 1e-4);
}

class Shards : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Replicas, Shards,
    testing::Values("boundary.policy = 'backprop'\n",
                    "boundary.policy = 'delayed_gradient'\n",
                    "boundary = {policy = 'delayed_gradient', weights = "
                    "'extrapolate'}\n",
                    "boundary.policy = 'local_loss'\n",
                    "boundary = {policy = 'delayed_gradient', weights = "
                    "'vertical_sync'}\n",
                    "boundary.policy = 'backprop'\ndrop_last = true\n"
                    "pipeline = {order = '1f1b', micro_batches = 4, flush = "
                    "false, weights = 'double_buffer'}\n",
                    "optimizer.clip.norm = 0.1\n", "accumulate.batches = 2\n",
                    "optimizer.clip = {norm = 0.1, scope = 'model'}\n",
                    "optimizer.clip = {norm = 0.1, at = 'replica'}\n",
                    "boundary.policy = 'delayed_gradient'\n"
                    "optimizer.correction.name = 'delay_compensation'\n",
                    "pipeline = {order = 'interleaved', executors = 1}\n"));

TEST_P(Shards, ChangeNoBit) {
  for (const int count : {2, 3})
    for (const char* net : {kNet, kMaps}) {
      const std::string lines = std::string(net) + turns(6) + GetParam() +
                                "optimizer.name = 'adamw'\n";
      const auto whole = trained(lines + replicas(count));
      const auto shards = trained(lines + replicas(count, ", shard = true"));
      for (std::size_t r = 0; r < whole.size(); ++r)
        EXPECT_EQ(difference(shards[r], whole[r]), "") << count;
    }
}

/// Where no time passes the replicas take turns, and none comes between the
/// forward and the update of another one.
TEST(Replicas, ThatShareTheirWeightsAndTakeTurnsHaveTheBitsOfOne) {
  const std::string net =
      std::string(kNet) + "optimizer = {name = 'sgd', lr = 0.05}\n";
  for (const int count : {2, 3}) {
    const auto one = trained(net + turns(6 * count));
    const auto all =
        trained(net + turns(6) + replicas(count, ", policy = 'shared'"));
    // The last one has just added the last update.
    EXPECT_EQ(difference(all.back(), one[0]), "") << count;
    EXPECT_GT(distance(all.front(), one[0]), 1e-5) << count;
  }
}

/// Where all are equally fast they read the same weights, and add to them one
/// after the other.
TEST(Replicas, ThatShareTheirWeightsAreLateWhereTimePasses) {
  const auto sink = std::make_shared<Staleness>();
  Training training(small_experiment(std::string(kNet) + turns(6) +
                                     replicas(3, ", policy = 'shared'") +
                                     "optimizer = {name = 'sgd', lr = 0.05}\n"),
                    sink);
  const BlockCosts each{
      .seconds = {{Op::forward, 1.0}, {Op::backward, 2.0}, {Op::update, 0.5}}};
  training.train({.blocks = {each, each}});
  const std::map<std::pair<double, double>, double> expected = {
      {{1, 0}, 6}, {{2, 1}, 6}, {{3, 2}, 6}};
  EXPECT_EQ(sink->counts, expected);
}

TEST(Replicas, ThatShareTheirWeightsAreRefusedGradientsThatAreTooLate) {
  const BlockCosts each{
      .seconds = {{Op::forward, 1.0}, {Op::backward, 2.0}, {Op::update, 0.5}}};
  const auto train = [&](const std::string& limit) {
    Training(small_experiment(std::string(kNet) + turns(4) + sgd(0.05) +
                              replicas(3, ", policy = 'shared'") + limit))
        .train({.blocks = {each, each}});
  };
  EXPECT_NO_THROW(train("max_staleness = 2\n"));
  EXPECT_THAT([&] { train("max_staleness = 1\n"); },
              ThrowsMessage<Error>(
                  HasSubstr("2 steps of the other replicas old; max_staleness "
                            "is 1")));
}

}  // namespace sluice::replicas_test
