// `sluice help`.
#include "experiments/program/help_topics.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "experiments/config/files/about.h"
#include "experiments/config/manual/catalog.h"
#include "experiments/config/manual/manual.h"
#include "experiments/config/manual/resume_classes.h"
#include "experiments/config/presets/published.h"
#include "experiments/program/commands.h"
#include "experiments/runs/faults/injection.h"
#include "experiments/sweep/ask_tell.h"
#include "experiments/sweep/file/sweep_table.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"

namespace sluice {
namespace {

/// The keys of a row that only it has, under its name.
void print_keys_of(const ListedTable& table) {
  for (const ListedRow& row : table.rows) {
    if (row.keys.empty()) continue;
    std::vector<KeyDoc> docs;
    for (const KnownKey& key : row.keys) docs.push_back(key.doc);
    fmt::print("\nWith {}\n{}",
               table.key.empty() ? row.name : saying(table.key, row.name),
               config_manual(with_resume_classes(docs)));
  }
}

void help_config() {
  std::vector<KeyDoc> always;
  for (const KnownKey& key : known_keys())
    if (key.with.empty()) always.push_back(key.doc);
  fmt::print("{}", config_manual(with_resume_classes(always)));
  for (const ListedTable& table : listed_tables()) print_keys_of(table);
  fmt::print("\n{}", config_manual(about_keys()));
  fmt::print("{}", resume_classes_text());
  fmt::print(
      R"(
A file lies over those that it extends, key=value over files, a sweep's cell over
both. Where a later one changes a name, a policy or a schedule, options of the
former choice that the new one doesn't know are dropped, and a line says which.
Where it changes blocks, [boundary.N] and [optimizer.N] of earlier ones are left
out when there is no N, and a line says so. [boundary.last] and [optimizer.last]
are the last one, whatever the cut. "${{optimizer.lr}}" in a string stands for what
the config says under that key, when all of this is done.

sluice help config KEY explains one key, sluice config FILE prints all values.
)");
}

void help_sweep() {
  fmt::print("{}{}", sweep::sweep_manual(), sweep::ask_tell_manual());
}

void help_inject() {
  fmt::print("{}", injections_manual());
}

std::string indented_lines(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    result += line.empty() ? "\n" : "    " + line + "\n";
  return result;
}

std::string text_of(const PublishedSystem& system) {
  std::string text = system.name;
  if (!system.paper.empty()) text += fmt::format(" ({})", system.paper);
  text += "\n";
  if (!system.is_built())
    text += system.state == "not yet" ? "Not there yet.\n" : "Left out.\n";
  if (!system.keys.empty()) text += "\n" + indented_lines(system.keys) + "\n";
  if (!system.config.empty())
    text +=
        fmt::format("A config: experiments/configs/{}.toml\n", system.config);
  for (const std::string& row : system.rows)
    text += fmt::format("See: sluice list {}\n", row);
  if (!system.note.empty()) text += fmt::format("Note: {}\n", system.note);
  return text;
}

/// A row of a table of `sluice list`: "heads predsim".
struct NamedRow {
  std::string kind = {};
  std::string name = {};
  std::string summary = {};
};

std::vector<NamedRow> named_rows() {
  std::vector<NamedRow> rows;
  for (const ListedTable& table : listed_tables())
    for (const ListedRow& row : table.rows)
      rows.push_back({table.kind, row.name, row.summary});
  for (const PresetRow& row : presets())
    rows.push_back(
        {"methods", std::string(row.name), std::string(row.summary)});
  return rows;
}

std::string systems_matching(NameMatch match, const std::string& name,
                             const std::vector<PublishedSystem>& systems) {
  std::string text;
  for (const PublishedSystem& system : systems)
    if (name_match(system.name, name) == match)
      text += (text.empty() ? "" : "\n") + text_of(system);
  return text;
}

/// Rows with that name, then rows whose names begin with it.
std::string rows_matching(const std::string& name,
                          const std::vector<NamedRow>& rows) {
  std::string text;
  for (const NameMatch match : {NameMatch::whole, NameMatch::begins})
    for (const NamedRow& row : rows)
      if (name_match(row.name, name) == match)
        text += fmt::format("  sluice list {} {}: {}\n", row.kind, row.name,
                            row.summary);
  return text;
}

/// A part under its heading, if there is any, behind a blank line.
void append_part(std::string_view heading, const std::string& part,
                 std::string& text) {
  if (part.empty()) return;
  text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", heading, part);
}

bool is_about(const KnownKey& key, std::string_view asked) {
  const std::string_view path = key.doc.path;
  return path == asked || key_name(path) == asked;
}

/// "optimizer" has "optimizer.lr", and "model.layer" has "model.layer[].type".
bool is_below(std::string_view path, std::string_view table) {
  return path.starts_with(table) && path.size() > table.size() &&
         (path[table.size()] == '.' || path[table.size()] == '[');
}

}  // namespace

std::span<const HelpTopic> help_topics() {
  static constexpr HelpTopic kTopics[] = {
      {"config", "every key of a config; config KEY: one of them", help_config},
      {"sweep", "the table [sweep] of a config, and the protocol of --ask-tell",
       help_sweep},
      {"plan", "what plan --compare and what-if predict", help_plan_command},
      {"inject", "every fault of run --inject", help_inject},
  };
  return kTopics;
}

std::string text_about_key(const std::string& key) {
  std::vector<KnownKey> known = known_keys();
  for (const KeyDoc& doc : about_keys()) known.push_back({doc, {}});
  return text_about_key(key, known);
}

std::string text_about_key(const std::string& written,
                           std::span<const KnownKey> known) {
  const std::string key = key_of_all(written);
  std::vector<KnownKey> found;
  for (const KnownKey& each : known)
    if (is_about(each, key)) found.push_back(each);
  for (const KnownKey& each : known)
    if (is_below(each.doc.path, key)) found.push_back(each);
  if (found.empty()) {
    std::vector<std::string> names;
    for (const KnownKey& each : known) names.push_back(each.doc.path);
    throw UserError("there is no key '{}'{}; sluice help config has all",
                    written, perhaps(key, names));
  }
  std::string text;
  for (const KnownKey& each : found) {
    // A key in one paragraph, under its whole name.
    KeyDoc doc = with_resume_classes(docs_of({&each, 1})).front();
    text += doc.path + "\n";
    doc.path = doc.path.substr(doc.path.rfind('.') + 1);
    text += config_manual({doc});
    if (each.doc.limits.empty() && !each.doc.choices.empty())
      text += fmt::format("      one of: {}\n", joined(each.doc.choices));
  }
  return text;
}

std::string text_about(const std::string& name,
                       const std::vector<std::string>& others) {
  const std::vector<NamedRow> rows = named_rows();
  const std::vector<PublishedSystem>& systems = published_systems().systems;
  const std::string listed = rows_matching(name, rows);
  std::string keys;
  std::vector<std::string> paths;
  for (const KnownKey& key : known_keys()) {
    const std::string& path = key.doc.path;
    if (std::find(paths.begin(), paths.end(), path) != paths.end()) continue;
    paths.push_back(path);
    if (is_about(key, name))
      keys += fmt::format("  sluice help config {}\n", path);
  }
  std::string text = systems_matching(NameMatch::whole, name, systems);
  if (text.empty() && listed.empty() && keys.empty())
    text = systems_matching(NameMatch::begins, name, systems);
  append_part("In the program's tables:", listed, text);
  append_part("Keys of a config:", keys, text);
  if (!text.empty()) return text;
  std::vector<std::string> names = others;
  for (const ListedTable& table : listed_tables()) names.push_back(table.kind);
  for (const NamedRow& row : rows) names.push_back(row.name);
  names.insert(names.end(), paths.begin(), paths.end());
  throw UserError("nothing is called '{}'{}; see sluice help and sluice list",
                  name, perhaps(name, names));
}

}  // namespace sluice
