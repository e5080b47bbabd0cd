#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

/// Limits of the processors that this process may use.
struct ProcessorLimits {
  std::int64_t affinity = 1;             ///< that it may run on
  std::optional<double> quota = {};      ///< of its cgroups, in processors
  std::optional<std::int64_t> omp = {};  ///< OMP_NUM_THREADS
};

/// Processors that this process may keep busy: the least of the limits, a part
/// of one counting whole; at least 1.
std::int64_t processors_within(const ProcessorLimits& limits);
ProcessorLimits processor_limits();
std::int64_t usable_processors();

/// The least quota of the cgroups that /proc/self/cgroup names, of version 2
/// (cpu.max) or 1 (cpu.cfs_quota_us), whose files are below `root`. Nothing:
/// there is none.
std::optional<double> quota_of_cgroups(const std::string& cgroups,
                                       const std::string& root);

/// The number in a text like OMP_NUM_THREADS, "4" or "4,2"; nothing: none.
std::optional<std::int64_t> threads_in(const std::string& text);

}  // namespace sluice
