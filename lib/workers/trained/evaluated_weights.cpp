#include "lib/workers/trained/evaluated_weights.h"

#include <cstddef>
#include <map>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

namespace sluice {
namespace {

void copy_each(const Tensors& from, const NamedTensors& to) {
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i].second.variable_data().copy_(from.at(i));
}

}  // namespace

EvaluatedWeights::EvaluatedWeights(const Block& block,
                                   const TrainedTensors& trained)
    : block_(block), trained_(trained) {}

Block& EvaluatedWeights::twin() {
  if (!twin_) twin_.emplace(block_.twin());
  return *twin_;
}

void EvaluatedWeights::set_weights(const Tensors& values) {
  const at::NoGradGuard no_grad;
  copy_each(values, twin().parameters());
  heads_.clear();
  const NamedTensors all = trained_.all();
  for (std::size_t i = block_.parameters().size(); i < values.size(); ++i)
    heads_.emplace_back(all.at(i).first, values[i].clone());
}

void EvaluatedWeights::set_buffers(const Tensors& values) {
  const at::NoGradGuard no_grad;
  copy_each(values, twin().buffers());
}

void EvaluatedWeights::average_by(const AverageRule& rule) {
  average_.emplace(rule, trained_.tensors());
}

void EvaluatedWeights::begin_average() {
  if (average_) average_->begin(trained_.tensors());
}

void EvaluatedWeights::follow(std::int64_t turn) {
  if (average_) average_->follow(trained_.tensors(), turn);
}

NamedTensors EvaluatedWeights::average_state() const {
  return average_ ? average_->state() : NamedTensors();
}

void EvaluatedWeights::restore_average(const NamedTensors& state,
                                       std::string_view source) {
  if (average_) average_->restore(state, source);
}

void EvaluatedWeights::show_average(bool with_buffers) {
  if (!average_) return;
  set_weights(average_->values());
  if (with_buffers) set_buffers(values_of(block_.buffers()));
}

NamedTensors EvaluatedWeights::in_place_of(NamedTensors weights) const {
  if (!twin_) return weights;
  std::map<std::string, at::Tensor> by_name;
  for (const NamedTensors* list :
       {&twin_->parameters(), &twin_->buffers(), &heads_})
    by_name.insert(list->begin(), list->end());
  for (auto& [name, tensor] : weights)
    if (const auto found = by_name.find(name); found != by_name.end())
      tensor = found->second;
  return weights;
}

}  // namespace sluice
