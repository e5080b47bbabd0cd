#include "tests/oracles/plain_synthetic.h"

#include <array>
#include <map>

#include <ATen/ATen.h>
#include <torch/autograd.h>

#include "experiments/data/sample_source.h"

namespace sluice {
namespace {

using torch::autograd::grad;

/// x, weighted, plus y, weighted; a weight of 1 or 0 leaves no trace.
at::Tensor blended(double a, const at::Tensor& x, double b,
                   const at::Tensor& y) {
  if (b == 0) return a == 1 ? x : x * a;
  const at::Tensor right = b == 1 ? y : y * b;
  if (a == 0) return right;
  return (a == 1 ? x : x * a) + right;
}

class Oracle {
 public:
  Oracle(const NamedTensors& first, const SyntheticOptions& options)
      : options_(options) {
    for (const auto& [name, tensor] : first)
      weights_[name] = tensor.detach().clone().requires_grad_();
  }

  void train_on(const Batch& batch) {
    const auto count = static_cast<double>(batch.labels.numel());
    const at::Tensor x = batch.inputs.flatten(1);
    std::array<at::Tensor, 3> in;
    std::array<at::Tensor, 3> h;
    std::array<at::Tensor, 3> predicted;
    for (int k = 0; k < 3; ++k) {
      const auto i = static_cast<std::size_t>(k);
      if (k > 0 && options_.unlocked)
        predicted[i] = linear(name_of("input_models", k - 1, "last"), x);
      in[i] = (k == 0              ? x
               : options_.unlocked ? predicted[i]
                                   : h[i - 1])
                  .detach()
                  .requires_grad_();
      h[i] = linear(name_of("layers", k, "linear"), in[i]);
      if (k < 2) h[i] = at::relu(h[i]);
    }
    // From the top: G is applied, T is what synthesizers below learn from.
    const at::Tensor loss = at::cross_entropy_loss(h[2], batch.labels);
    std::map<std::string, at::Tensor> gradients;
    at::Tensor g = grad({loss}, {in[2]}, {}, true)[0];
    at::Tensor t = g;
    add(grad({loss}, own(2)), own_names(2), gradients);
    const double lambda = options_.lambda;
    const double lam_target = options_.lam_target.value_or(lambda);
    for (int k = 1; k >= 0; --k) {
      const auto i = static_cast<std::size_t>(k);
      const at::Tensor features = h[i].detach();
      const at::Tensor synthetic = predict(k, features).detach() / count;
      const at::Tensor error = predict(k, features) - t * count;
      const auto names = names_below(name_of("synthesizers", k, ""));
      add(grad({error.square().sum() / count}, values(names)), names,
          gradients);
      const at::Tensor signal = blended(1 - lambda, synthetic, lambda, g);
      const at::Tensor target =
          blended(1 - lam_target, synthetic, lam_target, t);
      add(grad({h[i]}, own(k), {signal}, true), own_names(k), gradients);
      g = grad({h[i]}, {in[i]}, {signal}, true)[0];
      t = grad({h[i]}, {in[i]}, {target}, true)[0];
    }
    for (int k = 1; k < 3 && options_.unlocked; ++k) {
      const auto i = static_cast<std::size_t>(k);
      const at::Tensor error = predicted[i] - h[i - 1].detach();
      const auto names = names_below(name_of("input_models", k - 1, ""));
      add(grad({error.square().sum() / count}, values(names)), names,
          gradients);
    }
    step(gradients);
  }

  NamedTensors weights() const { return {weights_.begin(), weights_.end()}; }

 private:
  static std::string name_of(const std::string& kind, int k,
                             const std::string& member) {
    return kind + "." + std::to_string(k) + "." + member;
  }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return at::linear(x, weights_.at(name + ".weight"),
                      weights_.at(name + ".bias"));
  }
  at::Tensor predict(int k, const at::Tensor& h) const {
    return linear(name_of("synthesizers", k, "last"),
                  at::relu(linear(name_of("synthesizers", k, "linear1"), h)));
  }
  std::vector<std::string> names_below(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : weights_)
      if (name.starts_with(prefix)) names.push_back(name);
    return names;
  }
  std::vector<std::string> own_names(int k) const {
    return names_below(name_of("layers", k, ""));
  }
  Tensors values(const std::vector<std::string>& names) const {
    Tensors all;
    for (const std::string& name : names) all.push_back(weights_.at(name));
    return all;
  }
  Tensors own(int k) const { return values(own_names(k)); }
  static void add(const Tensors& found, const std::vector<std::string>& names,
                  std::map<std::string, at::Tensor>& gradients) {
    for (std::size_t i = 0; i < names.size(); ++i)
      gradients[names[i]] = found[i];
  }
  void step(const std::map<std::string, at::Tensor>& gradients) {
    const at::NoGradGuard no_grad;
    for (const auto& [name, gradient] : gradients) {
      const double lr =
          name.starts_with("input_models.") ? options_.input_lr : options_.lr;
      at::_fused_sgd_({weights_.at(name).variable_data()}, {gradient}, {}, 0, 0,
                      lr, 0, false, false, true);
    }
  }

  SyntheticOptions options_;
  std::map<std::string, at::Tensor> weights_;
};

}  // namespace

NamedTensors plain_synthetic(const std::string& lines,
                             const SyntheticOptions& options) {
  const Training start(small_experiment(lines));
  const Experiment& experiment = start.experiment;
  Oracle oracle(start.weights(), options);
  SampleSource source(
      experiment.data->train.samples(),
      {.batch_size = experiment.batch_size, .seed = experiment.seed});
  for (std::int64_t turn = 0; turn < experiment.length.turns; ++turn)
    oracle.train_on(source.batch(turn));
  return oracle.weights();
}

}  // namespace sluice
