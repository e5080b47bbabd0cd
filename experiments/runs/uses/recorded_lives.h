#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lib/metrics/records.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/simulation/recorded_loss.h"

namespace sluice {

/// The replicas that a run has had at each of its places, by its record: each
/// from the start or since it joined, to the end or until it was lost.
class RecordedLives {
 public:
  using Schedule = std::vector<std::vector<Action>>;
  /// What the run says of its replicas.
  struct RunFacts {
    std::int64_t last = 0;  ///< turn of the checkpoint to which the record goes
    int started = 0;        ///< replicas that were there from the start
    std::set<int> lost = {};  ///< replicas that were lost at some time
    /// What the centres say of these, each in its order. What one has not told
    /// until the last rest changed nothing before it.
    std::vector<records::CentreLoss> losses = {};
    bool counts_losses = false;  ///< CentreSetup::counts_losses
  };

  /// schedule: of the run's seats (index k-1). The actions of a lost replica
  /// may end in an exchange of which they don't say whether the centre served
  /// it: that is completed, or taken out, by what the centre says. An action
  /// that it began when its neighbour was gone is taken out. Throws UserError,
  /// about `folder`, where a centre said nothing of a replica that it lost, and
  /// where a replica has come back with a checkpoint.
  RecordedLives(const RunPlan& plan, Schedule& schedule, const RunFacts& facts,
                const std::string& folder);

  /// Replicas that no rest before their own first one is of: those that joined
  /// after one, and those that never came.
  const std::set<int>& later() const { return later_; }
  /// Replicas that were lost, or never came, and aren't there at its end.
  const std::set<int>& lost() const { return lost_; }
  /// As the centres say, each in its order.
  const std::vector<RecordedLoss>& losses() const { return losses_; }

 private:
  void look_at(const BlockPlan& block, const std::vector<Action>& actions,
               const std::vector<Action>& first, const RunFacts& facts);
  void check(const std::vector<Action>& actions, int replica) const;
  bool take_out_vain(const BlockPlan& block, Schedule& schedule) const;
  void complete(const BlockPlan& block, std::vector<Action>& actions,
                const RunFacts& facts);
  [[noreturn]] void refuse_unsaid(const BlockPlan& block) const;

  const RunPlan& plan_;
  const std::string folder_;
  std::set<int> later_;
  std::set<int> lost_;
  std::set<int> joined_;              // those at whose first block one has
  std::vector<RecordedLoss> losses_;  // as those of the facts
};

}  // namespace sluice
