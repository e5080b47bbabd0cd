// A new method adds one name here and one row below.
#include "lib/policies/plug_ins.h"

namespace sluice {

MakePolicy configure_backprop(Fields& options, const PlugIns& plug_ins);
MakePolicy configure_delayed_gradient(Fields& options, const PlugIns& plug_ins);
MakePolicy configure_features_replay(Fields& options, const PlugIns& plug_ins);
MakePolicy configure_fully_decoupled(Fields& options, const PlugIns& plug_ins);
MakePolicy configure_local_loss(Fields& options, const PlugIns& plug_ins);
MakePolicy configure_blend(Fields& options, const PlugIns& plug_ins);

MakePolicy configure_synthetic_gradient(Fields& options,
                                        const PlugIns& plug_ins);

std::span<const PolicyRow> policies() {
  static constexpr PolicyRow kRows[] = {
      {"backprop", "the gradient from above, undelayed", configure_backprop},
      {"blend", "a weighted sum of other policies' signals", configure_blend},
      {"delayed_gradient",
       "the gradient from above, a turn later (DDG, arXiv:1804.10574)",
       configure_delayed_gradient},
      {"features_replay",
       "the gradient from above, a turn later, at replayed features (FR, "
       "arXiv:1807.04511)",
       configure_features_replay},
      {"fully_decoupled",
       "the gradient from above, two turns later, times beta (FDG, "
       "arXiv:1906.09108)",
       configure_fully_decoupled},
      {"local_loss", "the loss of an auxiliary head (greedy, arXiv:1901.08164)",
       configure_local_loss},
      {"synthetic_gradient",
       "what a synthesizer makes of the features (DNI, arXiv:1608.05343)",
       configure_synthetic_gradient},
  };
  return kRows;
}

}  // namespace sluice
