#include "experiments/report/study/sweep_file.h"

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "experiments/config/files/json_file.h"
#include "experiments/report/study/methods.h"
#include "lib/base/error.h"
#include "lib/base/whole_number.h"

namespace sluice::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The one line beside the folder of a failed run, without paths of the sweep,
/// so that it is the same wherever the sweep lies.
std::string error_in(const std::string& path, const std::string& sweep) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  for (const std::string& place : {fs::canonical(sweep).string(), sweep})
    for (auto at = line.find(place + "/"); at != line.npos;
         at = line.find(place + "/"))
      line.erase(at, place.size() + 1);
  return line;
}

RunRecord run_of_sweep(const std::string& sweep, const std::string& folder,
                       std::int64_t seed) {
  RunRecord run{.folder = folder};
  if (is_run_folder(folder)) run = read_run(folder);
  run.seed = seed;
  const std::string failed = folder + ".failed";
  // A run that was tried again and is done has not failed.
  if (!run.is_done() && fs::exists(failed)) {
    run.state = RunRecord::State::failed;
    run.error = error_in(failed, sweep);
  }
  return run;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

StudyCell cell_of(const std::string& folder, const Study& study,
                  const Json& json) {
  StudyCell cell{.id = json.at("id").get<std::string>(),
                 .label = json.at("label").get<std::string>()};
  const Json& values = json.at("values");
  for (const std::string& axis : study.axes)
    cell.values.push_back(values.contains(axis) ? text_of(values[axis]) : "");
  const std::string below = folder + "/" + json.at("folder").get<std::string>();
  for (const Json& seed : json.at("seeds")) {
    const auto number = whole_number<std::int64_t>(seed);
    cell.runs.push_back(run_of_sweep(
        folder, below + "/seed-" + std::to_string(number), number));
  }
  if (cell.label.empty()) cell.label = study.title;
  cell.method = method_of(cell);
  // Before any run has begun, the axis knows the policy.
  if (cell.config() == nullptr && values.contains("boundary.policy"))
    cell.method = text_of(values["boundary.policy"]);
  return cell;
}

}  // namespace

Study read_sweep(const std::string& folder) {
  const std::string path = folder + "/sweep.json";
  const Json json = read_json_file(path);
  try {
    Study study{.title = json.at("name").get<std::string>(),
                .axes = json.at("axes").get<std::vector<std::string>>()};
    for (const Json& cell : json.at("cells"))
      study.cells.push_back(cell_of(folder, study, cell));
    return study;
  } catch (const Json::exception& error) {
    throw UserError("{}: is damaged ({}); the sweep's command writes it anew",
                    path, reason_of(error));
  }
}

}  // namespace sluice::report
