// The gradient-truth probe, and staleness: what a method costs in truth.
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/workers/gradient_probe.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::probe_test {

constexpr const char* kNet =
    "turns = 12\nblocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n";
constexpr const char* kNormAndDropout =
    "turns = 12\nblocks = ['0', '1', '2-']\nmodel = {hidden = [24, 20, 16], "
    "batch_norm = true, dropout = 0.25}\n";

std::string rate(double lr) {
  return "optimizer = {lr = " + std::to_string(lr) + "}\n";
}
std::string policy(const std::string& name) {
  const char* more =
      name == "features_replay" ? ", statistics = 'forward'" : "";
  return fmt::format("boundary = {{policy = '{}'{}}}\n", name, more);
}

class RecordList final : public Sink {
 public:
  void write(const Record& record) override { records.push_back(record); }
  std::vector<Record> of(const std::string& kind) const {
    std::vector<Record> found;
    for (const Record& record : records)
      if (record.text("kind") == kind) found.push_back(record);
    return found;
  }
  std::vector<Record> records;
};

std::vector<Record> probed(const std::string& lines, int every = 1) {
  const auto kept = std::make_shared<RecordList>();
  Training training(small_experiment(lines + "probe = {every = " +
                                     std::to_string(every) + "}\n"),
                    kept);
  training.train();
  return kept->of("probe");
}

TEST(Likeness, LikenessOfAGradientAndItsDouble) {
  const Tensors truth = {at::tensor({1.0, -2.0}), at::tensor({3.0})};
  const Tensors twice = {at::tensor({2.0, -4.0}), at::tensor({6.0})};
  const Likeness found = likeness(twice, truth);
  EXPECT_NEAR(found.cosine, 1, 1e-12);
  EXPECT_NEAR(found.norm_ratio, 2, 1e-12);
  EXPECT_EQ(found.sign_agreement, 1);
}

TEST(Likeness, LikenessOfWhatIsMissingIsThatOfZero) {
  const Likeness found = likeness({at::tensor({3.0}), at::Tensor()},
                                  {at::tensor({3.0}), at::tensor({4.0})});
  EXPECT_NEAR(found.cosine, 0.6, 1e-12);
  EXPECT_NEAR(found.norm_ratio, 0.6, 1e-12);
  EXPECT_EQ(found.sign_agreement, 0.5);
}

class Probe : public testing::TestWithParam<const char*> {};

TEST_P(Probe, X10_WithoutLearningEveryDelayedGradientIsTrue) {
  const std::string old_masks = std::string("masks = 1\n") + kNormAndDropout;
  for (const std::string& net :
       {std::string(kNet), std::string(kNormAndDropout), old_masks}) {
    const auto records = probed(net + rate(0) + policy(GetParam()));
    // 12 turns of 3 blocks, without those of the drain: there is no turn of the
    // other blocks to compare with.
    std::int64_t drained = 0;
    const RunPlan plans = small_experiment(net + policy(GetParam())).plans[0];
    for (const BlockPlan& plan : plans.blocks) drained += plan.delay;
    EXPECT_EQ(std::ssize(records), 36 - drained);
    for (const Record& record : records) {
      EXPECT_NEAR(record.number("cosine", 0), 1, 1e-6);
      EXPECT_NEAR(record.number("norm_ratio", 0), 1, 1e-6);
      EXPECT_GT(record.number("sign_agreement", 0), 0.9999);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, Probe,
                         testing::Values("backprop", "delayed_gradient",
                                         "features_replay", "fully_decoupled"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(Probes, BackpropIsTrueWhileItLearnsToo) {
  for (const Record& record :
       probed(kNormAndDropout + rate(0.1) + policy("backprop")))
    EXPECT_NEAR(record.number("cosine", 0), 1, 1e-6);
}

/// By plain autograd: the gradient that block 1 applies under DDG, of the batch
/// two turns ago at the weights of then, and the true one at those before the
/// turn.
std::map<std::int64_t, double> cosines_of_ddg() {
  Training training(
      small_experiment(kNet + rate(0.5) + policy("delayed_gradient")));
  SampleSource source(training.experiment.data->train.samples(),
                      {.batch_size = 32, .seed = training.experiment.seed});
  // Weights of all blocks before each of their turns.
  std::map<std::pair<int, std::int64_t>, std::map<std::string, at::Tensor>>
      before;
  const auto keep = [&](int block, std::int64_t turn) {
    for (const auto& [name, tensor] : training.block(block).weights())
      before[{block, turn}][name] = tensor.detach().clone();
  };
  for (int block = 1; block <= 3; ++block) keep(block, 0);
  training.watch = [&](const TimedAction& timed) {
    // A turn ends with its update, or with its forward when nothing comes yet.
    keep(timed.seat, timed.action.turn + 1);
  };
  training.train();
  const auto gradient = [&](std::int64_t batch,
                            const std::vector<std::int64_t>& turns) {
    const Batch data = source.batch(batch);
    Tensors leaves;
    at::Tensor x = data.inputs.flatten(1);
    for (int block = 1; block <= 3; ++block) {
      const auto& weights = before.at({block, by_block(turns, block)});
      const std::string layer =
          "layers." + std::to_string(block - 1) + ".linear.";
      leaves.push_back(weights.at(layer + "weight").clone().requires_grad_());
      leaves.push_back(weights.at(layer + "bias").clone().requires_grad_());
      x = at::linear(x, leaves[leaves.size() - 2], leaves.back());
      if (block < 3) x = at::relu(x);
    }
    const auto all = torch::autograd::grad(
        {at::cross_entropy_loss(x, data.labels)}, {leaves[0], leaves[1]});
    return at::cat({all[0].flatten(), all[1].flatten()}).to(at::kDouble);
  };
  std::map<std::int64_t, double> cosines;
  for (std::int64_t turn = 2; turn < 12; ++turn) {
    const std::int64_t batch = turn - 2;
    // Every block forwarded the batch in its turn `batch`.
    const at::Tensor applied = gradient(batch, {batch, batch, batch});
    const at::Tensor truth = gradient(batch, {turn, turn, turn});
    cosines[turn] =
        (applied.dot(truth) / (applied.norm() * truth.norm())).item<double>();
  }
  return cosines;
}

TEST(Probes, TheCosineOfADelayedGradientIsTheOracles) {
  const std::map<std::int64_t, double> expected = cosines_of_ddg();
  int compared = 0;
  double least = 1;
  for (const Record& record :
       probed(kNet + rate(0.5) + policy("delayed_gradient"))) {
    const auto turn = static_cast<std::int64_t>(record.number("turn", 0));
    if (record.number("block", 0) != 1 || !expected.contains(turn)) continue;
    ++compared;
    least = std::min(least, record.number("cosine", 0));
    EXPECT_NEAR(record.number("cosine", 0), expected.at(turn), 1e-5) << turn;
  }
  EXPECT_EQ(compared, 10);
  EXPECT_LT(least, 0.999) << "nothing was stale";
}

TEST(Probes, LocalAndSyntheticGradientsAreNotTheTrueOnes) {
  for (const char* name : {"local_loss", "synthetic_gradient"})
    for (const Record& record : probed(kNet + rate(0.1) + policy(name))) {
      const bool is_last = record.number("block", 0) == 3;
      if (is_last) {
        EXPECT_NEAR(record.number("cosine", 0), 1, 1e-6);
      } else {
        EXPECT_LT(record.number("cosine", 1), 0.999);
      }
    }
}

TEST(Probes, ProbesOfTheFirstSyntheticGradientsFindNothing) {
  const auto records =
      probed(kNet + rate(0.1) + policy("synthetic_gradient"), 100);
  ASSERT_EQ(records.size(), 3U);
  for (const Record& record : records)
    if (record.number("block", 0) < 3) {
      EXPECT_EQ(record.number("norm_ratio", 1), 0);
    }
}

TEST(Probes, DontChangeTheBits) {
  const std::string lines =
      kNormAndDropout + rate(0.1) + policy("fully_decoupled");
  Training with(small_experiment(lines + "probe = {every = 3}\n"),
                std::make_shared<RecordList>());
  Training without(small_experiment(lines));
  with.train();
  without.train();
  EXPECT_EQ(difference(with.weights(), without.weights()), "");
}

TEST(Probes, LookEverySoManyTurns) {
  for (const Record& record :
       probed(kNet + rate(0.1) + policy("delayed_gradient"), 5))
    EXPECT_EQ(std::llround(record.number("turn", 1)) % 5, 0);
}

/// (block, counter, value) -> how often
std::map<std::string, double> staleness(const std::string& lines) {
  const auto kept = std::make_shared<RecordList>();
  Training training(small_experiment(lines), kept);
  training.train();
  std::map<std::string, double> counts;
  for (const Record& record : kept->of("staleness"))
    counts[fmt::format("{:.0f} {} {:.0f}", record.number("block", 0),
                       record.text("counter"), record.number("value", -1))] =
        record.number("times", 0);
  return counts;
}

TEST(Staleness, StalenessOfDelayedGradientsIsCounted) {
  // Block 1 has d = 2: no update between for batch 0, one for batch 1.
  const std::map<std::string, double> expected = {
      {"1 d_batch 2", 12}, {"1 d_upd 0", 1},    {"1 d_upd 1", 1},
      {"1 d_upd 2", 10},   {"2 d_batch 1", 12}, {"2 d_upd 0", 1},
      {"2 d_upd 1", 11},   {"3 d_batch 0", 12}, {"3 d_upd 0", 12}};
  EXPECT_EQ(staleness(kNet + rate(0.1) + policy("delayed_gradient")), expected);
}

TEST(Staleness, BeyondTheAllowedFailsTheRun) {
  const auto train = [](int most) {
    Training(small_experiment(kNet + rate(0.1) + policy("delayed_gradient") +
                              "max_staleness = " + std::to_string(most) + "\n"))
        .train();
  };
  EXPECT_NO_THROW(train(2));
  try {
    train(1);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("max_staleness is 1"),
              std::string::npos);
  }
}

}  // namespace sluice::probe_test
