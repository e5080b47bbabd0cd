// A network of one's own computes the bits of `sluice run`'s workers and of a
// plain LibTorch loop.
#include <filesystem>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "experiments/runs/seats/seat_sources.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/api/small_network.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::network_equality_test {

/// An entry of the model `mlp` of modules/mlp.cpp, in one's own words.
LayerFactory mlp_layer(std::int64_t inputs, std::int64_t outputs, bool last) {
  return [=] {
    auto chain = std::make_shared<Chain>();
    chain->add([](const at::Tensor& x) { return x.flatten(1); });
    chain->add("linear", torch::nn::Linear(inputs, outputs));
    if (!last) chain->add([](const at::Tensor& x) { return x.relu(); });
    return chain;
  };
}

struct Mix {
  const char* name;
  std::vector<Choice> boundaries;
  const char* config;
};

/// For the names of tests.
void PrintTo(const Mix& mix, std::ostream* out) {
  *out << mix.name;
}

class EqualityWithARun
    : public testing::TestWithParam<std::tuple<const char*, Mix>> {};

TEST_P(EqualityWithARun, SameBitsForTheSameLayersAndBatches) {
  const auto& [engine, mix] = GetParam();
  const std::string optimizer = "lr = 0.05, momentum = 0.9}\n";
  Training run(small_experiment(
      "memory_format = 'contiguous'\nblocks = ['0', '1', '2-']\nmodel = {name "
      "= 'mlp', hidden = [24, 20]}\noptimizer = {name = 'sgd', " +
      optimizer + mix.config));
  const Experiment& of = run.experiment;
  const SampleShape shape = of.model.sample.shape;
  const std::int64_t pixels = c10::multiply_integers(shape);
  SampleShape sizes = shape;
  sizes.insert(sizes.begin(), 1);
  Network net(
      {.layers = {mlp_layer(pixels, 24, false), mlp_layer(24, 20, false),
                  mlp_layer(20, of.model.sample.classes, true)},
       .example = at::zeros(sizes),
       .cuts = {1, 2},
       .boundaries = mix.boundaries,
       .optimizer = "sgd, lr = 0.05, momentum = 0.9",
       .settings = fmt::format("engine = '{}'\nthreads = 1\n"
                               "memory_format = 'contiguous'",
                               engine)});
  ASSERT_EQ(difference(net.weights(), run.weights()), "");
  const NamedTensors before = net.weights();

  run.train();
  const auto source = training_source(of);
  for (std::int64_t t = 0; t < of.length.turns; ++t) {
    const Batch batch = source->batch(t);
    net.step(batch.inputs, batch.labels);
  }
  net.drain();
  EXPECT_EQ(difference(net.weights(), run.weights()), "");
  EXPECT_GT(distance(net.weights(), before), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Mixes, EqualityWithARun,
    testing::Combine(
        testing::Values("virtual", "threads"),
        testing::Values(
            Mix{"backprop", {}, ""},
            Mix{"local_and_delayed",
                {"local_loss, head = {name = 'linear'}", "delayed_gradient"},
                "boundary = {1 = {policy = 'local_loss', head = {name = "
                "'linear'}}, 2 = {policy = 'delayed_gradient'}}"},
            Mix{"fully_decoupled",
                {"fully_decoupled, beta = 0.9"},
                "boundary = {policy = 'fully_decoupled', beta = 0.9}"},
            Mix{"codecs",
                {"local_loss, codec = 'bf16'",
                 "delayed_gradient, codec = "
                 "'int8'"},
                "boundary = {1 = {policy = 'local_loss', codec = 'bf16'}, 2 = "
                "{policy = 'delayed_gradient', codec = 'int8'}}"},
            Mix{"replay_and_synthetic",
                {"features_replay", "synthetic_gradient"},
                "boundary = {1 = {policy = 'features_replay'}, 2 = {policy = "
                "'synthetic_gradient'}}"})),
    [](const auto& info) {
      return fmt::format("{}_{}", std::get<0>(info.param),
                         std::get<1>(info.param).name);
    });

/// The net of small_network() without its dropout, as LibTorch's users write
/// it.
struct PlainNet : torch::nn::Module {
  torch::nn::Linear first{register_module("0", torch::nn::Linear(6, 16))};
  torch::nn::Linear second{register_module("2", torch::nn::Linear(16, 16))};
  torch::nn::BatchNorm1d norm{register_module("3", torch::nn::BatchNorm1d(16))};
  torch::nn::Linear last{register_module("5", torch::nn::Linear(16, 4))};

  at::Tensor forward(const at::Tensor& x) {
    return last(norm(second(first(x).relu())));
  }
  /// By the names of a checkpoint.
  NamedTensors tensors() const {
    NamedTensors all;
    for (const auto& item : named_parameters())
      all.emplace_back("layers." + item.key(), item.value());
    for (const auto& item : named_buffers())
      all.emplace_back("layers." + item.key(), item.value());
    return all;
  }
};

TEST(Network, SettingsSayHowMasksAreDrawn) {
  const auto trained = [](const std::string& settings) {
    Network net(small_network({"backprop"}, settings));
    train(net, 3);
    return net.weights();
  };
  const NamedTensors old = trained("masks = 1\n");
  EXPECT_EQ(difference(old, trained("masks = 1\nengine = 'threads'\n")), "");
  EXPECT_NE(difference(old, trained("masks = 2\n")), "");
  EXPECT_EQ(difference(trained(""), trained("masks = 2\n")), "");
}

TEST(Network, WithBackpropComputesTheBitsOfAPlainLoop) {
  at::set_num_threads(1);  // as the network's
  NetworkOptions options = small_network({"backprop"});
  options.layers[4] = [](const at::Tensor& x) { return x; };
  Network net(options);
  PlainNet plain;
  copy_by_name(net.weights(), plain.tensors(), "the network");
  const Tensors weights = plain.parameters();
  Tensors velocities;
  for (const at::Tensor& weight : weights)
    velocities.push_back(at::zeros_like(weight));
  for (std::int64_t t = 0; t < 10; ++t) {
    const Batch batch = small_batch(t);
    const double loss = net.step(batch.inputs, batch.labels).loss();
    plain.zero_grad();
    const at::Tensor expected =
        at::cross_entropy_loss(plain.forward(batch.inputs), batch.labels);
    EXPECT_EQ(loss, expected.item<double>());
    expected.backward();
    const at::NoGradGuard no_grad;
    Tensors gradients;
    for (const at::Tensor& weight : weights) gradients.push_back(weight.grad());
    at::_fused_sgd_(weights, gradients, velocities, 0, 0.9, 0.1, 0, false,
                    false, false);
  }
  EXPECT_EQ(difference(net.weights(), plain.tensors()), "");
}

TEST(Network, ModulesKeepTheWeightsThatTheirFactoriesMadeThemWith) {
  at::manual_seed(3);
  torch::nn::Linear alone(6, 4);
  at::manual_seed(3);
  Network net({.layers = {[] { return torch::nn::Linear(6, 4); }},
               .example = at::zeros({1, 6})});
  const NamedTensors own = net.weights();
  ASSERT_EQ(own.at(0).first, "layers.0.weight");
  EXPECT_TRUE(own[0].second.equal(alone->weight));
}

TEST(Network, LeavesNoTraceOfItsTrialInTheStatistics) {
  Network net(small_network({}));
  for (const auto& [name, tensor] : net.weights())
    if (name == "layers.3.running_mean") {
      EXPECT_EQ(tensor.abs().max().item<float>(), 0);
    }
  const Batch batch = small_batch(0);
  const at::Tensor before = net.forward(batch.inputs);
  net.load(net.save(std::filesystem::temp_directory_path() / "sluice-trace"));
  EXPECT_TRUE(net.forward(batch.inputs).equal(before));
  std::filesystem::remove_all(std::filesystem::temp_directory_path() /
                              "sluice-trace");
}

TEST(Network, LeavesTheProcessWideGeneratorToTheProgram) {
  // `stash` makes layers anew for the batches in flight.
  Network net(small_network({"delayed_gradient"}, "engine = 'threads'"));
  at::manual_seed(5);
  const at::Tensor undisturbed = at::rand({20});
  at::manual_seed(5);
  for (std::int64_t t = 0; t < 20; ++t) {
    train(net, 1);
    EXPECT_EQ(at::rand({1}).item<float>(), undisturbed[t].item<float>());
  }
}

}  // namespace sluice::network_equality_test
