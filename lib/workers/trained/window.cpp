#include "lib/workers/trained/window.h"

#include <utility>

#include "lib/tensors/gpu/staging.h"
#include "lib/workers/trained/vjp.h"

namespace sluice {
namespace {

void save_staleness(const Staleness& of, const std::string& name,
                    NamedTensors& all) {
  save_number(of.sum, name + ".sum", all);
  save_number(of.most, name + ".most", all);
}

/// Staleness by that name; zero in checkpoints of earlier versions, which have
/// none.
Staleness saved_staleness(const SavedState& saved, const std::string& name) {
  if (!saved.has(name + ".sum")) return {};
  return {saved.number(name + ".sum"), saved.number(name + ".most")};
}

}  // namespace

void Window::add(Tensors batch_gradients, std::int64_t batch,
                 const MicroBatches& micro_batches, double weight) {
  batch_gradients = weighted(std::move(batch_gradients), weight);
  if (batches == 0) first_turn = micro_batches.turn_of(batch);
  if (batches++ == 0)
    gradients = std::move(batch_gradients);
  else
    add_to(gradients, batch_gradients);
  if (micro_batches.ends_turn(batch)) ++turns;
}

UpdateInfo Window::info() const {
  return {.batches = batches,
          .turns = turns,
          .in_batches = in_batches,
          .in_updates = in_updates,
          .forward_weights = forward_weights};
}

void Window::clear() {
  *this = {.gradients = std::move(gradients)};
}

void Window::save(const std::string& name, NamedTensors& all) const {
  if (batches == 0) return;
  save_number(batches, name + ".batches", all);
  if (turns != batches) save_number(turns, name + ".turns", all);
  save_staleness(in_batches, name + ".d_batch", all);
  save_staleness(in_updates, name + ".d_upd", all);
  save_number(first_turn, name + ".first_batch", all);
  save_list(gradients, name + ".gradient", all);
}

void Window::restore(const std::string& name, const SavedState& saved,
                     const c10::Device& device) {
  if (!saved.has(name + ".batches")) return;
  batches = saved.number(name + ".batches");
  turns = saved.has(name + ".turns") ? saved.number(name + ".turns") : batches;
  first_turn = saved.number(name + ".first_batch");
  in_batches = saved_staleness(saved, name + ".d_batch");
  in_updates = saved_staleness(saved, name + ".d_upd");
  gradients = on_device(saved.list(name + ".gradient"), device);
}

}  // namespace sluice
