#include "experiments/sweep/read_sweep.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "experiments/config/files/extends.h"
#include "experiments/config/files/overrides.h"
#include "experiments/config/manual.h"
#include "experiments/config/run_name.h"
#include "experiments/sweep/axis_text.h"
#include "lib/base/config.h"
#include "lib/base/error.h"

namespace sluice::sweep {
namespace {

constexpr std::int64_t kMostSeeds = 100'000;

/// What [sweep] says, before the command line is laid over it.
struct Written {
  Sweep sweep = {};
  bool zip = false;
  ConfigNode seeds = {};
};

/// Reads the ends of a range of this kind, two numbers, when the axis has one.
/// Rejects a second range, and one beside values.
void read_range(Fields& fields, const char* key, const char* text,
                Range::Kind kind, Axis& axis) {
  std::vector<double> ends;
  fields.key(key, ends, {.text = text});
  if (!fields.has(key)) return;
  if (axis.range || fields.has("values"))
    fields.reject(key, "an axis has either values or one range");
  if (ends.size() != 2) fields.reject(key, "wants two numbers: [low, high]");
  axis.range = Range{kind, ends[0], ends[1]};
}

/// The values of a key, which is a list of anything.
void read_values(Fields& fields, Axis& axis) {
  ConfigNode values;
  fields.key("values", values, "list",
             {.text = "values of the key; one that is a table replaces the "
                      "config's table"});
  if (const auto* list = std::get_if<ConfigNode::Array>(&values.value))
    axis.values = *list;
  else if (fields.has("values"))
    fields.reject("values", "expected a list, not " + values.describe());
}

Axis read_axis(Fields& fields) {
  Axis axis;
  fields.key("key", axis.key,
             {.text = "key of the config that it sets, as in optimizer.lr"});
  read_values(fields, axis);
  fields.key("labels", axis.labels,
             {.text = "names of the values in tables, one for each value"});
  read_range(fields, "uniform",
             "in a random sweep: [low, high], drawn uniformly",
             Range::Kind::uniform, axis);
  read_range(fields, "log_uniform",
             "in a random sweep: [low, high], drawn uniformly in "
             "the logarithm",
             Range::Kind::log_uniform, axis);
  read_range(
      fields, "int",
      "in a random sweep: [low, high], a whole number, both ends included",
      Range::Kind::integer, axis);
  fields.key("with", axis.with,
             {.text = "key of an earlier axis: both change together, first "
                      "value with first value"});
  std::string when;
  fields.key("when", when,
             {.text = "\"key=a,b\": this axis holds only in cells where an "
                      "earlier axis has set that key to one of these values; "
                      "several axes may set one key if each has a condition"});
  if (!when.empty()) axis.when = when_of_text(when);
  return axis;
}

ListedCell read_cell(Fields& fields) {
  ListedCell cell;
  fields.key("label", cell.label, {.text = "its name in tables"});
  std::vector<std::string> settings;
  fields.key("set", settings,
             {.text = "what it sets, as on the command line: "
                      "[\"optimizer.lr=0.1\"]"});
  for (const std::string& text : settings) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      fields.reject("set", fmt::format("'{}' is no key=value", text));
    const std::string key = text.substr(0, equals);
    if (key == "seed")
      fields.reject("set",
                    "a cell has the seeds of the sweep: give them with "
                    "--seeds or sweep.seeds");
    cell.values.emplace_back(key, override_value(text.substr(equals + 1), key));
  }
  return cell;
}

Halving read_halving(Fields& fields) {
  Halving halving;
  fields.key("rungs", halving.rungs,
             {.text = "when cells are compared, and the worse ones stop",
              .unit = "epochs"});
  fields.key("keep", halving.keep,
             {.text = "one cell in so many goes on at each rung",
              .min = 2,
              .max = 1e4});
  fields.key("measure", halving.measure,
             {.text = "figure of the evaluations at a rung, a mean over the "
                      "seeds, by which cells are compared",
              .allowed = {"accuracy", "loss"}});
  double before = 0;
  for (const double rung : halving.rungs)
    if (rung <= std::exchange(before, rung))
      fields.reject("rungs", "each is above 0, and above the one before");
  return halving;
}

void describe_sweep(Fields& fields, Written& written) {
  Sweep& sweep = written.sweep;
  std::string kind = "grid";
  fields.key(
      "name", sweep.name,
      {.text = "name of the sweep and its folder; default: the config's name"});
  if (fields.has("name")) check_name(fields, sweep.name);
  fields.key(
      "kind", kind,
      {.text = "how cells are made. grid: every combination of the axes' "
               "values; zip: all axes change together; list: the cells of "
               "[[sweep.cell]]; random: values are drawn",
       .allowed = {"grid", "zip", "list", "random"}});
  fields.key("seeds", written.seeds, "integer | list of integers",
             {.text = "seeds of each cell's runs: a number of them, counted "
                      "from the config's seed, or a list; default: 1"});
  fields.key(
      "samples", sweep.samples,
      {.text = "number of cells of a random sweep", .min = 0, .max = 1e4});
  fields.key("sample_seed", sweep.sample_seed,
             {.text = "seed from which a random sweep's cells are drawn; cell "
                      "i is the same whatever `samples` is"});
  fields.key("slurm", sweep.slurm,
             {.text = "options of sbatch for --launcher slurm, in one line"});
  fields.section("halving", "successive halving: the worse cells stop early",
                 [&](Fields& table) {
                   Halving halving = read_halving(table);
                   if (!halving.rungs.empty()) sweep.halving = halving;
                 });
  fields.list("axis", "a key that differs between cells",
              [&](Fields& axis, std::int64_t index) {
                Axis read = read_axis(axis);
                if (index < 0) return;  // for the manual
                if (read.key.empty())
                  axis.reject("key", "an axis needs the key that it sets");
                sweep.axes.push_back(std::move(read));
              });
  fields.list("cell", "a cell, with kind = \"list\"",
              [&](Fields& cell, std::int64_t index) {
                ListedCell read = read_cell(cell);
                if (index >= 0) sweep.cells.push_back(std::move(read));
              });
  written.zip = kind == "zip";
  if (kind == "list") sweep.kind = Sweep::Kind::list;
  if (kind == "random") sweep.kind = Sweep::Kind::random;
}

Written written_in(const ConfigNode& config) {
  Written written;
  ConfigNode root = {ConfigNode::Table{}, config.origin};
  if (const ConfigNode* table = config.find("sweep")) root.set("sweep", *table);
  Fields top(&root, "");
  top.section("sweep", "many runs from this config: sluice sweep",
              [&](Fields& fields) { describe_sweep(fields, written); });
  return written;
}

/// In the place of those with its key, which it replaces, or at the end.
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
  std::vector<Axis> in_file = written_in(config).sweep.axes;
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

/// All move with the first.
void zip(std::vector<Axis>& axes) {
  for (std::size_t i = 1; i < axes.size(); ++i)
    if (axes[i].with.empty()) axes[i].with = axes[0].key;
}

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

/// A setting of the command line that a cell would overwrite in silence.
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

/// What an axis says of others must be about axes before it.
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

void check(const Sweep& sweep) {
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

std::string name_of(const Sweep& sweep, const std::string& path) {
  if (!sweep.name.empty()) return sweep.name;
  const ConfigNode* name = sweep.config.find("name");
  const auto* text =
      name == nullptr ? nullptr : std::get_if<std::string>(&name->value);
  return text == nullptr ? std::filesystem::path(path).stem().string() : *text;
}

}  // namespace

Sweep read_sweep(const std::string& path, const SweepWords& words) {
  ConfigNode config = read_config_file(path);
  std::vector<Axis> axes = take_settings(words, config);
  Written written = written_in(config);
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
  check(sweep);
  for (const std::string& setting : words.settings)
    refuse_overwritten(setting, sweep);
  return sweep;
}

std::string sweep_manual() {
  Written ignored;
  Fields top(nullptr, "");
  top.section("sweep", "many runs from this config: sluice sweep",
              [&](Fields& fields) { describe_sweep(fields, ignored); });
  return config_manual(top.manual());
}

}  // namespace sluice::sweep
