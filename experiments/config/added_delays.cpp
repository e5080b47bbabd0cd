#include "experiments/config/added_delays.h"

#include <cstdint>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "lib/boundaries/policies/from_above.h"
#include "lib/weights/weight_view.h"

namespace sluice {
namespace {

// Each turn of a delay keeps the graph of a batch.
constexpr std::int64_t kMostTurns = 1024;

std::int64_t number_of_turns(const ConfigNode& written, const Fields& fields) {
  const auto* number = std::get_if<std::int64_t>(&written.value);
  if (number == nullptr || *number < 0 || *number > kMostTurns)
    fields.reject("turns",
                  fmt::format("expected an integer from 0 to {}, or a list of "
                              "one for each block, got {}",
                              kMostTurns, written.literal()));
  return *number;
}

/// Weights that a backward can see without another block's help.
std::vector<std::string> views_of_one_block() {
  std::vector<std::string> views = views_of_delays(/*with_replay=*/false);
  std::erase_if(views, [](const std::string& name) {
    const WeightsAtBackward weights = weights_at_backward(name);
    return weights.of_entry || weights.rebuilds;
  });
  return views;
}

}  // namespace

void describe_delay(Fields& fields, AddedDelay& delay) {
  ConfigNode written = {.value = delay.turns};
  fields.key("turns", written, "integer | list of integers",
             {.text = "turns by which every gradient is applied late, also in "
                      "one block, with a graph kept for each; or a list with a "
                      "number for each block, [3, 1, 0]: where a block waits "
                      "for the gradient of the one above it, at least the "
                      "number of that one. K - k for block k of K is what "
                      "policy = 'delayed_gradient' does",
              .unit = "turns"});
  if (const auto* list = std::get_if<ConfigNode::Array>(&written.value)) {
    for (const ConfigNode& item : *list)
      delay.by_block.push_back(number_of_turns(item, fields));
    if (list->empty())
      fields.reject("turns", "expected a number for each block, got none");
  } else {
    delay.turns = number_of_turns(written, fields);
  }
  read_weights(fields, views_of_one_block(), delay.weights);
  if (!delay.is_there() && delay.weights != WeightsAtBackward())
    fields.reject("weights", "no gradient is late: set delay.turns too");
}

void check_delay(const Settings& settings, int blocks, const Fields& top) {
  const AddedDelay& delay = settings.delay;
  if (!delay.is_there()) return;
  if (settings.free_schedule)
    top.reject("delay",
               "needs turns that mean the same for all blocks: set schedule = "
               "'lockstep', or leave it out, and set in_flight");
  if (settings.pipeline.order != PipelineSettings().order)
    top.reject("delay",
               fmt::format("goes with pipeline.order = '{}', and not with "
                           "'{}', whose windows have no late gradients",
                           PipelineSettings().order, settings.pipeline.order));
  if (!delay.by_block.empty() && std::ssize(delay.by_block) != blocks)
    top.reject("delay",
               fmt::format("turns is a list of {}, and there are {} blocks: "
                           "give one number, or one for each block",
                           delay.by_block.size(), blocks));
}

}  // namespace sluice
