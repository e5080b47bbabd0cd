// Clipping by the norm of all gradients of a replica's blocks.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "lib/base/messages/message.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/pack.h"
#include "lib/updates/clipping.h"
#include "lib/workers/seat.h"

namespace sluice {
namespace {

/// A copy: the message's memory is the link's, which wants it back.
at::Tensor norm_in(const Message& message, const c10::Device& device) {
  return on_device(unpack(message, "norm").at(0), device).clone();
}

}  // namespace

/// Squared norm of what the next update applies and of the blocks above; one
/// for each gradient where each is a step of its own.
at::Tensor Seat::squared_norms() const {
  const at::Tensor& above = window_.squared_norm_above;
  const std::vector<Tensors>& steps = replicas_.steps();
  if (steps.empty()) return squared_norm(window_.gradients, above);
  Tensors all;
  for (std::size_t i = 0; i < steps.size(); ++i)
    all.push_back(squared_norm(
        steps[i],
        above.defined() ? above[static_cast<std::int64_t>(i)] : at::Tensor()));
  return at::stack(all);
}

/// Norm for the record of an update: of the means that it applies, before
/// clipping. Undefined where there is none, or gradient_norms is off.
at::Tensor Seat::told_norm(const Action& action, const UpdateInfo& info) const {
  const bool is_known = replicas_.steps().empty() &&
                        !replicas_.pushes_gradients() &&
                        !plan().exchange.shards && !clips_own();
  if (!settings_.options.gradient_norms || !is_logged(action) || !is_known)
    return {};
  const auto divisor = static_cast<double>(
      (settings_.options.accumulate_mean ? info.turns : 1) * info.replicas);
  return squared_norm(window_.gradients).sqrt() / divisor;
}

void Seat::take_norm(const Message& from_above) {
  window_.squared_norm_above = norm_in(from_above, device());
}

/// The replicas have given the block what it applies: its part of the norm goes
/// down, after that of those above.
void Seat::pass_norm_down(const Action& settle) {
  if (!is_last()) take_norm(ports_.from_above(MessageKind::norm, settle));
  if (block() == 1) return;
  Message message = message_of(MessageKind::norm, settle);
  pack({squared_norms()}, "norm", message);
  ports_.send_down(std::move(message));
}

/// The norm of the whole model, of which the sum has come down: block 1 ends
/// it, and it goes up.
at::Tensor Seat::exchange_norm(const Action& action) {
  at::Tensor norm =
      block() == 1
          ? squared_norms().sqrt()
          : norm_in(ports_.from_below(MessageKind::norm, action), device());
  if (!is_last()) {
    Message message = message_of(MessageKind::norm, action);
    pack({norm}, "norm", message);
    ports_.send_up(std::move(message));
  }
  return norm;
}

/// Clips by the norm of what the replica would apply alone.
void Seat::clip_own(const Action& exchange) {
  const at::Tensor norm = run_plan().model_norm
                              ? exchange_norm(exchange)
                              : squared_norm(window_.gradients).sqrt();
  const auto turns = static_cast<double>(
      settings_.options.accumulate_mean ? window_.turns : 1);
  clip_to(settings_.optimizer.clip_norm, norm / turns, window_.gradients);
}

}  // namespace sluice
