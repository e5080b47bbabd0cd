#include "experiments/config/parameter_names.h"

#include <cstddef>

#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/tensors/generator_guard.h"

namespace sluice {
namespace {

void append_names(const NamedTensors& tensors, std::vector<std::string>& all) {
  for (const auto& [name, tensor] : tensors) all.push_back(name);
}

void append_learners(const BoundaryEnd& end, std::vector<std::string>& all) {
  if (end.learners_optimizer() == nullptr) append_names(end.learners(), all);
}

}  // namespace

std::vector<std::string> parameter_names(const Experiment& experiment,
                                         int block) {
  const GeneratorGuard kept;
  std::vector<std::string> all;
  const LayerRange range = by_block(experiment.ranges, block);
  for (std::int64_t i = range.first; i <= range.last; ++i) {
    const auto layer =
        experiment.model.layers.at(static_cast<std::size_t>(i)).make();
    for (const auto& item : layer->named_parameters())
      if (item.value().requires_grad())
        all.push_back(fmt::format("layers.{}.{}", i, item.key()));
  }
  for (const Boundaries& phase : experiment.phases) {
    if (block < experiment.blocks()) {
      const auto lower =
          by_block(phase, block).make.lower(site_of(experiment, block));
      append_names(lower->parameters(), all);
      append_learners(*lower, all);
    }
    if (block > 1)
      append_learners(*by_block(phase, block - 1)
                           .make.upper(site_of(experiment, block - 1)),
                      all);
  }
  return all;
}

}  // namespace sluice
