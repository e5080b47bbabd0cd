#include "experiments/api/network_options.h"

#include <utility>

#include "experiments/config/files/toml.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

/// "NAME, key = value, ..." becomes {<name_key> = "NAME", key = value, ...}.
ConfigNode table_of(const Choice& choice, const std::string& name_key,
                    const std::string& place) {
  if (choice.text.empty()) return choice.table;
  const std::size_t comma = choice.text.find(',');
  const std::string name = choice.text.substr(0, comma);
  if (name.find('=') != name.npos)
    throw UserError(
        "{}: '{}': expected a name, then its options: NAME, key = "
        "value, ...",
        place, choice.text);
  const std::string options =
      comma == choice.text.npos ? "" : choice.text.substr(comma);
  const ConfigNode root = parse_toml(
      fmt::format("x = {{{} = {}{}}}", name_key, toml_string(name), options),
      place);
  return *root.find("x");
}

void refuse_twice(const ConfigNode& config, const char* key,
                  const char* member) {
  if (config.find(key))
    throw UserError("settings: '{}' is given by NetworkOptions::{} already",
                    key, member);
}

/// The blocks as a config's list of ranges: "0-1", "2-3", "4-".
ConfigNode blocks_of(const NetworkOptions& options) {
  const std::int64_t layers = std::ssize(options.layers);
  ConfigNode::Array ranges;
  std::int64_t first = 0;
  for (const std::int64_t cut : options.cuts) {
    if (cut <= first || cut >= layers)
      throw UserError(
          "cuts: {} can't begin a block: cuts ascend, from 1 to {}, the last "
          "layer",
          cut, layers - 1);
    ranges.push_back({.value = fmt::format("{}-{}", first, cut - 1)});
    first = cut;
  }
  ranges.push_back({.value = fmt::format("{}-", first)});
  return {.value = std::move(ranges)};
}

ConfigNode boundaries_of(const NetworkOptions& options) {
  const std::size_t count = options.boundaries.size();
  if (count == 1)
    return table_of(options.boundaries[0], "policy", "boundaries");
  if (count != options.cuts.size())
    throw UserError(
        "boundaries: {} policies for {} boundaries; give one for each, or one "
        "for all",
        count, options.cuts.size());
  ConfigNode tables;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i + 1);
    tables.set(number,
               table_of(options.boundaries[i], "policy", "boundary " + number));
  }
  return tables;
}

}  // namespace

ConfigNode config_of(const NetworkOptions& options) {
  ConfigNode config = parse_toml(options.settings, "settings");
  if (config.value.index() == 0) config.value = ConfigNode::Table{};
  refuse_twice(config, "blocks", "cuts");
  config.set("blocks", blocks_of(options));
  if (!options.boundaries.empty()) {
    refuse_twice(config, "boundary", "boundaries");
    config.set("boundary", boundaries_of(options));
  }
  const Choice& optimizer = options.optimizer;
  if (!optimizer.text.empty() || optimizer.table.value.index() != 0) {
    refuse_twice(config, "optimizer", "optimizer");
    config.set("optimizer", table_of(optimizer, "name", "optimizer"));
  }
  return config;
}

}  // namespace sluice
