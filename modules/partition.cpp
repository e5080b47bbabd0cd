#include "modules/partition.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "modules/layer_costs.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Best cut of a number of layers into a number of blocks: where the last block
/// begins, and what the cut costs.
struct Choice {
  double cost = kInfinity;
  std::size_t begin = 0;
};

/// Costs of blocks by the layers with which they begin and before which they
/// end.
class BlockCostTable {
 public:
  explicit BlockCostTable(const std::vector<LayerCost>& layers)
      : layers_(layers) {
    for (const LayerCost& layer : layers)
      below_.push_back(below_.back() + layer.work);
  }
  std::size_t layers() const { return layers_.size(); }
  double of(std::size_t begin, std::size_t end) const {
    const double work = below_[end] - below_[begin];
    return end == layers_.size() ? work : work + layers_[end - 1].as_last;
  }

 private:
  const std::vector<LayerCost>& layers_;
  std::vector<double> below_ = {0};  // of the layers below each layer
};

/// Dynamic programming. `join` makes the cost of a cut from that of its lower
/// blocks and that of its last. Strictly better only: of equal cuts the one
/// whose last block begins first stays.
template <class Join>
std::vector<std::vector<Choice>> best_cuts(const BlockCostTable& costs,
                                           std::size_t blocks, Join join) {
  const std::size_t layers = costs.layers();
  std::vector best(blocks + 1, std::vector<Choice>(layers + 1));
  best[0][0].cost = 0;
  for (std::size_t k = 1; k <= blocks; ++k) {
    for (std::size_t end = k; end <= layers; ++end) {
      for (std::size_t begin = k - 1; begin < end; ++begin) {
        const double cost = join(best[k - 1][begin].cost, costs.of(begin, end));
        if (cost < best[k][end].cost) best[k][end] = {cost, begin};
      }
    }
  }
  return best;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  // No model has so many layers: which one it is doesn't matter.
  if (error == std::errc::result_out_of_range && stop == end &&
      text.front() != '-')
    return std::numeric_limits<std::int64_t>::max();
  if (error != std::errc{} || stop != end || text.empty()) return {};
  return value;
}

/// Reads "3", "3-5" or "3-" (up to the last layer).
std::optional<LayerRange> range(std::string_view text,
                                std::int64_t last_layer) {
  const std::size_t dash = text.find('-');
  const std::optional<std::int64_t> first = number(text.substr(0, dash));
  if (!first) return {};
  if (dash == text.npos) return LayerRange{*first, *first};
  if (dash + 1 == text.size()) return LayerRange{*first, last_layer};
  const std::optional<std::int64_t> last = number(text.substr(dash + 1));
  if (!last) return {};
  return LayerRange{*first, *last};
}

std::string text_of(const LayerRange& range) {
  return fmt::format("{}-{}", range.first, range.last);
}

/// The next block after those that end at `last` - 1.
LayerRange next_range(const ConfigNode& item, std::int64_t next,
                      std::int64_t last_layer) {
  const std::string* text = std::get_if<std::string>(&item.value);
  const std::optional<LayerRange> found =
      text == nullptr ? std::nullopt : range(*text, last_layer);
  const std::string where = item.origin.text() + ": blocks";
  if (!found) {
    throw UserError(
        "{}: {} is no range of layers; write \"0-3\", \"4\" or \"5-\"", where,
        item.describe());
  }
  // A backward range begins or ends outside, or has no layers.
  if (std::max(found->first, found->last) > last_layer) {
    throw UserError("{}: {}: the model's layers are 0-{}", where,
                    item.describe(), last_layer);
  }
  if (found->first > found->last)
    throw UserError("{}: \"{}\" has no layers", where, *text);
  if (found->first != next) {
    throw UserError("{}: \"{}\" leaves {}: the block must begin at layer {}",
                    where, *text, found->first > next ? "a gap" : "an overlap",
                    next);
  }
  return *found;
}

Partition by_hand(const ConfigNode& blocks, const ConfigNode::Array& items,
                  std::int64_t last_layer) {
  Partition ranges;
  std::int64_t next = 0;
  for (const ConfigNode& item : items) {
    ranges.push_back(next_range(item, next, last_layer));
    next = ranges.back().last + 1;
  }
  if (next <= last_layer) {
    throw UserError("{}: blocks: layers {}-{} are in no block",
                    blocks.origin.text(), next, last_layer);
  }
  return ranges;
}

}  // namespace

Partition partition(const ConfigNode& blocks, const Model& model) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  SLUICE_CHECK(layers > 0, "a model without layers");
  if (const auto* items = std::get_if<ConfigNode::Array>(&blocks.value))
    return by_hand(blocks, *items, layers - 1);
  const auto* count = std::get_if<std::int64_t>(&blocks.value);
  if (count == nullptr) {
    throw UserError(
        "{}: blocks: {} is neither a number of blocks nor a list of ranges",
        blocks.origin.text(), blocks.describe());
  }
  if (*count < 1 || *count > layers) {
    throw UserError(
        "{}: blocks = {}: the model has {} layers, so 1 to {} blocks",
        blocks.origin.text(), *count, layers, layers);
  }
  return balanced(*count, model);
}

Partition balanced(std::int64_t blocks, const Model& model) {
  std::vector<LayerCost> layers;
  for (const LayerSpec& layer : model.layers)
    layers.push_back({.work = layer.flops});
  return balanced(blocks, layers);
}

Partition balanced(std::int64_t blocks, const std::vector<LayerCost>& costs) {
  const std::size_t layers = costs.size();
  SLUICE_CHECK(blocks >= 1 && blocks <= static_cast<std::int64_t>(layers),
               "{} layers into {} blocks", layers, blocks);
  const auto count = static_cast<std::size_t>(blocks);
  const BlockCostTable table(costs);

  const double limit = best_cuts(table, count,
                                 [](double lower, double last) {
                                   return std::max(lower, last);
                                 })[count][layers]
                           .cost;
  const auto best = best_cuts(table, count, [limit](double lower, double last) {
    return last > limit ? kInfinity : lower + last * last;
  });

  Partition ranges(count);
  std::size_t end = layers;
  for (std::size_t k = count; k > 0; --k) {
    const std::size_t begin = best[k][end].begin;
    ranges[k - 1] = {static_cast<std::int64_t>(begin),
                     static_cast<std::int64_t>(end) - 1};
    end = begin;
  }
  return ranges;
}

ConfigNode to_config(const Partition& ranges) {
  ConfigNode::Array items;
  for (const LayerRange& range : ranges)
    items.push_back(ConfigNode{.value = text_of(range)});
  return ConfigNode{.value = std::move(items)};
}

}  // namespace sluice
