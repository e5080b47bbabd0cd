#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "experiments/data/samples/samples.h"
#include "experiments/data/samples/split.h"

namespace sluice {

/// Where the samples of a text lie: windows of so many tokens, one after the
/// other, each with the token after it.
struct Windows {
  std::int64_t begin = 0;  ///< the split's first token
  std::int64_t count = 0;
  std::int64_t context = 0;
  /// Whether the first window of an epoch starts at an offset below `context`
  /// that is keyed by (seed, epoch).
  bool move = false;

  /// The first token of window `index`, which is in [0, count).
  std::int64_t position(std::int64_t index, EpochKey key) const;
};

/// Windows in a part of `tokens`, which all lie in it with any offset; count 0
/// when it is too short.
Windows training_windows(std::int64_t tokens, std::int64_t context);
Windows evaluation_windows(std::int64_t begin, std::int64_t tokens,
                           std::int64_t context);

/// Fills `tokens` with those of a text from its token `begin` on. Any number of
/// threads may call it.
using ReadTokens =
    std::function<void(std::int64_t begin, std::span<std::int64_t> tokens)>;

/// The samples of a text at these windows: inputs int64 [N, T], and labels
/// int64 [N, T], the tokens that follow each. `open` is called when they are
/// wanted for the first time.
Split split_of_windows(const Windows& windows,
                       std::function<ReadTokens()> open);

}  // namespace sluice
