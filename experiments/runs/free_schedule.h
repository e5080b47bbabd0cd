#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/metrics/sink.h"
#include "lib/schedules/action.h"

namespace sluice {

/// What blocks that ran free have done: keeps the records of the kind
/// "actions", whatever engine they come from, and passes all others on.
class ScheduleRecord final : public Sink {
 public:
  ScheduleRecord(int blocks, std::shared_ptr<Sink> next);

  void write(const Record& record) override;
  /// Into the folder's schedule.txt, a line per block, block 1 first; see
  /// to_text() for an action. Throws UserError when that can't be written.
  void save(const std::string& folder) const;

 private:
  std::vector<std::string> lines_;  // index k-1
  std::shared_ptr<Sink> next_;
};

std::string schedule_of_run(const std::string& folder);

/// The actions of such a file (index k-1). Throws UserError when it can't be
/// read, or is of another number of blocks.
std::vector<std::vector<Action>> read_schedule(const std::string& path,
                                               int blocks);

/// The same with the turns that the blocks counted, which the file leaves out:
/// a turn is that of the newest batch that was forwarded.
std::vector<Action> with_turns(std::vector<Action> actions);

}  // namespace sluice
