#include "lib/workers/late_records.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <ATen/ATen.h>

#include "lib/tensors/streams.h"

namespace sluice {
namespace {

bool is_far(const at::Tensor& figure) {
  return figure.defined() && !figure.is_cpu();
}

/// The figures are on the CPU.
LateRecords::Values values_of_figures(const Tensors& figures) {
  LateRecords::Values values;
  for (const at::Tensor& figure : figures)
    values.push_back(figure.defined() ? std::optional(figure.item<double>())
                                      : std::nullopt);
  return values;
}

}  // namespace

void LateRecords::add(const Tensors& figures, Write write) {
  const auto far = std::find_if(figures.begin(), figures.end(), is_far);
  if (far == figures.end() && entries_.empty())
    return write(values_of_figures(figures));
  Entry entry{.figures = figures,
              .slot = nullptr,
              .write = std::move(write),
              .update = updates_};
  if (far != figures.end()) entry.slot = fetch(entry.figures, far->device());
  entries_.push_back(std::move(entry));
  if (most_ == 0) settle();
}

void LateRecords::updated() {
  ++updates_;
  while (!entries_.empty() && is_due(entries_.front())) write_first();
}

void LateRecords::settle() {
  while (!entries_.empty()) write_first();
}

bool LateRecords::is_due(const Entry& entry) const {
  return !entry.slot || updates_ - entry.update >= most_ ||
         entry.slot->arrived.query();
}

void LateRecords::write_first() {
  Entry entry = std::move(entries_.front());
  entries_.pop_front();
  if (entry.slot) entry.slot->arrived.synchronize();
  const Values values = values_of_figures(entry.figures);
  if (entry.slot) free_.push_back(std::move(entry.slot));
  entry.write(values);
}

std::unique_ptr<LateRecords::Slot> LateRecords::slot_for(
    const c10::Device& device) {
  if (free_.empty())
    return std::make_unique<Slot>(
        Slot{.pinned = {}, .arrived = c10::Event(device.type())});
  std::unique_ptr<Slot> slot = std::move(free_.back());
  free_.pop_back();
  return slot;
}

/// Starts the copies of those on the device, and puts the copies in their
/// place.
std::unique_ptr<LateRecords::Slot> LateRecords::fetch(
    Tensors& figures, const c10::Device& device) {
  std::unique_ptr<Slot> slot = slot_for(device);
  slot->pinned.resize(std::max(slot->pinned.size(), figures.size()));
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (!is_far(figures[i])) continue;
    at::Tensor& pinned = slot->pinned[i];
    if (!pinned.defined() || pinned.scalar_type() != figures[i].scalar_type())
      pinned = at::empty(
          {}, figures[i].options().device(at::kCPU).pinned_memory(true));
    pinned.copy_(figures[i].detach().reshape({}), /*non_blocking=*/true);
    figures[i] = pinned;
  }
  slot->arrived.record(computing_on(device));
  return slot;
}

}  // namespace sluice
