#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/config.h"
#include "lib/blocks/layer.h"

namespace sluice {

/// The layers of a block: indices into Model::layers, both ends included.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool operator==(const LayerRange&) const = default;
};

/// One range per block, from the input up; together all layers, in order.
using Partition = std::vector<LayerRange>;

/// Cuts the model as the config says: a number of blocks (balanced), or a list
/// of ranges like "0-3", "4" and, for the last, "5-". `blocks.origin` says in
/// messages where it was written. Throws UserError for a number that the model
/// hasn't got layers for, and for ranges with gaps, overlaps or no layers.
Partition partition(const ConfigNode& blocks, const Model& model);

/// The cut whose most expensive block costs least by LayerSpec::flops; among
/// those the one with the smallest sum of squared costs; among those the one
/// whose upper blocks begin lowest. A function of the model alone. 1 <= blocks
/// <= layers.
Partition balanced(std::int64_t blocks, const Model& model);

/// As a list of ranges, for the resolved config: partition() reads it back.
ConfigNode to_config(const Partition& ranges);

}  // namespace sluice
