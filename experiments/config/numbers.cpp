#include "experiments/config/numbers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "lib/base/crc32c.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 23> kNoNumbers = {
    "name",     "engine",           "transport",
    "threads",  "log_every",        "slack",
    "timeout",  "allocator",        "checkpoint",
    "hashes",   "on_failure",       "restarts",
    "on_nan",   "reconnect",        "trace",
    "forecast", "cuda_ipc",         "equal_builds",
    "logger",   "gradient_norms",   "mps",
    "graphs",   "checkpoint_layers"};
/// A tokenizer counts by its hash, wherever its file and its tokens lie.
constexpr std::array<std::string_view, 6> kNoNumbersOfData = {
    "root", "prefetch", "workers", "on_device", "tokenizer_model", "cache"};
/// Keys of a text that have no effect where its tokens are bytes.
constexpr std::array<std::string_view, 4> kOfSubWords = {
    "tokenizer", "tokenizer_sha256", "tokenizer_kind", "vocabulary"};

/// A key that is younger than its table or the whole config, and its value in
/// runs from before it existed: as if it were not there.
struct YoungerKey {
  std::string_view path;
  std::variant<bool, std::int64_t, double, const char*> value;
};
constexpr std::array kYoungerKeys = {
    YoungerKey{"tf32", false},
    YoungerKey{"cudnn_benchmark", false},
    YoungerKey{"priority", "backward"},
    YoungerKey{"probe.layers", false},
    YoungerKey{"replicas.compress", "none"},
    YoungerKey{"replicas.one_by_one", false},
    YoungerKey{"replicas.softsync", std::int64_t{0}},
    YoungerKey{"replicas.backup", std::int64_t{0}},
    YoungerKey{"replicas.quorum", std::int64_t{0}},
    YoungerKey{"replicas.grace", 0.0},
    YoungerKey{"replicas.deal", "shares"},
    YoungerKey{"replicas.start_with", std::int64_t{0}},
    YoungerKey{"replicas.overlap", std::int64_t{0}},
    YoungerKey{"replicas.mixing", 0.0},
    YoungerKey{"replicas.chunk", std::int64_t{0}},
    YoungerKey{"replicas.error_decay", 1.0},
    YoungerKey{"replicas.outer_every", std::int64_t{1}},
    YoungerKey{"replicas.outer_pull", 1.0},
    YoungerKey{"delay.turns", std::int64_t{0}},
    YoungerKey{"delay.weights", "stash"},
    YoungerKey{"virtual.service", "fixed"},
    YoungerKey{"pipeline.weights", "latest"},
    YoungerKey{"pipeline.micro_batches", std::int64_t{1}},
    YoungerKey{"data.label_noise", 0.0},
    YoungerKey{"data.mixup", 0.0},
    YoungerKey{"data.teacher", ""},
    YoungerKey{"data.teacher_temperature", 1.0},
    YoungerKey{"data.teacher_weight", 1.0},
    YoungerKey{"loss.temperature", 1.0},
    YoungerKey{"data.augment.resized_crop", 0.0},
    YoungerKey{"data.evaluate_training", std::int64_t{0}},
    YoungerKey{"limit.train", std::int64_t{0}},
    YoungerKey{"limit.evaluation", std::int64_t{0}},
};
/// Tables that count only where something is left in them.
constexpr std::array<std::string_view, 3> kNoNumbersEmpty = {"pipeline",
                                                             "limit", "delay"};

constexpr std::array<std::string_view, 4> kNoNumbersOfPipeline = {
    "order", "executors", "flush", "recompute"};

template <class Names>
ConfigNode without(const ConfigNode& node, const Names& names) {
  ConfigNode rest = node;
  if (auto* table = std::get_if<ConfigNode::Table>(&rest.value))
    std::erase_if(*table, [&](const auto& entry) {
      return std::find(names.begin(), names.end(), entry.first) != names.end();
    });
  return rest;
}

std::string literal_of(const ConfigNode* node) {
  return node == nullptr ? "absent" : node->literal();
}

std::optional<Difference> difference(const ConfigNode* is,
                                     const ConfigNode* should_be,
                                     const std::string& path) {
  if (is == nullptr || should_be == nullptr)
    return Difference{path, literal_of(is), literal_of(should_be)};
  if (*is == *should_be) return std::nullopt;
  const auto* left = std::get_if<ConfigNode::Table>(&is->value);
  const auto* right = std::get_if<ConfigNode::Table>(&should_be->value);
  if (left == nullptr || right == nullptr)
    return Difference{path, is->literal(), should_be->literal()};
  const std::string before = path.empty() ? "" : path + ".";
  for (const auto& table : {left, right})
    for (const auto& [key, node] : *table)
      if (auto found =
              difference(is->find(key), should_be->find(key), before + key))
        return found;
  return std::nullopt;
}

bool is_default(const ConfigNode& table, std::string_view key,
                const ConfigNode& value) {
  const ConfigNode* found = table.find(key);
  return found == nullptr || *found == value;
}

/// Node without the key at that path, where it has that value.
ConfigNode without_value(const ConfigNode& node, std::string_view path,
                         const ConfigNode& value) {
  const std::size_t dot = path.find('.');
  if (dot == path.npos)
    return is_default(node, path, value)
               ? without(node, std::array<std::string_view, 1>{path})
               : node;
  const std::string_view table = path.substr(0, dot);
  const ConfigNode* below = node.find(table);
  if (below == nullptr) return node;
  ConfigNode rest = node;
  rest.set(table, without_value(*below, path.substr(dot + 1), value));
  return rest;
}

/// Leaves out a plain outer step, which only averages have had for long.
ConfigNode without_plain_outer_step(ConfigNode numbers) {
  const ConfigNode* replicas = numbers.find("replicas");
  const ConfigNode* policy = replicas ? replicas->find("policy") : nullptr;
  if (policy == nullptr ||
      *policy == ConfigNode{.value = std::string("average")})
    return numbers;
  numbers = without_value(numbers, "replicas.outer_lr", {.value = 1.0});
  return without_value(numbers, "replicas.outer_momentum", {.value = 0.0});
}

/// Leaves out the table by which all weights train.
ConfigNode without_idle_fine_tuning(ConfigNode numbers) {
  const ConfigNode* table = numbers.find("fine_tune");
  const ConfigNode none = {.value = ConfigNode::Array{}};
  if (table == nullptr || !is_default(*table, "train", none) ||
      !is_default(*table, "freeze", none) ||
      !is_default(*table->find("lora"), "rank", {.value = std::int64_t{0}}))
    return numbers;
  return without(numbers, std::array<std::string_view, 1>{"fine_tune"});
}

ConfigNode without_younger_keys(ConfigNode numbers) {
  numbers = without_plain_outer_step(std::move(numbers));
  for (const auto& [path, value] : kYoungerKeys) {
    ConfigNode node;
    std::visit([&](auto of) { node.value = of; }, value);
    numbers = without_value(numbers, path, node);
  }
  numbers = without_value(numbers, "accumulate.by_block",
                          {.value = ConfigNode::Array{}});
  numbers = without_idle_fine_tuning(std::move(numbers));
  for (const std::string_view name : kNoNumbersEmpty) {
    const ConfigNode* found = numbers.find(name);
    const auto* table = found == nullptr
                            ? nullptr
                            : std::get_if<ConfigNode::Table>(&found->value);
    if (table != nullptr && table->empty())
      numbers = without(numbers, std::array<std::string_view, 1>{name});
  }
  return numbers;
}

/// What of a data set changes numbers. Keys without effect are as if they were
/// not there: runs that are older than these keys stay the same.
ConfigNode numbers_of_data(const ConfigNode& data) {
  ConfigNode numbers = without(data, kNoNumbersOfData);
  const ConfigNode* tokenizer = data.find("tokenizer");
  if (tokenizer != nullptr &&
      *tokenizer == ConfigNode{.value = std::string("bytes")})
    numbers = without(numbers, kOfSubWords);
  const ConfigNode* assist = data.find("assist");
  if (assist != nullptr && is_default(*assist, "acceptance", {.value = 0.0}))
    numbers = without(numbers, std::array<std::string_view, 1>{"assist"});
  const ConfigNode* echo = data.find("echo");
  if (echo != nullptr && is_default(*echo, "times", {.value = std::int64_t{1}}))
    numbers = without(numbers, std::array<std::string_view, 1>{"echo"});
  return numbers;
}

/// Hash of each plug-in by the name of its file: only its bytes count, wherever
/// it lies.
ConfigNode numbers_of_plugins(const ConfigNode& plugins) {
  ConfigNode numbers = {.value = ConfigNode::Table{}};
  const auto* list = std::get_if<ConfigNode::Array>(&plugins.value);
  if (list == nullptr) return numbers;
  for (const ConfigNode& plugin : *list) {
    const ConfigNode* path = plugin.find("path");
    const ConfigNode* hash = plugin.find("sha256");
    if (path == nullptr || hash == nullptr) continue;
    const auto* text = std::get_if<std::string>(&path->value);
    if (text == nullptr) continue;
    std::string name = text->substr(text->rfind('/') + 1);
    while (numbers.find(name) != nullptr) name += '+';  // of another folder
    numbers.set(name, *hash);
  }
  return numbers;
}

/// The table without those of its keys that are 0, as if they were not there.
ConfigNode without_zeros(const ConfigNode& table,
                         std::span<const std::string_view> keys) {
  ConfigNode rest = table;
  for (const std::string_view key : keys)
    if (is_default(table, key, {.value = std::int64_t{0}}))
      rest = without(rest, std::array<std::string_view, 1>{key});
  return rest;
}

/// Gradients are clipped elsewhere than in the update only where that is said.
ConfigNode without_usual_place(const ConfigNode& clip) {
  return is_default(clip, "at", {.value = std::string("update")})
             ? without(clip, std::array<std::string_view, 1>{"at"})
             : clip;
}

/// The table without keys that are younger than optimizers, policies or codecs,
/// where they have the value that was the only one.
ConfigNode without_usual_values(ConfigNode table) {
  table = without_value(table, "exact_evaluations", {.value = false});
  table = without_value(table, "zstd", {.value = std::int64_t{0}});
  table = without_value(table, "disk_mb", {.value = std::int64_t{0}});
  table = without_value(table, "look_ahead", {.value = false});
  table = without_value(table, "tail_average", {.value = 0.0});
  table = without_value(table, "step", {.value = std::string("gradient")});
  if (const ConfigNode* policy = table.find("policy");
      policy == nullptr ||
      !(*policy == ConfigNode{.value = std::string("nmf")}))
    return table;
  table = without_value(table, "memory", {.value = std::string("batch")});
  table = without_value(table, "dual", {.value = false});
  return without_value(table, "evaluate", {.value = std::string("features")});
}

/// Leaves out keys that are younger than optimizers, such as a warm-up in
/// turns, where they have no effect: the optimizers of blocks, and those of
/// what their ends train, have a schedule and a clip each.
ConfigNode without_younger_keys_of_optimizers(const ConfigNode& node) {
  constexpr std::array<std::string_view, 1> kZeros = {"warmup_turns"};
  ConfigNode rest = node;
  if (auto* list = std::get_if<ConfigNode::Array>(&rest.value))
    for (ConfigNode& each : *list)
      each = without_younger_keys_of_optimizers(each);
  if (auto* table = std::get_if<ConfigNode::Table>(&rest.value))
    for (auto& [key, value] : *table)
      value = key == "schedule" ? without_zeros(value, kZeros)
              : key == "clip"   ? without_usual_place(value)
                                : without_younger_keys_of_optimizers(value);
  return std::holds_alternative<ConfigNode::Table>(rest.value)
             ? without_usual_values(std::move(rest))
             : rest;
}

/// Whether it is, or has, a table with a dropout: a probability of that name,
/// or a layer of that type.
bool names_dropout(const ConfigNode& node) {
  if (const auto* list = std::get_if<ConfigNode::Array>(&node.value))
    return std::any_of(list->begin(), list->end(), names_dropout);
  const auto* table = std::get_if<ConfigNode::Table>(&node.value);
  if (table == nullptr)
    return node == ConfigNode{.value = std::string("dropout")};
  return std::any_of(table->begin(), table->end(), [](const auto& entry) {
    const auto& [key, value] = entry;
    return key == "dropout" ? !(value == ConfigNode{.value = 0.0})
                            : names_dropout(value);
  });
}

/// Whether the model may have a dropout; the heads have none but those of
/// layers that are the model's, or a plug-in's. Those of scripts and programs
/// are in no config.
bool may_draw_masks(const ConfigNode& resolved) {
  if (resolved.find("plugins") != nullptr) return true;
  const ConfigNode* model = resolved.find("model");
  if (model == nullptr) return false;
  const ConfigNode* name = model->find("name");
  for (const char* hidden : {"torchscript", "own"})
    if (name != nullptr && *name == ConfigNode{.value = std::string(hidden)})
      return true;
  return names_dropout(*model);
}

/// Whether their kind counts. Where the model has no key `dropout` the default
/// does not: older runs have the numbers that they had.
bool masks_count(const ConfigNode& resolved) {
  const ConfigNode* model = resolved.find("model");
  const ConfigNode* dropout = model ? model->find("dropout") : nullptr;
  if (dropout != nullptr && !(*dropout == ConfigNode{.value = 0.0}))
    return true;
  return may_draw_masks(resolved) &&
         !is_default(resolved, "masks", {.value = std::int64_t{2}});
}

/// With the keys of each table in alphabetical order: a file has tables behind
/// plain keys.
std::string sorted_text(const ConfigNode& node) {
  std::string text;
  if (const auto* array = std::get_if<ConfigNode::Array>(&node.value)) {
    for (const ConfigNode& each : *array) text += sorted_text(each) + ",";
    return "[" + text + "]";
  }
  const auto* table = std::get_if<ConfigNode::Table>(&node.value);
  if (table == nullptr) return node.literal();
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : *table) texts[key] = sorted_text(value);
  for (const auto& [key, value] : texts)
    text += fmt::format("{}={},", key, value);
  return "{" + text + "}";
}

}  // namespace

ConfigNode numbers_of(const ConfigNode& resolved) {
  ConfigNode numbers = without(resolved, kNoNumbers);
  if (!masks_count(resolved))
    numbers = without(numbers, std::array<std::string_view, 1>{"masks"});
  if (const ConfigNode* pipeline = numbers.find("pipeline"))
    numbers.set("pipeline", without(*pipeline, kNoNumbersOfPipeline));
  if (const ConfigNode* data = numbers.find("data"))
    numbers.set("data", numbers_of_data(*data));
  if (const ConfigNode* plugins = numbers.find("plugins"))
    numbers.set("plugins", numbers_of_plugins(*plugins));
  return without_younger_keys_of_optimizers(without_younger_keys(numbers));
}

std::string fingerprint_of(const ConfigNode& numbers) {
  const std::string text = sorted_text(numbers);
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(text))));
}

std::optional<Difference> find_difference(const ConfigNode& is,
                                          const ConfigNode& should_be) {
  return difference(&is, &should_be, "");
}

std::string first_difference(const ConfigNode& is,
                             const ConfigNode& should_be) {
  const auto found = find_difference(is, should_be);
  if (!found) return "";
  return fmt::format("{} is {}, not {}", found->path, found->is,
                     found->should_be);
}

}  // namespace sluice
