#include "experiments/runs/answer_above.h"

#include "lib/blocks/block.h"
#include "lib/boundaries/boundary.h"

namespace sluice {

Tensors answer_above(const Experiment& experiment, int block) {
  const auto boundary = static_cast<std::size_t>(block) - 1;
  const LayerRange above = experiment.ranges[boundary + 1];
  return experiment.phases.front()[boundary]
      .make.upper(site_of(experiment, block))
      ->answer(make_block(experiment.model, block + 1, above.first, above.last,
                          experiment.seed, experiment.memory_format));
}

}  // namespace sluice
