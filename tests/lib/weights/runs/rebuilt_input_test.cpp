// PETRA: blocks of reversible layers keep nothing of a batch, whose input they
// rebuild from their output. T1, T2 and T4 are labels of the specification
// (methods, section 7.12).
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "lib/base/by_block.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::rebuilt_input_test {

constexpr double kRate = 0.1;
constexpr std::int64_t kTurns = 30;

/// Block 1 has the stem, and block 3 the classifier, which have no inverse.
std::string net(const std::string& view, double rate = kRate,
                std::int64_t turns = kTurns) {
  const std::string statistics =
      view == "stash" ? "" : ", statistics = 'replay'";
  return "blocks = ['0-1', '2-3', '4-']\nbatch_size = 16\nturns = " +
         std::to_string(turns) +
         "\nmodel = {name = 'revnet', width = 8, blocks = [4]}\n"
         "optimizer = {lr = " +
         std::to_string(rate) +
         "}\nboundary = {policy = 'fully_decoupled', order = 'A', weights = '" +
         view + "'" + statistics + "}\n";
}

std::string petra() {
  return net("rebuilt") + "accumulate = {batches = 2, rule = 'mean'}\n";
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

Applications applications(const std::string& lines) {
  return Training(small_experiment(lines)).train_and_record();
}

/// The whole algorithm in ticks: plain ATen and autograd over the net that is
/// written out here, all messages of the past at hand.
class PlainPetra {
 public:
  explicit PlainPetra(const Training& of) {
    for (const auto& [name, tensor] : copies_of(of.weights()))
      if (name.ends_with("weight") || name.ends_with("bias"))
        weights_[name] = tensor;
    SampleSource source(
        of.experiment.data->train.samples(),
        {.batch_size = of.experiment.batch_size, .seed = of.experiment.seed});
    for (std::int64_t t = 0; t < kTurns; ++t)
      batches_.push_back(source.batch(t));
  }

  NamedTensors train() {
    for (std::int64_t tick = 0; tick < kTurns + 4; ++tick)
      for (int block = 1; block <= 3; ++block) {
        if (tick < kTurns) forward(block, tick);
        const std::int64_t batch = tick - 2 * (3 - block);
        if (batch < 0 || batch >= kTurns) continue;
        backward(block, batch);
        if (batch % 2 == 1) update(block);
      }
    return {weights_.begin(), weights_.end()};
  }

 private:
  using Weights = std::map<std::string, at::Tensor>;
  using Key = std::pair<int, std::int64_t>;  // block, batch

  static at::Tensor normed(const at::Tensor& x, const Weights& w,
                           const std::string& name) {
    return at::batch_norm(x, w.at(name + ".weight"), w.at(name + ".bias"), {},
                          {}, true, 0.1, 1e-5, false);
  }

  static at::Tensor convolved(const at::Tensor& x, const Weights& w,
                              const std::string& name) {
    return at::conv2d(x, w.at(name + ".weight"), {}, 1, 1);
  }

  /// F of a coupling.
  static at::Tensor branch(const at::Tensor& x, const Weights& w,
                           const std::string& layer) {
    at::Tensor h = normed(convolved(x, w, layer + "conv1"), w, layer + "norm1");
    h = convolved(at::relu(h), w, layer + "conv2");
    return normed(h, w, layer + "norm2");
  }

  static at::Tensor coupled(const at::Tensor& x, const Weights& w,
                            const std::string& layer) {
    const at::Tensor second = x.narrow(1, 4, 4);
    return at::cat({second, x.narrow(1, 0, 4) + branch(second, w, layer)}, 1);
  }

  static at::Tensor uncoupled(const at::Tensor& y, const Weights& w,
                              const std::string& layer) {
    const at::Tensor second = y.narrow(1, 0, 4);
    return at::cat({y.narrow(1, 4, 4) - branch(second, w, layer), second}, 1);
  }

  static at::Tensor run(int block, at::Tensor x, const Weights& w) {
    if (block == 1) {
      x = at::relu(
          normed(convolved(x, w, "layers.0.conv"), w, "layers.0.norm"));
      return coupled(x, w, "layers.1.");
    }
    if (block == 2) return coupled(coupled(x, w, "layers.2."), w, "layers.3.");
    x = at::relu(coupled(x, w, "layers.4.")).mean({2, 3});
    return at::linear(x, w.at("layers.5.linear.weight"),
                      w.at("layers.5.linear.bias"));
  }

  static bool is_of(int block, const std::string& name) {
    const int layer = name.at(std::string("layers.").size()) - '0';
    return (layer < 2 ? 1 : layer < 4 ? 2 : 3) == block;
  }

  void forward(int block, std::int64_t batch) {
    const at::NoGradGuard no_grad;
    const at::Tensor input =
        block == 1 ? batches_.at(static_cast<std::size_t>(batch)).inputs
                   : outputs_.at({block - 1, batch});
    if (block != 2) inputs_[{block, batch}] = input;
    outputs_[{block, batch}] = run(block, input, weights_);
  }

  at::Tensor input_for_backward(int block, std::int64_t batch) const {
    if (block != 2) return inputs_.at({block, batch});
    const at::NoGradGuard no_grad;
    return uncoupled(
        uncoupled(returned_.at({block, batch}), weights_, "layers.3."),
        weights_, "layers.2.");
  }

  void backward(int block, std::int64_t batch) {
    const at::Tensor input =
        input_for_backward(block, batch).detach().clone().requires_grad_();
    Weights leaves = weights_;
    std::vector<at::Tensor> wanted = {input};
    for (auto& [name, weight] : leaves)
      if (is_of(block, name)) {
        weight = weight.detach().clone().requires_grad_();
        wanted.push_back(weight);
      }
    at::Tensor output = run(block, input, leaves);
    std::vector<at::Tensor> signals;
    if (block == 3)
      output = at::cross_entropy_loss(
          output, batches_.at(static_cast<std::size_t>(batch)).labels);
    else
      signals.push_back(deltas_.at({block, batch}));
    const std::vector<at::Tensor> gradients =
        torch::autograd::grad({output}, wanted, signals);
    deltas_[{block - 1, batch}] = gradients.at(0);
    returned_[{block - 1, batch}] = input.detach();
    std::size_t next = 1;
    for (const auto& [name, weight] : leaves) {
      if (!is_of(block, name)) continue;
      at::Tensor& sum = sums_[name];
      sum = sum.defined() ? sum + gradients.at(next) : gradients.at(next);
      ++next;
    }
  }

  void update(int block) {
    for (auto& [name, weight] : weights_)
      if (is_of(block, name))
        weight = weight - std::exchange(sums_[name], {}) / 2 * kRate;
  }

  Weights weights_;
  std::vector<Batch> batches_;
  std::map<Key, at::Tensor> inputs_;    // of blocks without an inverse
  std::map<Key, at::Tensor> outputs_;   // of forwards
  std::map<Key, at::Tensor> deltas_;    // at the output, from above
  std::map<Key, at::Tensor> returned_;  // the output, from above
  std::map<std::string, at::Tensor> sums_;
};

TEST(Petra, FollowsItsAlgorithmOver30Turns) {
  Training training(small_experiment(petra()));
  PlainPetra plain(training);
  training.train();
  const NamedTensors ours = training.weights();
  const NamedTensors theirs = plain.train();
  const double off = distance(theirs, ours);
  EXPECT_LT(off, 1e-3);
  const NamedTensors kept =
      trained(net("current") + "accumulate = {batches = 2, rule = 'mean'}\n");
  EXPECT_LT(3 * off, distance(theirs, kept))
      << "inputs that are kept would be others than those that are rebuilt";
}

/// While no weight moves, what is rebuilt is what the forward had, but for the
/// rounding of the inverse.
TEST(Petra, T1_WithoutLearningHasTheGradientsOfAStashWithinRounding) {
  const Applications rebuilt = applications(net("rebuilt", 0, 10));
  const Applications stash = applications(net("stash", 0, 10));
  for (const auto& [block, updates] : stash) {
    ASSERT_EQ(updates.size(), 10U);
    EXPECT_LT(distance(rebuilt.at(block), updates), 1e-4) << "block " << block;
  }
  EXPECT_GT(distance(applications(net("rebuilt", kRate, 10)).at(2),
                     applications(net("stash", kRate, 10)).at(2)),
            1e-3)
      << "with weights that move they are others";
}

TEST(Petra, T2_OfOneBlockIsBackprop) {
  const auto with = [](const char* blocks, const char* boundary) {
    return trained(std::string("batch_size = 16\nturns = 10\nblocks = ") +
                   blocks +
                   "\nmodel = {name = 'revnet', width = 8, blocks = [4]}\n"
                   "boundary = {" +
                   boundary + "}\n");
  };
  const char* petra_keys =
      "policy = 'fully_decoupled', order = 'A', weights = 'rebuilt', "
      "statistics = 'replay'";
  const NamedTensors backprop = with("1", "policy = 'backprop'");
  EXPECT_EQ(difference(with("1", petra_keys), backprop), "");
  EXPECT_GT(distance(with("['0-1', '2-3', '4-']", petra_keys), backprop), 1e-3);
}

TEST(Petra, PetraOfLayersWithoutAnInverseReplaysTheirInputs) {
  const auto mlp = [](const std::string& view) {
    return "blocks = 3\nmodel = {hidden = [24, 20]}\nboundary = {policy = "
           "'fully_decoupled', weights = '" +
           view + "'}\n";
  };
  const NamedTensors rebuilt = trained(mlp("rebuilt"));
  EXPECT_EQ(difference(rebuilt, trained(mlp("current"))), "");
  EXPECT_NE(difference(rebuilt, trained(mlp("stash"))), "");
}

/// Most bytes that block 2 holds.
double most_bytes(const std::string& view, const char* what) {
  class RecordList final : public Sink {
   public:
    void write(const Record& record) override { records.push_back(record); }
    std::vector<Record> records;
  };
  const auto kept = std::make_shared<RecordList>();
  Training(small_experiment(net(view, kRate, 6)), kept).train();
  for (const Record& record : kept->records)
    if (record.text("kind") == "block" && record.number("block", 0) == 2)
      return record.number(what, -1);
  return -1;
}

/// Three batches of 16 are in flight.
TEST(Petra, T4_KeepsOnlyLabelsOfABlockThatHasAnInverse) {
  constexpr double kLabels = 3.0 * 16 * 8;
  EXPECT_EQ(most_bytes("rebuilt", "history_bytes"), kLabels);
  EXPECT_EQ(most_bytes("rebuilt", "stash_bytes"), 0);
  EXPECT_GT(most_bytes("current", "history_bytes"), 100 * kLabels);
  EXPECT_GT(most_bytes("stash", "stash_bytes"), 0);
}

/// To block 2, and not to block 1, which keeps its inputs.
TEST(Petra, SendsItsInputDownWhereTheBlockBelowRebuildsFromIt) {
  const Experiment rebuilt = small_experiment(net("rebuilt"));
  const std::vector<BlockPlan>& blocks = rebuilt.plans.at(0).blocks;
  EXPECT_FALSE(by_block(blocks, 1).gradients.returns_input);
  EXPECT_FALSE(by_block(blocks, 2).gradients.returns_input);
  EXPECT_TRUE(by_block(blocks, 3).gradients.returns_input);
  const Experiment current = small_experiment(net("current"));
  EXPECT_FALSE(by_block(current.plans.at(0).blocks, 3).gradients.returns_input);
  EXPECT_EQ(by_block(rebuilt.costs.bytes, 2).gradient,
            2 * by_block(current.costs.bytes, 2).gradient);
  EXPECT_EQ(by_block(rebuilt.costs.bytes, 1).gradient,
            by_block(current.costs.bytes, 1).gradient);
}

}  // namespace sluice::rebuilt_input_test
