#include "experiments/config/rules/on_device.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

constexpr const char* kAuto = "auto";

ConfigNode auto_node() {
  return {.value = std::string(kAuto)};
}

}  // namespace

void describe_on_device(Fields& fields) {
  ConfigNode node = auto_node();
  fields.key(
      "on_device", node, "boolean | \"auto\"",
      {.text = "keep the data set on the GPU of block 1, as bytes or tokens, "
               "and gather and normalise batches there, to the same bits; "
               "images in memory without random changes, and texts. \"auto\": "
               "where it can be, and takes at most a quarter of the GPU's free "
               "memory"});
  if (!std::holds_alternative<bool>(node.value) && !(node == auto_node()))
    fields.reject("on_device", "must be true, false or \"auto\"");
}

DataPlacement on_device_in(const ConfigNode& resolved) {
  const ConfigNode* const data = resolved.find("data");
  const ConfigNode* const node =
      data == nullptr ? nullptr : data->find("on_device");
  const bool* const flag =
      node == nullptr ? nullptr : std::get_if<bool>(&node->value);
  if (flag == nullptr) return DataPlacement::if_it_fits;
  return *flag ? DataPlacement::always : DataPlacement::never;
}

bool need(const Plans& plans, const char* attachment) {
  return std::any_of(plans.begin(), plans.end(), [&](const RunPlan& plan) {
    return std::any_of(
        plan.blocks.begin(), plan.blocks.end(), [&](const BlockPlan& block) {
          const auto has = [&](const std::vector<std::string>& names) {
            return std::find(names.begin(), names.end(), attachment) !=
                   names.end();
          };
          return has(block.lower.keeps) || has(block.lower.relays);
        });
  });
}

std::string kept_off_device(const Experiment& experiment) {
  if (!is_on_gpu(experiment, 1))
    return "block 1 computes on the CPU: set device to a GPU, or set \"auto\"";
  if (experiment.assist.is_on())
    return "data.assist chooses samples on the CPU: leave one of them out";
  if (experiment.model.trains_on_pairs)
    return "the model trains on pairs of samples that the CPU makes: set "
           "\"auto\", or another model";
  if (need(experiment.plans, kRawInput))
    return "a head wants inputs as they were before normalisation, which the "
           "CPU makes: set \"auto\", or another head";
  if (experiment.data->varies && !experiment.data->sample.is_text)
    return "data.augment and data.mixup change training images on the CPU: "
           "leave them out, or set \"auto\"";
  return "";
}

void check_on_device(const Experiment& experiment, const Fields& top) {
  if (on_device_in(top.resolved()) != DataPlacement::always) return;
  if (const std::string why = kept_off_device(experiment); !why.empty())
    top.reject("data", "on_device = true, but " + why);
}

}  // namespace sluice
