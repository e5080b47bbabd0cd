// A method that Sluice doesn't know: the gradient from above, of which only the
// signs are kept, at the scale that they had together.
#include <fmt/core.h>
#include <sluice/sluice.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

namespace {

class SignOnly final : public sluice::Lower {
 public:
  sluice::Traits traits() const override { return {.delay = 1}; }

  sluice::Signal signal(const sluice::BatchContext& context) override {
    sluice::Signal signal;
    for (const at::Tensor& gradient : context.from_above)
      signal.gradients.push_back(gradient.sign() * gradient.abs().mean());
    return signal;
  }
};

sluice::MakeBoundary configure(sluice::Fields&, const sluice::PlugIns&) {
  return
      [](const sluice::BoundarySite&) { return std::make_unique<SignOnly>(); };
}

}  // namespace

int main(int argc, char** argv) {
  torch::manual_seed(1);
  const sluice::NetworkOptions options = {
      .layers = {[] { return torch::nn::Linear(16, 32); }, torch::relu,
                 [] { return torch::nn::Linear(32, 32); }, torch::relu,
                 [] { return torch::nn::Linear(32, 4); }},
      .example = torch::zeros({1, 16}),
      .cuts = {2, 4},
      .boundaries = {"sign_only", "backprop"},
      .optimizer = "sgd, lr = 0.1",
      .policies = {{"sign_only", "signs of the gradient", {configure}}}};
  return sluice::main(argc, argv, options, [](sluice::Network& net) {
    const at::Tensor means = torch::randn({4, 16});
    double loss = 0;
    for (int t = 0; t < 100; ++t) {
      const at::Tensor y = torch::randint(4, {32});
      loss =
          net.step(means.index_select(0, y) + torch::randn({32, 16}), y).loss();
    }
    fmt::print("loss {:.3f}, {}\n", loss, net.save("saved"));
  });
}
