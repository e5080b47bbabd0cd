// Checks of batches, images and precision against the layers that take them.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "auxiliary_heads/boundary_site.h"
#include "experiments/config/pinned_files.h"
#include "experiments/config/reading/start_rows.h"
#include "experiments/config/rules/layer_trial.h"
#include "lib/base/by_block.h"
#include "lib/tensors/generator_guard.h"
#include "modules/lstm.h"

namespace sluice::at_start {
namespace {

/// Where a training batch of one sample comes from; empty key: none comes.
struct OneSample {
  std::string key = {};
  std::string text = {};
  std::string remedy = {};
};

OneSample every_batch(const Experiment& experiment, bool are_micro_batches) {
  if (are_micro_batches)
    return {"pipeline.micro_batches",
            fmt::format("{} micro-batches of batch_size = {} have 1 sample "
                        "each",
                        experiment.micro_batches.count, experiment.batch_size),
            "set fewer of them, or a larger batch_size"};
  return {"batch_size", "each batch has 1 sample", "set 2 or more"};
}

/// The batch that is left over at the end of an epoch.
OneSample last_batch(const Experiment& experiment, bool are_micro_batches) {
  const std::int64_t samples = experiment.data->train.size();
  return {are_micro_batches ? "pipeline.micro_batches" : "batch_size",
          fmt::format("of {} samples in {} of {} the last one of an epoch has "
                      "1 sample",
                      samples, are_micro_batches ? "micro-batches" : "batches",
                      are_micro_batches ? experiment.batch_size /
                                              experiment.micro_batches.count
                                        : experiment.batch_size),
          "set drop_last = true, or another batch_size"};
}

OneSample one_sample_in(const Experiment& experiment) {
  const bool are_micro_batches = experiment.micro_batches.count > 1;
  const std::int64_t size =
      experiment.batch_size / experiment.micro_batches.count;
  const std::int64_t rest =
      experiment.data->train.size() % experiment.batch_size;
  if (size == 1) return every_batch(experiment, are_micro_batches);
  const std::int64_t deals =
      experiment.replicas.deals().by(experiment.length.turns);
  const bool comes = deals >= experiment.deals_per_epoch;
  if (experiment.drop_last || rest % size != 1 || !comes) return {};
  return last_batch(experiment, are_micro_batches);
}

bool has_running_mean(const NamedTensors& buffers) {
  return std::any_of(buffers.begin(), buffers.end(), [](const auto& named) {
    return named.first.ends_with("running_mean");
  });
}

at::Tensor zero_labels(const SampleSpec& sample) {
  if (sample.is_text) return at::zeros({1, sample.shape.at(0)}, at::kLong);
  if (sample.targets == Targets::classes) return at::zeros({1}, at::kLong);
  return at::zeros({1, sample.classes}, at::kFloat);
}

/// Error of a boundary's head or synthesizer about a batch of one sample;
/// empty: it takes one. Errors of another kind are the run's to tell.
std::string refused_by_end(const Experiment& experiment,
                           const BoundaryPolicy& policy, int block,
                           const Tensors& outputs) {
  try {
    const auto lower = policy.make.lower(site_of(experiment, block));
    if (!has_running_mean(lower->buffers())) return "";
    Tensors features;
    for (const at::Tensor& output : outputs)
      features.push_back(output.detach().clone().requires_grad_());
    const Tensors from_above = [&] {
      Tensors zeros;
      for (const at::Tensor& each : features)
        zeros.push_back(at::zeros_like(each));
      return zeros;
    }();
    const SampleSpec& sample = experiment.model.sample;
    std::vector<std::int64_t> sizes = {1};
    sizes.insert(sizes.end(), sample.shape.begin(), sample.shape.end());
    const at::Tensor labels = zero_labels(sample);
    BatchContext context{.features = features,
                         .labels = labels,
                         .from_above = from_above,
                         .attachments = {{kRawInput, at::zeros(sizes)}}};
    lower->signal(context);
    if (lower->traits().learns_from_gradient()) lower->learn(context);
  } catch (const TooFewSamplesError& error) {
    return error.what();
  } catch (const std::exception&) {
    return "";
  }
  return "";
}

/// A head that normalises over the batch; empty: none does.
std::string head_that_normalises(const Experiment& experiment,
                                 const LayerTrial& trial) {
  const GeneratorGuard kept;
  const c10::AutoGradMode gradients(true);
  for (const Boundaries& phase : experiment.phases)
    for (int block = 1; block < experiment.blocks(); ++block) {
      const auto last =
          static_cast<std::size_t>(by_block(experiment.ranges, block).last);
      if (last >= trial.outputs.size()) continue;
      const std::string text = refused_by_end(
          experiment, by_block(phase, block), block, trial.outputs[last]);
      if (!text.empty())
        return fmt::format("the head above block {} ('{}')", block,
                           by_block(phase, block).name);
    }
  return "";
}

std::string what_normalises(const Experiment& experiment) {
  const LayerTrial trial = try_layers(experiment.model, 1);
  // A layer that takes two samples no better has another fault.
  if (trial.fault && !try_layers(experiment.model, 2).fault)
    return fmt::format(
        "layer {} ('{}')", trial.fault->layer,
        experiment.model.layers.at(static_cast<std::size_t>(trial.fault->layer))
            .name);
  return head_that_normalises(experiment, trial);
}

/// A number of the data's table `augment`; 0: it isn't there.
std::int64_t augment_number(const Experiment& experiment, const char* key) {
  const ConfigNode* node = &experiment.resolved;
  for (const char* part : {"data", "augment", key})
    if (node != nullptr) node = node->find(part);
  const auto* number =
      node == nullptr ? nullptr : std::get_if<std::int64_t>(&node->value);
  return number == nullptr ? 0 : *number;
}

bool has_block_on_cpu(const Experiment& experiment) {
  return std::any_of(experiment.devices.begin(), experiment.devices.end(),
                     [](const std::string& name) { return name == "cpu"; });
}

bool wants_bf16(const Experiment& experiment) {
  return experiment.precision == Precision::bf16 &&
         has_block_on_cpu(experiment) && !has_bf16_lstm();
}

bool is_own_lstm(const Experiment& experiment) {
  return text_of_key(experiment.resolved, "model", "name") == "lstm";
}

}  // namespace

StartFaults one_sample_to_normalise(const Experiment& experiment) {
  const OneSample one = one_sample_in(experiment);
  if (one.key.empty()) return {};
  const std::string what = what_normalises(experiment);
  if (what.empty()) return {};
  return {{one.key, fmt::format("{}, and {} normalises each channel over the "
                                "batch, which wants 2 values or more: {}",
                                one.text, what, one.remedy)}};
}

StartFaults no_image_left(const Experiment& experiment) {
  const SampleShape& shape = experiment.data->sample.shape;
  if (shape.size() != 3) return {};
  const auto [least, most] = std::minmax(shape[1], shape[2]);
  StartFaults faults;
  const std::int64_t crop = augment_number(experiment, "crop");
  if (crop >= least)
    faults.push_back(
        {"data.augment.crop",
         fmt::format("{} pixels move an image of {} x {} out of sight, and "
                     "what comes in is black: set fewer than {}; an eighth of "
                     "the side is usual",
                     crop, shape[1], shape[2], least)});
  const std::int64_t cutout = augment_number(experiment, "cutout");
  if (cutout >= 2 * most)
    faults.push_back(
        {"data.augment.cutout",
         fmt::format("a square of {0} x {0} pixels covers all of an image of "
                     "{1} x {2}, wherever it is: set fewer than {3}",
                     cutout, shape[1], shape[2], most)});
  return faults;
}

StartFaults no_label_left(const Experiment& experiment) {
  const ConfigNode* loss = experiment.resolved.find("loss");
  const ConfigNode* smoothing =
      loss == nullptr ? nullptr : loss->find("label_smoothing");
  if (smoothing == nullptr || !(*smoothing == ConfigNode{.value = 1.0}))
    return {};
  return {{"loss.label_smoothing",
           "1 spreads all of the target evenly over the classes: nothing is "
           "left to learn; 0.1 is usual"}};
}

StartFaults bf16_computed_in_fp32(const Experiment& experiment) {
  if (!wants_bf16(experiment) || !is_own_lstm(experiment)) return {};
  return {{"precision",
           "'bf16': this processor has no bf16 instructions for LSTM layers, "
           "which compute in fp32 here; the rest computes in bf16"}};
}

StartFaults bf16_not_there(const Experiment& experiment) {
  if (!wants_bf16(experiment) || is_own_lstm(experiment)) return {};
  const std::string name = text_of_key(experiment.resolved, "model", "name");
  if (name != "torchscript" && name != kOwnModel) return {};
  const auto fault = try_layers(experiment.model, 2, Precision::bf16).fault;
  if (!fault || try_layers(experiment.model, 2).fault) return {};
  return {{"precision",
           fmt::format("'bf16': layer {} ('{}') can't compute in it on this "
                       "processor ({}): set precision = 'fp32'",
                       fault->layer,
                       experiment.model.layers
                           .at(static_cast<std::size_t>(fault->layer))
                           .name,
                       fault->text)}};
}

}  // namespace sluice::at_start
