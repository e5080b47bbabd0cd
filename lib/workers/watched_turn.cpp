#include "lib/workers/watched_turn.h"

#include <ATen/ATen.h>

namespace sluice {
namespace {

at::Tensor host_copy(const at::Tensor& tensor) {
  return tensor.is_cpu() ? tensor.detach().clone() : tensor.detach().cpu();
}

NamedTensors copies_by_name(const NamedTensors& names, const Tensors& values) {
  NamedTensors copies;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (values[i].defined())
      copies.emplace_back(names[i].first, host_copy(values[i]));
  return copies;
}

}  // namespace

WatchedTurn::WatchedTurn(const Block& block, std::shared_ptr<Observer> observer)
    : block_(block), observer_(std::move(observer)) {}

void WatchedTurn::before(const Action& action) {
  if (!observer_) return;
  const bool is_training = action.op == Op::forward ||
                           action.op == Op::backward ||
                           action.op == Op::backward_input;
  const std::pair now{action.phase, action.turn};
  if (!is_training || watched_ == now || !observer_->watches(action.turn))
    return;
  watched_ = now;
  NamedTensors weights;
  for (const NamedTensors* which : {&block_.parameters(), &block_.buffers()})
    for (const auto& [name, tensor] : *which)
      weights.emplace_back(name, host_copy(tensor));
  observer_->before_turn(block_.index(), action.phase, action.turn,
                         std::move(weights));
}

void WatchedTurn::applied(const Action& action, const Tensors& gradients) {
  if (watched_ != std::pair{action.phase, action.turn}) return;
  seen_ = {block_.index(), action.phase, action.turn, action.batch,
           copies_by_name(block_.parameters(), gradients)};
}

void WatchedTurn::tell() {
  if (seen_) observer_->applied(*std::exchange(seen_, std::nullopt));
}

}  // namespace sluice
