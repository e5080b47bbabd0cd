#include "experiments/config/manual/described_keys.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"

namespace sluice {

std::vector<KeyDoc> manual_with(const ConfigNode& table,
                                const std::string& path,
                                const Describe& describe) {
  Fields fields(&table, path);
  try {
    describe(fields);
  } catch (const UserError&) {
    return fields.manual();
  }
  return fields.manual();
}

ConfigNode table_saying(std::string_view path, const std::string& value) {
  if (path.empty()) return {.value = value};
  const std::size_t dot = path.find('.');
  std::string_view name = path.substr(0, dot);
  ConfigNode below = table_saying(
      dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1),
      value);
  if (name.ends_with("[]")) {
    name.remove_suffix(2);
    below = {.value = ConfigNode::Array{std::move(below)}};
  }
  ConfigNode table = {.value = ConfigNode::Table{}};
  table.set(name, std::move(below));
  return table;
}

std::string saying(std::string_view key, std::string_view value) {
  return fmt::format("{} = {}", key, toml_string(value));
}

bool has_path(std::span<const KeyDoc> docs, std::string_view path) {
  return std::any_of(docs.begin(), docs.end(),
                     [&](const KeyDoc& doc) { return doc.path == path; });
}

bool has_path(std::span<const KnownKey> keys, std::string_view path) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](const KnownKey& key) { return key.doc.path == path; });
}

void add_key(const KnownKey& key, std::vector<KnownKey>& known) {
  const auto same =
      std::find_if(known.begin(), known.end(),
                   [&](const KnownKey& old) { return old.doc == key.doc; });
  if (same == known.end()) {
    known.push_back(key);
    return;
  }
  if (same->with.empty()) return;  // it always is there
  for (const std::string& with : key.with)
    if (std::find(same->with.begin(), same->with.end(), with) ==
        same->with.end())
      same->with.push_back(with);
}

namespace {

/// What a choice brings: 'model.layer[].type = "conv"', and all keys then.
struct ChoiceKeys {
  std::string with = {};
  std::vector<KeyDoc> keys = {};
};

/// Every value of the choices that a description has of its own ("type" of a
/// layer), alone: those whose values it lists itself. What names a row of
/// another table doesn't list them; that table does. A value that can't stand
/// alone is left out.
std::vector<ChoiceKeys> choices_in(const std::vector<KeyDoc>& docs,
                                   const std::string& path,
                                   const Describe& describe) {
  std::vector<ChoiceKeys> all;
  for (const KeyDoc& doc : docs) {
    if (doc.limits.empty()) continue;
    const std::string_view below =
        std::string_view(doc.path).substr(path.size() + 1);
    for (const std::string& value : doc.choices) {
      const ConfigNode table = table_saying(below, value);
      Fields fields(&table, path);
      try {
        describe(fields);
      } catch (const UserError&) {
        continue;
      }
      all.push_back({saying(doc.path, value), fields.manual()});
    }
  }
  return all;
}

}  // namespace

std::vector<KnownKey> keys_below(const std::string& path,
                                 const std::string& with,
                                 const Describe& describe) {
  const std::vector<KeyDoc> plain =
      manual_with({.value = ConfigNode::Table{}}, path, describe);
  const std::vector<ChoiceKeys> choices = choices_in(plain, path, describe);
  const auto always_is_there = [&](const KeyDoc& doc) {
    return has_path(plain, doc.path) &&
           std::all_of(choices.begin(), choices.end(),
                       [&](const ChoiceKeys& chosen) {
                         return has_path(chosen.keys, doc.path);
                       });
  };
  std::vector<KnownKey> known;
  for (const KeyDoc& doc : plain)
    if (always_is_there(doc)) add_key({doc, {with}}, known);
  for (const ChoiceKeys& chosen : choices)
    for (const KeyDoc& doc : chosen.keys)
      if (!always_is_there(doc)) add_key({doc, {chosen.with}}, known);
  return known;
}

}  // namespace sluice
