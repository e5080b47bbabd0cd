#include "experiments/runs/maker.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include <ATen/Version.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include "experiments/config/experiment.h"
#include "experiments/runs/provenance.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 9> kKeys = {
    "build",  "libtorch", "processor", "instruction_set", "gpus",
    "driver", "threads",  "engine",    "device"};

/// "NAME : value" lines of /proc, with their blanks trimmed.
std::string value_in(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const auto is_blank = [](unsigned char c) { return std::isspace(c) != 0; };
    std::string key = line.substr(0, colon);
    while (!key.empty() && is_blank(key.back())) key.pop_back();
    if (key != name) continue;
    line.erase(0, colon + 1);
    while (!line.empty() && is_blank(line.front())) line.erase(0, 1);
    return line;
  }
  return "";
}

/// "AMD EPYC, family 25, model 17, stepping 1": names alone are shared by
/// processors of several generations.
std::string processor_model() {
  constexpr const char* kCpus = "/proc/cpuinfo";
  std::string text = value_in(kCpus, "model name");
  for (const auto& [name, shown] :
       {std::pair{"cpu family", "family"}, std::pair{"model", "model"},
        std::pair{"stepping", "stepping"},
        std::pair{"CPU implementer", "implementer"},
        std::pair{"CPU part", "part"}})
    if (const std::string value = value_in(kCpus, name); !value.empty())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", shown, value);
  return text.empty() ? "unknown" : text;
}

/// LibTorch's, and limits that its libraries were given.
std::string instruction_set() {
  std::string text = at::get_cpu_capability();
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA",
                           "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR"})
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment
    if (const char* value = std::getenv(name))
      text += fmt::format(", {}={}", name, value);
  return text;
}

/// Names of the host's NVIDIA GPUs.
std::vector<std::string> gpus_of_host() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& gpu :
       fs::directory_iterator("/proc/driver/nvidia/gpus", none))
    names.push_back(value_in((gpu.path() / "information").string(), "Model"));
  std::sort(names.begin(), names.end());
  return names;
}

/// "550.54.15"; empty where there is none.
std::string driver_of_host() {
  std::istringstream words(
      value_in("/proc/driver/nvidia/version", "NVRM version"));
  for (std::string word; words >> word;)
    if (std::isdigit(static_cast<unsigned char>(word.front())) != 0 &&
        word.find('.') != word.npos)
      return word;
  return "";
}

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
