#include "lib/updates/update_chain.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"
#include "lib/updates/sharded_optimizer.h"

namespace sluice {

std::unique_ptr<Transform> make_mean(const UpdateOptions& options,
                                     const NamedTensors& parameters);
std::unique_ptr<Transform> make_clip(const UpdateOptions& options,
                                     const NamedTensors& parameters);
std::unique_ptr<Transform> make_correction(const UpdateOptions& options,
                                           const NamedTensors& parameters);

std::span<const TransformRow> transforms() {
  static constexpr TransformRow kRows[] = {
      {"mean", "over replicas, and over the turns of a window if wanted",
       make_mean},
      {"clip", "of the norm over the block, or the model", make_clip},
      {"correction", "of stale gradients, by the staleness measured",
       make_correction},
  };
  return kRows;
}

namespace {

/// Whether updates with the same numbers are the same operations.
bool can_be_graphs(const UpdateOptions& options) {
  const OptimizerOptions& optimizer = options.optimizer;
  const bool is_known = optimizer.name == "sgd" || optimizer.name == "adam" ||
                        optimizer.name == "adamw" ||
                        optimizer.name == "adagrad";
  return options.graphs && is_known && !optimizer.correct &&
         optimizer.transforms.empty() && options.share.is_all();
}

}  // namespace

UpdateChain::UpdateChain(const UpdateOptions& options,
                         const NamedTensors& parameters)
    : parameters_(parameters), rate_(options.optimizer.learning_rate) {
  for (const TransformRow& row : transforms())
    if (auto link = row.make(options, parameters))
      links_.push_back(std::move(link));
  for (const MakeCorrection& make : options.optimizer.transforms)
    links_.push_back(make(parameters));
  const auto make = [&](const NamedTensors& stepped) {
    return make_optimizer(options.optimizer, stepped);
  };
  optimizer_ = options.share.is_all() ? make(parameters)
                                      : std::make_unique<ShardedOptimizer>(
                                            make, parameters, options.share);
  velocity_ = dynamic_cast<VelocityOptimizer*>(optimizer_.get());
  if (can_be_graphs(options)) graph_.emplace();
}

/// Links, the optimizer and the caller have one tensor of each parameter.
MovedWeights UpdateChain::move_to(const Tensors& storage) {
  MovedWeights moved{.now = storage};
  for (std::size_t i = 0; i < storage.size(); ++i) {
    at::Tensor& parameter = parameters_.at(i).second;
    moved.before.push_back(parameter.variable_data());
    parameter.set_data(storage[i]);
  }
  return moved;
}

/// Numbers that a graph of an update keeps as they were captured. Learning
/// rates that change with each turn leave nothing to be replayed.
GraphedFunction::Constants UpdateChain::constants_of(
    const UpdateInfo& info) const {
  GraphedFunction::Constants all{
      .numbers = {info.rate, static_cast<double>(info.batches),
                  static_cast<double>(info.turns),
                  static_cast<double>(info.replicas)},
      .addresses = {}};
  for (const auto& [name, parameter] : parameters_)
    all.addresses.push_back(parameter.const_data_ptr());
  return all;
}

double UpdateChain::apply(Tensors& gradients, UpdateInfo info,
                          const Tensors& storage) {
  if (!graph_ || !storage.empty()) return apply_now(gradients, info, storage);
  Tensors operands = gradients;
  operands.push_back(info.model_norm);
  gradients =
      (*graph_)(operands, constants_of(info), [&](const Tensors& given) {
        Tensors left(given.begin(), given.end() - 1);
        UpdateInfo its = info;
        its.model_norm = given.back();
        apply_now(left, its, {});
        return left;
      });
  return info.rate;
}

double UpdateChain::apply_now(Tensors& gradients, UpdateInfo info,
                              const Tensors& storage) {
  for (const auto& link : links_) link->apply(gradients, info);
  const MovedWeights moved = move_to(storage);
  if (info.mix == StepMix{}) {
    if (storage.empty())
      optimizer_->step(gradients, info.rate);
    else
      optimizer_->step_from(moved, gradients, info.rate);
  } else {
    SLUICE_CHECK(velocity_ != nullptr, "an optimizer without a velocity");
    moved.copy();
    velocity_->step_along(gradients, info.rate, info.mix);
  }
  return info.rate;
}

double UpdateChain::rate_at(std::int64_t turn, std::int64_t turns,
                            const Epochs& epochs) const {
  return rate_.at(turn, turns, epochs);
}

void UpdateChain::assign(const Tensors& values, const Tensors& storage) {
  move_to(storage);
  for (std::size_t i = 0; i < values.size(); ++i)
    parameters_.at(i).second.copy_(values[i]);
}

bool UpdateChain::takes_parts() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link->takes_parts(); });
}

Tensors UpdateChain::direction(double learning_rate) const {
  return optimizer_->direction(learning_rate);
}

NamedTensors UpdateChain::state() const {
  NamedTensors all = optimizer_->state();
  for (const auto& link : links_)
    for (auto& named : link->state()) all.push_back(std::move(named));
  return all;
}

}  // namespace sluice
