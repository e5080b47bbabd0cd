// The gradient probe where blocks have replicas: before and after an exchange.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "experiments/runs/seats/seat_sources.h"
#include "lib/metrics/records.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_loop.h"
#include "tests/oracles/plain_net.h"

namespace sluice::replica_probe_test {

constexpr const char* kNet =
    "turns = 12\nblocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n";
constexpr const char* kNormAndDropout =
    "turns = 12\nblocks = ['0', '1', '2-']\nmodel = {hidden = [24, 20, 16], "
    "batch_norm = true, dropout = 0.25}\n";

std::string rate(double lr, const std::string& more = "") {
  return fmt::format("optimizer = {{name = 'sgd', lr = {}{}}}\n", lr, more);
}
std::string policy(const std::string& name) {
  return fmt::format("boundary = {{policy = '{}'}}\n", name);
}
std::string replicas(const std::string& more = "") {
  return fmt::format("replicas = {{count = 2{}}}\n", more);
}

template <class Kind>
class RecordList final : public Sink {
 public:
  void write(const Record& record) override {
    if (const auto kind = record.as<Kind>()) records.push_back(*kind);
  }
  std::vector<Kind> records;
};

template <class Kind>
std::vector<Kind> probed(const std::string& lines) {
  const auto kept = std::make_shared<RecordList<Kind>>();
  Training training(small_experiment(lines + "probe = {every = 1}\n"), kept);
  training.train();
  return kept->records;
}

std::vector<records::Probe> before_exchange(const std::string& lines) {
  return probed<records::Probe>(lines);
}
std::vector<records::ExchangeProbe> after_exchange(const std::string& lines) {
  return probed<records::ExchangeProbe>(lines);
}

/// Records by replica.
std::map<int, int> count_by_replica(const std::vector<records::Probe>& all) {
  std::map<int, int> counts;
  for (const records::Probe& probe : all) ++counts[probe.replica.value_or(0)];
  return counts;
}

TEST(ReplicaProbe, X10_WithoutLearningEveryGradientIsTrueInEachReplica) {
  for (const char* name : {"backprop", "delayed_gradient"}) {
    const std::string lines =
        kNormAndDropout + rate(0) + policy(name) + replicas();
    const auto before = before_exchange(lines);
    // Blocks 1 and 2 apply the last two turns, and the last one, in the drain.
    const int told = std::string(name) == "backprop" ? 36 : 33;
    EXPECT_EQ(count_by_replica(before),
              (std::map<int, int>{{1, told}, {2, told}}));
    for (const records::Probe& probe : before) {
      EXPECT_NEAR(probe.cosine, 1, 1e-6);
      EXPECT_NEAR(probe.norm_ratio, 1, 1e-6);
    }
    const auto after = after_exchange(lines);
    EXPECT_EQ(std::ssize(after), told);
    for (const records::ExchangeProbe& probe : after) {
      EXPECT_NEAR(probe.cosine, 1, 1e-6);
      EXPECT_NEAR(probe.norm_ratio, 1, 1e-6);
      EXPECT_FALSE(probe.replica);
    }
  }
}

TEST(ReplicaProbe, ComparesEachReplicaWithItsOwnWeights) {
  const std::string lines = kNet + rate(0.5) + policy("backprop") +
                            replicas(", policy = 'average', every = 6");
  for (const records::Probe& probe : before_exchange(lines))
    EXPECT_NEAR(probe.cosine, 1, 1e-6) << *probe.replica;
  EXPECT_TRUE(after_exchange(lines).empty()) << "they exchange weights";
}

TEST(ReplicaProbe, ReplicaProbeOfCompressedGradientsSeesWhatTheyLost) {
  const std::string lines = kNet + rate(0.1) + policy("backprop");
  const std::string top_k = replicas(", compress = 'top_k', ratio = 0.05");
  for (const records::Probe& probe : before_exchange(lines + top_k))
    EXPECT_NEAR(probe.cosine, 1, 1e-6);
  for (const records::ExchangeProbe& probe : after_exchange(lines + replicas()))
    EXPECT_NEAR(probe.cosine, 1, 1e-6);
  const auto lossy = after_exchange(lines + top_k);
  EXPECT_EQ(lossy.size(), 36U);
  for (const records::ExchangeProbe& probe : lossy)
    EXPECT_LT(probe.cosine, 0.999);
}

TEST(ReplicaProbe, ReplicaProbeOfLocalLossesIsNotTrueOnEitherSideOfAnExchange) {
  const std::string lines =
      kNet + rate(0.1) + policy("local_loss") + replicas();
  for (const records::Probe& probe : before_exchange(lines))
    if (probe.block < 3) {
      EXPECT_LT(probe.cosine, 0.999);
    }
  for (const records::ExchangeProbe& probe : after_exchange(lines)) {
    if (probe.block < 3) {
      EXPECT_LT(probe.cosine, 0.999);
    } else {
      EXPECT_NEAR(probe.cosine, 1, 1e-6);
    }
  }
}

constexpr double kLimit = 0.01;

/// By plain autograd: of each block's layer, how long the mean of the clipped
/// gradients of the first two batches is beside that of the whole ones.
std::map<int, double> ratios_of_clipped() {
  const Training start(small_experiment(kNet + rate(0.1)));
  PlainMlp net({784, 24, 20, 10}, false, 0);
  take_weights(net, net.named(), start);
  const auto source = training_source(start.experiment);
  Tensors whole(6);
  Tensors clipped(6);
  for (std::int64_t r = 0; r < 2; ++r) {
    const Batch batch = source->batch(r);
    const auto gradients = torch::autograd::grad(
        {at::cross_entropy_loss(net.forward(batch.inputs, 0, 0), batch.labels)},
        net.parameters());
    double squares = 0;
    for (const at::Tensor& gradient : gradients)
      squares += gradient.square().sum().item<double>();
    const double factor = std::min(1.0, kLimit / std::sqrt(squares));
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const at::Tensor half = gradients[i].flatten().to(at::kDouble) / 2;
      whole[i] = r == 0 ? half : whole[i] + half;
      clipped[i] = r == 0 ? half * factor : clipped[i] + half * factor;
    }
  }
  std::map<int, double> ratios;
  for (int block = 1; block <= 3; ++block) {
    const auto first = 2 * static_cast<std::size_t>(block - 1);
    const auto norm = [&](const Tensors& of) {
      return at::cat({of[first], of[first + 1]}).norm().item<double>();
    };
    ratios[block] = norm(clipped) / norm(whole);
  }
  return ratios;
}

TEST(ReplicaProbe, AfterAnExchangeComparesMeansOverTheReplicas) {
  const std::string clip = fmt::format(
      ", clip = {{norm = {}, scope = 'model', at = 'replica'}}", kLimit);
  const std::string lines =
      kNet + rate(0.1, clip) + policy("backprop") + replicas();
  const std::map<int, double> expected = ratios_of_clipped();
  int compared = 0;
  for (const records::ExchangeProbe& probe : after_exchange(lines)) {
    if (probe.turn > 0) continue;
    ++compared;
    EXPECT_NEAR(probe.norm_ratio, expected.at(probe.block), 1e-4);
    EXPECT_LT(probe.norm_ratio, 0.5) << "nothing was clipped";
  }
  EXPECT_EQ(compared, 3);
  for (const records::Probe& probe : before_exchange(lines))
    EXPECT_NEAR(probe.norm_ratio, 1, 1e-6);
}

TEST(ReplicaProbe, ChangesNoBit) {
  const std::string lines =
      kNormAndDropout + rate(0.1) + policy("delayed_gradient") + replicas();
  Training with(small_experiment(lines + "probe = {every = 3}\n"),
                std::make_shared<RecordList<records::Probe>>());
  Training without(small_experiment(lines));
  with.train();
  without.train();
  for (const int replica : {1, 2})
    EXPECT_EQ(difference(with.weights(replica), without.weights(replica)), "");
}

using ReplicaProbes = Faults;

/// Without when they were written, in one order.
std::vector<std::string> texts_of(const std::string& run) {
  std::vector<std::string> texts;
  for (const char* kind : {"probe", "exchange_probe"})
    for (const Record& record : records_of(run, kind))
      texts.push_back(
          fmt::format("{} {} {} {} {:.4f}", kind, record.integer("turn"),
                      record.integer("block"), record.number("replica", 0),
                      record.number("cosine", 0)));
  std::sort(texts.begin(), texts.end());
  return texts;
}

TEST_F(ReplicaProbes, SayTheSameOnEveryEngine) {
  const std::string more =
      "replicas.count=2 probe.every=5 boundary.policy=local_loss --overwrite ";
  ASSERT_EQ(run("one", more + "engine=virtual").status, 0);
  const auto expected = texts_of(path("one"));
  EXPECT_FALSE(expected.empty());
  for (const char* engine : {"threads", "processes"}) {
    ASSERT_EQ(run("other", more + "engine=" + engine).status, 0);
    EXPECT_EQ(texts_of(path("other")), expected) << engine;
  }
}

}  // namespace sluice::replica_probe_test
