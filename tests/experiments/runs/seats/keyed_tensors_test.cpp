// Issue 18, item 6: what `sluice data order --with` writes is what training
// used: a run is repeated from it without our random numbers.
#include <map>
#include <string>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/seats/seat_sources.h"
#include "lib/checkpoints/safetensors.h"
#include "modules/label_in_sample.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::keyed_tensors_test {

using NamedTensorMap = std::map<std::string, at::Tensor>;

constexpr const char* kDrtp =
    "blocks = ['0', '1-']\nmemory_format = 'contiguous'\n"
    "model = {hidden = [32, 24], activation = 'tanh', dropout = 0.3}\n"
    "boundary = {policy = 'target_projection'}\n"
    "optimizer = {name = 'sgd', lr = 0.1}\n";
constexpr std::int64_t kTurns = 3;

class OrderWith : public Program {
 protected:
  Outcome order(const std::string& lines, const std::string& more) {
    const std::string config = write("c.toml", config_with(lines));
    return sluice("data order " + config + " --out " +
                  path("keyed.safetensors") + " " + more);
  }
  NamedTensorMap keyed(const std::string& lines) {
    const Outcome outcome = order(
        lines,
        fmt::format("--turns {} --with masks,labels,projections", kTurns));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    const NamedTensors read = read_safetensors(path("keyed.safetensors"));
    return {read.begin(), read.end()};
  }
};

Experiment experiment_of(const std::string& lines) {
  Experiment experiment =
      read_experiment(parse_toml(config_with(lines), "test.toml"), "");
  experiment.length.turns = kTurns;
  return experiment;
}

at::Tensor linear(const NamedTensorMap& weights, int layer,
                  const at::Tensor& x) {
  return at::linear(x,
                    weights.at(fmt::format("layers.{}.linear.weight", layer)),
                    weights.at(fmt::format("layers.{}.linear.bias", layer)));
}

/// h_layer, with the dropout's mask of the batch from the file.
at::Tensor hidden(const NamedTensorMap& weights, const NamedTensorMap& keyed,
                  int layer, std::int64_t batch, const at::Tensor& x) {
  return at::tanh(linear(weights, layer, x)) *
         keyed.at(fmt::format("masks.{}.layers.{}.dropout", batch, layer));
}

/// Plain SGD on the weights whose names begin so.
void step(NamedTensorMap& weights, const std::string& prefix,
          const at::Tensor& output, const at::Tensor& gradient) {
  std::vector<at::Tensor> own;
  for (auto& [name, weight] : weights)
    if (name.starts_with(prefix)) own.push_back(weight);
  const auto gradients = torch::autograd::grad({output}, own, {gradient});
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < own.size(); ++i) own[i].sub_(0.1 * gradients[i]);
}

/// The first turns of DRTP in plain LibTorch.
NamedTensorMap repeated(const NamedTensors& first, const NamedTensorMap& keyed,
                        const Experiment& experiment) {
  NamedTensorMap below;
  NamedTensorMap above;
  for (const auto& [name, tensor] : first)
    (name.starts_with("layers.0.") ? below : above)[name] =
        tensor.detach().clone().requires_grad_();
  const auto source = training_source(experiment);
  for (std::int64_t t = 0; t < kTurns; ++t) {
    const Batch batch = source->batch(t);
    const at::Tensor labels = keyed.at(fmt::format("labels.{}", t));
    const at::Tensor h0 = hidden(below, keyed, 0, t, batch.inputs.flatten(1));
    const at::Tensor h1 = hidden(above, keyed, 1, t, h0.detach());
    const at::Tensor loss =
        at::cross_entropy_loss(linear(above, 2, h1), labels);
    const at::Tensor projected =
        keyed.at("projections.0.0").index_select(0, labels) / labels.numel();
    step(below, "layers.0.", h0, projected);
    step(above, "layers.", loss, at::ones({}));
  }
  below.merge(above);
  return below;
}

double distance_to(const NamedTensorMap& weights, const NamedTensors& trained) {
  return distance({weights.begin(), weights.end()}, trained);
}

class OrderWithMasks : public OrderWith,
                       public testing::WithParamInterface<int> {};

TEST_P(OrderWithMasks, LabelsAndProjectionsRepeatsARunOfDrtpWithDropout) {
  const std::string lines = fmt::format("masks = {}\n{}", GetParam(), kDrtp);
  const NamedTensorMap keyed_tensors = keyed(lines);
  EXPECT_EQ(keyed_tensors.size(), 2U * 3 + 3 + 1);
  Training training(experiment_of(lines));
  const NamedTensors first = copies_of(training.weights());
  training.train();
  const NamedTensors trained = copies_of(training.weights());
  EXPECT_GT(distance(first, trained), 1e-3);
  EXPECT_LT(
      distance_to(repeated(first, keyed_tensors, training.experiment), trained),
      1e-6);
  for (const char* other : {"masks.2.layers.0.dropout",
                            "masks.2.layers.1.dropout", "projections.0.0"}) {
    NamedTensorMap changed = keyed_tensors;
    changed[other] = changed[other].flip(0);
    EXPECT_GT(
        distance_to(repeated(first, changed, training.experiment), trained),
        1e-5)
        << other;
  }
}

INSTANTIATE_TEST_SUITE_P(Masks, OrderWithMasks, testing::Values(1, 2),
                         testing::PrintToStringParamName());

TEST_F(OrderWith, LabelsTellTheWrongOnesOfForwardForward) {
  const std::string lines =
      "blocks = ['0', '1']\n"
      "model = {name = 'ff_mlp', hidden = [24, 20]}\n"
      "loss = {name = 'goodness'}\n"
      "boundary = {policy = 'local_loss', head = {name = 'forward_forward'}}\n";
  const NamedTensorMap keyed_tensors = keyed(lines);
  const Experiment experiment = experiment_of(lines);
  const auto source = training_source(experiment);
  SampleSource plain(
      experiment.data->train.samples(),
      {.batch_size = experiment.batch_size, .seed = experiment.seed});
  for (std::int64_t t = 0; t < kTurns; ++t) {
    const at::Tensor labels = keyed_tensors.at(fmt::format("labels.{}", t));
    const Batch batch = plain.batch(t);
    EXPECT_TRUE(labels.select(1, 0).equal(batch.labels));
    EXPECT_FALSE(labels.select(1, 1).eq(batch.labels).any().item<bool>());
    EXPECT_TRUE(
        with_labels(batch.inputs, labels, experiment.model.sample.classes)
            .equal(source->batch(t).inputs));
  }
}

}  // namespace sluice::keyed_tensors_test
