#include "experiments/config/manual/manual.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kIndent = 2;
/// The meaning of a key gets at least so much of a line.
constexpr std::size_t kLeastText = 30;

/// A table of the config and its keys.
struct KeyGroup {
  std::string table = {};  ///< "optimizer", "optimizer.groups[]", or empty
  std::vector<const KeyDoc*> keys = {};
};

bool is_table(const KeyDoc& key) {
  return key.type == "table" || key.type == "list of tables";
}

/// Prefix of the keys below a table.
std::string prefix_of(const KeyDoc& table) {
  return table.path + (table.type == "table" ? "" : "[]");
}

/// "optimizer" of "optimizer.lr" or "optimizer.clip"; empty at the top.
std::string_view parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

bool is_within(std::string_view table, std::string_view outer) {
  return table == outer ||
         (table.starts_with(outer) && table[outer.size()] == '.');
}

std::string_view name_of(const KeyDoc& key) {
  const std::size_t dot = key.path.rfind('.');
  return std::string_view(key.path).substr(dot + 1);
}

/// Breaks `text` into lines of at most `width`.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines = {""};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    while (word.size() > width) {
      if (!lines.back().empty()) lines.emplace_back();
      lines.back() = word.substr(0, width);
      word.erase(0, width);
    }
    if (word.empty()) continue;
    if (lines.back().empty()) {
      lines.back() = word;
    } else if (lines.back().size() + 1 + word.size() <= width) {
      lines.back() += ' ' + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

/// "sgd|adam" as "sgd | adam", which can be wrapped.
std::string spaced(const std::string& limits) {
  std::string result;
  for (const char c : limits) {
    if (c == '|') {
      result += " | ";
    } else {
      result += c;
    }
  }
  return result;
}

std::string meaning(const KeyDoc& key) {
  std::string notes;
  const auto add = [&](std::string_view before, const std::string& note) {
    if (note.empty()) return;
    notes += fmt::format("{}{}{}", notes.empty() ? "" : "; ", before, note);
  };
  add("default ", key.default_value);
  add("in ", key.unit);
  add("", spaced(key.limits));
  if (notes.empty()) return key.text;
  return fmt::format("{} ({})", key.text, notes);
}

void write_row(std::string& out, const std::string& head,
               const std::string& text) {
  std::string line = head;
  for (const std::string& piece : wrapped(text, kColumns - head.size())) {
    line += piece;
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
    line.assign(head.size(), ' ');
  }
}

void write_keys(std::string& out, const std::vector<const KeyDoc*>& keys) {
  std::size_t names = 0;
  std::size_t types = 0;
  for (const KeyDoc* key : keys) {
    names = std::max(names, name_of(*key).size());
    types = std::max(types, key->type.size());
  }
  const std::size_t head = kIndent + names + 2 + types + 2;
  const bool fits = head + kLeastText <= kColumns;
  for (const KeyDoc* key : keys) {
    if (fits) {
      write_row(out,
                fmt::format("{:{}}{:<{}}  {:<{}}  ", "", kIndent, name_of(*key),
                            names, key->type, types),
                meaning(*key));
    } else {
      out += fmt::format("{:{}}{}\n", "", kIndent, name_of(*key));
      write_row(out, std::string(kIndent + 4, ' '),
                fmt::format("{}: {}", key->type, meaning(*key)));
    }
  }
}

void write_heading(std::string& out, const std::string& table,
                   const std::vector<KeyDoc>& keys) {
  if (table.empty()) return;
  const auto doc = std::find_if(keys.begin(), keys.end(), [&](const auto& key) {
    return is_table(key) && prefix_of(key) == table;
  });
  if (doc == keys.end()) return;
  if (!out.empty()) out += '\n';
  const bool is_list = doc->type != "table";
  out += is_list ? fmt::format("[[{}]]\n", doc->path)
                 : fmt::format("[{}]\n", doc->path);
  if (!doc->text.empty()) write_row(out, "", doc->text);
}

/// The group of a table, which is added behind those of its outer table.
KeyGroup& group_of(std::string_view table, std::vector<KeyGroup>& groups) {
  const auto is_it = [&](const KeyGroup& group) {
    return group.table == table;
  };
  const auto at = std::find_if(groups.begin(), groups.end(), is_it);
  if (at != groups.end()) return *at;
  const std::string_view outer = parent_of(table);
  if (outer.empty())
    return groups.emplace_back(KeyGroup{std::string(table), {}});
  group_of(outer, groups);
  const auto last = std::find_if(
      groups.rbegin(), groups.rend(),
      [&](const KeyGroup& group) { return is_within(group.table, outer); });
  return *groups.insert(last.base(), KeyGroup{std::string(table), {}});
}

/// Keys by table, in the order in which they first appear; the top's keys
/// first, and a table's before those of the tables in it.
std::vector<KeyGroup> grouped(const std::vector<KeyDoc>& keys) {
  std::vector<KeyGroup> groups = {KeyGroup{}};
  for (const KeyDoc& key : keys) {
    if (is_table(key)) {
      group_of(prefix_of(key), groups);
    } else {
      group_of(parent_of(key.path), groups).keys.push_back(&key);
    }
  }
  return groups;
}

}  // namespace

std::string config_manual(const std::vector<KeyDoc>& keys) {
  std::string out;
  for (const KeyGroup& group : grouped(keys)) {
    write_heading(out, group.table, keys);
    write_keys(out, group.keys);
  }
  return out;
}

}  // namespace sluice
