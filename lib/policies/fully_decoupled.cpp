// FDG, fully decoupled training with gradient shrinking: Zhuang et al., TNNLS
// 2021, arXiv:1906.09108. Activations and gradients both travel for a turn, so
// block k applies batch t - 2 (K - k) at turn t; each boundary multiplies the
// gradient by beta. With accumulation it is ADL (Zhuang et al., ICML 2021,
// arXiv:2012.03747); with weights = "current" our reading of DSP (Xu et al.,
// CVPR 2020, arXiv:1909.02625).
#include "lib/policies/from_above.h"

namespace sluice {

MakePolicy configure_fully_decoupled(Fields& options, const PlugIns&) {
  Traits traits{.delay = 2, .order = Order::backward_first};
  double beta = 1;
  std::string order = "B";
  options.key("beta", beta,
              {.text = "by which this boundary multiplies the gradient",
               .min = 0,
               .max = 1});
  options.key("order", order,
              {.text = "of a turn: A is forward, backward, update; B is "
                       "backward, update, forward",
               .allowed = {"A", "B"}});
  if (order == "A") traits.order = Order::forward_first;
  read_weights(options, {"stash", "recompute", "mixed", "current"},
               traits.weights);
  if (traits.weights == WeightsAtBackward::current)
    read_statistics(options, traits.statistics);
  return from_above(traits, beta);
}

}  // namespace sluice
