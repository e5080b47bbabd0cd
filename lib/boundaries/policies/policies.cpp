// A new method adds its two names here and one row below.
#include "lib/base/added_rows.h"
#include "lib/boundaries/policies/plug_ins.h"

namespace sluice {

using Configure = MakeBoundary(Fields& options, const PlugIns& plug_ins);
using Describe = MethodPage();
Configure configure_backprop, configure_delayed_gradient,
    configure_features_replay, configure_fully_decoupled, configure_local_loss,
    configure_blend, configure_synthetic_gradient, configure_target_projection,
    configure_penalty, configure_augmented_lagrangian, configure_block_admm,
    configure_nmf;
Describe describe_backprop, describe_delayed_gradient, describe_features_replay,
    describe_fully_decoupled, describe_local_loss, describe_blend,
    describe_synthetic_gradient, describe_target_projection, describe_penalty,
    describe_augmented_lagrangian, describe_block_admm, describe_nmf;

std::span<const PolicyRow> policies() {
  static const PolicyRow kRows[] = {
      {"augmented_lagrangian",
       "a variable for the features, with a multiplier that closes the gap "
       "(Sun et al., arXiv:2009.01462)",
       {configure_augmented_lagrangian, describe_augmented_lagrangian}},
      {"backprop",
       "the gradient from above, undelayed",
       {configure_backprop, describe_backprop}},
      {"blend",
       "a weighted sum of other policies' signals",
       {configure_blend, describe_blend}},
      {"block_admm",
       "a variable for the features that moves several times a batch, with a "
       "scaled dual (Khorram et al., arXiv:2105.00339)",
       {configure_block_admm, describe_block_admm}},
      {"delayed_gradient",
       "the gradient from above, a turn later (DDG, arXiv:1804.10574)",
       {configure_delayed_gradient, describe_delayed_gradient}},
      {"features_replay",
       "the gradient from above, a turn later, at replayed features (FR, "
       "arXiv:1807.04511)",
       {configure_features_replay, describe_features_replay}},
      {"fully_decoupled",
       "the gradient from above, two turns later, times beta (FDG, "
       "arXiv:1906.09108)",
       {configure_fully_decoupled, describe_fully_decoupled}},
      {"local_loss",
       "the loss of an auxiliary head (greedy, arXiv:1901.08164)",
       {configure_local_loss, describe_local_loss}},
      {"nmf",
       "a product of non-negative factors for the features (DeepFacto, "
       "arXiv:2105.00339)",
       {configure_nmf, describe_nmf}},
      {"penalty",
       "a variable for the features, held near them by a penalty (Sun et al., "
       "arXiv:2009.01462)",
       {configure_penalty, describe_penalty}},
      {"synthetic_gradient",
       "a synthesizer's prediction from the features (DNI, arXiv:1608.05343)",
       {configure_synthetic_gradient, describe_synthetic_gradient}},
      {"target_projection",
       "a fixed random projection of the label (DRTP, arXiv:1909.01311)",
       {configure_target_projection, describe_target_projection}},
  };
  return with_added<Method>(kRows);
}

}  // namespace sluice
