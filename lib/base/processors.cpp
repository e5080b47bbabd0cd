#include "lib/base/processors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sched.h>

namespace sluice {
namespace {

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The processors of two numbers, microseconds of a period; nothing: "max", -1.
std::optional<double> share_of(const std::string& quota,
                               const std::string& period) {
  std::istringstream numbers(quota + " " + period);
  double most = 0;
  double whole = 0;
  if (!(numbers >> most >> whole) || most <= 0 || whole <= 0)
    return std::nullopt;
  return most / whole;
}

/// The quota in cgroups of version 2: "200000 100000", or "max 100000".
std::optional<double> unified_quota(const std::string& folder) {
  return share_of(text_of_file(folder + "/cpu.max"), "");
}

std::optional<double> first_version_quota(const std::string& folder) {
  return share_of(text_of_file(folder + "/cpu.cfs_quota_us"),
                  text_of_file(folder + "/cpu.cfs_period_us"));
}

/// A cgroup's folders from `top` down: each bounds those below it.
std::vector<std::string> folders_down_to(const std::string& top,
                                         std::string path) {
  std::vector<std::string> folders = {top};
  while (path.size() > 1) {
    folders.push_back(top + path);
    path.resize(path.rfind('/'));
  }
  return folders;
}

bool has_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t comma =
        std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "cpu") return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

void take_least(std::optional<double> quota, std::optional<double>& least) {
  if (quota && (!least || *quota < *least)) least = quota;
}

std::int64_t processors_by_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::thread::hardware_concurrency();  // more than the set has room for
}

}  // namespace

std::int64_t processors_within(const ProcessorLimits& limits) {
  std::int64_t count = limits.affinity;
  if (limits.quota)
    count =
        std::min(count, static_cast<std::int64_t>(std::ceil(*limits.quota)));
  if (limits.omp) count = std::min(count, *limits.omp);
  return std::max<std::int64_t>(1, count);
}

ProcessorLimits processor_limits() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment
  const char* omp = std::getenv("OMP_NUM_THREADS");
  return {.affinity = processors_by_affinity(),
          .quota = quota_of_cgroups(text_of_file("/proc/self/cgroup"),
                                    "/sys/fs/cgroup"),
          .omp = threads_in(omp == nullptr ? "" : omp)};
}

std::int64_t usable_processors() {
  return processors_within(processor_limits());
}

std::optional<double> quota_of_cgroups(const std::string& cgroups,
                                       const std::string& root) {
  std::optional<double> least;
  std::istringstream lines(cgroups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      for (const char* top : {"", "/unified"})
        for (const std::string& folder : folders_down_to(root + top, path))
          take_least(unified_quota(folder), least);
    } else if (has_cpu(controllers)) {
      for (const std::string& top : {controllers, std::string("cpu")})
        for (const std::string& folder :
             folders_down_to(fmt::format("{}/{}", root, top), path))
          take_least(first_version_quota(folder), least);
    }
  }
  return least;
}

std::optional<std::int64_t> threads_in(const std::string& text) {
  std::int64_t number = 0;
  const char* begin = text.data();
  while (*begin == ' ') ++begin;
  const auto [end, error] =
      std::from_chars(begin, text.data() + text.size(), number);
  const bool is_number = error == std::errc() && number > 0 &&
                         (*end == '\0' || *end == ',' || *end == ' ');
  return is_number ? std::optional(number) : std::nullopt;
}

}  // namespace sluice
