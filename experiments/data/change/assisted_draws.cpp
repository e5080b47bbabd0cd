#include "experiments/data/change/assisted_draws.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <numeric>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

std::int64_t elements_of(const SampleSpec& sample) {
  return std::accumulate(sample.shape.begin(), sample.shape.end(),
                         std::int64_t{1}, std::multiplies<>());
}

}  // namespace

void DrawnBatch::save(const std::string& name, const at::Tensor& losses,
                      NamedTensors& all) const {
  save_list({at::tensor(indices, at::kLong), losses}, name, all);
  save_number(pass, name + ".pass", all);
  save_number(skipped, name + ".skipped", all);
  save_number(end, name + ".end", all);
}

std::pair<DrawnBatch, at::Tensor> DrawnBatch::restored(
    const std::string& name, const SavedState& saved) {
  const Tensors lists = saved.list(name);
  const at::Tensor indices = lists.at(0).contiguous();
  const auto* first = indices.const_data_ptr<std::int64_t>();
  return {{.indices = {first, first + indices.numel()},
           .pass = saved.number(name + ".pass"),
           .skipped = saved.number(name + ".skipped"),
           .end = saved.number(name + ".end")},
          lists.at(1)};
}

AssistedDraws::AssistedDraws(std::shared_ptr<const Samples> samples,
                             const SampleSpec& of, OrderOptions order,
                             const AssistOptions& options, std::int64_t stride)
    : samples_(std::move(samples)),
      options_(order),
      assist_(options),
      stride_(stride),
      order_(samples_->size(), order),
      per_pass_(order.drop_last ? order_.batches_per_epoch() * order.batch_size
                                : samples_->size()),
      assistant_(elements_of(of), of.classes) {
  SLUICE_CHECK(assist_.is_on() && stride > 0,
               "an assistant with acceptance {} and stride {}",
               assist_.acceptance, stride);
}

/// Place at which batch t begins in the stream of all samples.
std::int64_t AssistedDraws::place_of(std::int64_t t) const {
  const std::int64_t batches = order_.batches_per_epoch();
  return t / batches * per_pass_ + t % batches * options_.batch_size;
}

std::int64_t AssistedDraws::size_of(std::int64_t t) const {
  const std::int64_t begin =
      t % order_.batches_per_epoch() * options_.batch_size;
  return std::min(options_.batch_size, per_pass_ - begin);
}

DrawnBatch AssistedDraws::draw(std::int64_t t) {
  SLUICE_CHECK(t >= 0, "batch {}", t);
  std::int64_t place = t == next_ ? place_ : place_of(t);
  const std::int64_t count = size_of(t);
  DrawnBatch drawn;
  while (std::ssize(drawn.indices) < count) {
    std::vector<std::int64_t> places;
    const std::vector<std::int64_t> indices =
        candidates(count - std::ssize(drawn.indices), place, places);
    const std::vector<bool> taken = accepted(indices, places);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (!taken[i]) {
        ++drawn.skipped;
        continue;
      }
      if (drawn.indices.empty()) drawn.pass = places[i] / per_pass_;
      drawn.indices.push_back(indices[i]);
    }
  }
  drawn.end = place_ = place;
  next_ = t + stride_;
  return drawn;
}

Batch AssistedDraws::make(std::int64_t t, const DrawnBatch& drawn) const {
  Batch batch =
      samples_->batch(drawn.indices, {.seed = options_.seed,
                                      .epoch = drawn.pass,
                                      .augmented = options_.augmented});
  batch.index = t;
  if (options_.raw_inputs) batch.raw_inputs = samples_->raw(batch.inputs);
  if (options_.sample_ids) batch.ids = at::tensor(drawn.indices, at::kLong);
  return batch;
}

void AssistedDraws::learn(const DrawnBatch& drawn, const at::Tensor& losses) {
  if (!assistant_.is_alive()) return;
  const Batch batch = plain(drawn.indices, drawn.pass);
  assistant_.learn(batch.inputs, batch.labels, losses, assist_.learning_rate);
}

std::vector<std::pair<std::string, double>> AssistedDraws::figures_of(
    const DrawnBatch& drawn) const {
  const auto skipped = static_cast<double>(drawn.skipped);
  const auto taken = static_cast<double>(drawn.indices.size());
  return {{"skipped", skipped / (skipped + taken)},
          {"passes",
           static_cast<double>(drawn.end) / static_cast<double>(per_pass_)}};
}

/// A batch without random changes, which the assistant goes by.
Batch AssistedDraws::plain(const std::vector<std::int64_t>& indices,
                           std::int64_t pass) const {
  return samples_->batch(
      indices, {.seed = options_.seed, .epoch = pass, .augmented = false});
}

/// The next samples of the stream from `place` on, which may reach into another
/// pass, and the places of each.
std::vector<std::int64_t> AssistedDraws::candidates(
    std::int64_t count, std::int64_t& place,
    std::vector<std::int64_t>& places) {
  std::vector<std::int64_t> indices;
  while (std::ssize(indices) < count) {
    const std::int64_t in_pass = place % per_pass_;
    const std::int64_t batch = place / per_pass_ * order_.batches_per_epoch() +
                               in_pass / options_.batch_size;
    const std::vector<std::int64_t> all = order_.batch(batch);
    const std::int64_t begin = in_pass % options_.batch_size;
    const std::int64_t taken =
        std::min(count - std::ssize(indices), std::ssize(all) - begin);
    indices.insert(indices.end(), all.begin() + begin,
                   all.begin() + begin + taken);
    for (std::int64_t i = 0; i < taken; ++i) places.push_back(place + i);
    const bool is_over = begin + taken == std::ssize(all);
    place = is_over ? place_of(batch + stride_) : place + taken;
  }
  return indices;
}

std::vector<bool> AssistedDraws::accepted(
    const std::vector<std::int64_t>& indices,
    const std::vector<std::int64_t>& places) const {
  std::vector<bool> taken(indices.size(), true);
  if (assist_.acceptance >= 1 || !assistant_.is_alive()) return taken;
  const Batch batch = plain(indices, places.front() / per_pass_);
  const std::vector<double> votes =
      assistant_.votes(batch.inputs, batch.labels);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    KeyedRandom random(random_key({options_.seed, key_part("assistant's draw"),
                                   static_cast<std::uint64_t>(places[i])}));
    const double chance =
        assist_.acceptance + (1 - assist_.acceptance) * votes[i];
    taken[i] = random.uniform() < chance;
  }
  return taken;
}

void AssistedDraws::save(const std::string& name, NamedTensors& all) const {
  save_number(next_, name + ".next", all);
  save_number(place_, name + ".place", all);
  assistant_.save(name, all);
}

void AssistedDraws::restore(const std::string& name, const SavedState& saved) {
  next_ = saved.number(name + ".next");
  place_ = saved.number(name + ".place");
  assistant_.restore(name, saved);
}

}  // namespace sluice
