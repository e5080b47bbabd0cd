#include "experiments/sweep/task_array.h"

#include <filesystem>
#include <fstream>
#include <ostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/config/files/json_file.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/whole_number.h"

namespace sluice::sweep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string folder_of_array(const std::string& sweep_folder, int number) {
  return fmt::format("{}/slurm/array-{}", sweep_folder, number);
}

void write_text(const std::string& path, const std::string& text) {
  write_file_atomically(path, [&](std::ostream& file) { file << text; });
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Json to_json(const ArrayTask& task) {
  return {{"cell", task.cell},   {"folder", task.folder},
          {"label", task.label}, {"seed", task.seed},
          {"rung", task.rung},   {"config", task.config}};
}

ArrayTask task_of(const Json& json) {
  return {.cell = json.at("cell").get<std::string>(),
          .folder = json.at("folder").get<std::string>(),
          .label = json.at("label").get<std::string>(),
          .seed = whole_number<std::int64_t>(json.at("seed")),
          .config = json.at("config").get<std::string>(),
          .rung = json.at("rung").get<double>()};
}

}  // namespace

TaskArray TaskArray::write(const std::string& sweep_folder,
                           const std::vector<ArrayTask>& tasks, bool retry,
                           bool again, const std::string& command) {
  int number = 1;
  while (fs::exists(folder_of_array(sweep_folder, number))) ++number;
  TaskArray array(folder_of_array(sweep_folder, number));
  std::error_code error;
  fs::create_directories(array.folder_, error);
  if (error)
    throw UserError("{}: can't be made: {}", array.folder_, error.message());
  Json json;
  json["command"] = command;
  json["retry"] = retry;
  json["again"] = again;
  json["tasks"] = Json::array();
  for (const ArrayTask& task : tasks) json["tasks"].push_back(to_json(task));
  write_text(array.folder_ + "/tasks.json", json.dump(2) + "\n");
  return array;
}

TaskArray::Tasks TaskArray::tasks() const {
  const std::string path = folder_ + "/tasks.json";
  const Json json = read_json_file(path);
  try {
    Tasks tasks{.retry = json.at("retry").get<bool>(),
                .again = json.at("again").get<bool>(),
                .command = json.at("command").get<std::string>()};
    for (const Json& task : json.at("tasks"))
      tasks.tasks.push_back(task_of(task));
    return tasks;
  } catch (const Json::exception& error) {
    throw UserError("{}: is damaged: {}", path, reason_of(error));
  }
}

std::string TaskArray::sweep_folder() const {
  return fs::path(folder_).parent_path().parent_path().string();
}

std::string TaskArray::log_of(const std::string& task) const {
  return fmt::format("{}/task-{}.log", folder_, task);
}

std::string TaskArray::end_of(int task) const {
  return fmt::format("{}/task-{}.end", folder_, task);
}

std::string TaskArray::job() const {
  return first_line(folder_ + "/job");
}

void TaskArray::set_job(const std::string& id) const {
  write_text(folder_ + "/job", id + "\n");
}

bool TaskArray::is_over() const {
  return fs::exists(folder_ + "/over");
}

void TaskArray::mark_over() const {
  write_text(folder_ + "/over", "");
}

std::string run_folder_of(const ArrayTask& task,
                          const std::string& sweep_folder) {
  return fmt::format("{}/{}/seed-{}", sweep_folder, task.folder, task.seed);
}

std::vector<TaskArray> open_arrays(const std::string& sweep_folder) {
  std::vector<TaskArray> arrays;
  for (int number = 1;; ++number) {
    TaskArray array(folder_of_array(sweep_folder, number));
    if (!fs::exists(array.folder())) return arrays;
    if (!array.job().empty() && !array.is_over())
      arrays.push_back(std::move(array));
  }
}

}  // namespace sluice::sweep
