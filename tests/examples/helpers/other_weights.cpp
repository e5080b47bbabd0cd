// A program whose modules begin with other weights in its worker processes.
#include <cstdlib>

#include <torch/nn/modules/linear.h>

#include "experiments/api/sluice.h"

int main(int argc, char** argv) {
  const bool is_worker = std::getenv("SLUICE_WORKER") != nullptr;
  torch::manual_seed(is_worker ? 2 : 1);
  const sluice::NetworkOptions options = {
      .layers = {[] { return torch::nn::Linear(6, 5); }, torch::relu,
                 [] { return torch::nn::Linear(5, 3); }},
      .example = torch::zeros({1, 6}),
      .cuts = {2},
      .boundaries = {"delayed_gradient"},
      .optimizer = "sgd, lr = 0.1"};
  return sluice::main(argc, argv, options, [](sluice::Network& net) {
    net.save("first");
    for (int t = 0; t < 5; ++t)
      net.step(torch::randn({4, 6}), torch::randint(3, {4}));
    net.load(net.save("saved"));  // starts the workers once more
    net.drain();
    net.step(torch::randn({4, 6}), torch::randint(3, {4}));
    net.save("saved");
  });
}
