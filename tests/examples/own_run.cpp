#include <sluice/sluice.h>
#include <torch/torch.h>

int main(int argc, char** argv) {
  torch::manual_seed(1);
  const sluice::NetworkOptions options = {
      .layers = {[] { return torch::nn::Linear(64, 32); }, torch::relu,
                 [] { return torch::nn::Linear(32, 10); }},
      .example = torch::zeros({1, 64}),
      .cuts = {2},
      .boundaries = {"local_loss"},
      .optimizer = "adam, lr = 2e-3",
      .settings = "name = 'mine'",
      .run = {.folder = "runs/mine"}};
  return sluice::main(argc, argv, options, [](sluice::Network& net) {
    const auto means = torch::randn({10, 64});  // one for each class
    while (net.turns() < 200) {
      const auto y = torch::randint(10, {64});
      net.step(means.index_select(0, y) + torch::randn({64, 64}), y);
      if (net.turns() % 50 == 0)
        net.record(net.evaluate(means, torch::arange(10)));
    }
  });
}
