#include "experiments/config/tables/block_layers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/replicas/compressor.h"

namespace sluice {

double parameter_bytes(const Experiment& experiment, const LayerRange& range) {
  double bytes = 0;
  for (std::int64_t i = range.first; i <= range.last; ++i) {
    const auto layer =
        experiment.model.layers.at(static_cast<std::size_t>(i)).make();
    for (const auto& parameter : layer->parameters())
      if (parameter.requires_grad())
        bytes += static_cast<double>(parameter.nbytes());
  }
  return bytes;
}

double exchanged_bytes(const Experiment& experiment, const LayerRange& range) {
  const ReplicaKind& kind = experiment.replicas.kind;
  const CompressorKind& compressor = kind.compressor;
  if (!compressor.bytes)
    return kind.offered * parameter_bytes(experiment, range);
  std::vector<TensorSizes> sizes;
  for (std::int64_t i = range.first; i <= range.last; ++i) {
    const auto layer =
        experiment.model.layers.at(static_cast<std::size_t>(i)).make();
    for (const auto& parameter : layer->parameters())
      if (parameter.requires_grad()) sizes.push_back(parameter.sizes().vec());
  }
  return compressor.bytes(sizes);
}

bool has_batch_norm(const Experiment& experiment, const LayerRange& range) {
  for (std::int64_t i = range.first; i <= range.last; ++i) {
    const auto layer =
        experiment.model.layers.at(static_cast<std::size_t>(i)).make();
    for (const auto& buffer : layer->named_buffers())
      if (buffer.key().ends_with("running_mean")) return true;
  }
  return false;
}

bool has_batch_norm(const Experiment& experiment) {
  return std::any_of(experiment.ranges.begin(), experiment.ranges.end(),
                     [&](const LayerRange& range) {
                       return has_batch_norm(experiment, range);
                     });
}

bool is_reversible(const Experiment& experiment, const LayerRange& range) {
  for (std::int64_t i = range.first; i <= range.last; ++i)
    if (!experiment.model.layers.at(static_cast<std::size_t>(i))
             .make()
             ->is_reversible())
      return false;
  return true;
}

}  // namespace sluice
