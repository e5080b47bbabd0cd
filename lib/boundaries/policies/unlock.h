#pragma once

#include <memory>
#include <optional>

#include "lib/boundaries/policies/plug_ins.h"

namespace sluice {

/// Full unlock (Jaderberg et al. 2017, arXiv:1608.05343): an upper end that
/// forwards what an input model predicts of the features from below, and
/// teaches that model when they have come, by regression: the squared error
/// summed over the features of a sample, averaged over the batch.
std::unique_ptr<Upper> make_input_model_end(
    std::shared_ptr<Predictor> model, const BoundarySite& site,
    const std::optional<OptimizerOptions>& optimizer = {});

/// The same from the section "unlock"; empty when it isn't there.
MakeUpper read_unlock(Fields& options, const PlugIns& plug_ins);

/// The section "optimizer" of something that trains by itself; nothing: the
/// block's.
std::optional<OptimizerOptions> read_own_optimizer(Fields& options);

}  // namespace sluice
