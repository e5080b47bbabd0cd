#include "experiments/data/windows.h"

#include <algorithm>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

std::int64_t offset_of(const Windows& windows, EpochKey key) {
  if (!windows.move) return 0;
  KeyedRandom random(random_key({key.seed, key_part("offset of windows"),
                                 static_cast<std::uint64_t>(key.epoch)}));
  return static_cast<std::int64_t>(
      random.below(static_cast<std::uint64_t>(windows.context)));
}

}  // namespace

std::int64_t Windows::position(std::int64_t index, EpochKey key) const {
  SLUICE_CHECK(index >= 0 && index < count, "sample {} of {}", index, count);
  return begin + offset_of(*this, key) + index * context;
}

Windows training_windows(std::int64_t tokens, std::int64_t context) {
  return {.count = std::max<std::int64_t>(tokens / context - 1, 0),
          .context = context,
          .move = true};
}

Windows evaluation_windows(std::int64_t begin, std::int64_t tokens,
                           std::int64_t context) {
  return {.begin = begin,
          .count = std::max<std::int64_t>((tokens - 1) / context, 0),
          .context = context};
}

}  // namespace sluice
