#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/metrics/record.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// The actions of blocks that ran free: keeps the records::Actions, whatever
/// engine they come from, and passes all others on.
class ScheduleRecord final : public Sink {
 public:
  /// blocks: of all replicas together. started: those of the replicas that are
  /// there from the start, the first ones; 0: all.
  ScheduleRecord(int blocks, std::shared_ptr<Sink> next, int replicas = 1,
                 int started = 0);

  void write(const Record& record) override;
  /// Goes on from what the folder's schedule.txt says. Throws UserError when it
  /// is none of so many blocks.
  void recall(const std::string& folder);
  /// Into the folder's schedule.txt, a line per block, block 1 first; see
  /// to_text() for actions. Throws UserError when that can't be written.
  void save(const std::string& folder) const;
  /// Saves the order up to the checkpoint of that turn, which all blocks have
  /// saved, but for those of replicas that weren't there then: of these, what
  /// was before.
  void save_until(std::int64_t turn, const std::string& folder) const;

 private:
  struct Line {
    std::string text = {};
    std::string unfinished = {};  ///< of the grant that it is at
    std::int64_t phase = 0;       ///< of its last action
    bool is_there = true;
    std::size_t joined_at = 0;      ///< size of the text before it joined last
    std::int64_t joined_turn = -1;  ///< its first turn then
    std::optional<std::string> until(std::int64_t turn) const;
    void add(const std::string& actions);
    void end();
  };
  std::vector<std::string> texts() const;
  void set_replica(int replica, const std::function<void(Line&)>& set);

  std::vector<Line> lines_;  // index k-1
  std::shared_ptr<Sink> next_;
  int replicas_;
};

std::string schedule_of_run(const std::string& folder);

/// The actions of such a file, which the seats of the plan did (index k-1).
/// Throws UserError when it can't be read, or is of another number of them.
std::vector<std::vector<Action>> read_schedule(const std::string& path,
                                               const RunPlan& plan);

/// Actions with the turns that the seat counted, which the file leaves out: a
/// turn is that of the newest batch that was forwarded.
std::vector<Action> with_turns(const BlockPlan& plan,
                               std::vector<Action> actions);

/// Replicas that a run has lost, or that weren't there from its start: a
/// checkpoint is whole without their blocks, which may begin there.
struct ReturningReplicas {
  std::set<int> replicas = {};
  std::int64_t of = 1;  ///< replicas that the run has
};

/// Whether a run's schedule.txt is of so many blocks, and all of them come to
/// the checkpoint of that turn.
bool is_recorded_until(std::int64_t turn, int blocks, const std::string& folder,
                       const ReturningReplicas& returning = {});

/// Cuts a run's schedule.txt behind the checkpoint of that turn, to which the
/// run goes back. Removes it when the run goes back to its start (no turn), or
/// it doesn't come to that checkpoint; nothing happens where there is none.
/// Lines of returning replicas that don't come to it are given that checkpoint.
void cut_schedule(std::optional<std::int64_t> turn, const std::string& folder,
                  const ReturningReplicas& returning = {});

/// Leaves out records of batches that a block had not applied by what the run's
/// schedule.txt says, if there is one: a checkpoint comes in the middle of a
/// turn of blocks that run free. replicas: of the run.
void leave_out_undone(const std::string& folder, std::int64_t replicas,
                      std::vector<Record>& records);

}  // namespace sluice
