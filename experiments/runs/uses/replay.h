#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// A block at a checkpoint of the run and of its replay.
struct CheckpointComparison {
  int block = 1;
  int replica = 1;
  std::int64_t turn = 0;
  std::string hash = {};        ///< of all that the replay has
  std::string difference = {};  ///< the first tensor that differs, or empty
};

/// Findings of a replay, in the order in which they came.
struct ReplayResult {
  std::vector<CheckpointComparison> compared = {};
  /// Differences between the run's makers and this process ("instruction_set
  /// AVX2 and AVX512"): it may cause a difference.
  std::string makers = {};
  /// How the learning rate changed where the run was continued, as run.json has
  /// it; empty: it didn't. A replay has the last part's config throughout.
  std::string rate = {};

  /// The first difference as "turn 12, block 2: NAME", of another replica than
  /// the first "turn 12, block 2.3: NAME"; empty: the same bits.
  std::string difference() const;
};

/// Repeats a run whose blocks ran free, or whose assistant drew ahead
/// (data.assist), on whatever engine, from what its folder holds: the config,
/// in schedule.txt what free blocks have done, in metrics.jsonl what an
/// assistant learned before each draw; all in this thread, and writes nothing.
/// Throws UserError when the folder has no such run, or when its record is none
/// of a run that could have been.
ReplayResult replay(const std::string& run_folder);

}  // namespace sluice
