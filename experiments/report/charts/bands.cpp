#include "experiments/report/charts/bands.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace sluice::report {
namespace {

/// Means of what a run says between two turns.
struct Means {
  double turn = 0;
  double time = 0;
  double value = 0;
  int n = 0;

  void add(const RunPoint& point) {
    turn += static_cast<double>(point.turn);
    time += point.time;
    value += point.value;
    ++n;
  }
};

std::map<std::int64_t, Means> spans_of(const RunSeries& run,
                                       std::int64_t turns_per_span) {
  std::map<std::int64_t, Means> spans;
  for (const RunPoint& point : run)
    if (std::isfinite(point.value))
      spans[point.turn / turns_per_span].add(point);
  return spans;
}

double mean_of(const std::vector<double>& values) {
  return spread_of(values).mean;
}

}  // namespace

std::vector<BandPoint> band_of(const std::vector<const RunSeries*>& runs,
                               std::int64_t most_points) {
  std::int64_t last = 0;
  for (const RunSeries* run : runs)
    if (!run->empty()) last = std::max(last, run->back().turn);
  const std::int64_t turns_per_span =
      most_points > 0 ? last / most_points + 1 : 1;
  struct Values {
    std::vector<double> turns, times, values;
  };
  std::map<std::int64_t, Values> spans;
  for (const RunSeries* run : runs)
    for (const auto& [span, sum] : spans_of(*run, turns_per_span)) {
      spans[span].turns.push_back(sum.turn / sum.n);
      spans[span].times.push_back(sum.time / sum.n);
      spans[span].values.push_back(sum.value / sum.n);
    }
  std::vector<BandPoint> band;
  band.reserve(spans.size());
  for (const auto& [span, values] : spans)
    band.push_back({.turn = mean_of(values.turns),
                    .time = mean_of(values.times),
                    .spread = spread_of(values.values)});
  return band;
}

}  // namespace sluice::report
