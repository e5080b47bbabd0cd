#include "lib/workers/gradient_probe.h"

#include <set>
#include <string>

#include <ATen/ATen.h>

#include "lib/blocks/layer_names.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/likeness.h"
#include "lib/metrics/records.h"
#include "lib/tensors/gradients.h"

namespace sluice {

namespace {

std::set<std::string> named_in(const NamedTensors& tensors) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) names.insert(name);
  return names;
}

/// Gradients of the same parameters: what was applied, and the true ones.
struct Compared {
  Tensors applied = {};
  Tensors truth = {};

  void add(const at::Tensor& got, const at::Tensor& wanted) {
    applied.push_back(got);
    truth.push_back(wanted);
  }
};

}  // namespace

GradientProbe::GradientProbe(ProbeParts parts) : parts_(std::move(parts)) {}

bool GradientProbe::watches(std::int64_t turn) const {
  return turn % parts_.every == 0;
}

void GradientProbe::before_turn(int block, std::int64_t phase,
                                std::int64_t turn, NamedTensors weights) {
  const std::lock_guard lock(mutex_);
  const Key key{phase, turn};
  Turn& now = turns_[key];
  now.weights[block] = std::move(weights);
  compare(now);
  if (std::ssize(now.weights) == parts_.blocks) forget_before(key);
}

void GradientProbe::applied(Application application) {
  const std::lock_guard lock(mutex_);
  const Key key{application.phase, application.turn};
  Turn& now = turns_[key];
  now.applications.push_back(std::move(application));
  compare(now);
}

/// A block that begins a turn has gone backward in those before.
void GradientProbe::forget_before(const Key& key) {
  turns_.erase(turns_.begin(), turns_.find(key));
}

void GradientProbe::compare(Turn& turn) {
  // Blocks come to a turn at different times.
  if (std::ssize(turn.weights) < parts_.blocks) return;
  for (const Application& application : turn.applications)
    tell(application, turn);
  turn.applications.clear();
}

void GradientProbe::tell(const Application& application, Turn& turn) {
  const std::map<std::string, at::Tensor> applied(application.gradients.begin(),
                                                  application.gradients.end());
  const auto own = named_in(turn.weights.at(application.block));
  Compared block;
  std::map<std::int64_t, Compared> layers;
  for (const auto& [name, truth] : truth_of(application.batch, turn)) {
    if (!own.contains(name)) continue;
    const auto found = applied.find(name);
    const at::Tensor got =
        found == applied.end() ? at::Tensor() : found->second;
    block.add(got, truth);
    if (const auto layer = layer_of_name(name); layer && parts_.layers)
      layers[*layer].add(got, truth);
  }
  const records::OfBatch place = {.turn = application.turn,
                                  .block = application.block,
                                  .batch = application.batch};
  const Likeness alike = likeness(block.applied, block.truth);
  parts_.sink->write(records::Probe{place, alike.cosine, alike.norm_ratio,
                                    alike.sign_agreement});
  for (const auto& [layer, compared] : layers) {
    const Likeness there = likeness(compared.applied, compared.truth);
    parts_.sink->write(records::LayerProbe{place, static_cast<int>(layer),
                                           there.cosine, there.norm_ratio,
                                           there.sign_agreement});
  }
}

const NamedTensors& GradientProbe::truth_of(std::int64_t batch, Turn& turn) {
  const auto known = turn.truths.find(batch);
  if (known != turn.truths.end()) return known->second;
  return turn.truths.emplace(batch, back_propagate(batch, turn)).first->second;
}

NamedTensors GradientProbe::back_propagate(std::int64_t batch,
                                           const Turn& turn) {
  NamedTensors weights;
  for (const auto& [block, own] : turn.weights)
    weights.insert(weights.end(), own.begin(), own.end());
  copy_by_name(weights, parts_.model.parameters(), "the probe");
  copy_by_name(weights, parts_.model.buffers(), "the probe");

  const at::AutoGradMode with_gradients(true);
  const PrecisionScope precision(parts_.precision);
  const Batch data = parts_.training->batch(batch);
  const Tensors outputs = parts_.model.forward(
      {laid_out(data.inputs, parts_.memory_format)}, {.seed = parts_.seed,
                                                      .batch = batch,
                                                      .training = true,
                                                      .masks = parts_.masks});
  const at::Tensor loss = parts_.loss(outputs.at(0), data.labels);
  const Tensors gradients =
      gradients_at(values_of(parts_.model.parameters()), {loss});
  NamedTensors named;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined())
      named.emplace_back(parts_.model.parameters()[i].first, gradients[i]);
  return named;
}

}  // namespace sluice
