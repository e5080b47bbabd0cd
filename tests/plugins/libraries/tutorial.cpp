// A plug-in with a small part for each table that docs/parts.md explains; its
// pieces of code are there as they stand here.
#include <cstddef>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "experiments/plugins/plugin.h"

namespace {
using namespace sluice;

/// h -> h + relu(W h + b), on flat features.
struct Residual final : Layer {
  explicit Residual(std::int64_t width) : linear_(width, width) {
    register_module("linear", linear_);
  }
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {inputs[0] + at::relu(linear_(inputs[0]))};
  }
  torch::nn::Linear linear_;
};

MakeModel residual_mlp(Fields& options) {
  std::int64_t width = 16;
  std::int64_t depth = 3;
  options.key("width", width, {.text = "of every layer", .min = 1});
  options.key("depth", depth, {.text = "residual layers", .min = 1});
  return [=](const SampleSpec& sample) {
    const LayerSpec residual = {
        .name = fmt::format("residual {}", width),
        .make = [=] { return std::make_shared<Residual>(width); },
        .flops = static_cast<double>(width * width),
        .output = {width}};
    ModelBuilder model(sample);
    model.entry().flatten().linear(width).activation(Activation::relu);
    for (std::int64_t i = 0; i < depth; ++i) model.layer(residual);
    return model.entry().linear(sample.classes).finish();
  };
}

/// x -> x sigmoid(beta x), of any shape.
AddLayer swish(Fields& options) {
  double beta = 1;
  options.key("beta", beta, {.text = "how steep a swish is", .min = 0});
  return [=](ModelBuilder& model, std::string_view /*where*/) {
    model.own({.name = "swish",
               .output = [](const SampleShape& input) { return input; },
               .flops = [](const SampleShape&) { return 1.0; },
               .add =
                   [=](Chain& chain, const SampleShape&) {
                     chain.add([=](const at::Tensor& x) {
                       return x * at::sigmoid(x * beta);
                     });
                   }});
  };
}

/// Cross-entropy, in which what is right already counts less.
RunLoss focal(Fields& options) {
  double gamma = 2;
  options.key("gamma", gamma, {.text = "0: cross-entropy", .min = 0});
  const Loss loss = [=](const at::Tensor& outputs, const at::Tensor& labels) {
    const at::Tensor log_p =
        outputs.log_softmax(-1).gather(-1, labels.unsqueeze(-1));
    return -((1 - log_p.exp()).pow(gamma) * log_p).mean();
  };
  return {.training = loss, .evaluation = loss};
}

/// v <- momentum v + g; w <- w - rate v.
struct HeavyBall final : Optimizer {
  HeavyBall(double momentum, const NamedTensors& parameters)
      : momentum_(momentum), parameters_(parameters) {
    for (const auto& [name, weight] : parameters)
      velocity_.emplace_back(name + ".velocity",
                             at::zeros_like(weight.detach()));
  }
  void step(const Tensors& gradients, double rate) override {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!gradients[i].defined()) continue;
      velocity_[i].second.mul_(momentum_).add_(gradients[i]);
      parameters_[i].second.sub_(velocity_[i].second, rate);
    }
  }
  NamedTensors state() const override { return velocity_; }
  double momentum_;
  NamedTensors parameters_;
  NamedTensors velocity_;
};

MakeOptimizer heavy_ball(Fields& fields, OptimizerOptions& /*of_all_rules*/) {
  double momentum = 0.9;
  fields.key("momentum", momentum, {.text = "of v", .min = 0, .max = 1});
  return [=](const OptimizerOptions&, const NamedTensors& parameters) {
    return std::make_unique<HeavyBall>(momentum, parameters);
  };
}

/// Takes from each row of a matrix's gradient the row's mean.
struct CentredRows final : Transform {
  void apply(Tensors& gradients, UpdateInfo& /*info*/) override {
    for (at::Tensor& gradient : gradients) {
      if (!gradient.defined() || gradient.dim() < 2) continue;
      const at::Tensor rows = gradient.flatten(1);
      gradient = (rows - rows.mean({1}, true)).view_as(gradient);
    }
  }
};

MakeCorrection centred(Fields& /*fields*/, OptimizerOptions& /*options*/) {
  return [](const NamedTensors&) { return std::make_unique<CentredRows>(); };
}

/// The signs of the gradient from above, a turn late.
struct Signs final : Lower {
  Traits traits() const override { return {.delay = 1}; }
  Signal signal(const BatchContext& context) override {
    Signal signal;
    for (const at::Tensor& gradient : context.from_above)
      signal.gradients.push_back(gradient.sign() * gradient.abs().mean());
    return signal;
  }
};

MakeBoundary signs(Fields& /*options*/, const PlugIns& /*parts*/) {
  return [](const BoundarySite&) { return std::make_unique<Signs>(); };
}

/// Predicts the gradient at flat features from them and the labels.
struct LabelPredictor final : Predictor {
  explicit LabelPredictor(const BoundarySite& site)
      : classes_(site.classes),
        linear_(site.features[0] + site.classes, site.features[0]) {
    register_module("linear", linear_);
    for (const at::Tensor& parameter : parameters()) parameter.detach().zero_();
  }
  at::Tensor forward(const at::Tensor& features, const at::Tensor& labels,
                     const Pass& /*pass*/) override {
    const at::Tensor one_hot = at::one_hot(labels, classes_).to(features);
    return linear_(at::cat({features, one_hot}, 1));
  }
  std::int64_t classes_;
  torch::nn::Linear linear_;
};

MakePredictor by_label(Fields& /*options*/) {
  return [](const BoundarySite& site) -> std::shared_ptr<Predictor> {
    check_features(site, "tutorial_by_label");
    if (site.features.size() > 1)
      throw UserError("tutorial_by_label: block {}: takes flat features only",
                      site.block);
    return std::make_shared<LabelPredictor>(site);
  };
}

/// From time to time replicas go a part of the way to their mean.
struct Pull final : ReplicaPolicy {
  explicit Pull(double part) : part_(part) {}
  Tensors combine(const Tensors& mine, Mixture mixture) override {
    Tensors weights = mixture.mean;
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = at::lerp(mine[i].detach(), mixture.mean[i], part_);
    return weights;
  }
  double part_;
};

ReplicaKind pull(Fields& options) {
  ReplicaKind kind = {
      .exchange = {.what = ExchangedTensors::weights, .agrees = true}};
  double part = 0.5;
  options.key("every", kind.exchange.every,
              {.text = "updates between two exchanges", .min = 1});
  options.key("part", part, {.text = "of the way", .min = 0, .max = 1});
  kind.make = [=](const NamedTensors&, const ReplicaSite&) -> ReplicaRules {
    return {.policy = std::make_shared<Pull>(part)};
  };
  return kind;
}

}  // namespace

SLUICE_PLUGIN(plugin) {
  plugin.model({"tutorial_residual", "residual layers", residual_mlp});
  plugin.layer({"tutorial_swish",
                "x sigmoid(beta x)",
                {swish, kTakesFlat | kTakesPlaces | kTakesMap}});
  plugin.loss({"tutorial_focal", "the focal loss (Lin et al. 2017)", focal});
  plugin.optimizer({"tutorial_ball", "SGD with a momentum", heavy_ball});
  plugin.transform({"tutorial_centred", "gradients less means", {centred}});
  plugin.policy({"tutorial_signs", "signs of the gradient", {signs}});
  plugin.predictor(
      {"tutorial_by_label", "linear, from the label too", {by_label, nullptr}});
  plugin.replica_policy({"tutorial_pull", "replicas near their mean", pull});
}
