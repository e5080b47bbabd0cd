#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"

namespace sluice::rebuilt_test {

std::string net(const std::string& pipeline) {
  return "blocks = ['0', '1', '2']\nbatch_size = 16\nturns = 8\n"
         "model = {hidden = [24, 20], batch_norm = true, dropout = 0.3}\n"
         "optimizer = {lr = 0.05, momentum = 0.9}\n"
         "boundary = {policy = 'backprop'}\npipeline = {micro_batches = 4, " +
         pipeline + "}\n";
}

struct TrainingResult {
  NamedTensors weights;
  std::size_t graphs = 0;  // the most that a block had at once
};

TrainingResult trained(const std::string& lines) {
  Training training(small_experiment(lines));
  TrainingResult done;
  training.watch = [&](const TimedAction& timed) {
    done.graphs = std::max(done.graphs, training.block(timed.seat).graphs());
  };
  training.train();
  done.weights = training.weights();
  return done;
}

TEST(Recompute, RecomputeOfAPipelineKeepsNoGraphAndHasTheSameBits) {
  for (const char* order : {"turns", "gpipe", "1f1b"}) {
    const std::string rest = std::string("order = '") + order + "'";
    const TrainingResult kept = trained(net(rest));
    const TrainingResult rebuilt = trained(net(rest + ", recompute = true"));
    EXPECT_EQ(difference(rebuilt.weights, kept.weights), "") << order;
    EXPECT_EQ(rebuilt.graphs, 0U) << order;
    EXPECT_GT(kept.graphs, 0U) << order;
  }
}

}  // namespace sluice::rebuilt_test
