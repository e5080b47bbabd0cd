#include "experiments/api/network.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <memory>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "tests/experiments/api/small_network.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::network_test {

using testing::HasSubstr;

class OnEngine : public testing::TestWithParam<const char*> {
 protected:
  OnEngine() {
    std::string pattern =
        std::filesystem::temp_directory_path() / "sluice-test-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~OnEngine() override { std::filesystem::remove_all(folder_); }

  NetworkOptions options(std::vector<Choice> boundaries) const {
    return small_network(std::move(boundaries),
                         fmt::format("engine = '{}'\n", GetParam()));
  }

  std::string folder_;
};

TEST_P(OnEngine, ContinuesFromACheckpointWithBatchesInFlight) {
  const std::vector<Choice> mix = {"fully_decoupled", "delayed_gradient"};
  Network through(options(mix));
  train(through, 12);
  Network first(options(mix));
  train(first, 7);
  const std::string saved = first.save(folder_);
  EXPECT_TRUE(saved.ends_with("/turn-000007")) << saved;
  train(first, 2);
  EXPECT_GT(distance(first.weights(), through.weights()), 0);
  first.load(saved);
  EXPECT_EQ(first.turns(), 7);
  train(first, 5);
  EXPECT_EQ(difference(first.weights(), through.weights()), "");
}

TEST_P(OnEngine, ContinuesFromACheckpointThatWasSavedAfterADrain) {
  Network through(options({"fully_decoupled"}));
  train(through, 5);
  through.drain();
  // With batches in flight again, of which the oldest came after the drain.
  train(through, 1);
  const std::string saved = through.save(folder_);
  train(through, 6);
  Network again(options({"fully_decoupled"}));
  again.load(saved);
  train(again, 6);
  EXPECT_EQ(difference(again.weights(), through.weights()), "");
}

/// Threads that make layers would draw from this program's generator.
TEST(NetworkOnThreads, MakesNoLayersOnceItsPipeIsFull) {
  for (const char* weights : {"stash", "recompute", "predict", "mixed",
                              "vertical_sync", "extrapolate"})
    for (const int accumulate : {1, 3}) {
      const auto made = std::make_shared<std::atomic<int>>(0);
      const Choice choice =
          fmt::format("fully_decoupled, weights = '{}'", weights);
      NetworkOptions options = small_network(
          {choice, choice},
          fmt::format("engine = 'threads'\naccumulate = {{batches = {}}}\n",
                      accumulate));
      for (const std::size_t layer : {0, 5})
        options.layers[layer] = [made, layer] {
          ++*made;
          return layer == 0 ? torch::nn::Linear(6, 16)
                            : torch::nn::Linear(16, 4);
        };
      Network net(options);
      train(net, 2 * (4 + accumulate) + 1);
      net.weights();
      const int in_first_turns = *made;
      train(net, 40);
      net.weights();
      EXPECT_EQ(*made, in_first_turns) << weights << ", " << accumulate;
    }
}

TEST_P(OnEngine, EvaluationsDisturbNothing) {
  Network plain(options({"delayed_gradient"}));
  train(plain, 10);
  Network evaluated(options({"delayed_gradient"}));
  for (int i = 0; i < 10; ++i) {
    train(evaluated, 1);
    const Batch batch = small_batch(1000);
    evaluated.evaluate(batch.inputs, batch.labels);
  }
  EXPECT_EQ(difference(evaluated.weights(), plain.weights()), "");
}

TEST_P(OnEngine, ADrainAppliesWhatIsInFlightAndTrainingGoesOn) {
  Network net(options({"fully_decoupled"}));
  train(net, 6);
  const NamedTensors before = net.weights();
  net.drain();
  const NamedTensors drained = net.weights();
  EXPECT_GT(distance(drained, before), 0);
  net.drain();
  EXPECT_EQ(difference(net.weights(), drained), "");
  train(net, 6);
  EXPECT_GT(distance(net.weights(), drained), 0);
  EXPECT_EQ(net.turns(), 12);
}

TEST_P(OnEngine, AnIncompleteWindowIsDroppedByADrain) {
  NetworkOptions window = options({"local_loss"});
  window.settings += "accumulate = {batches = 4}\n";
  Network net(window);
  train(net, 4);
  const NamedTensors applied = net.weights();
  train(net, 3);
  net.drain();
  // The next window is one of four batches again, not of seven.
  train(net, 3);
  const auto statistics_apart = [&] {
    NamedTensors parameters;
    for (const auto& named : net.weights())
      if (named.first.find("running") == named.first.npos &&
          named.first.find("tracked") == named.first.npos)
        parameters.push_back(named);
    return parameters;
  };
  EXPECT_EQ(distance(statistics_apart(), applied), 0);
  train(net, 1);
  EXPECT_GT(distance(statistics_apart(), applied), 0);
}

TEST_P(OnEngine, AStepTellsWhatEveryBlockDid) {
  Network net(options({"local_loss", "delayed_gradient"}));
  const Batch batch = small_batch(0);
  const Step first = net.step(batch.inputs, batch.labels);
  const Step second = net.step(batch.inputs, batch.labels);
  EXPECT_GT(first.loss(), 0);
  EXPECT_GT(first.loss(1), 0);
  EXPECT_GE(first.accuracy(1), 0);
  // The gradient of the first batch is not there yet.
  EXPECT_TRUE(first.record(2).values.empty());
  EXPECT_TRUE(std::isnan(first.loss(2)));
  EXPECT_EQ(second.record(2).number("batch", -1), 0);
  EXPECT_EQ(second.record(2).number("d_batch", -1), 1);
  EXPECT_EQ(second.record(3).number("d_batch", -1), 0);
}

TEST_P(OnEngine, WhatABlockThrowsIsSaidWithItsNumber) {
  NetworkOptions options = this->options({"local_loss"});
  options.layers[5] = [](const at::Tensor& x) {
    if (x.size(0) == 3) throw UserError("three is unlucky");
    return x.slice(1, 0, 4);
  };
  Network net(options);
  train(net, 2);
  const Batch batch = small_batch(0);
  const auto fail = [&] {
    net.step(batch.inputs.slice(0, 0, 3), batch.labels.slice(0, 0, 3)).loss();
  };
  EXPECT_THAT(complaint_of(fail), HasSubstr("block 3: three is unlucky"));
  EXPECT_THAT(complaint_of([&] { train(net, 1); }), HasSubstr("has failed"));
}

TEST_P(OnEngine, ALayerThatWritesItsBlocksInputIsFound) {
  NetworkOptions options = this->options({"local_loss"});
  options.layers[4] = [] {
    return torch::nn::ReLU(torch::nn::ReLUOptions(true));
  };
  Network net(options);
  EXPECT_THAT(complaint_of([&] {
                train(net, 9);
                net.weights();
              }),
              HasSubstr("layer 4 of block 3"));
}

TEST_P(OnEngine, AtLearningRate0NothingMovesAndElseItDoes) {
  const Batch batch = small_batch(50);
  const auto moved = [&](const char* optimizer) {
    NetworkOptions options = this->options({"local_loss", "features_replay"});
    options.layers[3] = at::tanh;  // BatchNorm's statistics move anyway
    options.optimizer = optimizer;
    Network net(options);
    const at::Tensor before = net.forward(batch.inputs);
    train(net, 5);
    return (net.forward(batch.inputs) - before).abs().max().item<double>();
  };
  EXPECT_EQ(moved("sgd, lr = 0"), 0);
  EXPECT_GT(moved("sgd, lr = 0.1"), 0);
}

INSTANTIATE_TEST_SUITE_P(Engines, OnEngine,
                         testing::Values("virtual", "threads"));

TEST(Network, LearnsWhatItIsShown) {
  NetworkOptions options = small_network({"local_loss", "synthetic_gradient"});
  options.optimizer = "adam, lr = 0.01";
  Network net(options);
  const Batch batch = small_batch(0);
  for (int i = 0; i < 100; ++i) net.step(batch.inputs, batch.labels);
  const Evaluation result = net.evaluate(batch.inputs, batch.labels);
  EXPECT_EQ(result.accuracy(), 1);
  EXPECT_EQ(result.labels(), 8);
}

TEST(Network, TakesWeightsOfAnotherCut) {
  Network fine(small_network({"local_loss"}));
  train(fine, 3);
  fine.drain();
  const std::string folder =
      std::filesystem::temp_directory_path() / "sluice-other-cut";
  const std::string saved = fine.save(folder);
  NetworkOptions options = small_network({});
  options.cuts = {};
  options.settings += "initial_weights = '" + saved + "'\n";
  Network whole(options);
  EXPECT_EQ(distance(whole.weights(), fine.weights()), 0);
  std::filesystem::remove_all(folder);
}

std::string refusal(NetworkOptions options) {
  return complaint_of([&] { Network net(std::move(options)); });
}

TEST(NetworkMisuse, ModulesThatDrawFromTheProcessWideGenerator) {
  NetworkOptions options = small_network({});
  options.layers[1] = [] { return torch::nn::Dropout(0.1); };
  EXPECT_THAT(refusal(options),
              testing::AllOf(HasSubstr("layer 1: torch::nn::DropoutImpl"),
                             HasSubstr("sluice::Dropout")));
  options.layers[1] = [](const at::Tensor& x) {
    return at::dropout(x, 0.1, true);
  };
  EXPECT_THAT(refusal(options),
              testing::AllOf(HasSubstr("layer 1"),
                             HasSubstr("process-wide generator")));
}

TEST(NetworkMisuse, LayersThatDoNotFitEachOther) {
  NetworkOptions options = small_network({});
  options.layers[2] = [] { return torch::nn::Linear(17, 16); };
  EXPECT_THAT(refusal(options),
              HasSubstr("layer 2 can't take an input of [2, 16]: mat1 and mat2 "
                        "shapes"));
}

TEST(NetworkMisuse, CutsBeyondTheLayers) {
  NetworkOptions options = small_network({});
  options.cuts = {6};
  EXPECT_THAT(refusal(options), HasSubstr("cuts: 6 can't begin a block"));
  options.cuts = {2, 2};
  EXPECT_THAT(refusal(options), HasSubstr("cuts: 2 can't begin a block"));
}

TEST(NetworkMisuse, BlocksCantOpenTheDataOfALoop) {
  EXPECT_THAT(refusal(small_network({"synthetic_gradient, unlock = {}"})),
              HasSubstr("unlock is for `sluice run`"));
}

TEST(NetworkMisuse, PoliciesAreCheckedAsInAConfig) {
  EXPECT_THAT(refusal(small_network({"local_los"})),
              HasSubstr("did you mean 'local_loss'"));
  EXPECT_THAT(refusal(small_network({"local_loss", "backprop", "backprop"})),
              HasSubstr("3 policies for 2 boundaries"));
  EXPECT_THAT(refusal(small_network({"local_loss, hed = {}"})),
              HasSubstr("hed"));
  EXPECT_THAT(refusal(small_network({"policy = 'backprop'"})),
              HasSubstr("expected a name, then its options"));
}

TEST(NetworkMisuse, KeysThatAreTheLoopsOwn) {
  EXPECT_THAT(refusal(small_network({}, "epochs = 3")),
              HasSubstr("your own loop decides it"));
  NetworkOptions options = small_network({});
  options.optimizer = "sgd, schedule = {name = 'cosine'}";
  EXPECT_THAT(refusal(options), HasSubstr("needs `turns`"));
}

TEST(NetworkMisuse, ProcessesWithoutSluiceMain) {
  EXPECT_THAT(refusal(small_network({}, "engine = 'processes'")),
              HasSubstr("sluice::main()"));
}

TEST(NetworkMisuse, BatchesThatDoNotFit) {
  Network net(small_network({"local_loss"}));
  const Batch batch = small_batch(0);
  const auto step = [&](const at::Tensor& inputs, const at::Tensor& labels) {
    return complaint_of([&] { net.step(inputs, labels); });
  };
  EXPECT_THAT(step(at::zeros({8, 7}), batch.labels),
              HasSubstr("expected [N, 6] of Float, like the example; got [8, "
                        "7] of Float"));
  EXPECT_THAT(step(batch.inputs.to(at::kDouble), batch.labels),
              HasSubstr("of Double"));
  EXPECT_THAT(step(batch.inputs, batch.labels.slice(0, 0, 7)),
              HasSubstr("labels: expected [8] of Long; got [7]"));
  EXPECT_THAT(step(batch.inputs, batch.labels + 4), HasSubstr("0 to 3"));
  train(net, 3);  // nothing of it has harmed the network
  EXPECT_EQ(net.turns(), 3);
}

}  // namespace sluice::network_test
