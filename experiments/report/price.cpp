#include "experiments/report/price.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

bool is_of_method(const std::string& axis) {
  return axis.starts_with("boundary") || axis == "timetable";
}

bool same_beside_method(const Study& study, const StudyCell& a,
                        const StudyCell& b) {
  for (std::size_t i = 0; i < study.axes.size(); ++i)
    if (!is_of_method(study.axes[i]) && a.values[i] != b.values[i])
      return false;
  return true;
}

bool dominates(const Objectives& a, const Objectives& b) {
  bool is_better = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
    is_better = is_better || a[i] < b[i];
  }
  return is_better;
}

bool is_known(const Objectives& objectives) {
  return std::all_of(objectives.begin(), objectives.end(),
                     [](double value) { return std::isfinite(value); });
}

}  // namespace

std::optional<std::size_t> baseline_of(const Study& study,
                                       const std::vector<Column>& columns,
                                       std::size_t cell) {
  const Column* accuracy = find_column(columns, "test_accuracy");
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < study.cells.size(); ++i) {
    if (study.cells[i].method != "backprop" || accuracy == nullptr ||
        accuracy->spreads[i].n == 0)
      continue;
    if (i == cell) return std::nullopt;
    if (same_beside_method(study, study.cells[i], study.cells[cell])) return i;
    if (!best || accuracy->mean(i) > accuracy->mean(*best)) best = i;
  }
  return best;
}

Spread difference_of(const Spread& a, const Spread& b) {
  return {.mean = a.mean - b.mean,
          .std = std::hypot(a.std, b.std),
          .n = std::min(a.n, b.n)};
}

std::vector<bool> pareto_front(std::span<const Objectives> all) {
  std::vector<bool> front;
  for (const Objectives& one : all)
    front.push_back(
        is_known(one) &&
        std::none_of(all.begin(), all.end(), [&](const Objectives& other) {
          return is_known(other) && dominates(other, one);
        }));
  return front;
}

}  // namespace sluice
