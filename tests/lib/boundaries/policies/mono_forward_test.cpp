// Mono-Forward (arXiv:2501.09238) in whole runs, against plain autograd: layer
// by layer, each with a graph of its own. Labels L3 and L8 are those of the
// specification of local losses.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::mono_forward_test {

// A power of two, whose products are exact: a step has the same bits whether it
// is computed with fused multiply-adds or without.
constexpr double kRate = 0.0625;

/// `turns` of three hidden layers, the last in a block with the output.
std::string net(const char* boundary, int turns = 30,
                const char* blocks = "['0', '1', '2-']") {
  return "turns = " + std::to_string(turns) +
         "\nmodel = {hidden = [24, 20, 18]}\noptimizer = {lr = 0.0625}\n"
         "blocks = " +
         blocks + "\nboundary = " + boundary + "\n";
}
constexpr const char* kMonoForward =
    "{policy = 'local_loss', head = {name = 'mono_forward'}}";
constexpr const char* kBackprop = "{policy = 'backprop'}";

Applications applications(const std::string& lines) {
  return Training(small_experiment(lines)).train_and_record();
}

/// Trains the same net by plain autograd and SGD. A layer learns from the cross
/// entropy of softmax(a M^T); the last M is the output layer.
class Oracle {
 public:
  explicit Oracle(const Training& of)
      : turns_(of.experiment.length.turns),
        source_(of.experiment.data->train.samples(),
                {.batch_size = of.experiment.batch_size,
                 .seed = of.experiment.seed}) {
    for (const auto& [name, tensor] : of.weights())
      weights_[name] = tensor.detach().clone();
  }

  Applications train() {
    Applications applied;
    for (std::int64_t turn = 0; turn < turns_; ++turn) {
      const Batch batch = source_.batch(turn);
      at::Tensor x = batch.inputs.flatten(1);
      for (int block = 1; block <= 3; ++block)
        applied[block].push_back(
            {turn, turn, learn(names_of(block), batch.labels, x)});
    }
    return applied;
  }

 private:
  using Names = std::vector<std::string>;

  static Names names_of(int block) {
    const std::string layer = "layers." + std::to_string(block - 1);
    Names names = {layer + ".linear.weight", layer + ".linear.bias"};
    if (block < 3) {
      names.push_back("heads." + std::to_string(block - 1) +
                      ".projection.weight");
    } else {
      names.emplace_back("layers.3.linear.weight");
      names.emplace_back("layers.3.linear.bias");
    }
    return names;
  }

  /// One layer with its projection: gradients, then the step. x: its input,
  /// then its activations from before the step.
  Tensors learn(const Names& names, const at::Tensor& labels, at::Tensor& x) {
    Tensors leaves;
    for (const std::string& name : names)
      leaves.push_back(weights_.at(name).detach().requires_grad_());
    const at::Tensor activations =
        at::relu(at::linear(x, leaves[0], leaves[1]));
    const at::Tensor goodness =
        leaves.size() == 3 ? at::linear(activations, leaves[2])
                           : at::linear(activations, leaves[2], leaves[3]);
    const at::Tensor loss = at::cross_entropy_loss(goodness, labels);
    Tensors gradients = torch::autograd::grad({loss}, leaves);
    for (std::size_t i = 0; i < names.size(); ++i)
      weights_[names[i]] = leaves[i].detach() - gradients[i] * kRate;
    x = activations.detach();
    return gradients;
  }

  std::int64_t turns_;
  SampleSource source_;
  std::map<std::string, at::Tensor> weights_;
};

TEST(MonoForwardRuns, AreThoseOfPlainAutogradLayerByLayer) {
  const std::string lines = net(kMonoForward);
  const Applications expected =
      Oracle(Training(small_experiment(lines))).train();
  const Applications found = applications(lines);
  ASSERT_EQ(found.size(), 3U);
  for (const auto& [block, updates] : expected) {
    ASSERT_EQ(updates.size(), 30U);
    EXPECT_EQ(difference(found.at(block), updates), "") << "block " << block;
  }
}

/// The gradients of the block's own weight and bias, without its head's.
std::vector<ShownUpdate> without_head(std::vector<ShownUpdate> updates) {
  for (ShownUpdate& update : updates) update.gradients.resize(2);
  return updates;
}

TEST(MonoForwardRuns, AreNotBackprop) {
  EXPECT_GT(distance(without_head(applications(net(kMonoForward)).at(1)),
                     applications(net(kBackprop)).at(1)),
            1e-3);
}

TEST(MonoForwardRuns, L8_OfOneBlockAreBackprop) {
  EXPECT_EQ(difference(applications(net(kMonoForward, 6, "1")).at(1),
                       applications(net(kBackprop, 6, "1")).at(1)),
            "");
}

/// Gradients of one turn after the weights of block 2 were moved.
Applications with_moved_block_2() {
  Training training(small_experiment(net(kMonoForward, 1)));
  for (auto& [name, weight] : training.block(2).weights())
    weight.detach().mul_(1.5);
  return training.train_and_record();
}

TEST(MonoForwardRuns, L3_WeightsAboveNeverChangeTheGradient) {
  const Applications before = applications(net(kMonoForward, 1));
  const Applications moved = with_moved_block_2();
  EXPECT_EQ(difference(moved.at(1), before.at(1)), "");
  EXPECT_NE(difference(moved.at(2), before.at(2)), "");
}

}  // namespace sluice::mono_forward_test
