#include "experiments/sweep/file/check_sweep.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lib/base/error.h"

namespace sluice::sweep {
namespace {

void check_axis(const Sweep& sweep, const Axis& axis) {
  const auto fail = [&](const std::string& text) {
    throw UserError("sweep: axis {}: {}", axis.key, text);
  };
  if (axis.key == "seed" || axis.key == "sweep" ||
      axis.key.starts_with("sweep."))
    fail("this key can't be an axis; give seeds with --seeds or sweep.seeds");
  if (axis.values.empty() && !axis.range)
    fail("has no values; give values = [...]");
  if (!axis.labels.empty() && axis.labels.size() != axis.values.size())
    fail(fmt::format("has {} labels for {} values", axis.labels.size(),
                     axis.values.size()));
  for (auto value = axis.values.begin(); value != axis.values.end(); ++value)
    if (std::find(axis.values.begin(), value, *value) != value)
      fail(fmt::format("has the value {} twice", value->literal()));
  if (!axis.range) return;
  if (sweep.kind != Sweep::Kind::random)
    fail("is a range, which only a random sweep draws from: give --samples N");
  if (!(axis.range->low < axis.range->high))
    fail(fmt::format("the low end {} is not below the high end {}",
                     axis.range->low, axis.range->high));
  if (!std::isfinite(axis.range->high - axis.range->low))
    fail(
        "a range wants finite ends that are no further apart than a number "
        "can say");
  constexpr double kMostInteger = 1e15;  // a double holds all up to there
  if (axis.range->kind == Range::Kind::integer &&
      std::max(-axis.range->low, axis.range->high) > kMostInteger)
    fail(fmt::format("a range of integers wants ends from {0:g} to {1:g}",
                     -kMostInteger, kMostInteger));
  if (axis.range->kind == Range::Kind::log_uniform && axis.range->low <= 0)
    fail("a range in the logarithm wants ends above 0");
}

bool sets(const std::string& key, const std::string& wanted) {
  return wanted == key || wanted.starts_with(key + ".");
}

const Axis* find(const std::vector<Axis>& axes, std::string_view key) {
  const auto at = std::find_if(axes.begin(), axes.end(),
                               [&](const Axis& a) { return a.key == key; });
  return at == axes.end() ? nullptr : &*at;
}

/// Checks that an axis refers only to axes before it.
void check_links(const std::vector<Axis>& before, const Axis& axis) {
  const Axis* same = find(before, axis.key);
  if (same != nullptr && !(same->when && axis.when))
    throw UserError(
        "sweep: axis {}: is there twice; it may be where each has a condition",
        axis.key);
  if (!axis.with.empty()) {
    const Axis* leader = find(before, axis.with);
    if (leader == nullptr)
      throw UserError("sweep: axis {}: no axis before it has the key '{}'",
                      axis.key, axis.with);
    if (axis.range || leader->range ||
        leader->values.size() != axis.values.size())
      throw UserError(
          "sweep: axis {}: moves together with {}, so it wants as many values: "
          "{}, not {}",
          axis.key, axis.with, leader->values.size(), axis.values.size());
  }
  if (axis.when &&
      std::none_of(before.begin(), before.end(),
                   [&](const Axis& a) { return sets(a.key, axis.when->key); }))
    throw UserError("sweep: axis {}: no axis before it sets '{}'", axis.key,
                    axis.when->key);
}

}  // namespace

void check_sweep(const Sweep& sweep) {
  if (sweep.kind == Sweep::Kind::list) {
    if (sweep.cells.empty())
      throw UserError("sweep: a list wants cells: [[sweep.cell]]");
    if (!sweep.axes.empty())
      throw UserError(
          "sweep: a list has cells and no axes, but there is the axis {}; set "
          "kind = \"grid\"",
          sweep.axes.front().key);
    return;
  }
  if (!sweep.cells.empty())
    throw UserError("sweep: cells are for kind = \"list\"");
  if (sweep.kind == Sweep::Kind::random && sweep.samples < 1)
    throw UserError("sweep: a random sweep wants --samples N, or samples = N");
  if (sweep.kind == Sweep::Kind::random && sweep.axes.empty())
    throw UserError("sweep: a random sweep wants an axis to draw from");
  std::vector<Axis> before;
  for (const Axis& axis : sweep.axes) {
    check_axis(sweep, axis);
    check_links(before, axis);
    before.push_back(axis);
  }
}

void refuse_overwritten(const std::string& setting, const Sweep& sweep) {
  const std::string key = setting.substr(0, setting.find('='));
  for (const ListedCell& cell : sweep.cells)
    for (const auto& [theirs, value] : cell.values)
      if (sets(theirs, key))
        throw UserError(
            "{}: the sweep's cell '{}' sets '{}', so this would be lost: "
            "change "
            "it there, or leave it out",
            setting, cell.label, theirs);
}

}  // namespace sluice::sweep
