#include "experiments/data/sets/user_cache.h"

#include <cstdlib>

namespace sluice {

std::string user_cache() {
  const auto value_of = [](const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string cache = value_of("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/sluice";
  if (const std::string home = value_of("HOME"); !home.empty())
    return home + "/.cache/sluice";
  return "";
}

}  // namespace sluice
