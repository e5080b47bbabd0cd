#include "experiments/runs/processes/own_terms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "experiments/config/files/named_paths.h"
#include "experiments/config/numbers.h"
#include "experiments/config/pinned_files.h"
#include "experiments/data/order/fingerprint.h"
#include "experiments/runs/folder/provenance.h"
#include "transport/wire/frame.h"

namespace sluice {
namespace {

/// Keys that change no number, but that both ends of a link must agree on.
constexpr std::array kOfLinks = {"transport", "slack", "reconnect", "pipeline"};

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

/// Kinds of devices without their numbers: which of its GPUs a host takes is
/// its own affair.
ConfigNode kinds_of(ConfigNode devices) {
  if (auto* name = std::get_if<std::string>(&devices.value)) {
    name->resize(std::min(name->size(), name->find(':')));
  } else if (auto* list = std::get_if<ConfigNode::Array>(&devices.value)) {
    for (ConfigNode& each : *list) each = kinds_of(std::move(each));
  }
  return devices;
}

/// Leaves out hashes of files: the files' own terms have them.
void leave_out_hashes(ConfigNode& config) {
  for (const auto& [table, key] :
       {std::pair{"model", "sha256"}, std::pair{"data", "tokenizer_sha256"}})
    if (!text_of_key(config, table, key).empty())
      config.set_path(fmt::format("{}.{}", table, key),
                      {.value = std::string()});
}

/// Ranks may have their files in different folders: what is in them is
/// compared.
void keep_file_names(ConfigNode& config) {
  visit_named_paths(config, [](ConfigNode& node) {
    auto& path = std::get<std::string>(node.value);
    path.erase(0, path.rfind('/') + 1);
  });
}

ConfigNode compared(const ConfigNode& resolved) {
  ConfigNode config = without_infinities(numbers_of(resolved));
  leave_out_hashes(config);
  keep_file_names(config);
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

/// Fingerprint of all files that the numbers come from.
ConfigNode fingerprint_of_files(const Experiment& experiment) {
  ConfigNode files = fingerprint_of(*experiment.data);
  const auto add = [&](const std::string& path, const std::string& sha256) {
    if (!path.empty())
      files.set(path.substr(path.rfind('/') + 1),
                {.value = "one with SHA-256 " + sha256});
  };
  add(script_file_of(experiment.resolved),
      text_of_key(experiment.resolved, "model", "sha256"));
  add(experiment.data->tokenizer_file, experiment.data->tokenizer_sha256);
  return files;
}

}  // namespace

Terms terms_of(const Experiment& experiment, std::int64_t first_turn) {
  return {.commit = this_build(),
          .config = compared(experiment.resolved),
          .data = fingerprint_of_files(experiment),
          .first_turn = first_turn,
          .build = build_of_libtorch()};
}

}  // namespace sluice
