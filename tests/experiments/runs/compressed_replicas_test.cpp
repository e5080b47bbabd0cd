// Compressed gradients of replicas, as networks train by them.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/metrics/records.h"
#include "tests/experiments/helpers/trained_replicas.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::compressed_replicas_test {

using replica_runs::trained;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kNet =
    "batch_size = 8\nturns = 6\nboundary = {policy = 'backprop'}\n"
    "model = {hidden = [24, 20], dropout = 0.2}\n"
    "optimizer = {name = 'sgd', lr = 0.05, momentum = 0}\n";

std::string replicas(int count, const std::string& more) {
  return fmt::format("replicas = {{count = {}{}}}\n", count, more);
}

class CompressedReplicas : public testing::TestWithParam<const char*> {
 protected:
  std::string compressed(int count) const {
    return replicas(count, std::string(", compress = ") + GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(
    Compressors, CompressedReplicas,
    testing::Values("'top_k', ratio = 0.1", "'threshold', threshold = 0.01",
                    "'dgc', ratio = 0.1, clip = 1.0, warmup_epochs = 2",
                    "'one_bit'", "'qsgd'", "'e3m0'", "'sign'",
                    "'sign', error_feedback = true", "'power_sgd'"));

TEST_P(CompressedReplicas, StayEqualAndGoElsewhereThanByPlainSums) {
  const std::string net = std::string(kNet) + "blocks = ['0', '1-']\n";
  const auto all = trained(net + compressed(3));
  for (const NamedTensors& replica : all)
    EXPECT_EQ(difference(replica, all[0]), "");
  EXPECT_GT(distance(all[0], trained(net + replicas(3, ""))[0]), 1e-5);
}

TEST_P(CompressedReplicas, CompressedReplicasOfOneReplicaHaveTheBitsOfNone) {
  const std::string net = std::string(kNet) + "blocks = ['0', '1-']\n";
  EXPECT_EQ(difference(trained(net + compressed(1))[0], trained(net)[0]), "");
}

TEST(Compression, CompressionOfOneReplicaSaysThatItsMomentumIsNotThere) {
  const auto said = [](const char* compress, int count) {
    return small_experiment(
               kNet + replicas(count, std::string(", compress = ") + compress))
        .left_out;
  };
  EXPECT_THAT(said("'dgc'", 1), ElementsAre(HasSubstr("optimizer.momentum")));
  EXPECT_THAT(said("'dgc'", 2), IsEmpty());
  EXPECT_THAT(said("'top_k'", 1), IsEmpty());
}

TEST_P(CompressedReplicas, HaveTheSameBitsInEveryOrder) {
  const std::string net = std::string(kNet) +
                          "blocks = ['0', '1-']\n"
                          "pipeline.micro_batches = 4\n";
  const auto plain = trained(net + compressed(2));
  const auto ordered =
      trained(net + "pipeline.order = '1f1b'\n" + compressed(2));
  EXPECT_EQ(difference(ordered[1], plain[1]), "");
}

TEST_P(CompressedReplicas, GoWithDelaysAndAuxiliaryLosses) {
  for (const char* policy : {"delayed_gradient", "local_loss"}) {
    const std::string net =
        fmt::format("{}blocks = ['0', '1-']\nboundary.policy = '{}'\n",
                    "batch_size = 8\nturns = 6\n"
                    "model = {hidden = [24, 20]}\n"
                    "optimizer = {name = 'sgd', lr = 0.05, momentum = 0}\n",
                    policy);
    const auto all = trained(net + compressed(2));
    EXPECT_EQ(difference(all[1], all[0]), "") << policy;
    EXPECT_GT(distance(all[0], trained(net + replicas(2, ""))[0]), 1e-6)
        << policy;
  }
}

class OfAnyCut : public CompressedReplicas {};
INSTANTIATE_TEST_SUITE_P(Compressors, OfAnyCut,
                         testing::Values("'top_k', ratio = 0.1",
                                         "'threshold', threshold = 0.01",
                                         "'dgc', ratio = 0.1", "'one_bit'",
                                         "'qsgd'", "'e3m0'", "'sign'",
                                         "'power_sgd'"));

// What is drawn is keyed by names of tensors, and nothing is cut by blocks but
// the stripes of owners, which are whole rows.
TEST_P(OfAnyCut, CompressedReplicasHaveTheSameBits) {
  const std::string net = kNet;
  EXPECT_EQ(
      difference(trained(net + "blocks = ['0', '1-']\n" + compressed(3))[2],
                 trained(net + "blocks = 1\n" + compressed(3))[0]),
      "");
}

TEST(Compression, CompressionOfTopKThatKeepsAllHasTheBitsOfPlainSums) {
  const std::string net = std::string(kNet) + "blocks = ['0', '1-']\n";
  EXPECT_EQ(
      difference(
          trained(net + replicas(2, ", compress = 'top_k', ratio = 1"))[1],
          trained(net + replicas(2, ""))[1]),
      "");
}

/// Keeps what blocks have cost.
struct CostsSink final : Sink {
  void write(const Record& record) override {
    if (const auto block = record.as<records::Block>())
      sent.push_back(block->compressed_bytes.value_or(-1));
  }
  std::vector<std::int64_t> sent;
};

TEST(Compression, CountsTheBytesThatReplicasHaveSent) {
  const std::string net = std::string(kNet) + "blocks = 1\n";
  const auto sent = [&](const std::string& compress) {
    const auto sink = std::make_shared<CostsSink>();
    Training training(small_experiment(net + replicas(2, compress)), sink);
    training.train();
    EXPECT_EQ(sink->sent.size(), 2U);
    return sink->sent.back();
  };
  EXPECT_EQ(sent(""), -1);
  const Experiment planned =
      small_experiment(net + replicas(2, ", compress = 'qsgd'"));
  // Bytes of 6 turns, to one other replica.
  EXPECT_NEAR(static_cast<double>(sent(", compress = 'qsgd'")),
              6 * planned.costs.exchange_bytes.at(0), 6 * 64);
}

TEST(Compression, GoesOverMpiWhereItOnlySums) {
  EXPECT_NO_THROW(
      small_experiment(replicas(2, ", compress = 'power_sgd', group = 'mpi'")));
}

TEST(Compression, TakesLessTimeWhereLinksAreSlow) {
  const auto seconds = [](const std::string& compress) {
    Training training(small_experiment(
        std::string(kNet) + "blocks = 1\n" + replicas(2, compress) +
        "virtual = {exchange_bandwidth = 1e6, exchange_latency = 1e-3}\n"));
    return training.train(training.experiment.costs);
  };
  const double plain = seconds("");
  EXPECT_LT(seconds(", compress = 'sign'"), plain / 10);
  EXPECT_LT(seconds(", compress = 'one_bit'"), plain / 4);
  EXPECT_LT(seconds(", compress = 'power_sgd'"), plain / 2);
}

}  // namespace sluice::compressed_replicas_test
