// AMP on a chain of blocks (the preset `amp`), in whole runs against formulas
// that are written out here: what a block does with a batch at each visit,
// whatever the schedule.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "experiments/config/presets/published.h"
#include "experiments/data/order/sample_source.h"
#include "lib/base/by_block.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::amp_run_test {

constexpr double kRate = 0.1;  // the default
/// Batches of 16, of which the windows of 4 and 3 hold no whole number of 30.
constexpr const char* kNet =
    "blocks = ['0-1', '2-3', '4-']\nturns = 30\nbatch_size = 16\n"
    "model = {hidden = [24, 20, 24, 20, 16]}\n";

std::string net(const std::string& lines) {
  return kNet + lines;
}

std::string preset() {
  return net(find_row(presets(), "amp", "preset").make->config());
}

std::string by_blocks(const std::string& more = "") {
  return net(
      "schedule = 'free'\nin_flight = 4\npriority = 'arrival'\n"
      "accumulate = {by_block = [4, 1, 3]}\n"
      "boundary = {policy = 'delayed_gradient', weights = 'mixed'}\n" +
      more);
}

Costs slow_by(const std::vector<double>& slowness, double latency,
              double jitter) {
  Costs costs{.latency = latency, .jitter = jitter, .seed = 3};
  for (const double slow : slowness)
    costs.blocks.push_back(
        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}, .slowness = slow});
  return costs;
}

const Costs& uneven() {
  static const Costs costs = slow_by({1, 4, 2}, 1.5, 0.8);
  return costs;
}

/// Linear layers with ReLU between them. A backward meets what its forward left
/// with the weights of today: for y = relu(x W' + b) and a gradient g at y,
/// g' = g [y > 0], dW = g''x, db = sum g', and g'W goes down.
class PlainAmp {
 public:
  explicit PlainAmp(const Training& of) : blocks_(of.experiment.blocks()) {
    const NamedTensors first = copies_of(of.weights());
    for (int block = 1; block <= blocks_; ++block) {
      const LayerRange range = by_block(of.experiment.ranges, block);
      for (std::int64_t i = range.first; i <= range.last; ++i)
        layers_[block].push_back(
            {.name = "layers." + std::to_string(i) + ".linear."});
    }
    for (auto& [block, layers] : layers_)
      for (Layer& layer : layers)
        for (const auto& [name, tensor] : first) {
          if (name == layer.name + "weight") layer.weight = tensor;
          if (name == layer.name + "bias") layer.bias = tensor;
        }
    SampleSource source(
        of.experiment.data->train.samples(),
        {.batch_size = of.experiment.batch_size, .seed = of.experiment.seed});
    for (std::int64_t t = 0; t < of.experiment.length.turns; ++t)
      batches_.push_back(source.batch(t));
  }

  void follow(const TimedAction& timed) {
    const at::NoGradGuard no_grad;
    if (timed.action.op == Op::forward) forward(timed.seat, timed.action.batch);
    if (timed.action.op == Op::backward)
      backward(timed.seat, timed.action.batch);
    if (timed.action.op == Op::update) update(timed.seat);
  }

  NamedTensors weights() const {
    NamedTensors all;
    for (const auto& [block, layers] : layers_)
      for (const Layer& layer : layers) {
        all.emplace_back(layer.name + "weight", layer.weight);
        all.emplace_back(layer.name + "bias", layer.bias);
      }
    return all;
  }

 private:
  struct Layer {
    std::string name = {};
    at::Tensor weight = {}, bias = {};
    at::Tensor of_weight = {}, of_bias = {};  // summed gradients
  };
  using Key = std::pair<int, std::int64_t>;  // block, batch

  const Batch& batch_of(std::int64_t batch) const {
    return batches_.at(static_cast<std::size_t>(batch));
  }

  void forward(int block, std::int64_t batch) {
    at::Tensor x = block == 1 ? batch_of(batch).inputs.flatten(1)
                              : values_.at({block - 1, batch}).back();
    std::vector<at::Tensor>& values = values_[{block, batch}];
    values = {x};
    for (const Layer& layer : layers_.at(block)) {
      x = x.mm(layer.weight.t()) + layer.bias;
      const bool is_logits =
          block == blocks_ && &layer == &layers_.at(block).back();
      if (!is_logits) x = at::relu(x);
      values.push_back(x);
    }
  }

  /// Gradient of the mean cross entropy at the logits.
  at::Tensor at_logits(std::int64_t batch) const {
    const at::Tensor& logits = values_.at({blocks_, batch}).back();
    const at::Tensor truth =
        at::one_hot(batch_of(batch).labels, logits.size(1)).to(at::kFloat);
    return (at::softmax(logits, 1) - truth) /
           static_cast<double>(logits.size(0));
  }

  void backward(int block, std::int64_t batch) {
    at::Tensor g =
        block == blocks_ ? at_logits(batch) : gradients_.at({block, batch});
    const std::vector<at::Tensor>& values = values_.at({block, batch});
    std::vector<Layer>& layers = layers_.at(block);
    for (std::size_t i = layers.size(); i-- > 0;) {
      const bool is_logits = block == blocks_ && i + 1 == layers.size();
      if (!is_logits) g = g * (values[i + 1] > 0).to(at::kFloat);
      Layer& layer = layers[i];
      add(g.t().mm(values[i]), layer.of_weight);
      add(g.sum(0), layer.of_bias);
      g = g.mm(layer.weight);
    }
    if (block > 1) gradients_[{block - 1, batch}] = g;
  }

  static void add(const at::Tensor& gradient, at::Tensor& sum) {
    sum = sum.defined() ? sum + gradient : gradient;
  }

  void update(int block) {
    for (Layer& layer : layers_.at(block)) {
      layer.weight = layer.weight - layer.of_weight * kRate;
      layer.bias = layer.bias - layer.of_bias * kRate;
      layer.of_weight = at::Tensor();
      layer.of_bias = at::Tensor();
    }
  }

  int blocks_;
  std::map<int, std::vector<Layer>> layers_;
  std::vector<Batch> batches_;
  std::map<Key, std::vector<at::Tensor>> values_;  // x, and behind each layer
  std::map<Key, at::Tensor> gradients_;            // at the block's output
};

NamedTensors trained(const std::string& lines, const Costs& costs = {}) {
  Training training(small_experiment(lines));
  training.train(costs);
  return training.weights();
}

TEST(AmpRun, HasTheWeightsOfItsFormulasOver30Turns) {
  for (const std::string& lines : {preset(), by_blocks()}) {
    Training training(small_experiment(lines));
    PlainAmp plain(training);
    training.watch = [&](const TimedAction& timed) { plain.follow(timed); };
    training.train(uneven());
    const NamedTensors ours = training.weights();
    const double off = distance(ours, plain.weights());
    EXPECT_LT(off, 1e-4) << lines;
    EXPECT_GT(distance(trained(lines), ours), 10 * off)
        << "other times, other weights";
  }
}

TEST(AmpRun, AmpRunOfOneBatchInFlightIsBackprop) {
  const NamedTensors one = trained(
      net("schedule = 'free'\nin_flight = 1\npriority = 'arrival'\n"
          "accumulate = {batches = 2}\n"
          "boundary = {policy = 'delayed_gradient', weights = 'mixed'}\n"),
      uneven());
  const NamedTensors backprop =
      trained(net("accumulate = {batches = 2}\n"
                  "boundary = {policy = 'backprop'}\n"));
  EXPECT_EQ(difference(one, backprop), "");
  EXPECT_NE(difference(trained(preset(), uneven()), backprop), "");
}

TEST(AmpRun, MeasuresTheBoundOfItsStaleness) {
  class Staleness final : public Sink {
   public:
    void write(const Record& record) override {
      if (record.text("kind") != "train") return;
      const int block = static_cast<int>(record.number("block", 0));
      most[block] = std::max(most[block], record.number("d_upd", -1));
    }
    std::map<int, double> most;
  };
  const auto seen = std::make_shared<Staleness>();
  Training(small_experiment(by_blocks()), seen).train(slow_by({1, 9, 9}, 0, 0));
  EXPECT_LE(seen->most.at(1), 1);  // ceil(3 / 4)
  EXPECT_LE(seen->most.at(2), 3);
  EXPECT_GT(seen->most.at(1) + seen->most.at(2), 0);
  EXPECT_EQ(seen->most.at(3), 0);
}

}  // namespace sluice::amp_run_test
