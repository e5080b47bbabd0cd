#include "experiments/runs/folder/free_schedule.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/files/moved_folder.h"
#include "lib/metrics/records.h"
#include "lib/schedules/plan/op_table.h"

namespace sluice {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw UserError(
        "{}: can't be read; give a file of schedules, a line per block, as "
        "`sluice plan --list` prints them",
        path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(std::move(line));
  return lines;
}

void check_blocks(std::size_t lines, int blocks, const std::string& path) {
  if (lines != static_cast<std::size_t>(blocks))
    throw UserError("{}: {} lines of actions, the model has {} blocks", path,
                    lines, blocks);
}

/// A line up to its last checkpoint of that turn; nothing when it has none.
std::optional<std::string> until(std::int64_t turn, std::string_view line) {
  const std::string word = fmt::format("C{}", turn);
  for (std::size_t at = line.rfind(word); at != line.npos;
       at = at == 0 ? line.npos : line.rfind(word, at - 1)) {
    const std::size_t end = at + word.size();
    const bool is_word = (at == 0 || line[at - 1] == ' ') &&
                         (end == line.size() || line[end] == ' ');
    if (is_word) return std::string(line.substr(0, end));
  }
  return std::nullopt;
}

/// The line without what its replica has done since it joined at that turn or
/// later.
std::string before_entry(std::int64_t turn, const std::string& line) {
  const std::vector<Action> actions = actions_from_text(line);
  const auto entry =
      std::find_if(actions.begin(), actions.end(), [&](const Action& action) {
        return action.kind == ExchangeKind::entry && action.batch >= turn;
      });
  return entry == actions.end()
             ? line
             : to_text(std::vector<Action>(actions.begin(), entry));
}

/// All lines up to a checkpoint; nothing when one of them doesn't come so far.
/// Lines of returning replicas come to it from wherever they were.
std::optional<std::vector<std::string>> until(
    std::int64_t turn, const std::vector<std::string>& lines,
    const ReturningReplicas& returning) {
  const std::int64_t depth =
      std::max<std::int64_t>(1, std::ssize(lines) / returning.of);
  std::vector<std::string> all;
  for (const std::string& line : lines) {
    std::optional<std::string> part = until(turn, line);
    const int replica = static_cast<int>(std::ssize(all) / depth) + 1;
    if (!part && returning.replicas.contains(replica)) {
      part = before_entry(turn, line);
      *part += fmt::format("{}C{}", part->empty() ? "" : " ", turn);
    }
    if (!part) return std::nullopt;
    all.push_back(std::move(*part));
  }
  return all;
}

void write_lines(const std::vector<std::string>& lines,
                 const std::string& folder) {
  work_while_moved(folder, [&] {
    write_file_atomically(schedule_of_run(folder), [&](std::ostream& file) {
      for (const std::string& line : lines) file << line << '\n';
    });
  });
}

/// The op of which a record of a block and a batch tells.
std::optional<Op> told_op(const Record& record) {
  if (record.is<records::Train>() || record.is<records::Hash>())
    return Op::update;
  if (record.is<records::Probe>() || record.is<records::LayerProbe>())
    return Op::backward;
  if (record.is<records::Lesson>()) return Op::learn;
  return std::nullopt;
}

/// The newest batch by op, -1: none. Batches are applied in their order.
OpValues<std::int64_t> newest_of(const std::vector<Action>& actions) {
  OpValues<std::int64_t> newest;
  std::fill(newest.begin(), newest.end(), -1);
  for (const Action& action : actions)
    newest[action.op] = std::max(newest[action.op], action.batch);
  return newest;
}

}  // namespace

ScheduleRecord::ScheduleRecord(int blocks, std::shared_ptr<Sink> next,
                               int replicas, int started)
    : lines_(static_cast<std::size_t>(blocks)),
      next_(std::move(next)),
      replicas_(replicas) {
  const int there = started == 0 ? blocks : started;
  for (int block = there + 1; block <= blocks; ++block)
    by_block(lines_, block).is_there = false;
}

/// Nothing: the block should have saved that turn, and hasn't.
std::optional<std::string> ScheduleRecord::Line::until(
    std::int64_t turn) const {
  if (turn <= joined_turn) return text.substr(0, joined_at);
  return is_there ? sluice::until(turn, text) : text;
}

void ScheduleRecord::set_replica(int replica,
                                 const std::function<void(Line&)>& set) {
  const int depth = static_cast<int>(std::ssize(lines_)) / replicas_;
  for (int block = 1; block <= depth; ++block)
    set(by_block(lines_, (replica - 1) * depth + block));
}

void ScheduleRecord::write(const Record& record) {
  const auto done = record.as<records::Actions>();
  if (const auto lost = record.as<records::LostReplica>())
    set_replica(lost->replica, [](Line& line) { line.end(); });
  if (const auto joined = record.as<records::JoinedReplica>())
    set_replica(joined->replica, [&](Line& line) {
      line.is_there = true;
      line.joined_at = line.text.size();
      line.joined_turn = joined->turn;
    });
  if (!done) return next_->write(record);
  Line& line = by_block(lines_, done->block);
  if (std::exchange(line.phase, done->phase) != done->phase)
    line.add(fmt::format("P{}", line.phase));
  if (!done->actions.empty()) line.add(done->actions);
  if (done->part == 0) line.text += std::exchange(line.unfinished, {});
}

void ScheduleRecord::Line::add(const std::string& actions) {
  unfinished += (text.empty() && unfinished.empty() ? "" : " ") + actions;
}

/// Called when the replica is lost: of the grant that it was at, others have
/// seen what it reported.
void ScheduleRecord::Line::end() {
  text += std::exchange(unfinished, {});
  is_there = false;
}

void ScheduleRecord::recall(const std::string& folder) {
  const std::string path = schedule_of_run(folder);
  const std::vector<std::string> texts = lines_of(path);
  check_blocks(texts.size(), static_cast<int>(lines_.size()), path);
  for (std::size_t k = 0; k < texts.size(); ++k) {
    const std::vector<Action> actions = actions_from_text(texts[k]);
    lines_[k].text = texts[k];
    lines_[k].phase = actions.empty() ? 0 : actions.back().phase;
  }
}

std::vector<std::string> ScheduleRecord::texts() const {
  std::vector<std::string> all;
  all.reserve(lines_.size());
  for (const Line& line : lines_) all.push_back(line.text);
  return all;
}

void ScheduleRecord::save(const std::string& folder) const {
  write_lines(texts(), folder);
}

void ScheduleRecord::save_until(std::int64_t turn,
                                const std::string& folder) const {
  std::vector<std::string> lines;
  for (const Line& line : lines_) {
    auto part = line.until(turn);
    SLUICE_CHECK(part, "a block has saved turn {} and didn't tell", turn);
    lines.push_back(*std::move(part));
  }
  write_lines(lines, folder);
}

std::string schedule_of_run(const std::string& folder) {
  return folder + "/schedule.txt";
}

std::vector<std::vector<Action>> read_schedule(const std::string& path,
                                               const RunPlan& plan) {
  const std::vector<std::string> lines = lines_of(path);
  check_blocks(lines.size(), static_cast<int>(plan.blocks.size()), path);
  std::vector<std::vector<Action>> actions;
  for (std::size_t i = 0; i < lines.size(); ++i)
    actions.push_back(
        actions_from_text(lines[i], plan.blocks[i].exchange.of_window()));
  return actions;
}

std::vector<Action> with_turns(const BlockPlan& plan,
                               std::vector<Action> actions) {
  std::int64_t newest = -1;
  std::int64_t end = 0;  // of the turns of a grant
  for (Action& action : actions) {
    const bool is_between_turns = action.kind == ExchangeKind::agreement ||
                                  action.kind == ExchangeKind::entry;
    if (action.op == Op::forward)
      newest = plan.micro_batches.turn_of(action.batch);
    if (action.kind == ExchangeKind::entry) newest = action.batch - 1;
    if (is_between_turns)
      end = action.batch;
    else if (row_of(action.op).is_training)
      end = newest + 1;
    action.turn = is_between_turns                ? end - 1
                  : row_of(action.op).is_training ? newest
                                                  : end;
  }
  return actions;
}

bool is_recorded_until(std::int64_t turn, int blocks, const std::string& folder,
                       const ReturningReplicas& returning) {
  const std::string path = schedule_of_run(folder);
  if (!std::filesystem::exists(path)) return false;
  const std::vector<std::string> lines = lines_of(path);
  return std::ssize(lines) == blocks && until(turn, lines, returning);
}

void cut_schedule(std::optional<std::int64_t> turn, const std::string& folder,
                  const ReturningReplicas& returning) {
  const std::string path = schedule_of_run(folder);
  if (!std::filesystem::exists(path)) return;
  std::optional<std::vector<std::string>> lines;
  if (turn) lines = until(*turn, lines_of(path), returning);
  if (lines) return write_lines(*lines, folder);
  std::error_code error;
  std::filesystem::remove(path, error);
  if (error) throw UserError("{}: can't be removed: {}", path, error.message());
}

void leave_out_undone(const std::string& folder, std::int64_t replicas,
                      std::vector<Record>& records) {
  const std::string path = schedule_of_run(folder);
  if (!std::filesystem::exists(path)) return;
  std::vector<OpValues<std::int64_t>> newest;
  for (const std::string& line : lines_of(path))
    newest.push_back(newest_of(actions_from_text(line)));
  const int depth = static_cast<int>(std::ssize(newest) / replicas);
  std::erase_if(records, [&](const Record& record) {
    const std::optional<Op> op = told_op(record);
    const auto place = record.read<records::BatchFields>();
    const int seat = place.block + (place.replica.value_or(1) - 1) * depth;
    if (!op || place.block < 1 || seat > std::ssize(newest)) return false;
    return place.batch > by_block(newest, seat)[*op];
  });
}

}  // namespace sluice
