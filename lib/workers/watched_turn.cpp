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

WatchedTurn::WatchedTurn(const Block& block, int replica,
                         std::shared_ptr<Observer> observer)
    : block_(block), replica_(replica), observer_(std::move(observer)) {}

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
  for (const NamedTensors* which : {&block_.weights(), &block_.buffers()})
    for (const auto& [name, tensor] : *which)
      weights.emplace_back(name, host_copy(tensor));
  observer_->before_turn(block_.index(), replica_, action.phase, action.turn,
                         std::move(weights));
}

void WatchedTurn::applied(const Action& action, std::int64_t source_batch,
                          const Tensors& gradients) {
  if (!watches(action)) return;
  seen_ = {.block = block_.index(),
           .replica = replica_,
           .phase = action.phase,
           .turn = action.turn,
           .batch = action.batch,
           .source_batch = source_batch,
           .gradients = copies_by_name(block_.parameters(), gradients)};
}

void WatchedTurn::exchanged(const Action& action, std::int64_t source_batch,
                            const Tensors& sums, std::int64_t replicas) {
  if (!watches(action)) return;
  applied(action, source_batch, sums);
  seen_->exchanged = true;
  for (auto& [name, gradient] : seen_->gradients)
    gradient.div_(static_cast<double>(replicas));
}

void WatchedTurn::tell() {
  if (seen_) observer_->applied(*std::exchange(seen_, std::nullopt));
}

}  // namespace sluice
