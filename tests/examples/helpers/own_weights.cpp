// A method with weights of its own that LibTorch draws: some are parameters,
// some a buffer, and some are hidden. Its worker processes would draw
// others.
#include <cstdlib>
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include "experiments/api/sluice.h"

namespace {

class OwnHead final : public sluice::Lower {
 public:
  explicit OwnHead(const sluice::BoundarySite& site)
      : name_("own." + std::to_string(site.layer)),
        classifier_(site.features.at(0), site.classes),
        scale_(torch::rand({site.features.at(0)})),
        hidden_(torch::randn({site.features.at(0), site.features.at(0)})) {}

  sluice::Traits traits() const override {
    return {.cut = true, .from_above = false, .own = true};
  }

  sluice::Signal signal(const sluice::BatchContext& context) override {
    const at::Tensor& h = context.features.at(0);
    const at::Tensor loss = at::cross_entropy_loss(
        classifier_(at::matmul(h * scale_, hidden_)), context.labels);
    const auto gradients =
        torch::autograd::grad({loss}, {h, classifier_->weight});
    sluice::Signal signal;
    signal.gradients = {gradients[0]};
    signal.parameter_gradients = {gradients[1]};
    signal.loss = loss.detach();
    return signal;
  }

  sluice::NamedTensors parameters() const override {
    return {{name_ + ".weight", classifier_->weight}};
  }
  sluice::NamedTensors buffers() const override {
    return {{name_ + ".scale", scale_}};
  }

 private:
  std::string name_;
  torch::nn::Linear classifier_;
  at::Tensor scale_;
  at::Tensor hidden_;  // fixed
};

sluice::MakeBoundary configure(sluice::Fields&, const sluice::PlugIns&) {
  return [](const sluice::BoundarySite& site) {
    return std::make_unique<OwnHead>(site);
  };
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_worker = std::getenv("SLUICE_WORKER") != nullptr;
  torch::manual_seed(is_worker ? 2 : 1);
  const sluice::NetworkOptions options = {
      .layers = {[] { return torch::nn::Linear(6, 5); }, torch::relu,
                 [] { return torch::nn::Linear(5, 4); }, torch::relu,
                 [] { return torch::nn::Linear(4, 3); }},
      .example = torch::zeros({1, 6}),
      .cuts = {2, 4},
      .boundaries = {"own_head"},
      .optimizer = "sgd, lr = 0.1",
      .policies = {{"own_head", "a head of one's own", {configure}}}};
  return sluice::main(argc, argv, options, [](sluice::Network& net) {
    net.save("first");
    for (int t = 0; t < 5; ++t)
      net.step(torch::randn({4, 6}), torch::randint(3, {4}));
    net.load(net.save("saved"));  // starts the workers once more
    net.step(torch::randn({4, 6}), torch::randint(3, {4}));
    net.save("saved");
  });
}
