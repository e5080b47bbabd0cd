// Trains the MLP of python/tests/test_network.py by the C++ Network: what it
// computes from Python must have these bits.
//
// usage: network_oracle BATCHES INITIAL WEIGHTS POLICY OPTIMIZER
//   BATCHES  safetensors: x [T, N, 16] and y [T, N]; INITIAL, WEIGHTS: the
//   weights before and after, named as in checkpoints. Prints the loss of the
//   last block at each turn.
#include <string>

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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  sluice::install_allocator();
  sluice::Network net(
      {.layers = {[] { return torch::nn::Linear(16, 32); }, torch::relu,
                  [] { return torch::nn::Linear(32, 24); }, torch::relu,
                  [] { return torch::nn::Linear(24, 10); }},
       .example = at::zeros({1, 16}),
       .cuts = {2, 4},
       .boundaries = {argv[4]},
       .optimizer = argv[5],
       .settings = "threads = 1\nseed = 3"});
  net.load(argv[2]);
  const sluice::NamedTensors batches = sluice::read_safetensors(argv[1]);
  const at::Tensor x = named(batches, "x");
  const at::Tensor y = named(batches, "y");
  for (std::int64_t turn = 0; turn < x.size(0); ++turn)
    fmt::print("{:.17g}\n", net.step(x[turn], y[turn]).loss());
  net.drain();
  sluice::write_safetensors(argv[3], net.weights());
}
