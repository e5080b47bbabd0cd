#include "experiments/ranks/terms.h"

#include <array>
#include <cmath>
#include <utility>
#include <variant>

#include <ATen/Version.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/version.h>

#include "experiments/config/json.h"
#include "experiments/data/fingerprint.h"
#include "experiments/numbers.h"
#include "experiments/provenance.h"
#include "lib/base/error.h"
#include "transport/frame.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

/// Keys that change no number, but that both ends of a link must agree on.
constexpr std::array kOfLinks = {"transport", "slack", "reconnect"};

/// JSON has no number that isn't finite.
ConfigNode without_infinities(ConfigNode node) {
  if (const auto* number = std::get_if<double>(&node.value)) {
    if (!std::isfinite(*number)) node.value = number_text(*number);
  } else if (auto* list = std::get_if<ConfigNode::Array>(&node.value)) {
    for (ConfigNode& each : *list) each = without_infinities(std::move(each));
  } else if (auto* table = std::get_if<ConfigNode::Table>(&node.value)) {
    for (auto& [key, each] : *table) each = without_infinities(std::move(each));
  }
  return node;
}

/// Which of a host's GPUs it is depends on the host.
ConfigNode kinds_of(ConfigNode devices) {
  if (auto* name = std::get_if<std::string>(&devices.value)) {
    name->resize(std::min(name->size(), name->find(':')));
  } else if (auto* list = std::get_if<ConfigNode::Array>(&devices.value)) {
    for (ConfigNode& each : *list) each = kinds_of(std::move(each));
  }
  return devices;
}

ConfigNode compared(const ConfigNode& resolved) {
  ConfigNode config = without_infinities(numbers_of(resolved));
  for (const char* key : kOfLinks)
    if (const ConfigNode* node = resolved.find(key)) config.set(key, *node);
  if (const ConfigNode* devices = config.find("device"))
    config.set("device", kinds_of(*devices));
  return config;
}

/// The compiler, its options and the libraries that LibTorch was built with;
/// not what of the processor it uses.
std::string libtorch_build() {
  const std::string text = at::show_config();
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line =
        std::string_view(text).substr(begin, end - begin);
    if (line.find("CPU capability usage") == line.npos) kept += line;
    begin = end + 1;
  }
  return fmt::format("{}, configured as {:08x}", TORCH_VERSION,
                     crc32c(std::as_bytes(std::span(kept))));
}

ConfigNode build_of_libtorch() {
  ConfigNode build = {.value = ConfigNode::Table{}};
  build.set("libtorch", {.value = libtorch_build()});
  build.set("instruction_set", {.value = at::get_cpu_capability()});
  return build;
}

/// Empty or a sentence about the first difference.
std::string first_of(const ConfigNode& rank_0, const ConfigNode& its, int rank,
                     const char* what) {
  const auto found = find_difference(its, rank_0);
  if (!found) return "";
  return fmt::format("{}{} is {} at rank {}, but {} at rank 0", what,
                     found->path, found->is, rank, found->should_be);
}

std::string difference_of_runs(const Terms& rank_0, const Terms& its,
                               int rank) {
  if (its.commit != rank_0.commit)
    return fmt::format(
        "rank {0} runs Sluice built from commit {1}, but rank 0 from {2}: run "
        "the same build in all processes",
        rank, its.commit, rank_0.commit);
  if (const auto text = first_of(rank_0.config, its.config, rank, "");
      !text.empty())
    return text + ": start all ranks with the same config";
  if (const auto text = first_of(rank_0.data, its.data, rank, "the data file ");
      !text.empty())
    return text + ": give all ranks the same data";
  if (its.first_turn != rank_0.first_turn)
    return fmt::format(
        "rank {} begins at turn {}, but rank 0 at turn {}: start all ranks "
        "with --resume, or none",
        rank, its.first_turn, rank_0.first_turn);
  return "";
}

}  // namespace

Terms terms_of(const Experiment& experiment, std::int64_t first_turn) {
  return {.commit = this_build(),
          .config = compared(experiment.resolved),
          .data = fingerprint_of(*experiment.data),
          .first_turn = first_turn,
          .build = build_of_libtorch()};
}

std::string to_text(const Terms& terms) {
  const Json json = {{"commit", terms.commit},
                     {"config", json_of(terms.config)},
                     {"data", json_of(terms.data)},
                     {"first_turn", terms.first_turn},
                     {"build", json_of(terms.build)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Terms terms_from(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    return {.commit = json.at("commit"),
            .config = config_of_json(json.at("config")),
            .data = config_of_json(json.at("data")),
            .first_turn = json.at("first_turn"),
            .build = config_of_json(json.at("build"))};
  } catch (const Json::exception& error) {
    throw LinkError("it said of its run what can't be read: {}", error.what());
  } catch (const UserError& error) {
    throw LinkError("it said of its run what can't be read: {}", error.what());
  }
}

std::string other_build(const Terms& rank_0, const Terms& its, int rank) {
  return first_of(rank_0.build, its.build, rank, "");
}

std::string why_refused(const Terms& rank_0, const Terms& its, int rank,
                        bool equal_builds) {
  const std::string difference = difference_of_runs(rank_0, its, rank);
  if (!difference.empty() || !equal_builds) return difference;
  const std::string build = other_build(rank_0, its, rank);
  if (build.empty()) return "";
  return build + ", and equal_builds = true asks for the same";
}

}  // namespace sluice
