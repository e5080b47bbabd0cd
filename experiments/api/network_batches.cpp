// Batches of a network's steps: what it can't take, and which replica has
// which part.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/api/network_core.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

std::string sizes_text(at::IntArrayRef sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

}  // namespace

void NetworkCore::check_inputs(const at::Tensor& inputs) const {
  const SampleSpec& sample = experiment_.model.sample;
  const at::ScalarType type = sample.is_text ? at::kLong : at::kFloat;
  if (!inputs.defined() || inputs.dim() < 1 || inputs.size(0) < 1 ||
      inputs.sizes().slice(1) != at::IntArrayRef(sample.shape) ||
      inputs.scalar_type() != type)
    throw UserError(
        "inputs: expected [N, {}] of {}, like the example; got {} of {}",
        fmt::join(sample.shape, ", "), c10::toString(type),
        inputs.defined() ? sizes_text(inputs.sizes()) : "nothing",
        inputs.defined() ? c10::toString(inputs.scalar_type()) : "no type");
}

void NetworkCore::check_labels(const at::Tensor& labels,
                               std::int64_t samples) const {
  const SampleSpec& sample = experiment_.model.sample;
  std::vector<std::int64_t> sizes = {samples};
  if (sample.is_text) sizes.push_back(sample.shape.at(0));
  if (!labels.defined() || labels.sizes() != at::IntArrayRef(sizes) ||
      labels.scalar_type() != at::kLong)
    throw UserError(
        "labels: expected {} of Long; got {} of {}", sizes_text(sizes),
        labels.defined() ? sizes_text(labels.sizes()) : "nothing",
        labels.defined() ? c10::toString(labels.scalar_type()) : "no type");
  const auto least = labels.min().item<std::int64_t>();
  const auto most = labels.max().item<std::int64_t>();
  if (least < 0 || most >= sample.classes)
    throw UserError(
        "labels: expected 0 to {}, as the network has {} outputs; got {}",
        sample.classes - 1, sample.classes, least < 0 ? least : most);
}

void NetworkCore::check_dealing(std::int64_t samples) const {
  if (samples % replicas() != 0)
    throw UserError(
        "inputs: {} samples can't be dealt out equally to {} replicas: give a "
        "multiple of {}",
        samples, replicas(), replicas());
}

/// Parts of a step's batch, one for each replica, in order. Replica r has the
/// numbers that `sluice run` gives it.
std::vector<Batch> NetworkCore::dealt(const at::Tensor& inputs,
                                      const at::Tensor& labels) const {
  const std::int64_t size = inputs.size(0) / replicas();
  const std::int64_t first = experiment_.replicas.deals().before(turn_);
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < replicas(); ++i)
    batches.push_back({first + i, own_copy(inputs.narrow(0, i * size, size)),
                       own_copy(labels.narrow(0, i * size, size))});
  return batches;
}

}  // namespace sluice
