#include "tests/experiments/api/replica_network.h"

#include <filesystem>
#include <memory>
#include <ostream>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/linear.h>

#include "experiments/runs/seats/seat_sources.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::replica_network {
namespace {

/// An entry of the model `mlp` of modules/mlp.cpp, in one's own words.
LayerFactory mlp_entry(std::int64_t inputs, std::int64_t outputs, bool last) {
  return [=] {
    auto chain = std::make_shared<Chain>();
    chain->add([](const at::Tensor& x) { return x.flatten(1); });
    chain->add("linear", torch::nn::Linear(inputs, outputs));
    if (!last) chain->add([](const at::Tensor& x) { return x.relu(); });
    return chain;
  };
}

}  // namespace

void PrintTo(const Rules& rules, std::ostream* out) {
  *out << rules.name;
}

Experiment experiment_of(const Rules& rules) {
  return small_experiment(fmt::format(
      "blocks = ['0', '1-']\nbatch_size = 8\nturns = {}\n"
      "memory_format = 'contiguous'\nmodel = {{name = 'mlp', hidden = [12]}}\n"
      "optimizer = {{name = 'sgd', lr = 0.05, momentum = 0.9{}}}\n"
      "replicas = {{{}}}\n{}",
      kTurns, rules.of_optimizer, rules.replicas, rules.more));
}

NetworkOptions options_of(const Experiment& experiment, const Rules& rules,
                          const std::string& engine) {
  const SampleSpec& sample = experiment.model.sample;
  SampleShape sizes = sample.shape;
  sizes.insert(sizes.begin(), 1);
  const std::int64_t pixels = c10::multiply_integers(sample.shape);
  return {
      .layers = {mlp_entry(pixels, 12, false),
                 mlp_entry(12, sample.classes, true)},
      .example = at::zeros(sizes),
      .cuts = {1},
      .optimizer =
          fmt::format("sgd, lr = 0.05, momentum = 0.9{}", rules.of_optimizer),
      .settings = fmt::format(
          "engine = '{}'\nthreads = 1\nmemory_format = 'contiguous'\nreplicas "
          "= {{{}}}\n{}\n{}\n",
          engine, rules.replicas, rules.more, rules.of_network)};
}

namespace {

Batch turn_in(Source& source, std::int64_t turn, std::int64_t replicas) {
  Tensors inputs;
  Tensors labels;
  for (std::int64_t i = 0; i < replicas; ++i) {
    const Batch batch = source.batch(turn * replicas + i);
    inputs.push_back(batch.inputs);
    labels.push_back(batch.labels);
  }
  return {turn, at::cat(inputs), at::cat(labels)};
}

}  // namespace

Batch turn_of(const Experiment& experiment, std::int64_t turn) {
  return turn_in(*training_source(experiment), turn, experiment.replicas.count);
}

void train_on(const Experiment& experiment, Network& net, std::int64_t turns) {
  const auto source = training_source(experiment);
  for (std::int64_t i = 0; i < turns; ++i) {
    const Batch batch =
        turn_in(*source, net.turns(), experiment.replicas.count);
    net.step(batch.inputs, batch.labels);
  }
}

Folder::Folder() {
  std::string pattern =
      std::filesystem::temp_directory_path() / "sluice-test-XXXXXX";
  path_ = ::mkdtemp(pattern.data());
}

Folder::~Folder() {
  std::filesystem::remove_all(path_);
}

}  // namespace sluice::replica_network
