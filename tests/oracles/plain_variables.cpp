#include "tests/oracles/plain_variables.h"

#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"

namespace sluice {
namespace {

using torch::autograd::grad;

struct Layer {
  std::string name;
  at::Tensor weight;
  at::Tensor bias;
};

/// Rows by the position of their sample.
using Rows = std::map<std::int64_t, at::Tensor>;

/// Adam's moments of one number, and its steps.
struct Moments {
  double mean = 0;
  double variance = 0;
  int steps = 0;
};

/// The change of a number by Adam, written out.
double adam(double gradient, double rate, Moments& moments) {
  ++moments.steps;
  moments.mean = 0.9 * moments.mean + 0.1 * gradient;
  moments.variance = 0.999 * moments.variance + 0.001 * gradient * gradient;
  const double mean = moments.mean / (1 - std::pow(0.9, moments.steps));
  const double variance =
      moments.variance / (1 - std::pow(0.999, moments.steps));
  return -rate * mean / (std::sqrt(variance) + 1e-8);
}

at::Tensor gathered(const Rows& rows, const std::vector<std::int64_t>& ids) {
  std::vector<at::Tensor> all;
  for (const std::int64_t id : ids) all.push_back(rows.at(id));
  return at::stack(all);
}

void scatter(const at::Tensor& values, const std::vector<std::int64_t>& ids,
             Rows& rows) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    rows[ids[i]] = values[static_cast<std::int64_t>(i)].clone();
}

/// Index k-1 is block k, or its boundary.
class VariablesOracle {
 public:
  VariablesOracle(const NamedTensors& first, const PlainVariables& options)
      : options_(options) {
    const std::map<std::string, at::Tensor> named(first.begin(), first.end());
    for (int i = 0;; ++i) {
      const std::string name = "layers." + std::to_string(i) + ".linear.";
      if (!named.contains(name + "weight")) break;
      layers_.push_back({name, copy(named.at(name + "weight")),
                         copy(named.at(name + "bias"))});
    }
    kept_z_.resize(layers_.size() - 1);
    kept_u_.resize(layers_.size() - 1);
    moments_.resize(layers_.size() - 1);
  }

  /// A batch of an echo.
  void train_on(const Batch& batch, const std::vector<std::int64_t>& ids,
                bool is_first_pass) {
    options_.order =
        is_first_pass ? PlainOrder::top_down : PlainOrder::weights_first;
    is_new_ = is_first_pass;
    train_on(batch, ids);
  }

  void train_on(const Batch& batch, const std::vector<std::int64_t>& ids) {
    labels_ = batch.labels;
    x_ = batch.inputs.flatten(1);
    count_ = static_cast<double>(batch.labels.numel());
    begin(ids);
    gradients_.assign(layers_.size(), {});
    if (options_.order == PlainOrder::top_down) {
      for (int j = 0; j < options_.steps; ++j)
        sweep_down(j + 1 == options_.steps);
    } else if (options_.order == PlainOrder::at_once) {
      for (int j = 0; j < options_.steps; ++j) {
        move_all();
        if (options_.dual == PlainDual::each_step && j + 1 < options_.steps)
          raise_all();
      }
      take_gradients();
      if (options_.dual != PlainDual::none) raise_all();
    } else {
      // What the variables should equal is known of before they moved.
      std::vector<at::Tensor> inputs;
      for (std::size_t k = 0; k < z_.size(); ++k) inputs.push_back(input_of(k));
      take_gradients();
      if (options_.moves_later) {
        move_all();
        for (std::size_t k = 0; k < z_.size(); ++k)
          if (options_.dual != PlainDual::none) u_[k] = raised(k, inputs[k]);
      }
    }
    if (options_.per_sample)
      for (std::size_t k = 0; k < z_.size(); ++k) {
        scatter(z_[k], ids, kept_z_[k]);
        scatter(u_[k], ids, kept_u_[k]);
      }
    step();
  }

  NamedTensors weights() const {
    NamedTensors all;
    for (const Layer& layer : layers_) {
      all.emplace_back(layer.name + "weight", layer.weight.detach());
      all.emplace_back(layer.name + "bias", layer.bias.detach());
    }
    return all;
  }

 private:
  static at::Tensor copy(const at::Tensor& tensor) {
    return tensor.detach().clone().requires_grad_();
  }

  at::Tensor forward(std::size_t block, const at::Tensor& input) const {
    const at::Tensor y =
        at::linear(input, layers_[block].weight, layers_[block].bias);
    return block + 1 < layers_.size() ? at::relu(y) : y;
  }

  at::Tensor input_of(std::size_t block) const {
    return block == 0 ? x_ : z_[block - 1];
  }

  /// An epoch has each sample once, so that all of a batch have variables or
  /// none has.
  void begin(const std::vector<std::int64_t>& ids) {
    ids_ = ids;
    if (!options_.per_sample) moments_.assign(layers_.size() - 1, {});
    const bool known =
        options_.per_sample && !is_new_ && kept_z_[0].contains(ids.front());
    z_.assign(layers_.size() - 1, {});
    u_.assign(layers_.size() - 1, {});
    for (std::size_t k = 0; k < z_.size(); ++k) {
      z_[k] =
          known ? gathered(kept_z_[k], ids) : forward(k, input_of(k)).detach();
      u_[k] = known ? gathered(kept_u_[k], ids) : at::zeros_like(z_[k]);
    }
  }

  /// The term of block k, as a mean over samples. lambda = u; of ADMM beta u.
  at::Tensor term(std::size_t block, const at::Tensor& input,
                  const at::Tensor& z) const {
    const at::Tensor f = forward(block, input);
    if (block + 1 == layers_.size()) return at::cross_entropy_loss(f, labels_);
    const at::Tensor r = z - f;
    const double scale =
        options_.dual == PlainDual::each_batch ? options_.beta : 1;
    return ((u_[block] * scale * r).sum() + options_.beta / 2 * (r * r).sum()) /
           count_;
  }

  at::Tensor own_z(std::size_t block) const {
    return block < z_.size() ? z_[block] : at::Tensor();
  }

  /// z_k after a step by the gradient of a sample's part of the mean.
  at::Tensor moved(std::size_t k) {
    const at::Tensor z = copy(z_[k]);
    const at::Tensor sum =
        term(k, input_of(k), z) + term(k + 1, z, own_z(k + 1));
    const at::Tensor gradient = count_ * grad({sum}, {z})[0];
    if (!options_.adam) return z_[k] - options_.step_size * gradient;
    const at::Tensor slopes = gradient.contiguous();
    at::Tensor next = z_[k].clone();
    const auto* slope = slopes.const_data_ptr<float>();
    auto* value = next.mutable_data_ptr<float>();
    for (const std::int64_t id : ids_) {
      auto& of_sample = moments_[k][id];
      of_sample.resize(static_cast<std::size_t>(next.size(1)));
      for (Moments& moments : of_sample)
        *value++ +=
            static_cast<float>(adam(*slope++, options_.step_size, moments));
    }
    return next;
  }

  void move_all() {
    std::vector<at::Tensor> all;
    for (std::size_t k = 0; k < z_.size(); ++k) all.push_back(moved(k));
    z_ = all;
  }

  at::Tensor raised(std::size_t k, const at::Tensor& input) const {
    const double scale =
        options_.dual == PlainDual::each_batch ? 1 : options_.beta;
    return u_[k] + scale * (z_[k] - forward(k, input)).detach();
  }

  void raise_all() {
    for (std::size_t k = 0; k < z_.size(); ++k) u_[k] = raised(k, input_of(k));
  }

  void take_gradient(std::size_t block) {
    gradients_[block] = grad({term(block, input_of(block), own_z(block))},
                             {layers_[block].weight, layers_[block].bias});
  }

  void take_gradients() {
    for (std::size_t k = 0; k < layers_.size(); ++k) take_gradient(k);
  }

  /// A block's gradient and its multiplier are of the input before that moves;
  /// the variable below moves by the multiplier before that rises.
  void sweep_down(bool is_last) {
    const bool raises = options_.dual == PlainDual::each_step ||
                        (is_last && options_.dual == PlainDual::each_batch);
    const bool leaves = is_last && options_.echo > 0 && raises;
    std::vector<at::Tensor> u = u_;
    std::vector<at::Tensor> left = z_;
    for (std::size_t k = layers_.size(); k-- > 0;) {
      const at::Tensor from_above =
          k < z_.size() && leaves ? pull_from_above(k) : at::Tensor();
      if (k < z_.size()) z_[k] = moved(k);
      if (is_last) take_gradient(k);
      if (k < z_.size() && raises) u[k] = raised(k, input_of(k));
      if (k < z_.size() && leaves)
        left[k] = z_[k] - options_.step_size *
                              (own_pull(k, u[k]) + count_ * from_above);
    }
    u_ = u;
    if (leaves) z_ = left;
  }

  /// Gradient at z_k of all that is above it.
  at::Tensor pull_from_above(std::size_t k) const {
    const at::Tensor z = copy(z_[k]);
    return grad({term(k + 1, z, own_z(k + 1))}, {z})[0];
  }

  /// Gradient of a sample's objective at z_k of the boundary's own terms.
  at::Tensor own_pull(std::size_t k, const at::Tensor& u) const {
    const double scale =
        options_.dual == PlainDual::each_batch ? options_.beta : 1;
    return scale * u +
           options_.beta * (z_[k] - forward(k, input_of(k))).detach();
  }

  void step() {
    const at::NoGradGuard no_grad;
    for (std::size_t k = 0; k < layers_.size(); ++k) {
      layers_[k].weight.sub_(gradients_[k][0], options_.lr);
      layers_[k].bias.sub_(gradients_[k][1], options_.lr);
    }
  }

  PlainVariables options_;
  bool is_new_ = false;
  std::vector<Layer> layers_;
  std::vector<Rows> kept_z_;
  std::vector<Rows> kept_u_;
  std::vector<std::map<std::int64_t, std::vector<Moments>>> moments_;
  std::vector<std::int64_t> ids_;  // of the batch
  at::Tensor x_;
  at::Tensor labels_;
  double count_ = 1;
  std::vector<at::Tensor> z_;
  std::vector<at::Tensor> u_;
  std::vector<std::vector<at::Tensor>> gradients_;
};

}  // namespace

NamedTensors plain_variables(const std::string& lines,
                             const PlainVariables& options) {
  const Training start(small_experiment(lines));
  const Experiment& experiment = start.experiment;
  VariablesOracle oracle(start.weights(), options);
  SampleSource source(
      experiment.data->train.samples(),
      {.batch_size = experiment.batch_size, .seed = experiment.seed});
  const std::int64_t echo = options.echo;
  for (std::int64_t turn = 0; turn < experiment.length.turns; ++turn) {
    if (echo == 0) {
      oracle.train_on(source.batch(turn), source.positions(turn));
      continue;
    }
    const std::int64_t in_echo = turn % (echo * options.times);
    const std::int64_t batch =
        (turn - in_echo) / options.times + in_echo % echo;
    // An echo across the end of an epoch may have a sample twice.
    std::vector<std::int64_t> places(source.positions(batch).size());
    std::iota(places.begin(), places.end(),
              in_echo % echo * experiment.batch_size);
    oracle.train_on(source.batch(batch), places, in_echo < echo);
  }
  return oracle.weights();
}

}  // namespace sluice
