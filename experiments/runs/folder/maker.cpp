#include "experiments/runs/folder/maker.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include "experiments/config/experiment.h"
#include "experiments/runs/folder/host_facts.h"
#include "experiments/runs/folder/provenance.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 9> kKeys = {
    "build",  "libtorch", "processor", "instruction_set", "gpus",
    "driver", "threads",  "engine",    "device"};

/// The version alone of "2.13.0, configured as 0a1b2c3d", as ranks say it.
std::string text_in(const Json& value) {
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    return text.substr(0, text.find(", configured as"));
  }
  if (value.is_number_integer())
    return std::to_string(value.get<std::int64_t>());
  if (!value.is_array()) return "";
  std::vector<std::string> texts;
  for (const Json& each : value) texts.push_back(text_in(each));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Whether "2 threads" follows the number.
bool is_shown_first(std::string_view key) {
  return key == "threads";
}

std::string named(std::string_view key, const std::set<std::string>& values) {
  return is_shown_first(key)
             ? fmt::format("{} {}", fmt::join(values, " and "), key)
             : fmt::format("{} {}", key, fmt::join(values, " and "));
}

/// Ranks whose builds or instruction sets were not rank 0's (roll_call.h).
void add_ranks(const Json& part, std::vector<Maker>& makers) {
  if (!part.is_object()) return;
  if (const auto builds = part.find("builds");
      builds != part.end() && builds->is_object())
    for (const Json& build : *builds) makers.emplace_back(build);
}

}  // namespace

Maker::Maker(const Json& part) {
  if (!part.is_object()) return;
  for (const std::string_view key : kKeys)
    if (const auto at = part.find(std::string(key)); at != part.end())
      if (std::string text = text_in(*at); !text.empty())
        texts_.emplace_back(key, std::move(text));
}

std::string_view Maker::find(std::string_view key) const {
  for (const auto& [name, text] : texts_)
    if (name == key) return text;
  return "";
}

Json maker_keys(const Experiment& experiment) {
  Json keys;
  keys["processor"] = processor_model();
  keys["instruction_set"] = instruction_set();
  if (uses_gpus(experiment)) {
    keys["gpus"] = gpus_of_host();
    if (const std::string driver = driver_of_host(); !driver.empty())
      keys["driver"] = driver;
  }
  keys["threads"] = experiment.threads;
  std::vector<std::string> devices = experiment.devices;
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  if (devices.empty()) devices.emplace_back("cpu");
  keys["device"] = devices;
  return keys;
}

Maker maker_here(const Experiment& experiment) {
  Json part = maker_keys(experiment);
  part["build"] = this_build();
  part["libtorch"] = TORCH_VERSION;
  part["engine"] = name_of(experiment.engine);
  return Maker(part);
}

std::vector<Maker> makers_in(const Json& run) {
  std::vector<Maker> makers = {Maker(run)};
  if (!run.is_object()) return makers;
  add_ranks(run, makers);
  if (const auto parts = run.find("continued");
      parts != run.end() && parts->is_array())
    for (const Json& part : *parts) {
      add_ranks(part, makers);
      makers.emplace_back(part);
    }
  return makers;
}

std::vector<Maker> makers_of_run(const std::string& folder) {
  std::ifstream file(folder + "/run.json");
  const Json run = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!run.is_object()) return {};
  return makers_in(run);
}

std::string mixed(std::span<const Maker> makers,
                  std::span<const std::string_view> but) {
  std::string text;
  for (const std::string_view key : kKeys) {
    if (std::find(but.begin(), but.end(), key) != but.end()) continue;
    std::set<std::string> values;
    for (const Maker& maker : makers)
      if (const std::string_view value = maker.find(key); !value.empty())
        values.emplace(value);
    if (values.size() > 1)
      text += (text.empty() ? "" : "; ") + named(key, values);
  }
  return text;
}

std::string text_of(const Maker& maker) {
  std::string text;
  for (const auto& [key, before] :
       {std::pair{"libtorch", "LibTorch "}, std::pair{"processor", ""},
        std::pair{"instruction_set", ""}, std::pair{"gpus", ""},
        std::pair{"driver", "driver "},
        std::pair{"threads", "threads of a block: "}})
    if (const std::string_view value = maker.find(key); !value.empty())
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", before, value);
  return text;
}

std::string likely_cause(const std::string& run_folder,
                         const Experiment& experiment) {
  constexpr std::array<std::string_view, 1> kNoCause = {"engine"};
  std::vector<Maker> makers = makers_of_run(run_folder);
  makers.push_back(maker_here(experiment));
  return mixed(makers, kNoCause);
}

}  // namespace sluice
