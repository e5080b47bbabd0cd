#include "experiments/runs/checkpoints/resumed_rate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "experiments/config/reading/read_experiment.h"
#include "experiments/config/tables/lengths.h"

namespace sluice {
namespace {

/// A new block of another cut is compared with the same options over the old
/// length.
const LearningRate& rate_before(const Experiment& before, const Experiment& now,
                                std::size_t block) {
  const bool is_same_cut = before.ranges == now.ranges;
  return (is_same_cut ? before : now).optimizers.at(block).learning_rate;
}

double rate_in(const Experiment& experiment, const LearningRate& rate,
               std::int64_t turn) {
  return rate.at(turn, experiment.length.turns, epochs_of(experiment));
}

bool differ(double a, double b) {
  constexpr double kRounding = 1e-9;
  return std::abs(a - b) > kRounding * std::max(std::abs(a), std::abs(b));
}

bool all_alike(const std::vector<double>& values) {
  return std::equal(values.begin() + 1, values.end(), values.begin());
}

}  // namespace

bool RateChange::is_any() const {
  const bool goes_elsewhere = depends_on_end(schedule) && turns != turns_before;
  return goes_elsewhere ||
         !std::equal(before.begin(), before.end(), after.begin(),
                     [](double a, double b) { return !differ(a, b); });
}

RateChange rate_change(const ConfigNode& config, const Experiment& now,
                       std::int64_t turn) {
  ConfigNode with_our_data = config;  // it may lie elsewhere by now
  if (const ConfigNode* data = now.resolved.find("data"))
    with_our_data.set("data", *data);
  const Experiment before = read_experiment(with_our_data, "");
  RateChange change{.turn = turn,
                    .turns_before = before.length.turns,
                    .turns = now.length.turns,
                    .schedule = now.optimizers.front().learning_rate.schedule};
  for (std::size_t k = 0; k < now.optimizers.size(); ++k) {
    change.before.push_back(rate_in(before, rate_before(before, now, k), turn));
    change.after.push_back(rate_in(now, now.optimizers[k].learning_rate, turn));
  }
  return change;
}

std::string text_of(const RateChange& change) {
  const auto pair_of = [&](std::size_t k) {
    return fmt::format("from {:.4g} to {:.4g}", change.before[k],
                       change.after[k]);
  };
  std::string rates = pair_of(0);
  if (!all_alike(change.before) || !all_alike(change.after))
    for (std::size_t k = 0; k < change.after.size(); ++k)
      rates = (k == 0 ? "" : rates + ", ") +
              fmt::format("{} in block {}", pair_of(k), k + 1);
  const std::string why =
      change.turns == change.turns_before
          ? ""
          : fmt::format(": the schedule '{}' now ends after turn {}, not {}",
                        name_of(change.schedule), change.turns,
                        change.turns_before);
  return fmt::format("the learning rate goes {} at turn {}{}", rates,
                     change.turn, why);
}

}  // namespace sluice
