#include "experiments/runs/seats/keyed_tensors.h"

#include <memory>
#include <set>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/seats/seat_sources.h"
#include "lib/blocks/block.h"
#include "lib/blocks/micro_batch_source.h"
#include "modules/dropout.h"
#include "modules/label_in_sample.h"

namespace sluice {
namespace {

/// The uncut model, which training forwards go through one layer after another:
/// for masks its weights don't matter.
class UncutModel {
 public:
  explicit UncutModel(const Experiment& experiment)
      : experiment_(experiment),
        layers_(make_layers(
            experiment.model, 0,
            static_cast<std::int64_t>(experiment.model.layers.size()) - 1,
            experiment.seed)) {
    for (std::size_t i = 0; i < layers_.size(); ++i) watch(i);
  }

  /// The outputs of all layers.
  std::vector<Tensors> forward(const Batch& batch) {
    batch_ = batch.index;
    std::vector<Tensors> outputs;
    Tensors values = {laid_out(batch.inputs, experiment_.memory_format)};
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      values =
          layers_[i]->forward(values, {.seed = experiment_.seed,
                                       .batch = batch.index,
                                       .layer = static_cast<std::int64_t>(i),
                                       .masks = experiment_.masks});
      outputs.push_back(values);
    }
    return outputs;
  }

  NamedTensors take_masks() { return std::exchange(masks_, {}); }

 private:
  void watch(std::size_t index) {
    Layer& layer = *layers_[index];
    layer.train();
    for (const auto& item : layer.named_modules("", /*include_self=*/true)) {
      auto* dropout = dynamic_cast<Dropout*>(item.value().get());
      if (dropout == nullptr) continue;
      const std::string name = fmt::format(
          "layers.{}{}{}", index, item.key().empty() ? "" : ".", item.key());
      dropout->watch([this, name](const at::Tensor& mask) {
        masks_.emplace_back(fmt::format("masks.{}.{}", batch_, name),
                            mask.clone());
      });
    }
  }

  const Experiment& experiment_;
  Layers layers_;
  std::int64_t batch_ = 0;
  NamedTensors masks_;
};

void add_labels(const Model& model, const Batch& batch, NamedTensors& all) {
  all.emplace_back(fmt::format("labels.{}", batch.index),
                   model.trains_on_pairs
                       ? written_labels(batch.inputs, model.sample.classes)
                       : batch.labels);
}

/// Adds projections. A boundary that stays the same in a later phase has those
/// of the first.
void add_projections(const Experiment& experiment,
                     const std::vector<Tensors>& outputs, const Batch& batch,
                     NamedTensors& all) {
  std::set<std::string> seen;
  for (const Boundaries& phase : experiment.phases)
    for (int block = 1; block < experiment.blocks(); ++block) {
      const auto index = static_cast<std::size_t>(block) - 1;
      const auto last = static_cast<std::size_t>(experiment.ranges[index].last);
      const auto policy = phase[index].make.lower(site_of(experiment, block));
      for (auto& named : policy->constants(outputs[last], batch.labels))
        if (seen.insert(named.first).second) all.push_back(std::move(named));
    }
}

}  // namespace

NamedTensors keyed_tensors(const Experiment& experiment, std::int64_t turns,
                           const KeyedKinds& kinds) {
  const at::NoGradGuard no_grad;
  prepare_process(experiment);
  const MicroBatches& cut = experiment.micro_batches;
  const auto source = in_micro_batches(training_source(experiment), cut);
  UncutModel model(experiment);
  NamedTensors all;
  for (std::int64_t t = 0; t < turns; ++t) {
    const bool is_run = kinds.masks || (kinds.projections && t == 0);
    if (!is_run && !kinds.labels) break;
    for (std::int64_t i = 0; i < cut.batches_in(t); ++i) {
      const Batch batch = source->batch(cut.first_of(t) + i);
      if (kinds.labels) add_labels(experiment.model, batch, all);
      if (!is_run) continue;
      const std::vector<Tensors> outputs = model.forward(batch);
      NamedTensors masks = model.take_masks();
      if (kinds.masks) all.insert(all.end(), masks.begin(), masks.end());
      if (kinds.projections && t == 0 && i == 0)
        add_projections(experiment, outputs, batch, all);
    }
  }
  return all;
}

}  // namespace sluice
