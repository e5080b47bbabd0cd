#include "experiments/sweep/file/read_sweep.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "experiments/config/files/common_keys.h"
#include "experiments/config/files/extends.h"
#include "experiments/config/files/overrides.h"
#include "experiments/config/run_name.h"
#include "experiments/sweep/file/axis_text.h"
#include "experiments/sweep/file/check_sweep.h"
#include "experiments/sweep/file/sweep_table.h"
#include "lib/base/error.h"

namespace sluice::sweep {
namespace {

constexpr std::int64_t kMostSeeds = 100'000;

/// Puts an axis in the place of those with its key, which it replaces, or at
/// the end.
void put(std::vector<Axis>& axes, Axis axis) {
  const auto is_same = [&](const Axis& a) { return a.key == axis.key; };
  const auto place =
      std::find_if(axes.begin(), axes.end(), is_same) - axes.begin();
  std::erase_if(axes, is_same);
  axes.insert(axes.begin() + place, std::move(axis));
}

/// Axes of one key may stand beside each other where each has its condition.
void add(std::vector<Axis>& axes, Axis axis) {
  const auto is_other = [&](const Axis& a) {
    return a.key == axis.key && a.when && axis.when;
  };
  const auto last = std::find_if(axes.rbegin(), axes.rend(), is_other);
  if (last == axes.rend())
    put(axes, std::move(axis));
  else
    axes.insert(last.base(), std::move(axis));
}

/// On a command line the later of two would silently take the place of the
/// first; a table of the config may hold it in many cells.
void refuse_repeated_axes(const std::vector<std::string>& settings) {
  std::map<std::string, std::optional<Axis>> before;
  for (const std::string& text : settings) {
    std::optional<Axis> axis = axis_of_text(text);
    const std::string key = axis ? axis->key : text.substr(0, text.find('='));
    const auto [first, is_new] = before.emplace(key, axis);
    if (is_new || (!first->second && !axis)) continue;
    const bool have_conditions =
        first->second && axis && first->second->when && axis->when;
    if (!have_conditions)
      throw UserError(
          "sweep: {} is given twice; write all its values once, as in {}=a,b, "
          "or give each its condition: '{}=a,b if KEY=VALUE'",
          key, key, key);
  }
}

/// The axes of the command line, and its overrides into the config. A single
/// value for a key that is an axis is all that is left of that axis.
std::vector<Axis> take_settings(const SweepWords& words, ConfigNode& config) {
  std::vector<Axis> axes;
  refuse_repeated_axes(words.settings);
  std::vector<Axis> in_file = sweep_table_in(config).sweep.axes;
  for (const std::string& text : words.settings) {
    std::optional<Axis> axis = axis_of_text(text);
    if (!axis) {
      const std::size_t equals = text.find('=');
      const std::string key = text.substr(0, equals);
      const bool is_axis =
          std::any_of(in_file.begin(), in_file.end(),
                      [&](const Axis& a) { return a.key == key; });
      if (!is_axis) {
        apply_override(config, text);
        continue;
      }
      axis = Axis{.key = key,
                  .values = {override_value(text.substr(equals + 1), key)}};
    }
    add(axes, std::move(*axis));
  }
  return axes;
}

std::int64_t first_seed(const ConfigNode& config) {
  const ConfigNode* seed = config.find("seed");
  const auto* number =
      seed == nullptr ? nullptr : std::get_if<std::int64_t>(&seed->value);
  return number == nullptr ? 1 : *number;
}

/// A number is how many, from `first` on; a list is the seeds themselves.
std::vector<std::int64_t> seeds_of(const ConfigNode& node, std::int64_t first) {
  std::vector<std::int64_t> seeds;
  const auto fail = [&](const char* text) {
    throw UserError("{}: sweep.seeds: {}", node.origin.text(), text);
  };
  if (std::holds_alternative<std::monostate>(node.value)) return {first};
  if (const auto* count = std::get_if<std::int64_t>(&node.value)) {
    if (*count < 1 || *count > kMostSeeds) fail("wants 1 seed or more");
    for (std::int64_t i = 0; i < *count; ++i) seeds.push_back(first + i);
    return seeds;
  }
  const auto* list = std::get_if<ConfigNode::Array>(&node.value);
  if (list == nullptr || list->empty())
    fail("wants a number of seeds, or a list of them");
  for (const ConfigNode& item : *list) {
    const auto* seed = std::get_if<std::int64_t>(&item.value);
    if (seed == nullptr || *seed < 0) fail("a seed is a whole number from 0");
    seeds.push_back(*seed);
  }
  if (std::set(seeds.begin(), seeds.end()).size() != seeds.size())
    fail("a seed is there twice");
  return seeds;
}

ConfigNode seeds_in(const std::string& words) {
  const bool is_list = split_values(words).size() > 1;
  return override_value(is_list ? fmt::format("[{}]", words) : words,
                        "--seeds");
}

/// Zips axes: all move with the first.
void zip(std::vector<Axis>& axes) {
  for (std::size_t i = 1; i < axes.size(); ++i)
    if (axes[i].with.empty()) axes[i].with = axes[0].key;
}

std::string name_of(const Sweep& sweep, const std::string& path) {
  if (!sweep.name.empty()) return sweep.name;
  const ConfigNode* name = sweep.config.find("name");
  const auto* text =
      name == nullptr ? nullptr : std::get_if<std::string>(&name->value);
  return text == nullptr ? std::filesystem::path(path).stem().string() : *text;
}

}  // namespace

Sweep read_sweep(const std::string& path, const SweepWords& words) {
  ConfigNode config = read_config_to_run(path, words.settings);
  std::vector<Axis> axes = take_settings(words, config);
  SweepTable written = sweep_table_in(config);
  Sweep sweep = std::move(written.sweep);
  std::set<std::string> replaced;
  for (Axis& axis : axes)
    if (replaced.insert(axis.key).second)
      put(sweep.axes, std::move(axis));
    else
      add(sweep.axes, std::move(axis));
  if (words.samples) {
    sweep.kind = Sweep::Kind::random;
    sweep.samples = *words.samples;
  }
  if (written.zip || words.zip) zip(sweep.axes);
  if (!words.seeds.empty()) written.seeds = seeds_in(words.seeds);
  sweep.seeds = seeds_of(written.seeds, first_seed(config));
  std::erase_if(std::get<ConfigNode::Table>(config.value),
                [](const auto& entry) { return entry.first == "sweep"; });
  sweep.config = std::move(config);
  sweep.name = name_of(sweep, path);
  if (const std::string problem = problem_of_name(sweep.name); !problem.empty())
    throw UserError("{}: the sweep's name {}", path, problem);
  check_sweep(sweep);
  for (const std::string& setting : words.settings)
    refuse_overwritten(setting, sweep);
  return sweep;
}

}  // namespace sluice::sweep
