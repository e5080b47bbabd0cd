// Trains an MLP of three linear layers by the C++ Network: what sluice.Network
// computes of it must have these bits, and may take about as long
// (python/tests/test_network.py, python/benchmarks/network_step.py).
//
// usage: network_oracle BATCHES INITIAL WEIGHTS POLICY OPTIMIZER [key=value...]
//   BATCHES  safetensors: x [T, N, features] and y [T, N]
//   INITIAL, WEIGHTS  the weights before and after, named as in checkpoints
// Prints the loss of the last block at each turn; on stderr the seconds that
// the turns took, but for the first tenth.
#include <chrono>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/linear.h>

#include "experiments/api/sluice.h"
#include "lib/checkpoints/safetensors.h"

namespace {

at::Tensor named(const sluice::NamedTensors& all, const std::string& name) {
  for (const auto& [its, tensor] : all)
    if (its == name) return tensor;
  throw sluice::UserError("no tensor '{}'", name);
}

void train(sluice::Network& net, const sluice::NamedTensors& batches) {
  const at::Tensor x = named(batches, "x");
  const at::Tensor y = named(batches, "y");
  std::vector<sluice::Step> steps;
  auto begin = std::chrono::steady_clock::now();
  for (std::int64_t turn = 0; turn < x.size(0); ++turn) {
    if (turn == x.size(0) / 10) {
      if (!steps.empty()) steps.back().loss();
      begin = std::chrono::steady_clock::now();
    }
    steps.push_back(net.step(x[turn], y[turn]));
  }
  for (const sluice::Step& step : steps) fmt::print("{:.17g}\n", step.loss());
  fmt::print(
      stderr, "{}\n",
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count());
  net.drain();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const sluice::NamedTensors initial = sluice::read_safetensors(argv[2]);
  const auto linear = [&](const char* name) {
    const at::Tensor weight = named(initial, name);
    return [in = weight.size(1), out = weight.size(0)] {
      return torch::nn::Linear(in, out);
    };
  };
  std::vector<char*> words(argv + 5, argv + argc);
  words.front() = argv[0];
  words.push_back(nullptr);
  return sluice::main(
      argc - 5, words.data(),
      {.layers = {linear("layers.0.weight"), torch::relu,
                  linear("layers.2.weight"), torch::relu,
                  linear("layers.4.weight")},
       .example = at::zeros({1, named(initial, "layers.0.weight").size(1)}),
       .cuts = {2, 4},
       .boundaries = {argv[4]},
       .optimizer = argv[5],
       .settings = "threads = 1\nseed = 3"},
      [&](sluice::Network& net) {
        net.load(argv[2]);
        train(net, sluice::read_safetensors(argv[1]));
        sluice::write_safetensors(argv[3], net.weights());
      });
}
