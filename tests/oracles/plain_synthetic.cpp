#include "tests/oracles/plain_synthetic.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"

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

/// By the names of weights.
using Gradients = std::map<std::string, at::Tensor>;

class Oracle {
 public:
  Oracle(const NamedTensors& first, const SyntheticOptions& options)
      : options_(options) {
    for (const auto& [name, tensor] : first)
      weights_[name] = tensor.detach().clone().requires_grad_();
  }

  /// Gradients of the blocks, all at the present weights; what synthesizers and
  /// input models learn from the batch is kept.
  Gradients of_blocks(const Batch& batch) {
    lessons_.clear();
    const auto count = static_cast<double>(batch.labels.numel());
    const at::Tensor x = batch.inputs.flatten(1);
    std::array<at::Tensor, 3> in;
    std::array<at::Tensor, 3> h;
    std::array<at::Tensor, 3> predicted;
    for (int k = 0; k < 3; ++k) {
      const auto i = static_cast<std::size_t>(k);
      if (k > 0 && options_.unlocked) predicted[i] = input_of(k, x);
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
    Gradients gradients;
    at::Tensor g = grad({loss}, {in[2]}, {}, true)[0];
    at::Tensor t = g;
    add(grad({loss}, own(2)), own_names(2), gradients);
    const double lambda = options_.lambda;
    const double lam_target = options_.lam_target.value_or(lambda);
    for (int k = 1; k >= 0; --k) {
      const auto i = static_cast<std::size_t>(k);
      const at::Tensor features = h[i].detach();
      const at::Tensor synthetic = predict(k, features).detach() / count;
      lessons_.push_back({name_of("synthesizers", k, ""), [=, this] {
                            const at::Tensor error =
                                predict(k, features) - t * count;
                            return error.square().sum() / count;
                          }});
      const at::Tensor signal = blended(1 - lambda, synthetic, lambda, g);
      const at::Tensor target =
          blended(1 - lam_target, synthetic, lam_target, t);
      add(grad({h[i]}, own(k), {signal}, true), own_names(k), gradients);
      g = grad({h[i]}, {in[i]}, {signal}, true)[0];
      t = grad({h[i]}, {in[i]}, {target}, true)[0];
    }
    for (int k = 1; k < 3 && options_.unlocked; ++k) {
      const at::Tensor wanted = h[static_cast<std::size_t>(k) - 1].detach();
      lessons_.push_back({name_of("input_models", k - 1, ""), [=, this] {
                            const at::Tensor error = input_of(k, x) - wanted;
                            return error.square().sum() / count;
                          }});
    }
    return gradients;
  }

  /// Gradients of those lessons, at the weights of now.
  Gradients of_lessons() const {
    Gradients gradients;
    for (const Lesson& lesson : lessons_) {
      const auto names = names_below(lesson.learners);
      add(grad({lesson.loss()}, values(names)), names, gradients);
    }
    return gradients;
  }

  void step(const Gradients& gradients) {
    const at::NoGradGuard no_grad;
    for (const auto& [name, gradient] : gradients) {
      const double lr =
          name.starts_with("input_models.") ? options_.input_lr : options_.lr;
      at::_fused_sgd_({weights_.at(name).variable_data()}, {gradient}, {}, 0, 0,
                      lr, 0, false, false, true);
    }
  }

  void set(const Gradients& weights) {
    const at::NoGradGuard no_grad;
    for (const auto& [name, value] : weights) weights_.at(name).copy_(value);
  }

  const Gradients& named() const { return weights_; }

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
  at::Tensor input_of(int k, const at::Tensor& x) const {
    return linear(name_of("input_models", k - 1, "last"), x);
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
                  Gradients& gradients) {
    for (std::size_t i = 0; i < names.size(); ++i)
      gradients[names[i]] = found[i];
  }

  struct Lesson {
    std::string learners;  ///< what their names begin with
    std::function<at::Tensor()> loss;
  };

  SyntheticOptions options_;
  Gradients weights_;
  std::vector<Lesson> lessons_;  // of the last batch
};

/// ((1 + 2) + ... + R) / R, of each tensor.
Gradients mean_of(const std::vector<Gradients>& all) {
  Gradients means;
  for (const auto& [name, first] : all.front()) {
    at::Tensor sum = first.detach();
    for (std::size_t r = 1; r < all.size(); ++r)
      sum = sum + all[r].at(name).detach();
    means[name] = all.size() == 1 ? sum : sum / static_cast<double>(all.size());
  }
  return means;
}

/// 1 - ((1 - 2) + ... + (1 - R)) / R, of weights.
Gradients mean_between(const std::vector<Gradients>& all) {
  Gradients means;
  for (const auto& [name, of_first] : all.front()) {
    const at::Tensor first = of_first.detach();
    at::Tensor apart = at::zeros_like(first);
    for (const Gradients& each : all)
      apart = apart + (first - each.at(name).detach());
    means[name] = first - apart / static_cast<double>(all.size());
  }
  return means;
}

using Replicas = std::vector<Oracle>;

void weigh(const std::vector<double>& weights,
           std::vector<Gradients>& gradients) {
  for (std::size_t r = 0; r < gradients.size(); ++r)
    for (auto& [name, gradient] : gradients[r])
      if (weights[r] != 1) gradient = gradient * weights[r];
}

/// All step by the mean of their gradients.
void step_together(const std::vector<Gradients>& gradients,
                   Replicas& replicas) {
  const Gradients mean = mean_of(gradients);
  for (Oracle& replica : replicas) replica.step(mean);
}

/// weights: of each replica's batch in the means, by its samples.
void sum_gradients(std::vector<Gradients> of_blocks,
                   const std::vector<double>& weights, Replicas& replicas) {
  std::vector<Gradients> of_lessons;
  for (const Oracle& replica : replicas)
    of_lessons.push_back(replica.of_lessons());
  weigh(weights, of_blocks);
  weigh(weights, of_lessons);
  step_together(of_blocks, replicas);
  step_together(of_lessons, replicas);
}

/// Lessons come after the update, with what all have agreed on.
void average(const std::vector<Gradients>& of_blocks, Replicas& replicas) {
  std::vector<Gradients> weights;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    replicas[r].step(of_blocks[r]);
    weights.push_back(replicas[r].named());
  }
  const Gradients mean = mean_between(weights);
  for (Oracle& replica : replicas) {
    replica.set(mean);
    replica.step(replica.of_lessons());
  }
}

}  // namespace

NamedTensors plain_synthetic(const std::string& lines,
                             const SyntheticOptions& options) {
  const Training start(small_experiment(lines));
  const Experiment& experiment = start.experiment;
  const std::int64_t count = experiment.replicas.count;
  Replicas replicas;
  replicas.reserve(static_cast<std::size_t>(count));  // lessons refer to them
  for (std::int64_t r = 0; r < count; ++r)
    replicas.emplace_back(start.weights(), options);
  SampleSource source(
      experiment.data->train.samples(),
      {.batch_size = experiment.batch_size, .seed = experiment.seed});
  for (std::int64_t turn = 0; turn < experiment.length.turns; ++turn) {
    std::vector<Gradients> of_blocks;
    std::vector<double> weights;
    double samples = 0;
    for (std::int64_t r = 0; r < count; ++r) {
      const Batch batch = source.batch(turn * count + r);
      weights.push_back(static_cast<double>(batch.labels.size(0)));
      samples += weights.back();
      of_blocks.push_back(
          replicas[static_cast<std::size_t>(r)].of_blocks(batch));
    }
    for (double& weight : weights)
      weight = static_cast<double>(count) * weight / samples;
    if (options.averages)
      average(of_blocks, replicas);
    else
      sum_gradients(of_blocks, weights, replicas);
  }
  return replicas.front().weights();
}

}  // namespace sluice
