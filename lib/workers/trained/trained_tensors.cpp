#include "lib/workers/trained/trained_tensors.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/tensors/gpu/staging.h"

namespace sluice {
namespace {

/// Aliases of the parameters that autograd doesn't watch: it would refuse the
/// graphs of methods that want old activations and new weights. They share
/// storage as long as apply() and UpdateChain move both to a new one.
NamedTensors unwatched(const NamedTensors& parameters) {
  NamedTensors aliases;
  for (const auto& [name, parameter] : parameters)
    aliases.emplace_back(name, parameter.variable_data());
  return aliases;
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

/// Returns tensors.size() if the name is absent.
std::size_t index_of(const std::string& name, const NamedTensors& tensors) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(),
                   [&](const auto& named) { return named.first == name; });
  return static_cast<std::size_t>(found - tensors.begin());
}

/// Makes `later` the very tensor that `earlier` is.
void continue_with(const std::pair<std::string, at::Tensor>& earlier,
                   std::pair<std::string, at::Tensor>& later) {
  if (earlier.second.is_same(later.second)) return;
  if (earlier.second.sizes() != later.second.sizes())
    throw UserError(
        "the timetable has two policies that train '{}' in different shapes",
        earlier.first);
  later.second.set_data(earlier.second.variable_data());
}

void append(NamedTensors more, NamedTensors& all) {
  for (auto& named : more) all.push_back(std::move(named));
}

std::int64_t elements_of(const NamedTensors& tensors) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : tensors) count += tensor.numel();
  return count;
}

}  // namespace

TrainedTensors::TrainedTensors(
    const Block& block, const UpdateOptions& options,
    const std::vector<std::shared_ptr<Lower>>& lowers,
    const std::vector<std::shared_ptr<Upper>>& uppers)
    : block_(block), options_(options), tensors_(block.parameters()) {
  for (std::size_t i = 0; i < lowers.size(); ++i) {
    const bool is_plain = i >= uppers.size() || !uppers[i];
    add_ends(lowers[i], is_plain ? std::make_shared<Upper>() : uppers[i]);
  }
  // Learners of lower ends come before those of upper ends: optimizer states
  // lie in this order.
  for (PhaseEnds& ends : ends_) ends.upper_learners = add_learners(*ends.upper);
  update_ = std::make_unique<UpdateChain>(options_, unwatched(tensors_));
}

void TrainedTensors::add_ends(std::shared_ptr<Lower> lower,
                              std::shared_ptr<Upper> upper) {
  NamedTensors parameters = lower->parameters();
  move_to(block_.device(), parameters);
  for (const BoundaryEnd* end : {static_cast<BoundaryEnd*>(lower.get()),
                                 static_cast<BoundaryEnd*>(upper.get())}) {
    move_to(block_.device(), end->learners());
    move_to(block_.device(), end->buffers());
  }
  continue_buffers(*lower);
  continue_buffers(*upper);
  PhaseEnds ends{.lower = std::move(lower), .upper = std::move(upper)};
  for (auto& named : parameters) {
    const std::size_t index = index_of(named.first, tensors_);
    // A head that an earlier phase has trained under the same name goes on.
    if (index < tensors_.size())
      continue_with(tensors_[index], named);
    else
      tensors_.push_back(named);
    ends.trained.push_back(index);
  }
  ends.learners = add_learners(*ends.lower);
  ends_.push_back(std::move(ends));
}

/// What an end of an earlier phase has kept under a name goes on: it is saved
/// once.
void TrainedTensors::continue_buffers(const BoundaryEnd& end) {
  for (auto& named : end.buffers()) {
    const std::size_t index = index_of(named.first, kept_);
    if (index < kept_.size())
      continue_with(kept_[index], named);
    else
      kept_.push_back(named);
  }
}

/// Index of the end's learners in learners_: an earlier phase's entry when the
/// names are the same, whose tensors the end then shares.
std::size_t TrainedTensors::add_learners(const BoundaryEnd& end) {
  NamedTensors tensors = end.learners();
  for (std::size_t i = 0; i < learners_.size(); ++i) {
    if (names_of(learners_[i].tensors) != names_of(tensors)) continue;
    for (std::size_t j = 0; j < tensors.size(); ++j)
      continue_with(learners_[i].tensors[j], tensors[j]);
    return i;
  }
  const OptimizerOptions* own = end.learners_optimizer();
  UpdateOptions options{own == nullptr ? options_.optimizer : *own};
  options.optimizer.correct = nullptr;  // what they learn from is never stale
  auto update = std::make_unique<UpdateChain>(options, unwatched(tensors));
  learners_.push_back({std::move(tensors), std::move(update)});
  return learners_.size() - 1;
}

double TrainedTensors::apply(Tensors& gradients, const UpdateInfo& info,
                             const Tensors& storage) {
  const double rate = update_->apply(gradients, info, storage);
  for (std::size_t i = 0; i < storage.size(); ++i)
    tensors_[i].second.set_data(storage[i]);
  return rate;
}

NamedTensors TrainedTensors::all() const {
  NamedTensors all = tensors_;
  for (const Learners& each : learners_) append(each.tensors, all);
  return all;
}

void TrainedTensors::add(const Tensors& terms) {
  if (terms.empty()) return;
  const NamedTensors all = this->all();
  for (std::size_t i = 0; i < terms.size(); ++i)
    all.at(i).second.variable_data().add_(terms[i]);
  if (terms.size() > tensors_.size()) tell_of_other_learners();
}

void TrainedTensors::assign(const Tensors& values, const Tensors& storage) {
  const auto own = values.begin() + std::ssize(tensors_);
  update_->assign({values.begin(), own}, storage);
  for (std::size_t i = 0; i < storage.size(); ++i)
    tensors_[i].second.set_data(storage[i]);
  const NamedTensors all = this->all();
  for (std::size_t i = tensors_.size(); i < values.size(); ++i)
    all.at(i).second.variable_data().copy_(values[i]);
  if (values.size() > tensors_.size()) tell_of_other_learners();
}

void TrainedTensors::tell_of_other_learners() {
  for (const PhaseEnds& ends : ends_) {
    ends.lower->learners_replaced();
    ends.upper->learners_replaced();
  }
}

Tensors TrainedTensors::in_order(const Tensors& own, const Tensors& of_lower,
                                 std::size_t phase) const {
  Tensors gradients = own;
  gradients.resize(tensors_.size());
  for (std::size_t i = 0; i < of_lower.size(); ++i)
    gradients[ends(phase).trained[i]] = of_lower[i];
  return gradients;
}

NamedTensors TrainedTensors::weights() const {
  NamedTensors all = this->all();
  append(block_.frozen(), all);
  append(block_.buffers(), all);
  std::set<std::string> seen;
  const auto add_buffers = [&](const BoundaryEnd& end) {
    for (auto& named : end.buffers())
      if (seen.insert(named.first).second) all.push_back(std::move(named));
  };
  for (const PhaseEnds& ends : ends_) add_buffers(*ends.lower);
  for (const PhaseEnds& ends : ends_) add_buffers(*ends.upper);
  return all;
}

NamedTensors TrainedTensors::copied() const {
  NamedTensors all;
  for (const PhaseEnds& ends : ends_) append(ends.lower->copied(), all);
  return all;
}

NamedTensors TrainedTensors::state() const {
  NamedTensors all = update_->state();
  for (const Learners& each : learners_) append(each.update->state(), all);
  return all;
}

void TrainedTensors::restore(const NamedTensors& weights,
                             const NamedTensors& state,
                             std::string_view source) {
  copy_by_name(weights, this->weights(), source);
  copy_by_name(state, this->state(), source);
}

std::int64_t TrainedTensors::elements() const {
  return elements_of(all());
}

}  // namespace sluice
