#include "experiments/program/completion.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "experiments/config/manual/catalog.h"
#include "experiments/config/presets/published.h"
#include "experiments/program/help_topics.h"

namespace sluice {
namespace {

using Ways = std::vector<std::string>;

const CommandWords* command_called(std::span<const CommandWords> commands,
                                   std::string_view name) {
  for (const CommandWords& command : commands)
    if (command.name == name) return &command;
  return nullptr;
}

Ways names_of_commands(std::span<const CommandWords> commands) {
  Ways ways;
  for (const CommandWords& command : commands) ways.push_back(command.name);
  return ways;
}

void add_once(const std::string& way, Ways& ways) {
  if (std::find(ways.begin(), ways.end(), way) == ways.end())
    ways.push_back(way);
}

/// Words that may follow `list`.
Ways ways_to_list(std::span<const std::string> before) {
  Ways ways;
  const std::vector<ListedTable> tables = listed_tables();
  if (before.empty())
    for (const ListedTable& table : tables) ways.push_back(table.kind);
  if (before.size() != 1) return ways;
  const ListedTable* table = find_table(tables, before[0]);
  if (table == nullptr) return ways;
  for (const ListedRow& row : table->rows) ways.push_back(row.name);
  if (table->kind == "methods")
    for (const PresetRow& row : presets()) ways.emplace_back(row.name);
  return ways;
}

/// Whether key=value on a command line can set it.
bool is_value(const KeyDoc& doc) {
  return doc.type != "table" && doc.type != "list of tables" &&
         doc.path.find("[]") == std::string::npos;
}

/// Words that may follow `help`.
Ways ways_to_help(std::span<const CommandWords> commands,
                  std::span<const std::string> before) {
  Ways ways;
  if (before.empty()) {
    for (const HelpTopic& topic : help_topics()) ways.emplace_back(topic.name);
    for (const std::string& name : names_of_commands(commands))
      add_once(name, ways);
  }
  if (before.size() == 1 && before[0] == "config")
    for (const KnownKey& key : known_keys()) add_once(key.doc.path, ways);
  return ways;
}

/// "boundary.2." of "boundary.2.pol", where that is one for all: its keys are
/// those of "boundary.".
struct NumberedPart {
  std::string written = {};
  std::string for_all = {};
};

NumberedPart numbered_part(const std::string& typed) {
  // A letter behind the last dot makes the text the path of a key.
  const std::string path = typed + "x";
  const std::string all = key_of_all(path);
  if (all == path) return {};
  const std::size_t table = all.find('.') + 1;
  const std::size_t number = path.find('.', table) + 1;
  return {path.substr(0, number), all.substr(0, table)};
}

/// Keys that may follow, with a "=" behind each.
Ways ways_of_keys(const std::string& typed) {
  const NumberedPart part = numbered_part(typed);
  Ways ways;
  for (const KnownKey& key : known_keys()) {
    if (!is_value(key.doc)) continue;
    std::string path = key.doc.path;
    if (!part.for_all.empty()) {
      if (!path.starts_with(part.for_all)) continue;
      path.replace(0, part.for_all.size(), part.written);
    }
    add_once(path + "=", ways);
  }
  return ways;
}

/// Completions of the value of the key written as `written`.
Ways ways_of_values(const std::string& written) {
  const std::string path = key_of_all(written);
  const std::string begin = written + "=";
  Ways ways;
  for (const KnownKey& key : known_keys()) {
    if (key.doc.path != path) continue;
    for (const std::string& value : key.doc.choices)
      add_once(begin + value, ways);
    if (key.doc.type == "boolean")
      for (const char* value : {"true", "false"}) add_once(begin + value, ways);
  }
  return ways;
}

/// Behind the first argument of a command, which is a file or folder; that of
/// --resume is one too.
Ways ways_of_settings(std::span<const std::string> before,
                      const std::string& last) {
  const bool has_file =
      std::any_of(before.begin(), before.end(), [](const std::string& word) {
        return word == "--resume" ||
               (!word.starts_with('-') && word.find('=') == word.npos);
      });
  if (!has_file) return {};
  const std::size_t equals = last.find('=');
  return equals == std::string::npos ? ways_of_keys(last)
                                     : ways_of_values(last.substr(0, equals));
}

/// All words that may follow. The typed part of the last word matters for keys
/// and values alone.
Ways all_ways(std::span<const CommandWords> commands,
              std::span<const std::string> words) {
  const std::string& last = words.back();
  std::span<const std::string> before = words.first(words.size() - 1);
  if (before.empty()) return names_of_commands(commands);
  const CommandWords* command = command_called(commands, before[0]);
  if (command == nullptr) return {};
  before = before.subspan(1);
  if (!command->commands.empty()) {  // `data order`
    if (before.empty()) return names_of_commands(command->commands);
    command = command_called(command->commands, before[0]);
    if (command == nullptr) return {};
    before = before.subspan(1);
  }
  if (last.starts_with('-')) return command->options;
  if (command->name == "list") return ways_to_list(before);
  if (command->name == "help") return ways_to_help(commands, before);
  if (command->name == "completion") return {"bash", "zsh", "fish"};
  return command->takes_keys ? ways_of_settings(before, last) : Ways{};
}

}  // namespace

std::vector<std::string> completions(std::span<const CommandWords> commands,
                                     std::span<const std::string> words) {
  if (words.empty()) return names_of_commands(commands);
  Ways ways = all_ways(commands, words);
  std::erase_if(ways, [&](const std::string& way) {
    return !way.starts_with(words.back());
  });
  return ways;
}

}  // namespace sluice
