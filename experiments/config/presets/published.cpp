#include "experiments/config/presets/published.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "experiments/config/files/toml.h"
#include "lib/base/config.h"
#include "lib/base/error.h"
#include "sluice_published.h"

namespace sluice {
namespace {

/// Letters and digits of each word, in lower case.
std::vector<std::string> lower_words(std::string_view text) {
  std::vector<std::string> words = {""};
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      words.back() += static_cast<char>(std::tolower(byte));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// What is written under a dotted path; nullptr: nothing.
const ConfigNode* find_path(const ConfigNode* node, std::string_view path) {
  while (node != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    node = node->find(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return node;
}

std::optional<PublishedConfig> read_config(const ConfigText& text) {
  const std::string place =
      fmt::format("experiments/configs/{}.toml", text.file);
  ConfigNode root = parse_toml(text.text, place);
  std::optional<About> about = take_about(root);
  if (!about) return std::nullopt;
  PublishedConfig config{.file = std::string(text.file),
                         .about = std::move(*about)};
  for (const std::string& path : config.about.keys) {
    const ConfigNode* node = find_path(&root, path);
    if (node == nullptr)
      throw UserError("{}: about.keys: the file has no key '{}'", place, path);
    config.keys.set_path(path, *node);
  }
  return config;
}

/// Each key of the table and its value, in a line.
std::string key_lines(const ConfigNode& table) {
  std::string lines;
  if (const auto* keys = std::get_if<ConfigNode::Table>(&table.value))
    for (const auto& [key, node] : *keys)
      lines += fmt::format("{}{} = {}", lines.empty() ? "" : "\n", key,
                           node.literal());
  return lines;
}

PublishedSystem system_of(const PublishedConfig& config) {
  const About& about = config.about;
  PublishedSystem system{.name = about.name,
                         .paper = about.paper,
                         .keys = key_lines(config.keys),
                         .config = config.file,
                         .note = about.note,
                         .rows = about.rows,
                         .tests = about.tests};
  if (!about.summary.empty())
    system.rows.insert(system.rows.begin(),
                       fmt::format("methods {}", config.name()));
  return system;
}

PublishedSystem read_system(Fields& fields) {
  PublishedSystem system;
  std::string study;
  fields.key("name", system.name, {});
  fields.key("paper", system.paper, {});
  fields.key("state", system.state, {});
  fields.key("keys", system.keys, {});
  fields.key("note", system.note, {});
  fields.key("rows", system.rows, {});
  fields.key("tests", system.tests, {});
  fields.key("study", study, {});
  return system;
}

/// Systems of scripts/coverage.toml.
struct CoverageFile {
  std::vector<std::string> groups = {};
  std::vector<PublishedSystem> systems = {};
};

CoverageFile read_coverage(std::string_view text) {
  const ConfigNode root = parse_toml(text, "scripts/coverage.toml");
  CoverageFile file;
  Fields top(&root, "");
  std::vector<std::string> basics;
  top.key("basics", basics, {});
  top.list("group", "", [&](Fields& group, std::int64_t group_index) {
    std::string title;
    group.key("title", title, {});
    if (group_index >= 0) file.groups.push_back(title);
    group.list("system", "", [&](Fields& fields, std::int64_t index) {
      PublishedSystem system = read_system(fields);
      if (index >= 0) file.systems.push_back(std::move(system));
    });
  });
  top.finish();
  return file;
}

}  // namespace

std::string_view PublishedConfig::name() const {
  return std::string_view(file).substr(file.rfind('/') + 1);
}

std::string PublishedConfig::config() const {
  return to_toml(keys);
}

PublishedSystems read_published_systems(std::string_view coverage,
                                        std::span<const ConfigText> configs) {
  CoverageFile file = read_coverage(coverage);
  PublishedSystems published;
  const auto group_of = [&](const PublishedConfig& config) {
    return std::find(file.groups.begin(), file.groups.end(),
                     config.about.group);
  };
  for (const ConfigText& text : configs) {
    std::optional<PublishedConfig> config = read_config(text);
    if (!config) continue;
    if (group_of(*config) == file.groups.end())
      throw UserError(
          "experiments/configs/{}.toml: about.group: there is no '{}' in "
          "scripts/coverage.toml",
          text.file, config->about.group);
    published.configs.push_back(std::move(*config));
  }
  std::sort(published.configs.begin(), published.configs.end(),
            [&](const PublishedConfig& a, const PublishedConfig& b) {
              return std::tuple(group_of(a), a.name()) <
                     std::tuple(group_of(b), b.name());
            });
  std::map<std::string_view, std::string_view> files;  // by method's name
  for (const PublishedConfig& config : published.configs) {
    const auto [other, is_new] = files.emplace(config.name(), config.file);
    if (!is_new && !config.about.summary.empty())
      throw UserError(
          "experiments/configs/{}.toml: the method '{}' is "
          "experiments/configs/{}.toml already: name one of the files "
          "otherwise",
          config.file, config.name(), other->second);
    if (!config.about.name.empty())
      published.systems.push_back(system_of(config));
  }
  std::move(file.systems.begin(), file.systems.end(),
            std::back_inserter(published.systems));
  return published;
}

const PublishedSystems& published_systems() {
  static const PublishedSystems all =
      read_published_systems(kCoverage, kPublishedConfigs);
  return all;
}

std::span<const PresetRow> presets() {
  static const std::vector<PresetRow> rows = [] {
    std::vector<PresetRow> named;
    for (const PublishedConfig& config : published_systems().configs)
      if (!config.about.summary.empty())
        named.push_back({config.name(), config.about.summary, &config});
    return named;
  }();
  return rows;
}

NameMatch name_match(std::string_view name, std::string_view typed) {
  constexpr std::size_t kShortestBeginning = 3;
  std::string wanted;
  for (const std::string& word : lower_words(typed)) wanted += word;
  if (wanted.empty()) return NameMatch::none;
  NameMatch best = NameMatch::none;
  const std::vector<std::string> words = lower_words(name);
  for (std::size_t first = 0; first < words.size(); ++first) {
    std::string run;  // of words from the first on
    for (std::size_t next = first; next < words.size(); ++next) {
      run += words[next];
      if (run == wanted) return NameMatch::whole;
    }
    if (wanted.size() >= kShortestBeginning && run.starts_with(wanted))
      best = NameMatch::begins;
  }
  return best;
}

}  // namespace sluice
