#include "lib/schedules/plan/combinations.h"

#include "lib/base/error.h"

namespace sluice {
namespace {

void check_upper(const Traits& boundary, std::size_t k) {
  if (boundary.upper == UpperEnd::answers && !boundary.lower.learns)
    throw UserError(
        "boundary {}: what its upper end answers is for learn(), so its traits "
        "must say that it learns",
        k);
}

void check_inbox_in_lockstep(const InboxTraits& inbox, std::size_t k) {
  if (inbox.buffer)
    throw UserError(
        "boundary {}: a buffer needs blocks that don't wait for each other: "
        "set schedule = 'free'",
        k);
  if (inbox.drops())
    throw UserError(
        "boundary {}: slow_consumer needs blocks that don't wait for each "
        "other: set schedule = 'free'",
        k);
}

void check_inbox(const Traits& boundary, std::size_t k) {
  if (boundary.cut && !boundary.from_above) return;
  if (boundary.inbox.buffer)
    throw UserError(
        "boundary {}: a buffer lies at a cut from which nothing comes down: "
        "reach = 0, and no head that follows the layer above",
        k);
  if (boundary.inbox.drops())
    throw UserError(
        "boundary {}: slow_consumer drops activations only at a cut from which "
        "nothing comes down: reach = 0, and no head that follows the layer "
        "above; elsewhere it is 'block'",
        k);
}

/// As many inputs as turns come out of a bounded buffer only when as many go
/// in.
void check_gaps(const std::vector<Traits>& boundaries) {
  bool has_gaps = false;
  for (std::size_t k = 1; k <= boundaries.size(); ++k) {
    const InboxTraits& inbox = boundaries[k - 1].inbox;
    has_gaps = has_gaps || inbox.drops();
    if (!inbox.buffer) continue;
    if (has_gaps && inbox.buffer->max_reuse >= 0)
      throw UserError(
          "boundary {}: where activations are dropped at or below a buffer, "
          "its block above could run out of inputs: buffer.max_reuse must be "
          "-1, or slow_consumer 'block'",
          k);
    has_gaps = false;
  }
}

}  // namespace

void check_lockstep(const std::vector<Traits>& boundaries, bool model_norm,
                    const MicroBatches& micro_batches) {
  for (std::size_t k = boundaries.size(); k >= 1; --k) {
    const Traits& boundary = boundaries[k - 1];
    if (micro_batches.count > 1 &&
        (boundary.delay > 0 || boundary.lower.target_delay > 0))
      throw UserError(
          "boundary {}: its policy has a delay, which counts whole turns: set "
          "pipeline.micro_batches = 1, or choose a policy without a delay",
          k);
    check_upper(boundary, k);
    check_inbox_in_lockstep(boundary.inbox, k);
    if (model_norm &&
        (boundary.cut || boundary.delay > 0 || !boundary.from_above))
      throw UserError(
          "clip.scope = 'model' needs backprop at every boundary: boundary {} "
          "has another policy; use clip.scope = 'block'",
          k);
  }
}

void check_added(const std::vector<Traits>& boundaries, bool model_norm,
                 const AddedDelay& added, const MicroBatches& micro_batches) {
  if (!added.is_there()) return;
  if (micro_batches.count > 1)
    throw UserError(
        "delay.turns counts whole turns: set pipeline.micro_batches = 1, or "
        "leave it out");
  if (model_norm)
    throw UserError(
        "delay.turns goes with clip.scope = 'block': the norm of a whole model "
        "is that of gradients that come in one turn");
  for (std::size_t k = 1; k <= boundaries.size(); ++k) {
    const Traits& boundary = boundaries[k - 1];
    const bool is_within_reach =
        !boundary.cut && boundary.reach.blocks != kUnbounded;
    const char* why =
        boundary.delay > 0 || boundary.lower.target_delay > 0
            ? "has a delay of its own"
        : is_within_reach ? "has a reach, which no late gradient has"
        : boundary.lower.sweeps.are_several() ? "moves variables several times"
        : boundary.upper != UpperEnd::plain
            ? "has an upper end that does more than to send gradients"
            : nullptr;
    if (why != nullptr)
      throw UserError(
          "delay.turns goes with policies whose gradients come in their own "
          "turn: that of boundary {} {}; leave one of them out",
          k, why);
  }
}

void check_free(const std::vector<Traits>& boundaries) {
  for (std::size_t k = 1; k <= boundaries.size(); ++k) {
    const Traits& boundary = boundaries[k - 1];
    check_upper(boundary, k);
    check_inbox(boundary, k);
    if (boundary.upper == UpperEnd::from_data)
      throw UserError("boundary {}: its unlock needs schedule = 'lockstep'", k);
    if (boundary.lower.sweeps.are_several())
      throw UserError(
          "boundary {}: variables that move several times need blocks that "
          "wait for each other: set schedule = 'lockstep', or steps = 1 and "
          "another order",
          k);
    if (boundary.delay > 0 && boundary.weights.of_entry)
      throw UserError(
          "boundary {}: weights = '{}' needs turns that mean the same for all "
          "blocks: set schedule = 'lockstep', or weights = 'stash'",
          k, boundary.weights.view);
  }
  check_gaps(boundaries);
}

}  // namespace sluice
