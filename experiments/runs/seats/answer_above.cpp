#include "experiments/runs/seats/answer_above.h"

#include "lib/base/by_block.h"
#include "lib/blocks/block.h"
#include "lib/boundaries/boundary.h"

namespace sluice {

Tensors answer_above(const Experiment& experiment, int block) {
  const LayerRange above = by_block(experiment.ranges, block + 1);
  return by_block(experiment.phases.front(), block)
      .make.upper(site_of(experiment, block))
      ->answer(make_block(experiment.model, block + 1, above.first, above.last,
                          experiment.seed, experiment.memory_format));
}

}  // namespace sluice
