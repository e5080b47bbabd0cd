#include "experiments/runs/sinks/bad_sample.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "experiments/data/order/echo.h"
#include "experiments/data/order/sample_order.h"
#include "experiments/data/samples/samples.h"
#include "lib/checkpoints/finite.h"
#include "lib/metrics/time_spent.h"

namespace sluice {
namespace {

constexpr double kSearchSeconds = 30;  // seconds

/// Batches [first, end) of a split in some order.
struct SearchRange {
  const Split& split;
  OrderOptions order = {};
  std::int64_t first = 0;
  std::int64_t end = 0;
};

enum class SamplePart : std::uint8_t { input, target };

struct BadSample {
  std::int64_t position = 0;
  SamplePart part = SamplePart::input;
};

/// A row that isn't finite has one dimension less than the batch, so that none
/// passes as a mask.
std::optional<std::size_t> first_bad_row(const at::Tensor& rows) {
  if (!rows.is_floating_point()) return std::nullopt;
  for (std::int64_t i = 0; i < rows.size(0); ++i)
    if (!is_finite(rows[i].flatten())) return static_cast<std::size_t>(i);
  return std::nullopt;
}

/// As samples are without random changes: what is mixed with others would tell
/// of the wrong one.
std::optional<BadSample> search(const SearchRange& searched) {
  const auto started = std::chrono::steady_clock::now();
  const auto samples = searched.split.samples();
  SampleOrder order(samples->size(), searched.order);
  for (std::int64_t t = searched.first; t < searched.end; ++t) {
    if (seconds_since(started) > kSearchSeconds) return std::nullopt;
    const std::vector<std::int64_t> indices = order.batch(t);
    const EpochKey key{.seed = searched.order.seed,
                       .epoch = order.epoch(t),
                       .augmented = false};
    const Batch batch = samples->batch(indices, key);
    if (const auto row = first_bad_row(batch.inputs))
      return BadSample{samples->position(indices[*row], key),
                       SamplePart::input};
    if (const auto row = first_bad_row(batch.labels))
      return BadSample{samples->position(indices[*row], key),
                       SamplePart::target};
  }
  return std::nullopt;
}

/// Names of files that the config gives the split of that key: inputs first.
std::vector<std::string> named_files(const Experiment& experiment,
                                     const std::string& key) {
  const ConfigNode* data = experiment.resolved.find("data");
  const ConfigNode* files = data == nullptr ? nullptr : data->find(key);
  const auto* list = files == nullptr
                         ? nullptr
                         : std::get_if<ConfigNode::Array>(&files->value);
  std::vector<std::string> names;
  if (list == nullptr) return names;
  for (const ConfigNode& file : *list)
    if (const auto* name = std::get_if<std::string>(&file.value))
      names.push_back(*name);
  return names;
}

/// The path of a file of the data set that the config names so.
std::string path_of(const Experiment& experiment, const std::string& name) {
  const std::vector<std::string>& paths = experiment.data->files;
  const auto found = std::find_if(
      paths.begin(), paths.end(),
      [&](const std::string& path) { return path.ends_with(name); });
  return found == paths.end() ? name : *found;
}

std::string text_of(const Experiment& experiment, const BadSample& sample,
                    const std::string& split_name) {
  const std::string key = split_name == "test" ? "test" : "train";
  const std::vector<std::string> files = named_files(experiment, key);
  const std::string where =
      files.empty() ? fmt::format("the {} split", split_name)
                    : path_of(experiment, sample.part == SamplePart::input
                                              ? files.front()
                                              : files.back());
  return fmt::format("the {} of sample {} of {}",
                     sample.part == SamplePart::input ? "input" : "target",
                     sample.position, where);
}

std::string text_of(const Experiment& experiment, const SearchRange& searched,
                    const std::string& split_name) {
  try {
    const auto found = search(searched);
    return found ? text_of(experiment, *found, split_name) : "";
  } catch (const std::exception&) {
    return "";  // the divergence itself is reported
  }
}

/// Deals of these turns, an epoch at most: it has all samples. With an
/// assistant an epoch in any order: which samples it drew is known no more.
std::string find_in_training(const Experiment& experiment,
                             const SuspectTurns& turns) {
  const Deals deals = experiment.replicas.deals();
  const std::int64_t per_epoch = experiment.deals_per_epoch;
  const std::int64_t end = deals.by(turns.last + 1);
  const std::int64_t first = std::max(deals.by(turns.first), end - per_epoch);
  const OrderOptions order{.batch_size = experiment.batch_size,
                           .seed = experiment.seed,
                           .drop_last = experiment.drop_last,
                           .echo = echo_in(experiment.resolved)};
  const Split& split = experiment.data->train;
  return experiment.assist.is_on()
             ? text_of(experiment, {split, order, 0, per_epoch}, "training")
             : text_of(experiment, {split, order, first, end}, "training");
}

}  // namespace

std::string find_bad_sample(const Experiment& experiment, const Split& split,
                            const std::string& split_name) {
  if (split.size() == 0) return "";
  const std::int64_t size = experiment.batch_size;
  return text_of(
      experiment,
      {split,
       {.batch_size = size, .seed = experiment.seed, .shuffled = false},
       0,
       (split.size() + size - 1) / size},
      split_name);
}

std::string find_bad_sample(const Experiment& experiment,
                            const SuspectTurns& turns) {
  if (!experiment.data) return "";
  std::string found = find_in_training(experiment, turns);
  if (!found.empty() || !turns.evaluated) return found;
  found = find_bad_sample(experiment, experiment.data->test, "test");
  return found.empty()
             ? find_bad_sample(experiment, experiment.data->validation,
                               "validation")
             : found;
}

}  // namespace sluice
