#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/awake_clock.h"
#include "lib/base/messages/channel.h"
#include "lib/engines/control_codec.h"
#include "lib/engines/heartbeat.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

/// A worker without progress that waits for no other; or all of them, that wait
/// for each other.
struct Stall {
  int block = 0;  ///< 0: all
  Deadline since = {};
  bool is_silent = false;  ///< its process said nothing at all
  std::string why = {};    ///< "hangs: it made no progress for 5.0 s, ..."
};

/// Time for which all replicas wait, at least, until it counts as a circle: the
/// turn of one may be on its way to it.
inline constexpr Deadline kCircleShows = std::chrono::seconds(1);

/// The launcher's record of the workers' progress, to name the one that hangs:
/// others that make no progress only wait for it. That is why the launcher
/// judges, and no worker its neighbour, which may be waiting itself. Used by
/// one thread, which must have taken all that workers said when it calls
/// stalled().
class ProgressBoard {
 public:
  using Clock = AwakeClock::Clock;

  /// A longer time between two calls of any member counts as so much: the
  /// launcher didn't listen then, or was suspended, and the workers too, maybe.
  explicit ProgressBoard(int blocks,
                         Clock::duration most_between_looks = AwakeClock::kMost,
                         const AwakeClock::Source& clock = Clock::now,
                         const SeatNames& names = {});

  /// A message came from the block's worker, which goes on; `has_moved` unless
  /// it says only that the worker lives.
  void heard(int block, bool has_moved = false);
  /// A message of kind `progress` (Heartbeat::progress()) came from the block's
  /// worker.
  void progress(int block, const Progress& now);
  /// Called when the link to the block's worker has ended.
  void ended(int block);
  /// Called when another worker takes its place, with its links to the others.
  void joined(int block);

  /// Whether every block that hasn't ended has sent a heartbeat: then all have
  /// joined their neighbours.
  bool all_heard() const;
  /// The worker that has stalled for longest, if for at least `deadline`: its
  /// process says nothing at all, or works without progress. An action moves a
  /// worker when it is done: the deadline must be longer than any.
  std::optional<Stall> stalled(Deadline deadline) const;
  /// Whether all that haven't ended wait, and none has moved for so long.
  bool all_wait(Deadline deadline) const;

 private:
  struct Worker {
    bool was_heard = false;
    bool has_ended = false;
    Progress last = {};
    Clock::time_point heard = {};
    Clock::time_point moved = {};
  };
  Worker& at(int block);
  std::string why(const Worker& worker, Clock::time_point now,
                  bool is_silent) const;
  std::string waited_for(int there) const;
  std::optional<Stall> circle(Deadline deadline, Clock::time_point now) const;

  mutable AwakeClock clock_;
  SeatNames names_;
  std::vector<Worker> workers_;
};

}  // namespace sluice
