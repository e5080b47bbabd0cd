#include "experiments/report/study/price.h"

#include <algorithm>
#include <array>
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

/// The quantile 0.975 of Student's t; beyond the table, from its expansion in
/// 1 / degrees (Abramowitz and Stegun, 26.7.5). NaN below one degree.
double quantile_of_t(int degrees) {
  constexpr std::array<double, 10> kTable = {
      12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  if (degrees < 1) return std::numeric_limits<double>::quiet_NaN();
  const auto row = static_cast<std::size_t>(degrees) - 1;
  if (row < kTable.size()) return kTable[row];
  constexpr double kNormal = 1.959964;
  const double cube = kNormal * kNormal * kNormal;
  const double fifth = cube * kNormal * kNormal;
  return kNormal + (cube + kNormal) / (4.0 * degrees) +
         (5 * fifth + 16 * cube + 3 * kNormal) / (96.0 * degrees * degrees);
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

Difference paired_difference(const SeedFigures& a, const SeedFigures& b) {
  std::vector<double> differences;
  for (const auto& [seed, value] : a)
    if (const auto other = b.find(seed); other != b.end())
      differences.push_back(value - other->second);
  const Spread spread = spread_of(differences);
  return {.mean = spread.mean,
          .half = spread.std * quantile_of_t(spread.n - 1) /
                  std::sqrt(static_cast<double>(spread.n)),
          .n = spread.n};
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
