// Layers, data, a head and a loss of one's own, with the commands of sluice:
//   own_commands run
//   own_commands sweep optimizer.lr=0.05,0.1 --seeds 2
#include <ATen/ops/multi_margin_loss.h>
#include <sluice/sluice.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

namespace {

/// Points around four means, by their number: sample i is always the same.
sluice::TensorSplits points() {
  torch::manual_seed(5);
  const at::Tensor means = 3 * torch::randn({4, 16});
  const auto some = [&](std::int64_t count) -> sluice::LabelledTensors {
    const at::Tensor labels = torch::arange(count).remainder(4);
    return {means.index_select(0, labels) + torch::randn({count, 16}), labels};
  };
  const sluice::LabelledTensors train = some(256);
  return {.train = train, .test = some(100), .classes = 4};
}

sluice::MakeDataSet configure_points(sluice::Fields&) {
  return [](const std::string&) { return sluice::data_set_of(points); };
}

/// A linear classifier whose loss grows with its weights.
class SmallHead final : public sluice::Head {
 public:
  SmallHead(const sluice::BoundarySite& site, double decay)
      : loss_(site.loss), decay_(decay) {
    linear_ = register_module(
        "linear", torch::nn::Linear(site.features.at(0), site.classes));
    sluice::initialise_parameters(*this, site.seed);
  }
  sluice::HeadResult forward(const sluice::Tensors& features,
                             const sluice::HeadInputs& beside) override {
    const at::Tensor logits = linear_(features.at(0));
    return {
        loss_(logits, beside.labels) + decay_ * linear_->weight.square().sum(),
        logits};
  }

 private:
  sluice::Loss loss_;
  double decay_;
  torch::nn::Linear linear_ = nullptr;
};

sluice::MakeHead configure_small_head(sluice::Fields& options) {
  double decay = 0.01;
  options.key("decay", decay, {.text = "of the squared weights", .min = 0});
  return [decay](const sluice::BoundarySite& site) {
    return std::make_shared<SmallHead>(site, decay);
  };
}

at::Tensor hinge(const at::Tensor& outputs, const at::Tensor& labels) {
  return at::multi_margin_loss(outputs, labels);
}

sluice::RunLoss configure_hinge(sluice::Fields&) {
  return {.training = hinge, .evaluation = hinge};
}

}  // namespace

int main(int argc, char** argv) {
  return sluice::main(
      argc, argv,
      {.layers = {[] { return torch::nn::Linear(16, 32); }, torch::relu,
                  [] { return torch::nn::Linear(32, 4); }},
       .example = torch::zeros({1, 16}),
       .cuts = {2},
       .boundaries = {"local_loss, head = {name = 'small'}"},
       .optimizer = "sgd, lr = 0.05",
       .settings = "data.name = 'points'\nloss.name = 'hinge'\nepochs = 5\n"
                   "batch_size = 32",
       .heads = {{"small", "a linear classifier of small weights",
                  configure_small_head}},
       .losses = {{"hinge", "multi-class hinge loss", configure_hinge}},
       .data_sets = {
           {"points", "points around four means", configure_points}}});
}
