#include "experiments/report/price.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace sluice::report {
namespace {

bool is_of_method(const std::string& axis) {
  return axis.starts_with("boundary") || axis == "timetable";
}

/// Accuracies on other data or of another model say nothing about a method.
bool is_of_task(const std::string& axis) {
  return axis.starts_with("data.") || axis.starts_with("model.");
}

template <class Which>
bool same_in(const Study& study, std::size_t a, std::size_t b, Which counts) {
  for (std::size_t i = 0; i < study.axes.size(); ++i)
    if (counts(study.axes[i]) &&
        study.cells[a].values[i] != study.cells[b].values[i])
      return false;
  return true;
}

/// Whether `a` is more to be compared with than `b`: it has as many blocks as
/// the cell, or else is better.
bool is_nearer(const Study& study, const Column& chooser, std::size_t cell,
               std::size_t a, std::size_t b) {
  const auto has_as_many = [&](std::size_t other) {
    return study.cells[other].count_of_blocks() ==
           study.cells[cell].count_of_blocks();
  };
  if (has_as_many(a) != has_as_many(b)) return has_as_many(a);
  return chooser.mean(a) > chooser.mean(b);
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
        accuracy->spreads[i].n == 0 || !same_in(study, i, cell, is_of_task))
      continue;
    if (i == cell) return std::nullopt;
    if (same_in(study, i, cell, std::not_fn(is_of_method))) return i;
    if (!best || is_nearer(study, column_to_choose_by(columns, *accuracy), cell,
                           i, *best))
      best = i;
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

}  // namespace sluice::report
