#include "experiments/runs/folder/host_facts.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <ATen/Version.h>
#include <fmt/format.h>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Value of the first "NAME : value" line in a file of /proc, without blanks
/// around it; empty: there is none.
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

}  // namespace

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

std::string instruction_set() {
  std::string text = at::get_cpu_capability();
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA",
                           "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR"})
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment
    if (const char* value = std::getenv(name))
      text += fmt::format(", {}={}", name, value);
  return text;
}

std::vector<std::string> gpus_of_host() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& gpu :
       fs::directory_iterator("/proc/driver/nvidia/gpus", none))
    names.push_back(value_in((gpu.path() / "information").string(), "Model"));
  std::sort(names.begin(), names.end());
  return names;
}

std::string driver_of_host() {
  std::istringstream words(
      value_in("/proc/driver/nvidia/version", "NVRM version"));
  for (std::string word; words >> word;)
    if (std::isdigit(static_cast<unsigned char>(word.front())) != 0 &&
        word.find('.') != word.npos)
      return word;
  return "";
}

}  // namespace sluice
