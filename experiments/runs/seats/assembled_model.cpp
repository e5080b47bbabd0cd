#include "experiments/runs/seats/assembled_model.h"

#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/boundaries/codecs/coded.h"

namespace sluice {

namespace {

/// The end above a block that changes evaluations, the same in all phases;
/// nullptr: there is none.
std::unique_ptr<Lower> end_above(const Experiment& experiment, int block) {
  if (block == experiment.blocks()) return nullptr;
  const MakeBoundary& make = by_block(experiment.phases.front(), block).make;
  return make.changes_evaluations ? make.lower(site_of(experiment, block))
                                  : nullptr;
}

}  // namespace

AssembledModel::AssembledModel(const Experiment& experiment,
                               const Layers& layers) {
  SLUICE_CHECK(layers.size() == experiment.model.layers.size(),
               "{} layers of a model of {}", layers.size(),
               experiment.model.layers.size());
  for (const LayerRange& range : experiment.ranges) {
    Layers own(layers.begin() + range.first, layers.begin() + range.last + 1);
    const int block = static_cast<int>(blocks_.size()) + 1;
    blocks_.emplace_back(
        block, range.first, [own = std::move(own)] { return own; },
        experiment.memory_format);
    codecs_.push_back(codecs_above(experiment, block));
    ends_.push_back(end_above(experiment, block));
  }
}

Tensors AssembledModel::forward(const Tensors& inputs, const Pass& pass) {
  Tensors values = inputs;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    Tensors outputs = blocks_[i].forward(values, pass);
    if (ends_[i]) outputs = ends_[i]->evaluated(outputs);
    values = as_received(std::move(outputs), codecs_[i].of_evaluations());
  }
  return values;
}

NamedTensors AssembledModel::tensors() const {
  NamedTensors all;
  for (const Block& block : blocks_)
    all.insert(all.end(), block.weights().begin(), block.weights().end());
  for (const Block& block : blocks_)
    all.insert(all.end(), block.buffers().begin(), block.buffers().end());
  for (const auto& end : ends_)
    if (end)
      for (auto& named : end->evaluation_state())
        all.push_back(std::move(named));
  return all;
}

}  // namespace sluice
