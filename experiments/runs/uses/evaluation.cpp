#include "experiments/runs/uses/evaluation.h"

#include <cmath>
#include <filesystem>
#include <system_error>

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "experiments/data/order/sample_source.h"
#include "experiments/runs/checkpoints/public_names.h"
#include "experiments/runs/checkpoints/repartition.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/folder/sound_checkpoint.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/sinks/bad_sample.h"
#include "lib/base/error.h"
#include "lib/blocks/adapters.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/finite.h"
#include "lib/checkpoints/set_aside.h"
#include "lib/checkpoints/shards.h"
#include "lib/tensors/precision.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Whether the path is a checkpoint, one that was set aside included: reading
/// it says what is wrong.
bool is_checkpoint(const fs::path& path) {
  const fs::path folder = fs::weakly_canonical(path);
  return turn_of(folder.string()) || is_set_aside(folder.string());
}

/// A split as evaluations see it.
SampleSource in_order(const Split& split, std::int64_t batch_size) {
  return {split.samples(),
          {.batch_size = batch_size, .shuffled = false, .augmented = false}};
}

at::Tensor logits_of(AssembledModel& model, const Experiment& experiment,
                     const Batch& batch) {
  const PrecisionScope precision(experiment.precision);
  const Pass pass = {
      .seed = experiment.seed, .batch = batch.index, .training = false};
  return model.forward({laid_out(batch.inputs, experiment.memory_format)}, pass)
      .front();
}

/// The config.toml of the nearest folder above that has one.
std::string config_above(fs::path path) {
  for (path = fs::absolute(path); path.has_relative_path();
       path = path.parent_path()) {
    std::string config = config_of_run(path.string());
    if (fs::exists(config)) return config;
  }
  return "";
}

/// Target of a link: "R/checkpoints/turn-000012" of "R/checkpoints/best".
std::string without_link(const std::string& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? link : (fs::path(link).parent_path() / target).string();
}

}  // namespace

AssembledModel load_model(const Experiment& experiment,
                          const std::string& weights,
                          const std::string& command) {
  prepare_process(experiment);
  const auto layers = static_cast<std::int64_t>(experiment.model.layers.size());
  AssembledModel whole(
      experiment, make_layers(experiment.model, 0, layers - 1, /*seed=*/0));
  const FoundWeights found = find_weights(experiment, weights);
  check_cut_layers(experiment, found.tensors, found.source);
  check_adapters(experiment, found.tensors, found.source);
  copy_by_name(found.tensors,
               without_missing_adapters(whole.tensors(), found.tensors),
               found.source);
  check_are_finite(whole.tensors(), weights, command);
  return whole;
}

Evaluation evaluate(const Experiment& experiment, const std::string& weights,
                    const Split& split) {
  const c10::NoGradGuard no_grad;
  AssembledModel whole = load_model(experiment, weights);
  SampleSource source = in_order(split, experiment.batch_size);
  Evaluation evaluation;
  for (std::int64_t t = 0; t < source.batches_per_epoch(); ++t) {
    const Batch batch = source.batch(t);
    evaluation.add(experiment.loss.evaluation,
                   logits_of(whole, experiment, batch), batch.labels);
  }
  return evaluation;
}

void check_is_finite(const Evaluation& result, const Experiment& experiment,
                     const Split& split, const std::string& split_name) {
  if (std::isfinite(result.loss())) return;
  const std::string sample = find_bad_sample(experiment, split, split_name);
  throw NonFiniteError(
      sample.empty()
          ? fmt::format("the {} loss isn't finite, though all weights and "
                        "samples are: the activations overflow, as after too "
                        "high an optimizer.lr; evaluate an earlier checkpoint",
                        split_name)
          : fmt::format("{} is NaN or infinite: mend the file, or leave the "
                        "sample out",
                        sample));
}

NamedTensors first_logits(const Experiment& experiment,
                          const std::string& weights, const Split& split,
                          std::int64_t samples) {
  const c10::NoGradGuard no_grad;
  AssembledModel whole = load_model(experiment, weights);
  const Batch batch = in_order(split, samples).batch(0);
  return {{"inputs", batch.inputs},
          {"labels", batch.labels},
          {"logits", logits_of(whole, experiment, batch)}};
}

EvaluationTarget find_evaluated(const std::string& path) {
  if (fs::is_regular_file(path) || is_checkpoint(path) || weights_file_in(path))
    return {path, config_above(path), without_link(path)};
  const std::string best = checkpoints_of_run(path) + "/best";
  if (fs::exists(best)) return {best, config_of_run(path), without_link(best)};
  check_last_was_kept(path, "sluice eval");
  const std::string last = last_checkpoint(path).checkpoint;
  return {last, config_of_run(path), last};
}

}  // namespace sluice
