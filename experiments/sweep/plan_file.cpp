#include "experiments/sweep/plan_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/to_json.h"
#include "experiments/sweep/cell_label.h"
#include "lib/base/error.h"
#include "lib/base/file.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

Json values_of(const Cell& cell) {
  Json values = Json::object();
  for (const auto& [key, node] : cell.values) values[key] = to_json(node);
  return values;
}

/// Whatever the order of keys.
bool are_equal(const Json& left, const Json& right) {
  return nlohmann::json::parse(left.dump()) ==
         nlohmann::json::parse(right.dump());
}

Json read_plan_file(const std::string& path) {
  std::ifstream file(path);
  try {
    return Json::parse(file);
  } catch (const Json::exception& error) {
    throw UserError("{}: can't be read: {}; give another --dir", path,
                    error.what());
  }
}

/// What stands in the folder, against a plan that shall go on there.
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

  /// The cell as the one behind so many others.
  static PlannedCell numbered(PlannedCell cell, std::size_t others) {
    cell.id = fmt::format("{:03}", others + 1);
    cell.folder = "cells/" + folder_name(cell.id, cell.cell);
    return cell;
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

  /// The plan's cell that has the values of that one.
  PlannedCell take(const Json& before) {
    const auto label = before.at("label").get<std::string>();
    for (std::size_t i = 0; i < count(); ++i) {
      PlannedCell cell = plan_.cells[i];
      if (!are_equal(before.at("values"), values_of(cell.cell))) continue;
      taken_[i] = true;
      check_seeds(label, before.at("seeds").get<std::vector<std::int64_t>>(),
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
  for (Cell& cell : cells_of(sweep))
    plan.cells.push_back(Placement::numbered(
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

SweepPlan placed(SweepPlan plan, const std::string& folder) {
  const std::string path = plan_file(folder);
  if (!std::filesystem::exists(path)) return plan;
  const Json before = read_plan_file(path);
  try {
    return Placement(std::move(plan), path).place(before);
  } catch (const Json::exception& error) {
    throw UserError("{}: is no plan of a sweep: {}; give another --dir", path,
                    error.what());
  }
}

}  // namespace sluice
