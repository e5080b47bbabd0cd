#include "experiments/config/presets/published.h"

#include <cctype>
#include <cstddef>
#include <utility>

#include "experiments/config/files/toml.h"
#include "lib/base/config.h"
#include "sluice_coverage.h"

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

PublishedSystem read_system(Fields& fields) {
  PublishedSystem system;
  std::string study;
  std::string why;
  fields.key("name", system.name, {});
  fields.key("paper", system.paper, {});
  fields.key("state", system.state, {});
  fields.key("keys", system.keys, {});
  fields.key("config", system.config, {});
  fields.key("note", system.note, {});
  fields.key("rows", system.rows, {});
  fields.key("why", why, {});
  fields.key("tests", system.tests, {});
  fields.key("study", study, {});
  if (system.note.empty()) system.note = std::move(why);
  return system;
}

}  // namespace

std::vector<PublishedSystem> published_systems() {
  const ConfigNode file = parse_toml(kSluiceCoverage, "scripts/coverage.toml");
  std::vector<PublishedSystem> systems;
  Fields top(&file, "");
  std::vector<std::string> basics;
  top.key("basics", basics, {});
  top.list("group", "", [&](Fields& group, std::int64_t) {
    std::string title;
    group.key("title", title, {});
    group.list("system", "", [&](Fields& fields, std::int64_t index) {
      PublishedSystem system = read_system(fields);
      if (index >= 0) systems.push_back(std::move(system));
    });
  });
  top.finish();
  return systems;
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
