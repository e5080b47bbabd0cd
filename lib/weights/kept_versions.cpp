#include "lib/weights/kept_versions.h"

#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/weights/block_weights.h"

namespace sluice {

Tensors KeptVersions::forward(Flight& flight) {
  const std::int64_t now = flight.version;
  flight.version = version_for(flight);
  if (flight.version == now) keep(now);
  const auto kept = versions_.find(flight.version);
  SLUICE_CHECK(kept != versions_.end(),
               "block {} has no weights of version {} for batch {}: it is at "
               "{}",
               block_.index(), flight.version, flight.pass.batch, now);
  flight.block = kept->second;
  flight.outputs = forward_with_graph(*flight.block, flight);
  return flight.outputs;
}

Graph KeptVersions::graph_of(Flight& flight, std::int64_t /*version*/) {
  return {std::move(flight.outputs), values_of(flight.block->parameters())};
}

Tensors KeptVersions::weights_of(const Flight& flight) const {
  return copied_weights(*flight.block);
}

void KeptVersions::restore(Flight& flight, const Tensors& weights) {
  const BufferGuard kept(block_);
  flight.block = versions_.contains(flight.version)
                     ? versions_.at(flight.version)
                     : storage_.copy_of(weights);
  flight.outputs = forward_with_graph(*flight.block, flight);
}

void KeptVersions::save(const std::string& name, NamedTensors& all) const {
  for (const auto& [version, kept] : versions_)
    save_list(copied_weights(*kept), fmt::format("{}.{}", name, version), all);
}

void KeptVersions::restore(const std::string& name, const SavedState& saved) {
  for (const std::int64_t version : saved.numbers_below(name))
    versions_[version] =
        storage_.copy_of(saved.list(fmt::format("{}.{}", name, version)));
}

void KeptVersions::forget_before(std::int64_t version) {
  versions_.erase(versions_.begin(), versions_.lower_bound(version));
}

std::int64_t KeptVersions::first_or(std::int64_t otherwise) const {
  return versions_.empty() ? otherwise : versions_.begin()->first;
}

void KeptVersions::keep(std::int64_t version) {
  if (versions_.contains(version)) return;
  const Tensors others = weights_to_keep(version);
  versions_[version] =
      others.empty() ? storage_.today() : storage_.copy_of(others);
}

}  // namespace sluice
