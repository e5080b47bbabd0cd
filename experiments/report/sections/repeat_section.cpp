#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/numbers.h"
#include "experiments/report/charts/chart.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/sections/sections.h"

namespace sluice::report {
namespace {

/// Plug-ins as a config lists them; numbers_of() has hashes by the names of
/// files.
ConfigNode list_of_plugins(const ConfigNode& hashes) {
  ConfigNode::Array list;
  if (const auto* table = std::get_if<ConfigNode::Table>(&hashes.value))
    for (const auto& [name, hash] : *table) {
      ConfigNode plugin;
      plugin.set("path", {.value = name});
      plugin.set("sha256", hash);
      list.push_back(std::move(plugin));
    }
  return {.value = std::move(list)};
}

/// The seed is given with the command.
ConfigNode shown_config(const ConfigNode& config, bool only_numbers) {
  ConfigNode shown = only_numbers ? numbers_of(config) : config;
  if (const ConfigNode* plugins = shown.find("plugins");
      only_numbers && plugins != nullptr)
    shown.set("plugins", list_of_plugins(*plugins));
  if (auto* table = std::get_if<ConfigNode::Table>(&shown.value))
    std::erase_if(*table,
                  [](const auto& entry) { return entry.first == "seed"; });
  return shown;
}

std::string commands_of(const StudyCell& cell) {
  std::string commands;
  for (const RunRecord& run : cell.runs)
    commands += fmt::format(
        "sluice run cell-{0}.toml seed={1} --dir cell-{0}/seed-{1}\n", cell.id,
        run.seed);
  return commands;
}

/// What made the runs of the cell, each once.
std::string made_with(const StudyCell& cell) {
  std::vector<std::string> texts;
  for (const RunRecord& run : cell.runs)
    if (!run.made_with.empty() &&
        std::find(texts.begin(), texts.end(), run.made_with) == texts.end())
      texts.push_back(run.made_with);
  return fmt::format("{}", fmt::join(texts, "; others with "));
}

std::string cell_html(const ReportInput& input, std::size_t index) {
  const StudyCell& cell = input.study.cells[index];
  std::string html = element(
      "summary", "", legend_mark(input.styles[index]) + escaped(cell.label));
  const ConfigNode* config = cell.config();
  if (config == nullptr) {
    html += element("p", "", "None of its runs has begun.");
  } else {
    html += element(
        "p", "", escaped(fmt::format("Save this as cell-{}.toml:", cell.id)));
    html += element(
        "pre", "", escaped(to_toml(shown_config(*config, input.only_numbers))));
    html += element("p", "", "Then each of these trains a run of it:");
    html += element("pre", "", escaped(commands_of(cell)));
    if (const std::string made = made_with(cell);
        !input.only_numbers && !made.empty())
      html += element("p", "class=\"soft\"",
                      escaped(fmt::format("Made with {}.", made)));
  }
  return element("details", fmt::format("id=\"cell-{}\"", escaped(cell.id)),
                 html) +
         "\n";
}

}  // namespace

std::string repeat_section(const ReportInput& input) {
  std::string html = element(
      "p", "class=\"soft\"",
      input.only_numbers
          ? "What determines the numbers of each cell, with every default "
            "written out."
          : "The config of each cell, with every default written out.");
  for (std::size_t i = 0; i < input.study.cells.size(); ++i)
    html += cell_html(input, i);
  return html;
}

}  // namespace sluice::report
