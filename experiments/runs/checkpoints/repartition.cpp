#include "experiments/runs/checkpoints/repartition.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/files/overrides.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "lib/blocks/adapters.h"
#include "lib/boundaries/predictor.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/saved_deals.h"

namespace sluice {
namespace {

/// Names that have a block's number in a state: "flights.<k>.<batch>.input".
constexpr std::array<std::string_view, 7> kOfNumberedBlocks = {
    "workers", "staleness", "flights",    "lessons",
    "sent",    "views",     "accumulated"};

std::string_view part_before_dot(std::string_view& name) {
  const std::size_t dot = std::min(name.find('.'), name.size());
  const std::string_view part = name.substr(0, dot);
  name.remove_prefix(std::min(dot + 1, name.size()));
  return part;
}

bool is_of_numbered_block(std::string_view name) {
  const std::string_view kind = part_before_dot(name);
  return std::find(kOfNumberedBlocks.begin(), kOfNumberedBlocks.end(), kind) !=
         kOfNumberedBlocks.end();
}

/// The layers that have a boundary above them.
std::set<std::int64_t> boundaries_of(const Partition& ranges) {
  std::set<std::int64_t> layers;
  for (const LayerRange& range : ranges) layers.insert(range.last);
  layers.erase(ranges.back().last);
  return layers;
}

std::set<std::int64_t> boundaries_of(
    const std::vector<std::int64_t>& first_layers) {
  std::set<std::int64_t> layers;
  for (const std::int64_t first : first_layers)
    if (first > 0) layers.insert(first - 1);
  return layers;
}

template <class Item>
std::vector<Item> without(const std::set<Item>& those,
                          const std::set<Item>& these) {
  std::vector<Item> left;
  std::set_difference(those.begin(), those.end(), these.begin(), these.end(),
                      std::back_inserter(left));
  return left;
}

/// The tables "1" to "count" under `path` of a resolved config.
std::vector<ConfigNode> tables_of(const ConfigNode& config,
                                  std::string_view path, std::size_t count) {
  std::vector<ConfigNode> tables;
  for (std::size_t number = 1; number <= count; ++number)
    tables.push_back(*config.find(path)->find(std::to_string(number)));
  return tables;
}

/// The one that they all are; nothing when they differ, or are none.
std::optional<ConfigNode> common_of(const std::vector<ConfigNode>& tables) {
  for (const ConfigNode& table : tables)
    if (!(table == tables.front())) return std::nullopt;
  if (tables.empty()) return std::nullopt;
  return tables.front();
}

ConfigNode empty_table() {
  return {.value = ConfigNode::Table{}};
}

ConfigNode boundaries_for(const Experiment& run, const Partition& ranges) {
  const std::vector<ConfigNode> old =
      tables_of(run.resolved, "boundary", run.ranges.size() - 1);
  ConfigNode all = empty_table();
  for (std::size_t k = 0; k + 1 < ranges.size(); ++k) {
    std::optional<ConfigNode> table = common_of(old);
    for (std::size_t i = 0; i < old.size(); ++i)
      if (run.ranges[i].last == ranges[k].last) table = old[i];
    if (table) all.set(std::to_string(k + 1), *table);
  }
  return all;
}

ConfigNode optimizers_for(const Experiment& run, const Partition& ranges) {
  const std::vector<ConfigNode> old =
      tables_of(run.resolved, "optimizer", run.ranges.size());
  ConfigNode all = empty_table();
  for (std::size_t k = 0; k < ranges.size(); ++k) {
    std::vector<ConfigNode> sources;
    for (std::size_t i = 0; i < old.size(); ++i)
      if (run.ranges[i].first <= ranges[k].last &&
          run.ranges[i].last >= ranges[k].first)
        sources.push_back(old[i]);
    if (const auto table = common_of(sources))
      all.set(std::to_string(k + 1), *table);
  }
  return all;
}

/// Writes a list of equal devices as that one device's name.
void simplify_devices(ConfigNode& config) {
  const auto* devices =
      std::get_if<ConfigNode::Array>(&config.find("device")->value);
  if (devices == nullptr) return;
  if (const auto device = common_of(*devices)) config.set("device", *device);
}

bool names(std::span<const std::string> overrides, std::string_view key) {
  return std::any_of(
      overrides.begin(), overrides.end(), [&](const std::string& text) {
        return text.starts_with(key) &&
               text.find_first_of("=.", key.size()) == key.size();
      });
}

/// Phases name boundaries by their numbers.
void check_timetable(const ConfigNode& config,
                     std::span<const std::string> overrides) {
  const ConfigNode* timetable = config.find("timetable");
  const auto* phases =
      timetable ? std::get_if<ConfigNode::Array>(&timetable->value) : nullptr;
  if (phases == nullptr || names(overrides, "timetable")) return;
  for (const ConfigNode& phase : *phases)
    if (const ConfigNode* boundary = phase.find("boundary"))
      for (const auto& [key, node] :
           std::get<ConfigNode::Table>(boundary->value))
        if (key.find_first_not_of("0123456789") == key.npos)
          throw UserError(
              "timetable: a phase names boundary {} of the old cut; say which "
              "phases there are for the new one, as in timetable=[]",
              key);
}

/// Whether the config has a key for that block, or for all.
bool has_number(const ConfigNode& config, std::string_view path,
                std::size_t number) {
  const ConfigNode* written = config.find(path);
  const auto* table = std::get_if<ConfigNode::Table>(&written->value);
  return table == nullptr ||  // an error that reading it will tell
         std::any_of(table->begin(), table->end(), [&](const auto& item) {
           return item.first == std::to_string(number) ||
                  item.first.find_first_not_of("0123456789") != item.first.npos;
         });
}

/// Throws UserError for a boundary or optimizer of the new cut that the run's
/// tables say nothing of, and the overrides neither.
void check_complete(const ConfigNode& config, const Partition& ranges,
                    const Experiment& run) {
  for (std::size_t k = 1; k < ranges.size(); ++k)
    if (run.ranges.size() > 1 && !has_number(config, "boundary", k))
      throw UserError(
          "boundary {} of the new cut, above layer {}, has no policy to take "
          "over: those of the run's boundaries differ; say which, as in "
          "'boundary.{}={{policy=\"backprop\"}}'",
          k, ranges[k - 1].last, k);
  for (std::size_t k = 1; k <= ranges.size(); ++k)
    if (!has_number(config, "optimizer", k))
      throw UserError(
          "block {} of the new cut, layers {}-{}, has no optimizer to take "
          "over: those of the run's blocks differ; say which, as in "
          "'optimizer.{}={{name=\"sgd\", lr=0.1}}'",
          k, ranges[k - 1].first, ranges[k - 1].last, k);
}

std::string text_of(const Partition& ranges) {
  std::vector<std::string> texts;
  for (const LayerRange& range : ranges)
    texts.push_back(fmt::format("{}-{}", range.first, range.last));
  return fmt::format("{}", fmt::join(texts, " "));
}

Partition ranges_of(const std::vector<std::int64_t>& first_layers,
                    std::int64_t last_layer) {
  Partition ranges;
  for (std::size_t k = 0; k < first_layers.size(); ++k)
    ranges.push_back({first_layers[k], k + 1 < first_layers.size()
                                           ? first_layers[k + 1] - 1
                                           : last_layer});
  return ranges;
}

/// Sources whose tensors are among these: "heads.3", "synthesizers.3".
std::set<std::string> sources_in(const NamedTensors& tensors) {
  std::set<std::string> sources;
  for (const auto& [name, tensor] : tensors) {
    std::string_view rest = name;
    const std::string_view kind = part_before_dot(rest);
    const std::string_view layer = part_before_dot(rest);
    if (kind != "layers") sources.insert(fmt::format("{}.{}", kind, layer));
  }
  return sources;
}

/// Names of all that learns at the boundaries of the experiment, in any phase.
std::set<std::string> sources_of(const Experiment& experiment) {
  NamedTensors all;
  for (const Boundaries& phase : experiment.phases)
    for (int block = 1; block < experiment.blocks(); ++block) {
      const MakeBoundary& make = by_block(phase, block).make;
      const BoundarySite site = site_of(experiment, block);
      const auto lower = make.lower(site);
      for (const NamedTensors& own :
           {lower->parameters(), lower->learners(), lower->buffers(),
            make.upper(site)->learners()})
        all.insert(all.end(), own.begin(), own.end());
    }
  return sources_in(all);
}

}  // namespace

ConfigNode config_for_cut(const Experiment& run, const Partition& ranges,
                          std::span<const std::string> overrides) {
  ConfigNode config = run.resolved;
  config.set("boundary", boundaries_for(run, ranges));
  config.set("optimizer", optimizers_for(run, ranges));
  simplify_devices(config);
  check_timetable(config, overrides);
  for (const std::string& text : overrides) apply_override(config, text);
  config.set("blocks", to_config(ranges));
  check_complete(config, ranges, run);
  return config;
}

std::vector<std::int64_t> cut_of(const SavedState& saved) {
  std::vector<std::int64_t> first_layers;
  const std::vector<std::int64_t> blocks = saved.numbers_below("workers");
  if (blocks.empty() || !saved.has("workers.1.first_layer")) return {};
  // number() throws with the name of a missing one.
  for (std::int64_t block = 1; block <= blocks.back(); ++block)
    first_layers.push_back(
        saved.number(fmt::format("workers.{}.first_layer", block)));
  return first_layers;
}

bool is_cut_so(const Experiment& experiment,
               const std::vector<std::int64_t>& first_layers) {
  return first_layers.empty() ||
         std::equal(experiment.ranges.begin(), experiment.ranges.end(),
                    first_layers.begin(), first_layers.end(),
                    [](const LayerRange& range, std::int64_t first) {
                      return range.first == first;
                    });
}

NamedTensors state_for_block(const Experiment& experiment, int block,
                             const NamedTensors& state,
                             std::string_view source) {
  NamedTensors own;
  for (const auto& named : state)
    if (!is_of_numbered_block(named.first)) own.push_back(named);
  const SavedState saved(state, source);
  const std::vector<std::int64_t> before = cut_of(saved);
  const std::int64_t first = by_block(experiment.ranges, block).first;
  const auto from =
      std::upper_bound(before.begin(), before.end(), first) - before.begin();
  for (const char* what : {"weight_version", "phase"})
    save_number(saved.number(fmt::format("workers.{}.{}", from, what)),
                fmt::format("workers.{}.{}", block, what), own);
  const std::string before_name = fmt::format("workers.{}", from);
  const std::string name = fmt::format("workers.{}", block);
  save_deals(deals_in(saved, before_name), name, own);
  save_dealt(dealt_in(saved, before_name), name, own);
  return own;
}

void add_new_sources(const Experiment& experiment,
                     const std::vector<std::int64_t>& first_layers,
                     const NamedTensors& now, NamedTensors& saved) {
  const std::vector<std::int64_t> fresh =
      without(boundaries_of(experiment.ranges), boundaries_of(first_layers));
  for (const auto& named : now) {
    std::string_view rest = named.first;
    const std::string_view kind = part_before_dot(rest);
    const std::string_view number = part_before_dot(rest);
    const bool is_fresh = std::any_of(
        fresh.begin(), fresh.end(),
        [&](std::int64_t layer) { return std::to_string(layer) == number; });
    if (kind != "layers" && is_fresh) saved.push_back(named);
  }
}

void check_cut_layers(const Experiment& experiment, const NamedTensors& weights,
                      const std::string& source) {
  constexpr const char* kEncoder = ".cut_encoder.weight";
  std::set<std::string> own;
  for (int k = 1; k < experiment.blocks(); ++k)
    if (codecs_above(experiment, k).add_layers)
      own.insert(fmt::format("layers.{}{}", by_block(experiment.ranges, k).last,
                             kEncoder));
  for (const auto& [name, tensor] : weights)
    if (name.starts_with("layers.") && name.ends_with(kEncoder) &&
        !own.contains(name))
      throw UserError(
          "{}: has '{}', of a codec that adds layers at a cut, and here is no "
          "such codec: set blocks and boundary.codec as they were",
          source, name);
}

void check_adapters(const Experiment& experiment, const NamedTensors& weights,
                    const std::string& source) {
  const FineTuning& tuning = experiment.fine_tuning;
  for (const auto& [name, tensor] : weights) {
    if (!name.starts_with("layers.") || !is_of_adapter(name)) continue;
    if (tuning.adapter.rank > 0 &&
        tuning.adapts(name.substr(0, name.rfind('.'))))
      continue;
    throw UserError(
        "{}: has an adapter, '{}', and here is none: set fine_tune.lora as it "
        "was, or `sluice export` the run first, which adds adapters to the "
        "weights",
        source, name);
  }
}

std::string describe_cut(const Experiment& experiment,
                         const std::string& checkpoint) {
  const std::vector<std::int64_t> cut =
      cut_of({load_state(checkpoint), checkpoint});
  if (is_cut_so(experiment, cut)) return "";
  const std::set<std::string> before = sources_in(load_weights(checkpoint));
  const std::set<std::string> after = sources_of(experiment);
  std::string text =
      fmt::format("Cut again: blocks of layers {} become {}",
                  text_of(ranges_of(cut, experiment.ranges.back().last)),
                  text_of(experiment.ranges));
  if (const auto fresh = without(after, before); !fresh.empty())
    text += fmt::format("; {} new, with first weights", joined(fresh));
  if (const auto gone = without(before, after); !gone.empty())
    text += fmt::format("; {} left behind", joined(gone));
  return text;
}

}  // namespace sluice
