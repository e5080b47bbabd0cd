#include "experiments/sweep/file/plan_file.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/files/json.h"
#include "experiments/config/files/json_file.h"
#include "experiments/sweep/file/cell_label.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/whole_number.h"

namespace sluice::sweep {
namespace {

using Json = nlohmann::ordered_json;

/// Most runs of a sweep: each has an entry in memory and a folder.
constexpr std::size_t kMostRuns = 100'000;

Json values_of(const Cell& cell) {
  Json values = Json::object();
  for (const auto& [key, node] : cell.values) values[key] = json_of(node);
  return values;
}

Json read_plan_file(const std::string& path) {
  try {
    return read_json_file(path);
  } catch (const UserError& error) {
    throw UserError("{}; give another --dir", error.what());
  }
}

PlannedCell planned_cell_of(const Json& json) {
  PlannedCell planned{.id = json.at("id").get<std::string>(),
                      .folder = json.at("folder").get<std::string>(),
                      .cell = {.label = json.at("label").get<std::string>()},
                      .seeds = whole_numbers<std::int64_t>(json.at("seeds"))};
  for (const auto& [key, value] : json.at("values").items())
    planned.cell.values.emplace_back(key, config_of_json(value));
  return planned;
}

/// The cell with its number, behind so many others.
PlannedCell numbered(PlannedCell cell, std::size_t others) {
  cell.id = fmt::format("{:03}", others + 1);
  cell.folder = "cells/" + folder_name(cell.id, cell.cell);
  return cell;
}

/// The values of that key in the plan's cells.
std::vector<ConfigNode> values_of_key(const SweepPlan& plan,
                                      const std::string& key) {
  std::vector<ConfigNode> values;
  for (const PlannedCell& planned : plan.cells)
    for (const auto& [name, value] : planned.cell.values)
      if (name == key) values.push_back(value);
  return values;
}

/// Names the cell; `exactly`: with all digits of its numbers.
void name_cell(Cell& cell, const SweepPlan& plan, bool exactly) {
  cell.texts.clear();
  for (const auto& [key, value] : cell.values) {
    std::vector<ConfigNode> others = values_of_key(plan, key);
    if (exactly) others.push_back(value);
    cell.texts.push_back(value_text(value, others));
  }
  cell.label = label_of(cell, plan.axes, short_names(plan.axes));
}

/// Compares the plan in the folder with one that shall go on there.
class Placement {
 public:
  Placement(SweepPlan plan, std::string path)
      : path_(std::move(path)),
        plan_(std::move(plan)),
        taken_(count(), false) {}

  SweepPlan place(const Json& before) {
    check_axes(before.at("axes").get<std::vector<std::string>>());
    SweepPlan result{.name = plan_.name, .axes = plan_.axes};
    for (const Json& cell : before.at("cells"))
      result.cells.push_back(take(cell));
    for (std::size_t i = 0; i < count(); ++i)
      if (!taken_[i])
        result.cells.push_back(numbered(plan_.cells[i], result.cells.size()));
    return result;
  }

 private:
  std::size_t count() const { return plan_.cells.size(); }

  [[noreturn]] void refuse(const std::string& difference) const {
    throw UserError(
        "{} has another plan: {}; go on with that plan, or give another --dir",
        path_, difference);
  }

  void check_axes(const std::vector<std::string>& before) const {
    if (before != plan_.axes)
      refuse(fmt::format("its axes are [{}], not [{}]", fmt::join(before, ", "),
                         fmt::join(plan_.axes, ", ")));
  }

  /// Takes the plan's cell that has the values of `before`.
  PlannedCell take(const Json& before) {
    const auto label = before.at("label").get<std::string>();
    for (std::size_t i = 0; i < count(); ++i) {
      PlannedCell cell = plan_.cells[i];
      if (!are_equal(before.at("values"), values_of(cell.cell))) continue;
      taken_[i] = true;
      check_seeds(label, whole_numbers<std::int64_t>(before.at("seeds")),
                  cell.seeds);
      cell.id = before.at("id").get<std::string>();
      cell.folder = before.at("folder").get<std::string>();
      return cell;
    }
    refuse(fmt::format("it has the cell {} ({}), which is not asked for",
                       before.at("id").get<std::string>(), label));
  }

  void check_seeds(const std::string& label,
                   const std::vector<std::int64_t>& before,
                   const std::vector<std::int64_t>& now) const {
    for (const std::int64_t seed : before)
      if (std::find(now.begin(), now.end(), seed) == now.end())
        refuse(fmt::format("it has seed {} of {}, which is not asked for", seed,
                           label));
  }

  std::string path_;
  SweepPlan plan_;
  std::vector<bool> taken_;
};

}  // namespace

SweepPlan plan_of(const Sweep& sweep) {
  SweepPlan plan{.name = sweep.name, .axes = keys_of(sweep)};
  std::vector<Cell> cells = cells_of(sweep);
  if (cells.size() * sweep.seeds.size() > kMostRuns)
    throw UserError(
        "sweep: {} cells with {} seeds are more than {} runs; give fewer "
        "values or seeds",
        cells.size(), sweep.seeds.size(), kMostRuns);
  for (Cell& cell : cells)
    plan.cells.push_back(numbered(
        {.cell = std::move(cell), .seeds = sweep.seeds}, plan.cells.size()));
  return plan;
}

Json to_json(const SweepPlan& plan) {
  Json json;
  json["name"] = plan.name;
  json["axes"] = plan.axes;
  json["cells"] = Json::array();
  for (const PlannedCell& planned : plan.cells) {
    Json cell;
    cell["id"] = planned.id;
    cell["folder"] = planned.folder;
    cell["label"] = planned.cell.label;
    cell["values"] = values_of(planned.cell);
    cell["seeds"] = planned.seeds;
    json["cells"].push_back(std::move(cell));
  }
  return json;
}

std::string plan_file(const std::string& folder) {
  return folder + "/sweep.json";
}

void write_plan(const std::string& folder, const SweepPlan& plan) {
  write_file_atomically(plan_file(folder), [&](std::ostream& file) {
    file << to_json(plan).dump(2) << '\n';
  });
}

std::optional<SweepPlan> read_plan(const std::string& folder) {
  const std::string path = plan_file(folder);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const Json json = read_plan_file(path);
  try {
    SweepPlan plan{.name = json.at("name").get<std::string>(),
                   .axes = json.at("axes").get<std::vector<std::string>>()};
    for (const Json& cell : json.at("cells"))
      plan.cells.push_back(planned_cell_of(cell));
    return plan;
  } catch (const Json::exception& error) {
    throw UserError("{}: is no plan of a sweep: {}; give another --dir", path,
                    reason_of(error));
  }
}

std::size_t put_cell(SweepPlan& plan, const std::vector<CellValue>& values) {
  Cell cell{.values = values};
  const Json wanted = values_of(cell);
  for (std::size_t i = 0; i < plan.cells.size(); ++i)
    if (are_equal(values_of(plan.cells[i].cell), wanted)) return i;
  for (const auto& [key, value] : values)
    if (std::find(plan.axes.begin(), plan.axes.end(), key) == plan.axes.end())
      plan.axes.push_back(key);
  name_cell(cell, plan, false);
  if (std::any_of(plan.cells.begin(), plan.cells.end(), [&](const auto& other) {
        return other.cell.label == cell.label;
      }))
    name_cell(cell, plan, true);
  plan.cells.push_back(numbered({.cell = std::move(cell)}, plan.cells.size()));
  return plan.cells.size() - 1;
}

SweepPlan placed(SweepPlan plan, const std::string& folder) {
  const std::string path = plan_file(folder);
  if (!std::filesystem::exists(path)) return plan;
  const Json before = read_plan_file(path);
  try {
    return Placement(std::move(plan), path).place(before);
  } catch (const Json::exception& error) {
    throw UserError("{}: is no plan of a sweep: {}; give another --dir", path,
                    reason_of(error));
  }
}

}  // namespace sluice::sweep
