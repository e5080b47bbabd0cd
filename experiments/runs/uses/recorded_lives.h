#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// When the centre of a block took a replica out, where its rule counts that.
struct RecordedLoss {
  int block = 1;
  int replica = 1;
  std::int64_t place = 0;  ///< in the order of the centre
};

/// The replicas that a run has had at each of its places, by its record: each
/// from the start or since it joined, to the end or until it was lost.
class RecordedLives {
 public:
  using Schedule = std::vector<std::vector<Action>>;
  /// What the run says of its replicas.
  struct RunFacts {
    std::int64_t last = 0;  ///< turn of the checkpoint to which the record goes
    int started = 0;        ///< replicas that were there from the start
    std::set<int> lost = {};     ///< replicas that were lost at some time
    bool counts_losses = false;  ///< whether the rule of its centres does
  };

  /// schedule: of the run's seats (index k-1). The actions of a lost replica
  /// may end in an exchange of which it isn't said whether the centre served
  /// it: that is completed, or taken out, by what the others say. An action
  /// that it began when its neighbour was gone is taken out. Throws UserError,
  /// about `folder`, where they don't say it, and where a replica has come back
  /// with a checkpoint.
  RecordedLives(const RunPlan& plan, Schedule& schedule, const RunFacts& facts,
                const std::string& folder);

  /// Replicas that no rest before their own first one is of: those that joined
  /// after one, and those that never came.
  const std::set<int>& later() const { return later_; }
  /// Replicas that were lost, or never came, and aren't there at its end.
  const std::set<int>& lost() const { return lost_; }
  /// Whether one of its place was lost.
  bool was_lost(int replica) const {
    return lost_.contains(replica) || again_.contains(replica);
  }
  /// By place. A loss after which nothing was served has none.
  const std::vector<RecordedLoss>& losses() const { return losses_; }

 private:
  struct Life;
  void look_at(const BlockPlan& block, const std::vector<Action>& actions,
               const std::vector<Action>& first, const RunFacts& facts);
  void check(const std::vector<Action>& actions, int replica) const;
  std::vector<Life> ended_lives(const Schedule& schedule,
                                const std::vector<BlockPlan>& of_block) const;
  bool take_out_vain(const BlockPlan& block, Schedule& schedule) const;
  void complete(Schedule& schedule, int block, bool counts_losses);
  void find_places(std::vector<std::int64_t> missing,
                   std::vector<Life>& lives) const;
  void take_loss(int block, Life& life);
  [[noreturn]] void refuse_waiting(int block) const;

  const RunPlan& plan_;
  const std::string folder_;
  std::set<int> later_;
  std::set<int> lost_;
  std::set<int> idle_;    // seats of lost ones that had done nothing
  std::set<int> again_;   // places that several have had
  std::set<int> joined_;  // those at whose first block one has
  std::vector<RecordedLoss> losses_;
};

/// Whether the actions have the agreement before that turn.
bool agrees_before(const std::vector<Action>& actions, std::int64_t turn);

}  // namespace sluice
