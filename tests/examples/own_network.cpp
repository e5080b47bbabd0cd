#include <sluice/sluice.h>
#include <torch/torch.h>

int main(int argc, char** argv) {
  torch::manual_seed(1);
  const sluice::NetworkOptions options = {
      .layers = {[] { return torch::nn::Conv2d(1, 8, 3); },
                 [] { return torch::nn::BatchNorm2d(8); }, torch::relu,
                 [] { return torch::nn::Flatten(); },
                 [] { return torch::nn::Linear(8 * 6 * 6, 10); }},
      .example = torch::zeros({1, 1, 8, 8}),
      .cuts = {1, 3},  // three blocks: layers 0, 1-2 and 3-4
      .boundaries = {"local_loss, head = {name = 'conv'}", "delayed_gradient"},
      .optimizer = "adam, lr = 2e-3"};
  return sluice::main(argc, argv, options, [](sluice::Network& net) {
    const auto images = torch::randn({10, 1, 8, 8});  // one for each class
    for (int t = 0; t < 100; ++t) {
      const auto y = torch::randint(10, {64});
      net.step(images.index_select(0, y) + torch::randn({64, 1, 8, 8}), y);
    }
    fmt::print("{}: accuracy {:.2f}\n", net.save("saved"),
               net.evaluate(images, torch::arange(10)).accuracy());
  });
}
