// Muon (Jordan et al., 2024, kellerjordan.github.io/posts/muon): a matrix moves
// along its Nesterov momentum, whose singular values Newton-Schulz steps bring
// to about 1; weight decay is decoupled. Momentum, coefficients and both scales
// are those of torch.optim.Muon, which iterates in bfloat16, while this keeps
// the type of the weights. Convolutions [out, in, h, w] are matrices
// [out, in * h * w].
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/name_pattern.h"
#include "lib/updates/grouped.h"

namespace sluice {
namespace {

struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t iterations = 5;
  bool matches_adamw = true;
  std::vector<std::string> adamw = {"heads.*", "*.token.weight",
                                    "*.position.weight", "*.vocabulary.weight"};

  void describe(Fields& fields) {
    fields.key("momentum", momentum,
               {.text = "decay of the mean gradient of matrices",
                .min = 0,
                .max = 0.999999});
    fields.key("nesterov", nesterov, {.text = "look ahead along the momentum"});
    fields.key(
        "iterations", iterations,
        {.text = "Newton-Schulz steps of an update", .min = 1, .max = 99});
    fields.key("scale", matches_adamw,
               {{"match_rms_adamw", true}, {"original", false}},
               {.text = "factor of a matrix's step beside lr: 0.2 * "
                        "sqrt(max(rows, columns)), so that AdamW's rate does "
                        "for both, or sqrt(max(1, rows / columns))"});
    fields.key("adamw", adamw,
               {.text = "shell patterns of matrices that AdamW steps, as it "
                        "does vectors and the model's last layer"});
  }
};

/// Brings the singular values of a matrix [rows, columns] to 0.7..1.2, those
/// apart that are tiny beside the largest.
at::Tensor orthogonal(const at::Tensor& matrix, std::int64_t iterations) {
  constexpr double kA = 3.4445;
  constexpr double kB = -4.775;
  constexpr double kC = 2.0315;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = is_tall ? matrix.t() : matrix;
  x = x / x.norm().clamp_min(1e-7);
  for (std::int64_t i = 0; i < iterations; ++i) {
    const at::Tensor gram = x.mm(x.t());  // [short, short]
    x = at::addmm(x, at::addmm(gram, gram, gram, kB, kC), x, kA);
  }
  return is_tall ? x.t() : x;
}

class Muon final : public Optimizer {
 public:
  Muon(const MuonOptions& own, const OptimizerOptions& options,
       const NamedTensors& parameters)
      : own_(own), adamw_of_(parameters.size()) {
    NamedTensors others;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      adamw_of_[i] = steps_by_adamw(parameters[i], options);
      (adamw_of_[i] ? others : matrices_).push_back(parameters[i]);
    }
    groups_ = fused_groups(options, matrices_);
    momentum_ = zeros_like(matrices_);
    OptimizerOptions theirs = options;
    theirs.name = "adamw";
    theirs.make = {};
    others_ = make_optimizer(theirs, others);
  }

  void step(const Tensors& gradients, double learning_rate) override {
    const at::NoGradGuard no_grad;
    Tensors of_matrices;
    Tensors of_others;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      (adamw_of_[i] ? of_others : of_matrices).push_back(gradients[i]);
    for (const ParameterStep& each :
         stepped(groups_, matrices_, of_matrices, learning_rate))
      step(each);
    others_->step(of_others, learning_rate);
  }

  Tensors direction(double learning_rate) const override {
    Tensors changes(adamw_of_.size());
    const Tensors of_matrices = directions_of_matrices(learning_rate);
    const Tensors of_others = others_->direction(learning_rate);
    std::size_t matrix = 0;
    std::size_t other = 0;
    for (std::size_t i = 0; i < changes.size(); ++i)
      changes[i] = adamw_of_[i] ? of_others[other++] : of_matrices[matrix++];
    return changes;
  }

  NamedTensors state() const override {
    NamedTensors named = others_->state();
    add_state(matrices_, "momentum", momentum_, named);
    return named;
  }

 private:
  bool steps_by_adamw(const NamedTensors::value_type& parameter,
                      const OptimizerOptions& options) const {
    const auto& [name, weight] = parameter;
    const bool is_last =
        !options.last_layer.empty() && name.starts_with(options.last_layer);
    return weight.dim() < 2 || is_last || matches_any(own_.adamw, name);
  }

  double scale_of(const at::Tensor& matrix) const {
    const auto rows = static_cast<double>(matrix.size(0));
    const auto columns = static_cast<double>(matrix.size(1));
    return own_.matches_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                              : std::sqrt(std::max(1.0, rows / columns));
  }

  void step(const ParameterStep& each) {
    at::Tensor& momentum = momentum_[each.index];
    momentum.lerp_(each.gradient, 1 - own_.momentum);
    const at::Tensor along =
        own_.nesterov ? each.gradient.lerp(momentum, own_.momentum) : momentum;
    const at::Tensor step = orthogonal(along.flatten(1), own_.iterations);
    each.weight.mul_(1 - each.rate * each.weight_decay)
        .sub_(step.reshape(each.weight.sizes()), each.rate * scale_of(step));
  }

  /// Changes along the momentum; a matrix that was never stepped has none.
  Tensors directions_of_matrices(double learning_rate) const {
    const at::NoGradGuard no_grad;
    Tensors changes(matrices_.size());
    for (const FusedGroup& group : groups_)
      for (const std::size_t i : group.members) {
        const double rate = learning_rate * group.lr_scale;
        const at::Tensor step =
            orthogonal(momentum_[i].flatten(1), own_.iterations);
        changes[i] =
            step.reshape(momentum_[i].sizes()).mul(-rate * scale_of(step));
        if (group.weight_decay > 0)
          changes[i].sub_(
              matrices_[i].second.detach() * momentum_[i].ne(0).any(),
              rate * group.weight_decay);
      }
    return changes;
  }

  MuonOptions own_;
  std::vector<bool> adamw_of_;  // per parameter
  NamedTensors matrices_;
  std::vector<FusedGroup> groups_;
  Tensors momentum_;
  std::unique_ptr<Optimizer> others_;
};

}  // namespace

MakeOptimizer read_muon(Fields& fields, OptimizerOptions& options) {
  MuonOptions own;
  own.describe(fields);
  options.describe_moments(fields);
  options.wants_whole = true;
  return [own](const OptimizerOptions& all, const NamedTensors& parameters) {
    return std::make_unique<Muon>(own, all, parameters);
  };
}

}  // namespace sluice
