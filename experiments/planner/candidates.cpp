#include "experiments/planner/candidates.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/files/overrides.h"
#include "experiments/planner/recut.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/error.h"
#include "lib/boundaries/boundary.h"

namespace sluice::planner {
namespace {

constexpr const char* kCommon[] = {"backprop",         "local_loss",
                                   "delayed_gradient", "features_replay",
                                   "fully_decoupled",  "synthetic_gradient"};

ConfigNode text_node(std::string text) {
  return {.value = std::move(text), .origin = {.file = "sluice plan"}};
}

/// Whether its layers pass tokens of an image, [T, C], as those of ViT do.
bool has_image_tokens(const Model& model) {
  return !model.sample.is_text && !model.trains_on_pairs &&
         model.layers.front().output.size() == 2;
}

/// The policy's `boundary` table, with what the policy needs on this model.
ConfigNode boundary_of(const std::string& policy, const Model& model) {
  ConfigNode table;
  table.set("policy", text_node(policy));
  if (policy == "features_replay")
    table.set("statistics", text_node("forward"));
  if (policy == "local_loss" && model.sample.is_text)
    table.set_path("head.name", text_node("vocabulary"));
  if (policy == "local_loss" && has_image_tokens(model))
    table.set_path("head.name", text_node("linear"));
  if (policy == "local_loss" && model.sample.targets != Targets::classes)
    table.set_path("head.name", text_node("linear"));
  if (policy == "local_loss" && model.trains_on_pairs)
    table.set_path("head.name", text_node("forward_forward"));
  return table;
}

void leave_out(ConfigNode& config, std::string_view key) {
  if (auto* table = std::get_if<ConfigNode::Table>(&config.value))
    std::erase_if(*table, [&](const auto& item) { return item.first == key; });
}

/// Latency and bandwidth of [virtual] stay.
void leave_out_seconds(ConfigNode& config) {
  const ConfigNode* written = config.find("virtual");
  if (written == nullptr) return;
  ConfigNode kept = *written;
  for (const char* key :
       {"forward", "backward", "backward_input", "backward_weights", "update",
        "learn", "learn_input", "head", "jitter", "service", "seed", "slow",
        "calibrate"})
    leave_out(kept, key);
  config.set("virtual", kept);
}

/// A codec belongs to the link, not to the method.
ConfigNode with_codec_of(const ConfigNode& config, ConfigNode boundary) {
  const ConfigNode* written = config.find("boundary");
  if (written && written->find("1")) written = written->find("1");
  const ConfigNode* codec = written ? written->find("codec") : nullptr;
  if (codec && !boundary.find("codec")) boundary.set("codec", *codec);
  return boundary;
}

}  // namespace

std::vector<PlannedMethod> common_methods(const ConfigNode& config,
                                          const Experiment& experiment) {
  const std::string own =
      experiment.blocks() > 1 ? method_of(experiment) : "backprop";
  std::vector<PlannedMethod> methods;
  if (experiment.blocks() > 1 && config.find("boundary"))
    methods.push_back({.label = fmt::format("{} (config)", own)});
  for (const char* name : kCommon)
    if (methods.empty() || name != own)
      methods.push_back({name, boundary_of(name, experiment.model)});
  return methods;
}

PlannedMethod planned_method(const std::string& text,
                             const Experiment& experiment) {
  if (!text.starts_with('{')) {
    find_row(std::span<const PolicyRow>(experiment.policies), text, "method");
    return {text, boundary_of(text, experiment.model)};
  }
  const ConfigNode boundary = override_value(text, "--methods");
  const ConfigNode* policy = boundary.find("policy");
  const auto* name =
      policy ? std::get_if<std::string>(&policy->value) : nullptr;
  if (name == nullptr)
    throw UserError(
        "--methods {}: names no policy, as in {{policy = "
        "\"local_loss\"}}",
        text);
  return {.label = *name, .boundary = boundary};
}

ConfigNode config_with_method(const ConfigNode& config,
                              const PlannedMethod& method, std::int64_t blocks,
                              const Partition& ranges) {
  ConfigNode made = config;
  if (made.value.index() == 0) made.value = ConfigNode::Table{};
  made.set("blocks", std::ssize(ranges) == blocks
                         ? to_config(ranges)
                         : ConfigNode{.value = blocks});
  for (const char* key : {"timetable", "probe"}) leave_out(made, key);
  leave_out_seconds(made);
  const bool is_own = method.boundary.value.index() == 0 && blocks > 1;
  if (blocks == 1)
    leave_out(made, "boundary");
  else if (!is_own)
    made.set("boundary", with_codec_of(config, method.boundary));
  if (!is_own) leave_out(made, "pipeline");
  if (method.pipeline.value.index() != 0) made.set("pipeline", method.pipeline);
  if (std::ssize(ranges) != blocks)
    for (const char* path : {"boundary", "optimizer"})
      merge_numbered(made, path);
  return made;
}

}  // namespace sluice::planner
