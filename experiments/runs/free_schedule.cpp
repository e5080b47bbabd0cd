#include "experiments/runs/free_schedule.h"

#include <cstdint>
#include <fstream>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/schedules/op_table.h"

namespace sluice {

ScheduleRecord::ScheduleRecord(int blocks, std::shared_ptr<Sink> next)
    : lines_(static_cast<std::size_t>(blocks)), next_(std::move(next)) {}

void ScheduleRecord::write(const Record& record) {
  if (record.text("kind") != "actions") return next_->write(record);
  const auto block = static_cast<std::size_t>(record.number("block", 0));
  std::string& line = lines_.at(block - 1);
  line += (line.empty() ? "" : " ") + record.text("actions");
}

void ScheduleRecord::save(const std::string& folder) const {
  write_file_atomically(schedule_of_run(folder), [&](std::ostream& file) {
    for (const std::string& line : lines_) file << line << '\n';
  });
}

std::string schedule_of_run(const std::string& folder) {
  return folder + "/schedule.txt";
}

std::vector<std::vector<Action>> read_schedule(const std::string& path,
                                               int blocks) {
  std::ifstream file(path);
  if (!file) throw UserError("{}: can't be read", path);
  std::vector<std::vector<Action>> actions;
  for (std::string line; std::getline(file, line);)
    actions.push_back(actions_from_text(line));
  if (std::ssize(actions) != blocks)
    throw UserError("{}: {} lines of actions, the model has {} blocks", path,
                    actions.size(), blocks);
  return actions;
}

std::vector<Action> with_turns(std::vector<Action> actions) {
  std::int64_t newest = -1;
  for (Action& action : actions) {
    if (action.op == Op::forward) newest = action.batch;
    action.turn = row_of(action.op).is_training ? newest : newest + 1;
  }
  return actions;
}

}  // namespace sluice
