#include "experiments/sweep/file/sweep_table.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/files/overrides.h"
#include "experiments/config/manual/manual.h"
#include "experiments/config/run_name.h"
#include "experiments/sweep/file/axis_text.h"
#include "lib/base/config.h"

namespace sluice::sweep {
namespace {

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

void describe_sweep(Fields& fields, SweepTable& written) {
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

}  // namespace

SweepTable sweep_table_in(const ConfigNode& config) {
  SweepTable written;
  ConfigNode root = {ConfigNode::Table{}, config.origin};
  if (const ConfigNode* table = config.find("sweep")) root.set("sweep", *table);
  Fields top(&root, "");
  top.section("sweep", "many runs from this config: sluice sweep",
              [&](Fields& fields) { describe_sweep(fields, written); });
  return written;
}

std::string sweep_manual() {
  SweepTable ignored;
  Fields top(nullptr, "");
  top.section("sweep", "many runs from this config: sluice sweep",
              [&](Fields& fields) { describe_sweep(fields, ignored); });
  return config_manual(top.manual());
}

}  // namespace sluice::sweep
