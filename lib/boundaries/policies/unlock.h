#pragma once

#include <memory>
#include <optional>

#include "lib/boundaries/policies/plug_ins.h"

namespace sluice {

/// Unlock (the full unlock of Jaderberg et al. 2017, arXiv:1608.05343): an
/// upper end that forwards what an input model predicts of the features from
/// below, and teaches that model when they have come, by regression: the
/// squared error summed over the features of a sample, averaged over the batch.
std::unique_ptr<Upper> make_input_model_end(
    std::shared_ptr<Predictor> model, const BoundarySite& site,
    const std::optional<OptimizerOptions>& optimizer = {});

/// Makes that end from the section "unlock"; empty when there is none.
MakeUpper read_unlock(Fields& options, const PlugIns& plug_ins);

/// Reads the section "optimizer" of a synthesizer or input model; nothing: it
/// is trained with the options of the block's.
std::optional<OptimizerOptions> read_own_optimizer(Fields& options);

}  // namespace sluice
