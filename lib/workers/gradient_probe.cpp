#include "lib/workers/gradient_probe.h"

#include <cstddef>
#include <limits>
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
struct GradientPair {
  std::vector<std::string> names = {};
  Tensors applied = {};
  Tensors truth = {};

  void add(const std::string& name, const at::Tensor& got,
           const at::Tensor& wanted) {
    names.push_back(name);
    applied.push_back(got);
    truth.push_back(wanted);
  }
};

/// Applied and true gradients of the block's parameters, which are among
/// `weights`.
GradientPair compared(const Application& application, const NamedTensors& truth,
                      const NamedTensors& weights) {
  const std::map<std::string, at::Tensor> applied(application.gradients.begin(),
                                                  application.gradients.end());
  const std::set<std::string> own = named_in(weights);
  GradientPair all;
  for (const auto& [name, wanted] : truth) {
    if (!own.contains(name)) continue;
    const auto found = applied.find(name);
    all.add(name, found == applied.end() ? at::Tensor() : found->second,
            wanted);
  }
  return all;
}

std::map<std::int64_t, GradientPair> by_layer(const GradientPair& block) {
  std::map<std::int64_t, GradientPair> layers;
  for (std::size_t i = 0; i < block.names.size(); ++i)
    if (const auto layer = layer_of_name(block.names[i]))
      layers[*layer].add(block.names[i], block.applied[i], block.truth[i]);
  return layers;
}

}  // namespace

GradientProbe::GradientProbe(ProbeParts parts) : parts_(std::move(parts)) {}

bool GradientProbe::watches(std::int64_t turn) const {
  return turn % parts_.every == 0;
}

void GradientProbe::before_turn(int block, int replica, std::int64_t phase,
                                std::int64_t turn, NamedTensors weights) {
  const std::lock_guard lock(mutex_);
  const Key key{replica, phase, turn};
  Turn& now = turns_[key];
  now.weights[block] = std::move(weights);
  compare(now);
  if (std::ssize(now.weights) == parts_.blocks) forget_before(key);
}

void GradientProbe::applied(Application application) {
  const std::lock_guard lock(mutex_);
  const Key key{application.replica, application.phase, application.turn};
  Turn& now = turns_[key];
  now.applications.push_back(std::move(application));
  compare(now);
}

/// A block that begins a turn has gone backward in those before.
void GradientProbe::forget_before(const Key& key) {
  turns_.erase(turns_.lower_bound({.replica = key.replica,
                                   .phase = std::numeric_limits<int>::min()}),
               turns_.find(key));
}

void GradientProbe::compare(Turn& turn) {
  // Blocks come to a turn at different times.
  if (std::ssize(turn.weights) < parts_.blocks) return;
  for (const Application& application : turn.applications)
    if (application.exchanged)
      tell_exchanged(application, turn);
    else
      tell(application, turn);
  turn.applications.clear();
}

void GradientProbe::tell(const Application& application, Turn& turn) {
  const NamedTensors& truth = truth_of(application.source_batch, turn);
  const GradientPair block =
      compared(application, truth, turn.weights.at(application.block));
  records::BatchFields place = {.turn = application.turn,
                                .block = application.block,
                                .batch = application.batch};
  if (parts_.replicas > 1) place.replica = application.replica;
  const Likeness alike = likeness(block.applied, block.truth);
  parts_.sink->write(records::Probe{place, alike.cosine, alike.norm_ratio,
                                    alike.sign_agreement});
  if (!parts_.layers) return;
  for (const auto& [layer, of_layer] : by_layer(block)) {
    const Likeness there = likeness(of_layer.applied, of_layer.truth);
    parts_.sink->write(records::LayerProbe{place, static_cast<int>(layer),
                                           there.cosine, there.norm_ratio,
                                           there.sign_agreement});
  }
}

/// The replicas that sum their gradients have the same weights.
void GradientProbe::tell_exchanged(const Application& application, Turn& turn) {
  const NamedTensors truth = mean_truth(application.source_batch, turn);
  const GradientPair block =
      compared(application, truth, turn.weights.at(application.block));
  const Likeness alike = likeness(block.applied, block.truth);
  parts_.sink->write(records::ExchangeProbe{{.turn = application.turn,
                                             .block = application.block,
                                             .batch = application.batch},
                                            alike.cosine,
                                            alike.norm_ratio,
                                            alike.sign_agreement});
}

/// Mean true gradient over all samples of the replicas' batches in a turn, from
/// `first_batch` on.
NamedTensors GradientProbe::mean_truth(std::int64_t first_batch, Turn& turn) {
  NamedTensors means;
  double samples = 0;
  for (int replica = 0; replica < parts_.replicas; ++replica) {
    const std::int64_t batch = first_batch + replica;
    const auto size =
        static_cast<double>(parts_.training->batch(batch).labels.size(0));
    samples += size;
    const NamedTensors& truth = truth_of(batch, turn);
    if (means.empty())
      for (const auto& [name, gradient] : truth)
        means.emplace_back(name, at::zeros_like(gradient));
    for (std::size_t i = 0; i < means.size(); ++i)
      means[i].second.add_(truth.at(i).second, size);
  }
  for (auto& [name, gradient] : means) gradient.div_(samples);
  return means;
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
  copy_by_name(weights, parts_.model.weights(), "the probe");
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
