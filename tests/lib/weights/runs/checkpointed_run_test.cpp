// Whole runs with checkpoint_layers; those of every method are in
// every_method_test.cpp.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/runs/measuring/rehearsal.h"
#include "lib/memory/allocator.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::checkpointed_run_test {

std::string net(const std::string& lines) {
  return lines +
         "blocks = 3\nbatch_size = 16\nturns = 8\n"
         "model = {hidden = [24, 20, 16, 12], batch_norm = true, dropout = "
         "0.3}\n"
         "optimizer = {lr = 0.05, momentum = 0.9}\n";
}

NamedTensors trained(const std::string& config) {
  Training training(small_experiment(config));
  training.train();
  return training.weights();
}

const std::vector<std::string>& ways() {
  static const std::vector<std::string> all = {
      "boundary = {policy = 'backprop'}\npipeline = {order = 'turns'}\n",
      "boundary = {policy = 'backprop'}\n"
      "pipeline = {order = 'gpipe', micro_batches = 4}\n",
      "boundary = {policy = 'backprop'}\n"
      "pipeline = {order = '1f1b', micro_batches = 4, recompute = true}\n",
      "boundary = {policy = 'backprop'}\n"
      "pipeline = {order = 'zb-h1', micro_batches = 4}\n",
      "boundary = {policy = 'backprop'}\n"
      "pipeline = {order = '1f1b', micro_batches = 4, flush = false, "
      "weights = 'double_buffer_predict'}\n",
      "boundary = {policy = 'delayed_gradient', weights = 'predict'}\n",
      "precision = 'bf16'\nboundary = {policy = 'backprop'}\n"
      "pipeline = {order = 'gpipe', micro_batches = 2, recompute = true}\n",
      "precision = 'bf16'\nboundary = {policy = 'delayed_gradient'}\n",
  };
  return all;
}

TEST(CheckpointedRuns, HaveTheBitsOfRunsThatKeepTheirGraphs) {
  for (const std::string& way : ways()) {
    SCOPED_TRACE(way);
    const NamedTensors plain = trained(net(way));
    for (const char* every : {"1", "2"})
      EXPECT_EQ(difference(trained(net(std::string("checkpoint_layers = ") +
                                       every + "\n" + way)),
                           plain),
                "");
  }
}

std::int64_t graph_bytes(const std::string& key) {
  std::int64_t most = 0;
  for (const Rehearsal& each : rehearse(small_experiment(
           key + "blocks = 2\nbatch_size = 256\n"
                 "model = {hidden = [256, 256, 256, 256], batch_norm = "
                 "true}\n")))
    most = std::max(most, each.memory.graph_bytes.value_or(0));
  return most;
}

TEST(CheckpointedRuns, KeepLessAsAPlanSays) {
  if (!install_allocator())
    GTEST_SKIP() << "the caching allocator, which counts bytes, is off under "
                    "AddressSanitizer";
  EXPECT_LT(graph_bytes("checkpoint_layers = 9\n"), graph_bytes("") / 2);
}

}  // namespace sluice::checkpointed_run_test
