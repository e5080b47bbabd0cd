#include "experiments/report/run_record.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "experiments/config/files/extends.h"
#include "lib/base/error.h"
#include "lib/metrics/early_stop.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

RunPoint point_of(const Record& record, const char* figure) {
  return {.turn = record.integer("turn"),
          .time = record.number("time", 0),
          .value = record.number(figure, 0)};
}

int block_of(const Record& record) {
  return static_cast<int>(record.integer("block"));
}

void take_training(const Record& record, RunRecord& run) {
  // Counts applied batches, not turns: with delays, draining takes turns
  // without batches of their own.
  run.turns = std::max(run.turns, record.integer("batch") + 1);
  // Under back-propagation only the last block knows the loss.
  if (record.find("loss") != nullptr)
    run.training_loss[block_of(record)].push_back(point_of(record, "loss"));
}

void take_evaluation(const Record& record, RunRecord& run) {
  run.turns = std::max(run.turns, record.integer("turn"));
  run.accuracy.push_back(point_of(record, "accuracy"));
  run.loss.push_back(point_of(record, "loss"));
  if (record.find("validation_loss") == nullptr) return;
  run.validation_accuracy.push_back(point_of(record, "validation_accuracy"));
  run.validation_loss.push_back(point_of(record, "validation_loss"));
}

void take_probe(const Record& record, RunRecord& run) {
  for (const char* figure : {"cosine", "norm_ratio", "sign_agreement"})
    if (record.find(figure) != nullptr)
      run.probes[figure][block_of(record)].push_back(point_of(record, figure));
}

void take(const Record& record, RunRecord& run) {
  const std::string kind = record.text("kind");
  if (kind == "train") take_training(record, run);
  if (kind == "evaluation") take_evaluation(record, run);
  if (kind == "probe") take_probe(record, run);
  if (kind == "staleness")
    run.staleness[record.text("counter")][block_of(record)]
                 [record.integer("value")] = record.integer("times");
  if (kind == "block") run.blocks[block_of(record)] = record;
  if (kind == "forecast") run.forecasts[block_of(record)] = record;
  if (kind == "summary") run.summary = record;
  if (kind == "diverged") run.error = record.text("reason");
}

void sort_by_turn(RunSeries& series) {
  std::stable_sort(
      series.begin(), series.end(),
      [](const RunPoint& a, const RunPoint& b) { return a.turn < b.turn; });
}

/// False when the last line is but half a line.
bool read_metrics(const std::string& path, RunRecord& run) {
  std::ifstream file(path);
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (file.eof()) return false;
    try {
      take(record_from_json(line), run);
    } catch (const UserError& error) {
      throw UserError(
          "{}:{}: is damaged ({}); remove the line, or do the run again with "
          "--overwrite",
          path, number, error.what());
    }
  }
  if (file.bad()) throw UserError("{}: can't be read", path);
  // Blocks write in the order in which they come to it.
  sort_by_turn(run.accuracy);
  sort_by_turn(run.loss);
  sort_by_turn(run.validation_accuracy);
  sort_by_turn(run.validation_loss);
  for (auto& [block, series] : run.training_loss) sort_by_turn(series);
  for (auto& [figure, blocks] : run.probes)
    for (auto& [block, series] : blocks) sort_by_turn(series);
  return true;
}

/// "Sluice 0.1.0, build 1a2b3c, LibTorch 2.13.0, on a processor".
std::string made_with(const nlohmann::json& json) {
  std::string text;
  const auto add = [&](const char* before, const char* key) {
    const auto value = json.find(key);
    if (value != json.end() && value->is_string())
      text += (text.empty() ? "" : ", ") + std::string(before) +
              value->get<std::string>();
  };
  add("Sluice ", "sluice");
  add("build ", "build");
  add("LibTorch ", "libtorch");
  if (const auto devices = json.find("devices");
      devices != json.end() && devices->is_array())
    for (const auto& device : *devices)
      if (device.is_string()) text += ", " + device.get<std::string>();
  return text;
}

/// It is told, not relied on: one that is missing or damaged is no error.
void read_provenance(const std::string& path, RunRecord& run) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) return;
  run.was_continued = json.contains("continued");
  run.made_with = made_with(json);
}

std::int64_t seed_of(const ConfigNode& config) {
  const ConfigNode* seed = config.find("seed");
  const auto* value =
      seed == nullptr ? nullptr : std::get_if<std::int64_t>(&seed->value);
  return value == nullptr ? 0 : *value;
}

/// The text of "checkpoint", "best"; empty where there is none.
std::string text_in(const ConfigNode& config, const char* table,
                    const char* key) {
  const ConfigNode* section = config.find(table);
  const ConfigNode* node = section == nullptr ? nullptr : section->find(key);
  const auto* text =
      node == nullptr ? nullptr : std::get_if<std::string>(&node->value);
  return text == nullptr ? "" : *text;
}

bool stops_early(const ConfigNode& config) {
  const ConfigNode* section = config.find("early_stop");
  const ConfigNode* node =
      section == nullptr ? nullptr : section->find("patience");
  const auto* patience =
      node == nullptr ? nullptr : std::get_if<std::int64_t>(&node->value);
  return patience != nullptr && *patience > 0;
}

/// The turn of the best point, of the first one among equals.
std::int64_t best_turn(const RunSeries& series, const Measure& measure) {
  const RunPoint* best = &series.front();
  for (const RunPoint& point : series)
    if (std::isnan(best->value) || measure.is_better(point.value, best->value))
      best = &point;
  return best->turn;
}

void find_choice(const ConfigNode& config, RunRecord& run) {
  const std::string best = text_in(config, "checkpoint", "best");
  if (run.validation_loss.empty()) {
    if (stops_early(config)) run.chosen_by_test = "early_stop";
  } else if (best == "accuracy" || best == "loss") {
    run.chosen_turn = best_turn(
        best == "loss" ? run.validation_loss : run.validation_accuracy,
        Measure{best});
  }
}

}  // namespace

std::optional<double> RunRecord::judged(const RunSeries& series) const {
  if (series.empty()) return std::nullopt;
  for (const RunPoint& point : series)
    if (point.turn == chosen_turn) return point.value;
  return series.back().value;
}

bool is_run_folder(const std::string& folder) {
  return fs::exists(folder + "/config.toml");
}

RunRecord read_run(const std::string& folder) {
  RunRecord run{.folder = folder, .state = RunRecord::State::unfinished};
  run.config = read_config_file(folder + "/config.toml");
  run.seed = seed_of(*run.config);
  read_provenance(folder + "/run.json", run);
  const std::string metrics = folder + "/metrics.jsonl";
  const bool is_whole = fs::exists(metrics) && read_metrics(metrics, run);
  find_choice(*run.config, run);
  if (is_whole && run.summary && fs::exists(folder + "/done"))
    run.state = RunRecord::State::done;
  else if (!run.error.empty())
    run.state = RunRecord::State::failed;
  return run;
}

}  // namespace sluice
