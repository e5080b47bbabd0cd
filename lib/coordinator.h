#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lib/metrics/sink.h"
#include "lib/schedules/plan.h"

namespace sluice {

/// How long a run is, and what is decided on the way.
struct RunLength {
  std::int64_t turns = 0;
  std::int64_t evaluate_every = 0;    ///< turns; 0: at the end only
  std::int64_t checkpoint_every = 0;  ///< turns; 0: at the end only
  std::int64_t evaluation_batches = 0;
  bool initial_checkpoint = false;
  bool drain = true;
  std::int64_t grant_turns = 16;  ///< the most turns of one grant
};

/// Decides for the whole run, at turn boundaries only. Its decisions are
/// grants: the same sequence for every worker, each decided when it is first
/// asked for. Grant 0 has no turns: when all blocks have reached it, all are
/// there, and the clock starts. Safe to use from several threads.
class Coordinator {
 public:
  /// on_checkpoint(turn) is called when all blocks have saved theirs, with the
  /// coordinator locked.
  Coordinator(RunLength length, int blocks, std::shared_ptr<Sink> sink,
              std::function<void(std::int64_t turn)> on_checkpoint);

  /// Grant n of the run, or nothing after the last one.
  std::optional<Grant> grant(std::size_t n);
  /// A block has carried out its n-th grant.
  void reached(int block, std::size_t n);
  void write(const Record& record);
  /// The run ends cleanly at the end of what has been granted. May be called
  /// from a signal handler.
  void request_stop() { stop_.store(true); }
  bool stopped_early() const { return stopped_early_; }
  /// Turns that have been granted so far; after the run, its length.
  std::int64_t turns_granted();
  /// From the moment when all blocks were there to the last grant that all
  /// have reached.
  double seconds();

 private:
  Grant decide();

  RunLength length_;
  std::size_t blocks_;
  std::shared_ptr<Sink> sink_;
  std::function<void(std::int64_t)> on_checkpoint_;
  std::atomic<bool> stop_ = false;

  std::mutex mutex_;  // guards all below
  std::vector<Grant> decided_;
  std::vector<std::size_t> reached_by_;  // per grant: how many blocks
  std::chrono::steady_clock::time_point all_there_ = {};
  std::chrono::steady_clock::time_point last_reached_ = {};
  std::atomic<bool> stopped_early_ = false;
};

}  // namespace sluice
