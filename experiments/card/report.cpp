#include "experiments/card/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/runs/folder/maker.h"
#include "lib/base/config.h"

namespace sluice {
namespace {

using Cells = std::vector<std::string>;
using Json = nlohmann::ordered_json;

/// A loss has a digit more than a percentage.
std::string figure_text(const CardRun& run, std::optional<double> figure,
                        const char* format = "{:.{}f}") {
  if (!figure) return "";
  const int digits = run.measure == "loss" ? 3 : 2;
  return fmt::format(fmt::runtime(format), *figure, digits);
}

std::string text_of(CardVerdict verdict) {
  return name_of(verdict, {{"passed", CardVerdict::passed},
                           {"failed", CardVerdict::failed},
                           {"open", CardVerdict::open}});
}

std::string state_text(const CardRow& row) {
  using Kind = RunState::Kind;
  if (row.state.kind == Kind::absent) return "not run yet";
  if (row.state.kind == Kind::other) return "another config";
  if (row.state.kind != Kind::done) return "not finished yet";
  if (row.is_trial) return "trial";
  const std::optional<CardVerdict> verdict = row.verdict();
  return verdict ? text_of(*verdict) : "run";
}

std::string text_in(const Json& json, const char* key) {
  const auto at = json.find(key);
  if (at == json.end()) return "";
  return at->is_string() ? at->get<std::string>() : at->dump();
}

/// The date in UTC.
std::string date_of(const Json& provenance) {
  const auto seconds = static_cast<std::time_t>(provenance.value("started", 0));
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(seconds));
}

/// A Markdown table with columns of equal width, so that it reads well on a
/// terminal too.
std::string table_of(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Cells& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < widths.size(); ++i)
      out += fmt::format("| {:<{}} ", rows[r][i], widths[i]);
    out += "|\n";
    if (r > 0) continue;
    for (const std::size_t width : widths)
      out += fmt::format("|{:-<{}}", "", width + 2);
    out += "|\n";
  }
  return out;
}

std::string rows_text(const CardReport& report) {
  std::vector<Cells> cells = {{"run", "measure", "published", "ours",
                               "difference", "allowed", "", "seed", "build",
                               "date"}};
  for (const CardRow& row : report.rows) {
    const CardRun& run = row.run;
    const Json& made = row.state.provenance;
    cells.push_back(
        {run.name, run.measure + (run.unit().empty() ? "" : " " + run.unit()),
         figure_text(run, run.published), figure_text(run, row.ours()),
         figure_text(run, row.difference(), "{:+.{}f}"),
         figure_text(run, run.tolerance), state_text(row),
         text_in(made, "seed"), text_in(made, "build"),
         made.empty() ? "" : date_of(made)});
  }
  return table_of(cells);
}

std::string conditions_text(const CardReport& report) {
  if (report.card.conditions.empty()) return "";
  std::vector<Cells> cells = {{"must hold", ""}};
  for (const Condition& condition : report.card.conditions)
    cells.push_back({condition.text, text_of(report.verdict_of(condition))});
  return "\n" + table_of(cells);
}

std::string devices_of(const CardReport& report) {
  std::set<std::string> devices;
  for (const CardRow& row : report.rows)
    for (const Json& device : row.state.provenance.value("devices", Json()))
      devices.insert(device.get<std::string>());
  return fmt::format("{}", fmt::join(devices, ", "));
}

/// The makers of the card's runs, where they differ; engine, threads and device
/// are left out: configs choose them.
std::string mixed_makers(const CardReport& report) {
  constexpr std::array<std::string_view, 3> kOfConfigs = {"engine", "threads",
                                                          "device"};
  std::vector<Maker> makers;
  for (const CardRow& row : report.rows)
    for (Maker& maker : makers_in(row.state.provenance))
      makers.push_back(std::move(maker));
  return mixed(makers, kOfConfigs);
}

std::string line_of(const char* label, const std::string& text) {
  return text.empty() ? "" : fmt::format("- {}: {}\n", label, text);
}

const char* conclusion(const CardReport& report) {
  if (report.is_trial())
    return "A trial: overrides have changed the numbers, so nothing passes.";
  const CardVerdict verdict = report.verdict();
  if (verdict == CardVerdict::open)
    return "Not all done: the same command goes on.";
  return verdict == CardVerdict::passed ? "Passed." : "Failed.";
}

Json json_of(std::optional<double> figure) {
  if (!figure || !std::isfinite(*figure)) return nullptr;
  return *figure;
}

Json json_of(const CardRow& row) {
  Json json = {{"name", row.run.name},
               {"measure", row.run.measure},
               {"unit", row.run.unit()},
               {"published", json_of(row.run.published)},
               {"ours", json_of(row.ours())},
               {"difference", json_of(row.difference())},
               {"tolerance", json_of(row.run.tolerance)},
               {"state", state_text(row)}};
  if (!row.state.difference.empty())
    json["other_config"] = row.state.difference;
  if (row.ours()) json["seconds"] = row.state.evaluation.time.value_or(0);
  if (!row.state.provenance.empty()) json["run"] = row.state.provenance;
  return json;
}

}  // namespace

std::optional<double> CardRow::ours() const {
  if (state.kind != RunState::Kind::done) return std::nullopt;
  if (run.measure == "loss") return state.evaluation.loss;
  const double accuracy = 100 * state.evaluation.accuracy;
  return run.measure == "error" ? 100 - accuracy : accuracy;
}

std::optional<double> CardRow::difference() const {
  const std::optional<double> figure = ours();
  if (!figure || !run.published) return std::nullopt;
  return *figure - *run.published;
}

std::optional<CardVerdict> CardRow::verdict() const {
  if (!run.tolerance || is_trial) return std::nullopt;
  const std::optional<double> away = difference();
  if (!away) return CardVerdict::open;
  return std::abs(*away) <= *run.tolerance ? CardVerdict::passed
                                           : CardVerdict::failed;
}

bool CardReport::is_trial() const {
  return std::any_of(rows.begin(), rows.end(),
                     [](const CardRow& row) { return row.is_trial; });
}

CardVerdict CardReport::verdict_of(const Condition& condition) const {
  const auto figure_of = [&](const std::string& name) -> std::optional<double> {
    for (const CardRow& row : rows)
      if (row.run.name == name) return row.ours();
    return 0;  // the condition names no run
  };
  const std::optional<double> left = figure_of(condition.left);
  const std::optional<double> right = figure_of(condition.right);
  if (!left || !right || is_trial()) return CardVerdict::open;
  return condition.holds(*left, *right) ? CardVerdict::passed
                                        : CardVerdict::failed;
}

CardVerdict CardReport::verdict() const {
  bool has_failed = false;
  for (const CardRow& row : rows) {
    if (!row.ours() || row.is_trial) return CardVerdict::open;
    has_failed = has_failed || row.verdict() == CardVerdict::failed;
  }
  for (const Condition& condition : card.conditions)
    has_failed = has_failed || verdict_of(condition) == CardVerdict::failed;
  return has_failed ? CardVerdict::failed : CardVerdict::passed;
}

std::string markdown_of(const CardReport& report) {
  const Card& card = report.card;
  return fmt::format("## {}: {}\n\n", card.name, card.title) +
         line_of("Source", card.source) + line_of("Compared", card.compares) +
         line_of("Note", card.note) + line_of("Command", report.command) +
         line_of("Machine", devices_of(report)) +
         line_of("Mixed makers", mixed_makers(report)) + "\n" +
         rows_text(report) + conditions_text(report) + "\n" +
         conclusion(report) + "\n";
}

nlohmann::ordered_json json_of(const CardReport& report) {
  const Card& card = report.card;
  Json json = {
      {"card", card.name},          {"title", card.title},
      {"source", card.source},      {"compares", card.compares},
      {"note", card.note},          {"command", report.command},
      {"trial", report.is_trial()}, {"verdict", text_of(report.verdict())}};
  for (const CardRow& row : report.rows) json["runs"].push_back(json_of(row));
  json["conditions"] = Json::array();
  for (const Condition& condition : card.conditions)
    json["conditions"].push_back(
        {{"text", condition.text},
         {"verdict", text_of(report.verdict_of(condition))}});
  return json;
}

}  // namespace sluice
