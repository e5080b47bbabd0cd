#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// The part of a run that each of its replicas has had, by its record: from the
/// start or since it joined, to the end or until it was lost.
class RecordedLives {
 public:
  using Schedule = std::vector<std::vector<Action>>;

  /// schedule: of the run's seats (index k-1), to the checkpoint of the turn
  /// `last`. started: replicas that were there from the start. lost: those that
  /// were lost at some time. Of a lost replica it
  /// may end in an exchange of which it isn't said whether the centre served
  /// it: that is completed, or taken out, by what the others say. Throws
  /// UserError, about `folder`, where they don't say it, and where a replica
  /// has come back.
  RecordedLives(const RunPlan& plan, Schedule& schedule, std::int64_t last,
                int started, const std::set<int>& lost,
                const std::string& folder);

  /// Replicas that no rest before their own first one is of: those that joined
  /// after one, by its turn, and those that never came.
  const std::set<int>& later() const { return later_; }
  const std::map<int, std::int64_t>& joined_after() const {
    return joined_after_;
  }
  /// Replicas that were lost, or never came, and aren't there at its end.
  const std::set<int>& lost() const { return lost_; }
  /// Whether a lost replica that doesn't come to a rest has been there before.
  bool is_lost_before(int replica, std::int64_t rest) const {
    const auto joined = joined_after_.find(replica);
    return lost_.contains(replica) &&
           (joined == joined_after_.end() || joined->second < rest);
  }

 private:
  void join(int replica, std::optional<std::int64_t> rest);
  void check(const std::vector<Action>& actions, int replica) const;
  void complete(Schedule& schedule, int block) const;

  const RunPlan& plan_;
  const std::string folder_;
  std::set<int> later_;
  std::map<int, std::int64_t> joined_after_;
  std::set<int> lost_;
};

/// Whether the actions have the agreement before that turn.
bool agrees_before(const std::vector<Action>& actions, std::int64_t turn);

}  // namespace sluice
