#include "experiments/report/study/run_record.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "experiments/config/files/extends.h"
#include "experiments/runs/folder/run_reader.h"
#include "lib/base/error.h"
#include "lib/metrics/early_stop.h"
#include "lib/metrics/records.h"

namespace sluice::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void add(RunSeries& to, const auto& said, std::optional<double> value) {
  if (value) to.push_back({said.turn, said.time.value_or(0), *value});
}

void take_evaluation(const records::Evaluation& evaluation, RunRecord& run) {
  run.turns = std::max(run.turns, evaluation.turn);
  if (!std::isnan(evaluation.accuracy))  // the targets are numbers
    add(run.accuracy, evaluation, evaluation.accuracy);
  add(run.loss, evaluation, evaluation.loss);
  add(run.validation_accuracy, evaluation, evaluation.validation_accuracy);
  add(run.validation_loss, evaluation, evaluation.validation_loss);
  add(run.r2, evaluation, evaluation.r2);
  add(run.validation_r2, evaluation, evaluation.validation_r2);
  add(run.bits_per_byte, evaluation, evaluation.bits_per_byte);
  add(run.known_accuracy, evaluation, evaluation.training_accuracy);
  add(run.known_loss, evaluation, evaluation.training_loss);
}

void take_layer(const records::LayerProbe& probe, RunRecord& run) {
  if (probe.replica.value_or(1) > 1) return;
  add(run.layer_probes["cosine"][probe.layer], probe, probe.cosine);
  add(run.layer_probes["norm_ratio"][probe.layer], probe, probe.norm_ratio);
  add(run.layer_probes["sign_agreement"][probe.layer], probe,
      probe.sign_agreement);
}

void take(const Record& record, RunRecord& run) {
  if (const auto train = record.as<records::Train>()) {
    // Counts applied batches, not turns: with delays, draining takes turns
    // without batches of their own.
    run.turns = std::max(run.turns, train->batch + 1);
    // Under back-propagation only the last block knows the loss.
    if (train->loss) add(run.training_loss[train->block], *train, train->loss);
  } else if (const auto evaluation = record.as<records::Evaluation>()) {
    take_evaluation(*evaluation, run);
  } else if (const auto probe = record.as<records::Probe>()) {
    if (probe->replica.value_or(1) > 1) return;
    add(run.probes["cosine"][probe->block], *probe, probe->cosine);
    add(run.probes["norm_ratio"][probe->block], *probe, probe->norm_ratio);
    add(run.probes["sign_agreement"][probe->block], *probe,
        probe->sign_agreement);
  } else if (const auto of_layer = record.as<records::LayerProbe>()) {
    take_layer(*of_layer, run);
  } else if (const auto counted = record.as<records::Staleness>()) {
    if (counted->replica.value_or(1) == 1)
      run.staleness[counted->counter][counted->block][counted->value] =
          counted->times;
  } else if (const auto block = record.as<records::Block>()) {
    // Replica 1 stands for all replicas.
    if (block->replica.value_or(1) == 1) run.blocks[block->block] = *block;
  } else if (record.as<records::Restart>()) {
    run.was_restarted = true;
  } else if (const auto forecast = record.as<records::Forecast>()) {
    run.forecasts[forecast->block] = *forecast;
  } else if (const auto stop = record.as<records::EarlyStop>()) {
    run.early_stop = stop;
  } else if (const auto summary = record.as<records::Summary>()) {
    run.summary = summary;
  } else if (const auto diverged = record.as<records::Divergence>()) {
    run.error = diverged->reason;
  }
}

void sort_by_turn(RunSeries& series) {
  std::stable_sort(
      series.begin(), series.end(),
      [](const RunPoint& a, const RunPoint& b) { return a.turn < b.turn; });
}

void read_metrics(RunReader& reader, RunRecord& run) {
  reader.read([&](const Record& record) { take(record, run); });
  // Sorted, since blocks write when they come to a turn.
  for (RunSeries* series :
       {&run.accuracy, &run.loss, &run.validation_accuracy,
        &run.validation_loss, &run.r2, &run.validation_r2, &run.bits_per_byte,
        &run.known_accuracy, &run.known_loss})
    sort_by_turn(*series);
  for (auto& [block, series] : run.training_loss) sort_by_turn(series);
  for (auto* probes : {&run.probes, &run.layer_probes})
    for (auto& [figure, places] : *probes)
      for (auto& [place, series] : places) sort_by_turn(series);
}

/// "Sluice 0.9.0, build 1a2b3c, LibTorch 2.13.0, on a processor".
std::string made_with(const Json& json) {
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
  if (const auto set = json.find("instruction_set");
      set != json.end() && set->is_string())
    text += ", " + set->get<std::string>();
  return text;
}

/// Names of the parts that made the run, each once.
std::string made_with_parts(const Json& run) {
  std::vector<std::string> texts = {made_with(run)};
  if (const auto parts = run.find("continued");
      parts != run.end() && parts->is_array())
    for (const Json& part : *parts)
      if (part.is_object()) texts.push_back(made_with(part));
  std::string all;
  for (auto text = texts.begin(); text != texts.end(); ++text)
    if (!text->empty() && std::find(texts.begin(), text, *text) == text)
      all += (all.empty() ? "" : "; then with ") + *text;
  return all;
}

/// Reads who computed the run. The report only shows it, so a file that is
/// missing or damaged is no error.
void read_provenance(const std::string& path, RunRecord& run) {
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object()) return;
  run.was_continued = json.contains("continued");
  if (const auto host = json.find("host");
      host != json.end() && host->is_string())
    run.host = host->get<std::string>();
  if (const auto started = json.find("started");
      started != json.end() && started->is_number())
    run.started = started->get<double>();
  run.made_with = made_with_parts(json);
  run.makers = makers_in(json);
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

namespace {

/// The config's count of replicas; nullptr: it doesn't say.
const ConfigNode* count_of_replicas(const RunRecord& run) {
  const ConfigNode* table = run.config ? run.config->find("replicas") : nullptr;
  return table != nullptr ? table->find("count") : nullptr;
}

}  // namespace

std::vector<std::int64_t> RunRecord::replicas_by_block() const {
  const ConfigNode* count = count_of_replicas(*this);
  const auto* list = count != nullptr
                         ? std::get_if<ConfigNode::Array>(&count->value)
                         : nullptr;
  std::vector<std::int64_t> numbers;
  if (list == nullptr) return numbers;
  for (const ConfigNode& one : *list)
    if (const auto* number = std::get_if<std::int64_t>(&one.value))
      numbers.push_back(*number);
  return numbers;
}

std::int64_t RunRecord::replicas() const {
  const std::vector<std::int64_t> by_block = replicas_by_block();
  if (!by_block.empty())
    return *std::max_element(by_block.begin(), by_block.end());
  const ConfigNode* count = count_of_replicas(*this);
  const auto* number =
      count != nullptr ? std::get_if<std::int64_t>(&count->value) : nullptr;
  return number != nullptr ? *number : 1;
}

bool is_run_folder(const std::string& folder) {
  return fs::exists(folder + "/config.toml");
}

RunRecord read_run(const std::string& folder) {
  RunRecord run{.folder = folder, .state = RunRecord::State::unfinished};
  run.config = read_config_file(folder + "/config.toml");
  run.seed = seed_of(*run.config);
  read_provenance(folder + "/run.json", run);
  RunReader metrics(folder);
  read_metrics(metrics, run);
  find_choice(*run.config, run);
  if (metrics.is_whole() && run.summary && fs::exists(folder + "/done"))
    run.state = RunRecord::State::done;
  else if (!run.error.empty())
    run.state = RunRecord::State::failed;
  return run;
}

}  // namespace sluice::report
