// The orders of exact pipelines, as networks learn by them: all have the bits
// of blocks that take turns, whatever the cut, the batches and the engine.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/runs/measuring/calibration.h"
#include "experiments/runs/measuring/rehearsal.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/memory/allocator.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::pipelines_test {

// An epoch is two turns of 16 samples and one of 6.
constexpr const char* kData =
    "data = {name = 'drawn_digits', train = 38, test = 8}\n"
    "batch_size = 16\n";
constexpr const char* kSgd =
    "optimizer = {name = 'sgd', momentum = 0.9, lr = 0.05}\n";
constexpr const char* kMlp =
    "model = {hidden = [24, 20, 16], batch_norm = true, dropout = 0.2}\n";
constexpr const char* kConv =
    "model = {name = 'conv3', channels = 8, dropout = 0.2}\n";

std::string in_order(const std::string& order, int micro_batches) {
  return fmt::format("pipeline = {{order = '{}', micro_batches = {}}}\n", order,
                     micro_batches);
}

constexpr const char* kBackprop = "boundary = {policy = 'backprop'}\n";

NamedTensors trained(const std::string& lines,
                     const std::string& boundary = kBackprop, int turns = 5,
                     const std::string& optimizer = kSgd) {
  Training training(small_experiment(kData + optimizer + boundary +
                                     fmt::format("turns = {}\n", turns) +
                                     lines));
  training.train();
  return training.weights();
}

struct Cut {
  int blocks = 1;
  int batches = 1;
};

void PrintTo(const Cut& cut, std::ostream* out) {
  *out << cut.blocks << " blocks, " << cut.batches << " batches";
}

std::vector<Cut> cuts() {
  std::vector<Cut> all;
  for (const int blocks : {1, 2, 3, 4})
    for (const int batches : {1, 2, 4, 8}) all.push_back({blocks, batches});
  return all;
}

class EveryCut : public testing::TestWithParam<Cut> {
 protected:
  std::string lines(const char* net) const {
    return fmt::format("blocks = {}\n{}", GetParam().blocks, net);
  }
  void expect_same_bits(const char* net) const {
    const int batches = GetParam().batches;
    const NamedTensors turns = trained(lines(net) + in_order("turns", batches));
    for (const char* order : {"gpipe", "1f1b"})
      EXPECT_EQ(
          difference(trained(lines(net) + in_order(order, batches)), turns), "")
          << order;
    if (batches >= GetParam().blocks) {
      EXPECT_EQ(
          difference(trained(lines(net) + in_order("zb-h1", batches)), turns),
          "");
    }
    EXPECT_GT(distance(turns, trained(lines(net) + in_order("1f1b", batches),
                                      kBackprop, 1)),
              1e-4)
        << "they learn";
  }
};
INSTANTIATE_TEST_SUITE_P(PipelineRuns, EveryCut, testing::ValuesIn(cuts()));

TEST_P(EveryCut, EveryCutOfAnMlpHasTheSameBitsInEveryOrder) {
  expect_same_bits(kMlp);
}

TEST_P(EveryCut, EveryCutOfAConvNetHasTheSameBitsInEveryOrder) {
  expect_same_bits(kConv);
}

TEST(PipelineRuns, PipelineRunsOfTwoSegmentsHaveTheSameBits) {
  const std::string net =
      fmt::format("blocks = ['0', '1', '2', '3-']\n{}", kMlp);
  const std::string cut =
      "boundary = {1 = {policy = 'backprop'}, 2 = {policy = 'local_loss'}, 3 = "
      "{policy = 'backprop'}}\n";
  const NamedTensors turns = trained(net + in_order("turns", 2), cut);
  for (const char* order : {"gpipe", "1f1b", "zb-h1"})
    EXPECT_EQ(difference(trained(net + in_order(order, 2), cut), turns), "")
        << order;
  EXPECT_GT(distance(trained(net + in_order("turns", 2)), turns), 1e-4)
      << "without the cut";
}

TEST(PipelineRuns, SumTheBatchesOfSeveralTurns) {
  const std::string net = fmt::format(
      "blocks = 3\naccumulate = {{batches = 2, rule = 'mean'}}\n{}", kMlp);
  for (const char* order : {"gpipe", "1f1b", "zb-h1"})
    EXPECT_EQ(difference(trained(net + in_order(order, 4), kBackprop, 8),
                         trained(net + in_order("turns", 4), kBackprop, 8)),
              "")
        << order;
}

TEST(PipelineRuns, ClipByTheNormOfTheWholeModel) {
  const auto clipped = [](int blocks, const char* order, double limit) {
    return trained(
        fmt::format("blocks = {}\naccumulate = {{batches = 2, rule = 'mean'}}\n"
                    "model = {{hidden = [24, 20, 16]}}\n{}",
                    blocks, in_order(order, 4)),
        kBackprop, 8,
        fmt::format("optimizer = {{name = 'sgd', lr = 0.05, clip = {{norm = "
                    "{}, scope = 'model'}}}}\n",
                    limit));
  };
  const NamedTensors turns = clipped(3, "turns", 0.3);
  for (const char* order : {"gpipe", "1f1b"})
    EXPECT_EQ(difference(clipped(3, order, 0.3), turns), "") << order;
  EXPECT_LT(distance(clipped(1, "turns", 0.3), turns), 1e-5) << "in one block";
  EXPECT_GT(distance(clipped(3, "1f1b", 0.2), turns), 1e-4) << "clipped more";
}

TEST(PipelineRuns, MeasureTheHalvesOfABackward) {
  const Experiment experiment = small_experiment(
      "blocks = 3\nbatch_size = 32\nmodel = {hidden = [64, 64, 64]}\n"
      "virtual = {calibrate = true}\n" +
      in_order("zb-h1", 4));
  const Costs costs = calibrated(experiment, rehearse(experiment));
  EXPECT_GT(costs.blocks[0].seconds[Op::backward], 0) << "nobody is below";
  EXPECT_EQ(costs.blocks[0].seconds[Op::backward_input], 0);
  for (const std::size_t upper : {1, 2}) {
    const OpValues<double>& seconds = costs.blocks[upper].seconds;
    EXPECT_EQ(seconds[Op::backward], 0);
    EXPECT_GT(seconds[Op::backward_input], 0);
    EXPECT_GT(seconds[Op::backward_weights], 0);
    const Action half{Op::backward_weights};
    EXPECT_EQ(seconds_of(costs, experiment.plans[0].blocks[upper], half),
              seconds[Op::backward_weights]);
  }
}

class PipelineProgram : public Program {
 protected:
  void run(const std::string& command) const {
    const Outcome outcome = sluice("run " + command);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
  }
};

TEST_F(PipelineProgram, GoesOnFromACheckpointWithTheSameBits) {
  const std::string config =
      write("config.toml", config_with(std::string("blocks = 3\n") + kBackprop +
                                       kMlp + in_order("zb-h1", 4)));
  run(config + " engine=threads turns=7 --dir " + path("whole"));
  run(config + " engine=threads turns=4 --dir " + path("part"));
  run("--resume " + path("part") + " turns=7");
  const auto folder = [&](const char* name) {
    return checkpoint_folder(path(name) + "/checkpoints", 7);
  };
  EXPECT_EQ(
      difference(load_weights(folder("whole")), load_weights(folder("part"))),
      "");
  EXPECT_EQ(difference(load_state(folder("whole")), load_state(folder("part"))),
            "");
}

constexpr const char* kWithoutFlush =
    "drop_last = true\npipeline = {order = '1f1b', micro_batches = 4, weights "
    "= "
    "'double_buffer', flush = false}\n";

TEST_F(PipelineProgram, WithoutAFlushGoesOnWithTheSameBits) {
  const std::string config =
      write("config.toml", config_with(std::string("blocks = 3\n") + kBackprop +
                                       kMlp + kWithoutFlush));
  const auto weights = [&](const char* name) {
    return load_weights(checkpoint_folder(path(name) + "/checkpoints", 7));
  };
  for (const char* view : {"double_buffer", "double_buffer_predict"}) {
    const std::string options =
        std::string(" --overwrite optimizer.momentum=0.9 pipeline.weights=") +
        view;
    run(config + options + " turns=7 --dir " + path("whole"));
    run(config + options + " turns=4 --dir " + path("part"));
    run("--resume " + path("part") + " turns=7");
    EXPECT_EQ(difference(weights("whole"), weights("part")), "") << view;
  }
}

TEST_F(PipelineProgram, WithoutAFlushGoesOnInOtherBlocksAndFromOtherWeights) {
  for (const char* first : {kWithoutFlush, "drop_last = true\n"}) {
    const std::string config = write(
        "config.toml",
        config_with(std::string("blocks = 3\n") + kBackprop + kMlp + first));
    run(config + " turns=4 --overwrite --dir " + path("part"));
    run("--resume " + path("part") +
        " turns=7 blocks=2 pipeline.order=1f1b pipeline.micro_batches=4 "
        "pipeline.flush=false pipeline.weights=double_buffer");
  }
}

/// Bytes of the graphs of each block, index k-1.
std::vector<std::int64_t> graph_bytes(const std::string& order, int batches) {
  std::vector<std::int64_t> bytes;
  for (const Rehearsal& each :
       rehearse(small_experiment("blocks = 3\nbatch_size = 256\nmodel = "
                                 "{hidden = [256, 256, 256]}\n" +
                                 in_order(order, batches))))
    bytes.push_back(each.memory.graph_bytes.value_or(0));
  return bytes;
}

TEST(PipelineRuns, HoldTheGraphsOfTheirOrder) {
  if (!install_allocator())
    GTEST_SKIP() << "the caching allocator, which counts bytes, is off under "
                    "AddressSanitizer";
  const auto gpipe = graph_bytes("gpipe", 8);
  const auto alternating = graph_bytes("1f1b", 8);
  const auto zero_bubble = graph_bytes("zb-h1", 8);
  for (const std::size_t k : {0, 1, 2}) {
    const auto all = static_cast<double>(gpipe[k]);
    EXPECT_NEAR(static_cast<double>(alternating[k]),
                all * (3 - static_cast<double>(k)) / 8, 0.1 * all)
        << "block " << k + 1;
    // Between the halves of its backward a batch keeps its graph.
    EXPECT_NEAR(static_cast<double>(zero_bubble[k]), all * 3 / 8, 0.1 * all)
        << "block " << k + 1;
  }
}

}  // namespace sluice::pipelines_test
