#include "experiments/planner/recut.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/config/files/overrides.h"
#include "lib/base/error.h"

namespace sluice::planner {
namespace {

std::size_t count_of(const ConfigNode& blocks) {
  if (const auto* list = std::get_if<ConfigNode::Array>(&blocks.value))
    return list->size();
  const auto* number = std::get_if<std::int64_t>(&blocks.value);
  return number ? static_cast<std::size_t>(*number) : 0;
}

ConfigNode blocks_from(const std::string& text) {
  if (text.find_first_of("-,") == text.npos)
    return override_value(text, "--blocks");
  std::string list;
  for (const char c : text) list += c == ',' ? "\", \"" : std::string(1, c);
  return override_value(fmt::format("[\"{}\"]", list), "--blocks");
}

/// Parameters that an update moves.
double parameters_of(const LayerSpec& layer) {
  double count = 0;
  for (const at::Tensor& parameter : layer.make()->parameters())
    if (parameter.requires_grad())
      count += static_cast<double>(parameter.numel());
  return count;
}

/// A layer's share of its block's costs.
struct Part {
  double work = 0;
  double update = 0;
};

std::vector<Part> parts_of(const Experiment& experiment) {
  std::vector<Part> parts;
  for (const LayerSpec& layer : experiment.model.layers)
    parts.push_back({layer.flops, parameters_of(layer)});
  for (const LayerRange& range : experiment.ranges)
    for (double Part::*const member : {&Part::work, &Part::update}) {
      double sum = 0;
      for (std::int64_t i = range.first; i <= range.last; ++i)
        sum += parts[static_cast<std::size_t>(i)].*member;
      const auto layers = static_cast<double>(range.last - range.first + 1);
      for (std::int64_t i = range.first; i <= range.last; ++i) {
        double& part = parts[static_cast<std::size_t>(i)].*member;
        part = sum > 0 ? part / sum : 1 / layers;
      }
    }
  return parts;
}

/// Mean costs of boundaries, beside those of layers.
struct ExtraCosts {
  double head = 0;
  double learn = 0;
  double learn_input = 0;
};

}  // namespace

bool has_head(const RunPlan& plan, std::size_t k) {
  return static_cast<int>(k) + 1 < plan.depth() &&
         !plan.blocks[k].gradients.from_above;
}

void merge_numbered(ConfigNode& config, const char* path) {
  const ConfigNode* tables = config.find(path);
  if (tables == nullptr) return;
  const auto* all = std::get_if<ConfigNode::Table>(&tables->value);
  if (all == nullptr || all->empty() || all->front().first != "1") return;
  for (const auto& [number, table] : *all)
    if (!(table == all->front().second))
      throw UserError(
          "{}.{} differs from {}.1: a run whose {} differ by block keeps its "
          "number of blocks; give as many ranges",
          path, number, path,
          std::string_view(path) == "boundary" ? "boundaries" : "optimizers");
  const ConfigNode one = all->front().second;
  config.set(path, one);
}

ConfigNode cut_anew(const ConfigNode& config, const std::string& blocks) {
  ConfigNode made = config;
  const ConfigNode wanted = blocks_from(blocks);
  const ConfigNode* before = config.find("blocks");
  if (before == nullptr || count_of(*before) != count_of(wanted))
    for (const char* path : {"boundary", "optimizer"})
      merge_numbered(made, path);
  made.set("blocks", wanted);
  return made;
}

std::vector<BlockCosts> recut_costs(const std::vector<BlockCosts>& costs,
                                    const Experiment& from,
                                    const Experiment& to) {
  const RunPlan& plan = from.plans.front();
  const std::vector<Part> parts = parts_of(from);
  const BlockCosts& last = costs.back();
  const double usual =
      last.seconds[Op::forward] > 0
          ? op_seconds(last, Op::backward) / last.seconds[Op::forward]
          : 2;
  ExtraCosts extra;
  double heads = 0;
  std::vector<BlockCosts> layers(parts.size());
  for (std::size_t k = 0; k < costs.size(); ++k) {
    const OpValues<double>& seconds = costs[k].seconds;
    const double whole = op_seconds(costs[k], Op::backward);
    double backward = whole;
    if (replays(plan.blocks[k]))
      backward = std::max(0., backward - seconds[Op::forward]);
    if (has_head(plan, k)) {
      const double head = std::max(0., backward - usual * seconds[Op::forward]);
      backward -= head;
      extra.head += head;
      ++heads;
    }
    extra.learn += seconds[Op::learn];
    extra.learn_input += seconds[Op::learn_input];
    const double of_layers = whole > 0 ? backward / whole : 1;
    const LayerRange& range = from.ranges[k];
    for (std::int64_t i = range.first; i <= range.last; ++i) {
      const auto layer = static_cast<std::size_t>(i);
      const auto half = [&](Op op) {
        return op_seconds(costs[k], op) * of_layers * parts[layer].work;
      };
      layers[layer].seconds = {
          {Op::forward, seconds[Op::forward] * parts[layer].work},
          {Op::backward, backward * parts[layer].work},
          {Op::backward_input, half(Op::backward_input)},
          {Op::backward_weights, half(Op::backward_weights)},
          {Op::update, seconds[Op::update] * parts[layer].update}};
    }
  }
  const auto boundaries =
      static_cast<double>(std::max<std::size_t>(1, costs.size() - 1));
  std::vector<BlockCosts> made;
  for (std::size_t k = 0; k < to.ranges.size(); ++k) {
    BlockCosts block;
    const LayerRange& range = to.ranges[k];
    for (std::int64_t i = range.first; i <= range.last; ++i) {
      const BlockCosts& layer = layers[static_cast<std::size_t>(i)];
      for (const Op op : {Op::forward, Op::backward, Op::backward_input,
                          Op::backward_weights, Op::update})
        block.seconds[op] += layer.seconds[op];
    }
    const BlockPlan& mine = to.plans.front().blocks[k];
    if (has_head(to.plans.front(), k) && heads > 0)
      block.head = extra.head / heads;
    if (mine.lower.learns) block.seconds[Op::learn] = extra.learn / boundaries;
    if (mine.forwards_data())
      block.seconds[Op::learn_input] = extra.learn_input / boundaries;
    made.push_back(block);
  }
  return made;
}

std::vector<Variation> recut_variation(const std::vector<Variation>& variation,
                                       const Experiment& from,
                                       const Experiment& to) {
  std::vector<Variation> made;
  for (const LayerRange& range : to.ranges)
    for (std::size_t k = 0; k < from.ranges.size(); ++k)
      if (range.first >= from.ranges[k].first &&
          range.first <= from.ranges[k].last)
        made.push_back(variation.at(k));
  return made;
}

}  // namespace sluice::planner
