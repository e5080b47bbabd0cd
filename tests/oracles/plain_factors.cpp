#include "tests/oracles/plain_factors.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"

namespace sluice {
namespace {

using torch::autograd::grad;

/// Rows by the position of their sample.
using Rows = std::map<std::int64_t, at::Tensor>;

/// Index k-1 is block k, or its boundary.
class FactorsOracle {
 public:
  FactorsOracle(const NamedTensors& first, const PlainFactors& options)
      : options_(options) {
    const std::map<std::string, at::Tensor> named(first.begin(), first.end());
    for (int i = 0; named.contains(layer(i) + "weight"); ++i) {
      weights_.push_back(leaf(named.at(layer(i) + "weight")));
      biases_.push_back(leaf(named.at(layer(i) + "bias")));
    }
    for (std::size_t k = 0; k + 1 < weights_.size(); ++k)
      f_.push_back(leaf(named.at(factors(k))));
    kept_s_.resize(f_.size());
    kept_u_.resize(f_.size());
  }

  void train_on(const Batch& batch, const std::vector<std::int64_t>& ids) {
    ids_ = ids;
    count_ = static_cast<double>(batch.labels.numel());
    labels_ = batch.labels;
    forward(batch.inputs.flatten(1).to(at::kDouble));
    std::vector<at::Tensor> terms(weights_.size());
    terms.back() =
        at::cross_entropy_loss(output(f_.size(), inputs_.back()), labels_);
    for (std::size_t k = f_.size(); k-- > 0;)
      terms[k] = after_moving(k, terms[k + 1]);
    step(terms);
  }

  NamedTensors all() const {
    NamedTensors all;
    for (std::size_t k = 0; k < weights_.size(); ++k) {
      const std::string name = layer(static_cast<int>(k));
      all.emplace_back(name + "weight", weights_[k].detach().to(at::kFloat));
      all.emplace_back(name + "bias", biases_[k].detach().to(at::kFloat));
    }
    for (std::size_t k = 0; k < f_.size(); ++k)
      all.emplace_back(factors(k), f_[k].detach().to(at::kFloat));
    return all;
  }

 private:
  static std::string layer(int i) {
    return "layers." + std::to_string(i) + ".linear.";
  }
  static std::string factors(std::size_t k) {
    return "factors." + std::to_string(k) + ".f";
  }
  static at::Tensor leaf(const at::Tensor& tensor) {
    return tensor.detach().to(at::kDouble).clone().requires_grad_();
  }

  at::Tensor output(std::size_t block, const at::Tensor& input) const {
    const at::Tensor y = at::linear(input, weights_[block], biases_[block]);
    return block < f_.size() ? at::relu(y) : y;
  }

  /// S by sample and factor: s <- s * (h F') / (s F F'), from h F'.
  at::Tensor fitted(const at::Tensor& h, const at::Tensor& f) const {
    const at::Tensor numerator = at::matmul(h, f.t());
    at::Tensor s = numerator;
    for (int i = 0; i < options_.fits; ++i)
      s = s * numerator / (at::matmul(at::matmul(s, f), f.t()) + 1e-8);
    return s;
  }

  /// Each block's input is a leaf, the product of those factors.
  void forward(const at::Tensor& x) {
    inputs_ = {x};
    s_.clear();
    u_.clear();
    for (std::size_t k = 0; k < f_.size(); ++k) {
      const at::Tensor f = f_[k].detach();
      const at::Tensor h = output(k, inputs_[k]).detach();
      const bool known =
          options_.per_sample && kept_s_[k].contains(ids_.front());
      s_.push_back(leaf(known ? gathered(kept_s_[k]) : fitted(h, f)));
      u_.push_back(known && options_.dual ? gathered(kept_u_[k])
                                          : at::zeros_like(h));
      inputs_.push_back(leaf(at::matmul(s_[k].detach(), f)));
    }
  }

  at::Tensor gathered(const Rows& rows) const {
    std::vector<at::Tensor> all;
    for (const std::int64_t id : ids_) all.push_back(rows.at(id));
    return at::stack(all);
  }

  void scatter(const at::Tensor& values, Rows& rows) const {
    for (std::size_t i = 0; i < ids_.size(); ++i)
      rows[ids_[i]] = values[static_cast<std::int64_t>(i)].clone();
  }

  /// The mean over samples of beta/2 |r|^2 + beta <u, r>, with r = S F -
  /// f_k(z_{k-1}).
  at::Tensor penalty(std::size_t k, const at::Tensor& s, const at::Tensor& f,
                     const at::Tensor& h) const {
    const at::Tensor r = at::matmul(s, f) - h;
    return (r.square().sum() / 2 + (u_[k] * r).sum()) * options_.beta / count_;
  }

  /// S and F of boundary k take a step on their penalty and on the term of the
  /// block above, as that term is at its input now; the penalty with what they
  /// are then.
  at::Tensor after_moving(std::size_t k, const at::Tensor& above) {
    const at::Tensor slope =
        grad({above}, {inputs_[k + 1]}, {}, /*retain_graph=*/true)[0];
    const at::Tensor h = output(k, inputs_[k]);
    const at::Tensor objective = penalty(k, s_[k], f_[k], h.detach()) +
                                 (at::matmul(s_[k], f_[k]) * slope).sum();
    const auto slopes = grad({objective}, {s_[k], f_[k]});
    const at::Tensor s = s_[k].detach();
    const double size = s.square().sum().item<double>() / count_ + 1e-8;
    const at::Tensor next_s =
        at::relu(s - options_.step_size * count_ * slopes[0]);
    f_[k] = leaf(at::relu(f_[k].detach() -
                          options_.factor_step_size / size * slopes[1]));
    const at::Tensor term = penalty(k, next_s, f_[k].detach(), h);
    scatter(next_s, kept_s_[k]);
    scatter(u_[k] + at::matmul(next_s, f_[k].detach()) - h.detach(),
            kept_u_[k]);
    return term;
  }

  void step(const std::vector<at::Tensor>& terms) {
    for (std::size_t k = 0; k < weights_.size(); ++k) {
      const auto slopes = grad({terms[k]}, {weights_[k], biases_[k]});
      weights_[k] = leaf(weights_[k].detach() - options_.lr * slopes[0]);
      biases_[k] = leaf(biases_[k].detach() - options_.lr * slopes[1]);
    }
  }

  PlainFactors options_;
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> biases_;
  std::vector<at::Tensor> f_;
  std::vector<at::Tensor> s_;
  std::vector<at::Tensor> u_;
  std::vector<Rows> kept_s_;
  std::vector<Rows> kept_u_;
  std::vector<std::int64_t> ids_;  // of the batch
  std::vector<at::Tensor> inputs_;
  at::Tensor labels_;
  double count_ = 1;
};

}  // namespace

NamedTensors plain_factors(const std::string& lines,
                           const PlainFactors& options) {
  const Training start(small_experiment(lines));
  const Experiment& experiment = start.experiment;
  FactorsOracle oracle(start.weights(), options);
  SampleSource source(
      experiment.data->train.samples(),
      {.batch_size = experiment.batch_size, .seed = experiment.seed});
  for (std::int64_t turn = 0; turn < experiment.length.turns; ++turn)
    oracle.train_on(source.batch(turn), source.positions(turn));
  return oracle.all();
}

}  // namespace sluice
