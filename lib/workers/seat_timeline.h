#pragma once

#include <cstdint>
#include <memory>

#include "lib/base/messages/channel.h"
#include "lib/base/messages/message.h"
#include "lib/metrics/sink.h"
#include "lib/metrics/time_spent.h"
#include "lib/schedules/plan/action.h"

namespace sluice {

/// Turns that a seat records.
struct TracedTurns {
  std::int64_t first = 0;
  std::int64_t count = 0;

  bool contain(std::int64_t turn) const {
    return turn >= first && turn - first < count;
  }
};

/// Records what a seat does when, by steady_seconds() of its machine:
/// records::Action, TakenMessage and SentMessage, of its own thread.
class SeatTimeline {
 public:
  SeatTimeline(int seat, std::shared_ptr<Sink> sink, TracedTurns turns);

  void begins(const Action& action);
  /// staleness: of a backward, in batches.
  void ends(const Action& action, std::int64_t staleness, const Link& below,
            const Link& above);
  void taken(const MessageHead& head, int peer, SteadyTime since) const;
  void sent(const MessageHead& head, int peer, SteadyTime since) const;

 private:
  template <class Kind>
  void tell_of(const MessageHead& head, int peer, SteadyTime since) const;

  int seat_;
  std::shared_ptr<Sink> sink_;
  TracedTurns turns_;
  bool is_on_ = false;  // within an action of those turns
  std::int64_t turn_ = 0;
  SteadyTime start_;
};

}  // namespace sluice
