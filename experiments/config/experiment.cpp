#include "experiments/config/experiment.h"

#include <algorithm>
#include <cstddef>

#include "experiments/data/order/echo.h"

namespace sluice {

double samples_per_turn(const Experiment& experiment) {
  if (!experiment.data) return static_cast<double>(experiment.batch_size);
  return static_cast<double>(experiment.data->train.size()) *
         static_cast<double>(experiment.replicas.count) /
         static_cast<double>(experiment.deals_per_epoch);
}

BoundaryCodecs codecs_above(const Experiment& experiment, int block) {
  if (block < 1 || block >= experiment.blocks()) return {};
  return experiment.codecs.at(static_cast<std::size_t>(block) - 1);
}

CodecSite codec_site(const Experiment& experiment, int block) {
  if (block < 1 || block >= experiment.blocks()) return {};
  const BoundarySite site = site_of(experiment, block);
  return {.boundary = block,
          .layer = site.layer,
          .features = site.features,
          .samples = site.samples};
}

bool uses_gpus(const Experiment& experiment) {
  return std::any_of(experiment.devices.begin(), experiment.devices.end(),
                     [](const std::string& name) { return name != "cpu"; });
}

bool is_on_gpu(const Experiment& experiment, int block) {
  return block >= 1 && block <= experiment.blocks() &&
         experiment.devices.at(static_cast<std::size_t>(block) - 1) != "cpu";
}

BoundarySite site_of(const Experiment& experiment, int block) {
  const LayerRange range =
      experiment.ranges.at(static_cast<std::size_t>(block) - 1);
  BoundarySite site;
  site.block = block;
  site.blocks = experiment.blocks();
  site.layer = range.last;
  site.features =
      experiment.model.layers.at(static_cast<std::size_t>(range.last)).output;
  site.classes = experiment.model.sample.classes;
  site.loss = experiment.loss.training;
  site.seed = experiment.seed;
  site.model = &experiment.model;
  if (experiment.data) site.samples = experiment.data->train.size();
  std::int64_t turns = experiment.turns_per_epoch;
  // Policies keep something of batches that come again for one echo.
  if (const Echo echo = echo_in(experiment.resolved); echo.is_on()) {
    site.samples = echo.batches * experiment.batch_size;
    turns = echo.turns();
  }
  site.batches_per_epoch = turns * experiment.micro_batches.count;
  return site;
}

}  // namespace sluice
