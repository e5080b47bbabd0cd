#include "experiments/runs/folder/run_folder.h"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/config/files/toml.h"
#include "experiments/runs/folder/free_schedule.h"
#include "experiments/runs/folder/provenance.h"
#include "experiments/runs/folder/returned_replicas.h"
#include "experiments/runs/folder/run_entries.h"
#include "experiments/runs/folder/run_reader.h"
#include "experiments/runs/folder/sound_checkpoint.h"
#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "lib/base/files/file.h"
#include "lib/base/files/moved_folder.h"
#include "lib/base/files/output_file.h"
#include "lib/base/files/read_file.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/set_aside.h"
#include "lib/metrics/records.h"
#include "lib/metrics/time_spent.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class MetricsFile final : public Sink {
 public:
  explicit MetricsFile(std::string path) : path_(std::move(path)) {
    errno = 0;
    file_.open(path_, std::ios::app);
    check();
  }
  void write(const Record& record) override {
    errno = 0;
    file_ << to_json(record) << '\n' << std::flush;
    check();
  }

 private:
  void check() const {
    if (!file_)
      throw UserError("{}: can't be written: {}", path_, errno_text());
  }

  std::string path_;
  OutputFile file_;
};

void write_text(const std::string& path, const std::string& text) {
  write_file_atomically(path, [&](std::ostream& file) { file << text; });
}

void write_records(const std::string& path,
                   const std::vector<Record>& records) {
  write_file_atomically(path, [&](std::ostream& file) {
    for (const Record& record : records) file << to_json(record) << '\n';
  });
}

/// Whether a record is about the run, not about a turn of it: what happened
/// stays true.
bool is_event(const Record& record) {
  return record.is<records::Restart>() || record.is<records::Injection>() ||
         record.is<records::Forecast>();
}

/// Takes those records of metrics-rest.jsonl that metrics.jsonl lacks: a
/// process that was killed after it had put them there left the file.
void read_rest(const std::string& folder,
               const std::function<void(const Record&)>& take) {
  if (!fs::exists(rest_of_metrics(folder))) return;
  std::set<std::string> known;
  RunReader(folder).read(
      [&](const Record& record) { known.insert(to_json(record)); });
  RunReader::of_file(rest_of_metrics(folder)).read([&](const Record& record) {
    if (!known.contains(to_json(record))) take(record);
  });
}

/// The records about the turns before the checkpoint, with the drain and the
/// evaluation after them.
std::vector<Record> records_until(const RestartPoint& from,
                                  const std::string& folder) {
  std::vector<Record> found;
  const auto take = [&](const Record& record) {
    const auto place = record.read<records::Place>();
    const std::int64_t at = place.turn.value_or(-1);
    const bool is_there =
        record.is<records::Evaluation>() || record.is<records::SavedClock>() ||
        (record.is<records::Phase>() && place.phase.value_or(0) <= from.phase);
    const bool is_drained = place.batch.value_or(at) < from.first_batch;
    // A checkpoint lacks the replica that was lost in its turn: that record
    // stays.
    const auto lost = record.as<records::LostReplica>();
    const bool is_missed = lost && from.returning.contains(lost->replica);
    const bool is_before = !from.checkpoint.empty() && at >= 0 &&
                           (at < from.turn || is_drained ||
                            ((is_there || is_missed) && at == from.turn));
    if (is_before || is_event(record)) found.push_back(record);
  };
  RunReader(folder).read(take);
  read_rest(folder, take);
  return found;
}

/// Whether the path is a checkpoint of a turn after `turn`, or part of one.
bool is_checkpoint_after(std::int64_t turn, const fs::path& path) {
  return path.filename().string().starts_with("turn-") &&
         turn_of(path.string()).value_or(turn + 1) > turn;
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error)
    throw UserError("{}: can't be removed: {}", path.string(), error.message());
}

/// Copies the tokenizer into the folder: the cache may be emptied.
void keep_tokenizer(const std::string& file, const std::string& folder) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
  write_text(folder + "/tokenizer.model", read_file(file, kMostBytes));
}

/// Makes a folder and those above it. Returns whether it was missing.
bool make_folders(const fs::path& path) {
  std::error_code error;
  const bool is_new = fs::create_directories(path, error);
  if (error)
    throw UserError("{}: can't be made: {}", path.string(), error.message());
  return is_new;
}

}  // namespace

void RunFolder::keep_what_was(bool is_new) {
  before_ = std::make_unique<KeptFolder>(path_, is_new, lock_);
}

void RunFolder::begin() {
  if (before_) before_->keep_changes();
}

RunFolder RunFolder::make(std::string path, const Experiment& experiment,
                          const std::string& command, const MakeOptions& how) {
  const bool is_new = make_folders(path) || how.is_new;
  auto held = std::make_shared<FolderLock>(path, how.lock);
  RunFolder folder(std::move(path), std::move(held));
  if (!is_new) KeptFolder::put_back(folder.path_);
  const std::vector<std::string> entries = overwritten_entries_in(folder.path_);
  if (!entries.empty() && !how.overwrite)
    throw UserError(
        "{} holds a run already ({}); give another --dir, --resume to "
        "continue that run, or --overwrite to remove it",
        folder.path_, entries.front());
  if (how.may_be_refused) folder.keep_what_was(is_new);
  for (const std::string& entry : entries)
    remove_tree(folder.path_ + "/" + entry);
  write_text(folder.path_ + "/config.toml", to_toml(experiment.resolved));
  folder.started_ = seconds_since_1970();
  const std::string changes = uncommitted_changes();
  if (!changes.empty()) write_text(folder.path_ + "/changes.patch", changes);
  write_text(folder.path_ + "/run.json",
             provenance(command, experiment, folder.started_).dump(2) + "\n");
  if (experiment.data && !experiment.data->tokenizer_file.empty())
    keep_tokenizer(experiment.data->tokenizer_file, folder.path_);
  return folder;
}

void RunFolder::rewind(const RestartPoint& to) {
  history_ = records_until(to, path_);
  const bool is_recorded = fs::exists(schedule_of_run(path_));
  const ReturningReplicas gaps =
      is_recorded ? replicas_with_gaps(path_) : ReturningReplicas();
  if (is_recorded)
    cut_schedule(to.checkpoint.empty() ? std::nullopt : std::optional(to.turn),
                 path_, gaps);
  if (fs::exists(schedule_of_run(path_)))
    leave_out_undone(path_, gaps.of, history_);
  write_records(metrics_of_run(path_), history_);
  remove_tree(rest_of_metrics(path_));
  std::error_code none_yet;
  const std::int64_t last = to.checkpoint.empty() ? -1 : to.turn;
  for (const auto& entry : fs::directory_iterator(checkpoints(), none_yet))
    if (is_checkpoint_after(last, entry.path())) remove_tree(entry.path());
  remove_tree(path_ + "/done");
}

RunFolder RunFolder::reopen(std::string path, std::shared_ptr<FolderLock> lock,
                            const Experiment& experiment,
                            const std::string& command,
                            const RestartPoint& from, const std::string& rate,
                            bool may_be_refused) {
  RunFolder folder(std::move(path), std::move(lock));
  if (may_be_refused) folder.keep_what_was(false);
  const std::string run_file = folder.path_ + "/run.json";
  Json run = read_provenance(run_file);  // a damaged one stops it here
  folder.started_ = run.value("started", 0.0);
  folder.rewind(from);
  write_text(folder.path_ + "/config.toml", to_toml(experiment.resolved));
  Json part = provenance(command, experiment, seconds_since_1970());
  part["turn"] = from.turn;
  if (!rate.empty()) part["learning_rate"] = rate;
  run["continued"].push_back(std::move(part));
  write_text(run_file, run.dump(2) + "\n");
  return folder;
}

RestartPoint last_checkpoint(const std::string& run_folder) {
  check_is_run(run_folder);
  const auto found = find_checkpoints(checkpoints_of_run(run_folder));
  if (found.empty())
    throw UserError(
        "{}: has no checkpoint to continue from{}; start it anew with "
        "--overwrite, and save more often with checkpoint.every",
        run_folder,
        find_set_aside(checkpoints_of_run(run_folder))
            ? ", but one that isn't finite"
            : "");
  return {found.rbegin()->first, found.rbegin()->second};
}

std::shared_ptr<Sink> RunFolder::metrics() const {
  return std::make_shared<MetricsFile>(metrics_of_run(path_));
}

void RunFolder::keep_rest(const std::vector<Record>& records) const {
  work_while_moved(path_,
                   [&] { write_records(rest_of_metrics(path_), records); });
}

void RunFolder::mark_done() const {
  work_while_moved(path_, [&] { write_text(path_ + "/done", ""); });
}

std::string make_run_folder(const std::string& name) {
  for (int number = 1;; ++number) {
    std::string path = fmt::format("runs/{}-{}", name, number);
    make_folders(fs::path(path).parent_path());
    std::error_code error;
    if (fs::create_directory(path, error)) return path;
    if (error && !fs::exists(path))
      throw UserError("{}: can't be made: {}", path, error.message());
  }
}

std::shared_ptr<FolderLock> lock_run(const std::string& folder,
                                     LockOptions options) {
  // Throws where there is no checkpoint, unless put_back() is about to restore
  // one.
  if (!KeptFolder::is_left_in(folder)) last_checkpoint(folder);
  options.remedy = "wait for it, or end it";
  auto lock = std::make_shared<FolderLock>(folder, options);
  KeptFolder::put_back(folder);
  go_back_to_sound_checkpoint(folder);
  return lock;
}

std::string config_of_run(const std::string& path) {
  return path + "/config.toml";
}

void check_is_run(const std::string& path) {
  if (!fs::exists(path))
    throw UserError("{}: isn't there; give the folder of a run", path);
  if (!fs::exists(config_of_run(path)))
    throw UserError("{}: holds no run: it has no config.toml", path);
}

std::string checkpoints_of_run(const std::string& path) {
  return path + "/checkpoints";
}

}  // namespace sluice
