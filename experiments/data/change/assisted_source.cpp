#include "experiments/data/change/assisted_source.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <numeric>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/checkpoints/saved_state.h"

namespace sluice {
namespace {

constexpr const char* kAssistant = "assistant";
constexpr const char* kDrawn = "assistant.drawn";

std::int64_t elements_of(const SampleSpec& sample) {
  return std::accumulate(sample.shape.begin(), sample.shape.end(),
                         std::int64_t{1}, std::multiplies<>());
}

}  // namespace

AssistedSource::AssistedSource(std::shared_ptr<const Samples> samples,
                               const SampleSpec& of, OrderOptions order,
                               const AssistOptions& options)
    : samples_(std::move(samples)),
      options_(order),
      assist_(options),
      order_(samples_->size(), order),
      per_pass_(order.drop_last ? order_.batches_per_epoch() * order.batch_size
                                : samples_->size()),
      assistant_(elements_of(of), of.classes) {
  SLUICE_CHECK(assist_.is_on() && assist_.lag >= 1,
               "an assistant with acceptance {} and lag {}", assist_.acceptance,
               assist_.lag);
}

/// Place at which batch t begins in the stream of all samples.
std::int64_t AssistedSource::place_of(std::int64_t t) const {
  const std::int64_t batches = order_.batches_per_epoch();
  return t / batches * per_pass_ + t % batches * options_.batch_size;
}

std::int64_t AssistedSource::size_of(std::int64_t t) const {
  const std::int64_t begin =
      t % order_.batches_per_epoch() * options_.batch_size;
  return std::min(options_.batch_size, per_pass_ - begin);
}

void AssistedSource::start_at(std::int64_t t) {
  place_ = place_of(t);
  drawn_.clear();
}

Batch AssistedSource::batch(std::int64_t t) {
  SLUICE_CHECK(t >= 0, "batch {}", t);
  if (t != next_) start_at(t);
  next_ = t + 1;
  learn_until(t - assist_.lag);
  const DrawnBatch& drawn = drawn_[t] = draw(size_of(t));
  Batch batch =
      samples_->batch(drawn.indices, {.seed = options_.seed,
                                      .epoch = drawn.pass,
                                      .augmented = options_.augmented});
  batch.index = t;
  if (options_.raw_inputs) batch.raw_inputs = samples_->raw(batch.inputs);
  if (options_.sample_ids) batch.ids = at::tensor(drawn.indices, at::kLong);
  return batch;
}

std::vector<std::pair<std::string, double>> AssistedSource::learn(
    std::int64_t t, const at::Tensor& losses) {
  const auto found = drawn_.find(t);
  if (found == drawn_.end()) return {};
  DrawnBatch& drawn = found->second;
  SLUICE_CHECK(losses.numel() == std::ssize(drawn.indices),
               "{} losses of the {} samples of batch {}", losses.numel(),
               drawn.indices.size(), t);
  drawn.losses = losses.clone();  // of a message's memory
  const auto skipped = static_cast<double>(drawn.skipped);
  const auto taken = static_cast<double>(drawn.indices.size());
  return {{"skipped", skipped / (skipped + taken)},
          {"passes",
           static_cast<double>(drawn.end) / static_cast<double>(per_pass_)}};
}

/// A batch without random changes, which the assistant goes by.
Batch AssistedSource::plain(const std::vector<std::int64_t>& indices,
                            std::int64_t pass) const {
  return samples_->batch(
      indices, {.seed = options_.seed, .epoch = pass, .augmented = false});
}

/// Learns in the order of the batches, whatever the order in which losses came.
void AssistedSource::learn_until(std::int64_t last) {
  const auto end = drawn_.upper_bound(last);
  for (auto item = drawn_.begin(); item != end; ++item) {
    const DrawnBatch& drawn = item->second;
    if (!drawn.losses.defined() || !assistant_.is_alive()) continue;
    const Batch batch = plain(drawn.indices, drawn.pass);
    assistant_.learn(batch.inputs, batch.labels, drawn.losses,
                     assist_.learning_rate);
  }
  drawn_.erase(drawn_.begin(), end);
}

AssistedSource::DrawnBatch AssistedSource::draw(std::int64_t count) {
  DrawnBatch drawn;
  while (std::ssize(drawn.indices) < count) {
    const std::int64_t first = place_;
    const std::vector<std::int64_t> indices =
        candidates(count - std::ssize(drawn.indices));
    const std::vector<bool> taken = accepted(indices, first);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (!taken[i]) {
        ++drawn.skipped;
        continue;
      }
      if (drawn.indices.empty())
        drawn.pass = (first + static_cast<std::int64_t>(i)) / per_pass_;
      drawn.indices.push_back(indices[i]);
    }
  }
  drawn.end = place_;
  return drawn;
}

/// The next samples of the stream, which may reach into another pass.
std::vector<std::int64_t> AssistedSource::candidates(std::int64_t count) {
  std::vector<std::int64_t> indices;
  while (std::ssize(indices) < count) {
    const std::int64_t in_pass = place_ % per_pass_;
    const std::int64_t batch = place_ / per_pass_ * order_.batches_per_epoch() +
                               in_pass / options_.batch_size;
    const std::vector<std::int64_t> all = order_.batch(batch);
    const std::int64_t begin = in_pass % options_.batch_size;
    const std::int64_t taken =
        std::min(count - std::ssize(indices), std::ssize(all) - begin);
    indices.insert(indices.end(), all.begin() + begin,
                   all.begin() + begin + taken);
    place_ += taken;
  }
  return indices;
}

/// `first`: the place of the first of these in the stream.
std::vector<bool> AssistedSource::accepted(
    const std::vector<std::int64_t>& indices, std::int64_t first) const {
  std::vector<bool> taken(indices.size(), true);
  if (assist_.acceptance >= 1 || !assistant_.is_alive()) return taken;
  const Batch batch = plain(indices, first / per_pass_);
  const std::vector<double> votes =
      assistant_.votes(batch.inputs, batch.labels);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    KeyedRandom random(random_key({options_.seed, key_part("assistant's draw"),
                                   static_cast<std::uint64_t>(first) + i}));
    const double chance =
        assist_.acceptance + (1 - assist_.acceptance) * votes[i];
    taken[i] = random.uniform() < chance;
  }
  return taken;
}

NamedTensors AssistedSource::state() const {
  NamedTensors all;
  save_number(next_, fmt::format("{}.next", kAssistant), all);
  save_number(place_, fmt::format("{}.place", kAssistant), all);
  assistant_.save(kAssistant, all);
  for (const auto& [batch, drawn] : drawn_) {
    const std::string name = fmt::format("{}.{}", kDrawn, batch);
    save_list({at::tensor(drawn.indices, at::kLong), drawn.losses}, name, all);
    save_number(drawn.pass, name + ".pass", all);
    save_number(drawn.skipped, name + ".skipped", all);
    save_number(drawn.end, name + ".end", all);
  }
  return all;
}

void AssistedSource::restore(const NamedTensors& state,
                             std::string_view source) {
  const SavedState saved(state, source);
  const std::string next = fmt::format("{}.next", kAssistant);
  if (!saved.has(next)) return;  // a run that had no assistant
  next_ = saved.number(next);
  place_ = saved.number(fmt::format("{}.place", kAssistant));
  assistant_.restore(kAssistant, saved);
  for (const std::int64_t batch : saved.numbers_below(kDrawn)) {
    const std::string name = fmt::format("{}.{}", kDrawn, batch);
    const Tensors lists = saved.list(name);
    const at::Tensor indices = lists.at(0).contiguous();
    const auto* first = indices.const_data_ptr<std::int64_t>();
    drawn_[batch] = {.indices = {first, first + indices.numel()},
                     .pass = saved.number(name + ".pass"),
                     .skipped = saved.number(name + ".skipped"),
                     .end = saved.number(name + ".end"),
                     .losses = lists.at(1)};
  }
}

}  // namespace sluice
