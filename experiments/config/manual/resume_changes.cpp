#include "experiments/config/manual/resume_changes.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/manual/catalog.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

/// Keys that --resume itself writes.
constexpr std::string_view kSince = "replicas.since";

/// A value of a config that is no table.
struct Leaf {
  std::string path = {};
  const ConfigNode* node = nullptr;
};

void add_leaves(const ConfigNode& node, const std::string& path,
                std::vector<Leaf>& leaves) {
  const auto* table = std::get_if<ConfigNode::Table>(&node.value);
  if (table == nullptr) {
    leaves.push_back({path, &node});
    return;
  }
  for (const auto& [key, below] : *table)
    add_leaves(below, path.empty() ? key : path + "." + key, leaves);
}

std::vector<Leaf> leaves_of(const ConfigNode& config) {
  std::vector<Leaf> leaves;
  add_leaves(config, "", leaves);
  return leaves;
}

const ConfigNode* find_path(const ConfigNode& config, std::string_view path) {
  const ConfigNode* node = &config;
  while (node != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    node = node->find(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return node;
}

std::optional<double> number_in(const ConfigNode& node) {
  if (const auto* number = std::get_if<double>(&node.value)) return *number;
  if (const auto* whole = std::get_if<std::int64_t>(&node.value))
    return static_cast<double>(*whole);
  return std::nullopt;
}

bool are_same(const ConfigNode& a, const ConfigNode& b) {
  const auto left = number_in(a);
  return (left && left == number_in(b)) || a == b;
}

bool is_text(const ConfigNode& node) {
  if (const auto* list = std::get_if<ConfigNode::Array>(&node.value))
    return !list->empty() && std::all_of(list->begin(), list->end(), is_text);
  return std::holds_alternative<std::string>(node.value);
}

std::string shortened(std::string text) {
  constexpr std::size_t kMost = 100;
  if (text.size() > kMost) text = text.substr(0, kMost - 3) + "...";
  return text;
}

class Comparison {
 public:
  Comparison(const ConfigNode& before, const Experiment& now)
      : before_(before), now_(now.resolved) {
    for (const KeyDoc& doc : now.manual)
      defaults_.emplace(key_of_all(doc.path), doc.default_value);
    const ConfigNode* was = before.find("blocks");
    const ConfigNode* is = now_.find("blocks");
    is_same_cut_ = was == nullptr || is == nullptr || *was == *is;
  }

  std::vector<KeyChange> changes() {
    for (const Leaf& leaf : leaves_of(now_)) {
      if (leaf.path.starts_with(kSince)) continue;
      if (key_of_all(leaf.path) == leaf.path || is_same_cut_) compare(leaf);
    }
    if (!is_same_cut_) compare_sets();
    return merged();
  }

 private:
  void add(const std::string& path, const std::string& before,
           const ConfigNode& now, const std::string& now_text) {
    const ResumeClass* row = find_resume_class(path, is_text(now));
    found_.push_back({path, shortened(before), shortened(now_text),
                      now.origin.text(),
                      row == nullptr ? ResumeClass() : *row});
  }

  void compare(const Leaf& leaf) {
    const ConfigNode* was = find_path(before_, leaf.path);
    if (was != nullptr) {
      if (!are_same(*was, *leaf.node))
        add(leaf.path, was->literal(), *leaf.node, leaf.node->literal());
      return;
    }
    // A value without an override is younger than the run, or was pinned since.
    if (leaf.node->origin.layer < kCommandLineLayer) return;
    const auto usual = defaults_.find(key_of_all(leaf.path));
    const bool is_default =
        usual != defaults_.end() && usual->second == leaf.node->literal();
    if (!is_default) add(leaf.path, "absent", *leaf.node, leaf.node->literal());
  }

  /// Values of blocks and boundaries, whose numbers mean others now.
  void compare_sets() {
    std::map<std::string, std::set<std::string>> was;
    std::map<std::string, std::set<std::string>> is;
    std::map<std::string, const ConfigNode*> nodes;
    const auto note = [](const ConfigNode& config, const auto& take) {
      for (const Leaf& leaf : leaves_of(config))
        if (const std::string key = key_of_all(leaf.path); key != leaf.path)
          take(key, leaf);
    };
    note(before_, [&](const std::string& key, const Leaf& leaf) {
      was[key].insert(leaf.node->literal());
    });
    note(now_, [&](const std::string& key, const Leaf& leaf) {
      is[key].insert(leaf.node->literal());
      nodes.emplace(key, leaf.node);
    });
    for (const auto& [key, values] : is)
      if (const auto old = was.find(key);
          old != was.end() && old->second != values)
        add(key, fmt::format("{}", fmt::join(old->second, ", ")), *nodes[key],
            fmt::format("{}", fmt::join(values, ", ")));
  }

  /// Merges equal changes of several blocks into one.
  std::vector<KeyChange> merged() const {
    std::vector<KeyChange> all;
    for (const KeyChange& change : found_) {
      const std::string key = key_of_all(change.path);
      const auto is_alike = [&](const KeyChange& other) {
        return key_of_all(other.path) == key && other.before == change.before &&
               other.now == change.now;
      };
      if (key == change.path ||
          std::count_if(found_.begin(), found_.end(), is_alike) < 2) {
        all.push_back(change);
      } else if (std::none_of(all.begin(), all.end(), is_alike)) {
        all.push_back(change);
        all.back().path = key;
      }
    }
    return all;
  }

  const ConfigNode& before_;
  const ConfigNode& now_;
  std::map<std::string, std::string> defaults_;
  bool is_same_cut_ = true;
  std::vector<KeyChange> found_;
};

}  // namespace

std::vector<KeyChange> changed_keys(const ConfigNode& before,
                                    const Experiment& now) {
  return Comparison(before, now).changes();
}

std::string values_text(const KeyChange& change) {
  return fmt::format("{} = {}, before {}", change.path, change.now,
                     change.before);
}

std::string text_of(const KeyChange& change, std::int64_t turn) {
  const std::string what =
      change.row.on_resume == ResumeEffect::free
          ? "free, no number changes"
          : fmt::format("anew, other numbers from turn {} on", turn);
  const std::string_view why = change.row.meaning;
  return fmt::format("{} ({}{}{})", values_text(change), what,
                     why.empty() ? "" : ": ", why);
}

void refuse_changes(std::span<const KeyChange> changes,
                    const std::string& checkpoint) {
  for (const KeyChange& change : changes) {
    if (change.row.on_resume != ResumeEffect::refused) continue;
    throw UserError(
        "{}: {}: is {}, and the run was trained with {}: {}; leave it out, or "
        "begin a run with initial_weights = '{}'",
        change.place, change.path, change.now, change.before,
        change.row.meaning, checkpoint);
  }
}

}  // namespace sluice
