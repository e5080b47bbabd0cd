#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/boundaries/policies/plug_ins.h"
#include "lib/weights/weight_view.h"

namespace sluice {

/// The policies whose signal is the gradient that arrives from above, times
/// `scale`: they differ in their traits.
MakeBoundary from_above(const Traits& traits, double scale = 1);

/// The weight views of boundaries that delay; without those that forward the
/// input through the present weights, which is features replay.
std::vector<std::string> views_of_delays(bool with_replay);
/// The key "weights", and what the view that it names wants to know; `views`
/// are those that fit the method, its default first.
void read_weights(Fields& options, std::span<const std::string> views,
                  WeightsAtBackward& weights);
/// The key "statistics", which has a meaning when the forward is replayed.
void read_statistics(Fields& options,
                     std::optional<StatisticsPass>& statistics);

}  // namespace sluice
