#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/folder/kept_folder.h"
#include "lib/base/files/folder_lock.h"
#include "lib/metrics/record.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// Paths of the config.toml and of the checkpoints folder of a run folder.
std::string config_of_run(const std::string& path);
/// Throws UserError unless a run is in the folder.
void check_is_run(const std::string& path);
std::string checkpoints_of_run(const std::string& path);

/// The last complete checkpoint of a run to be continued; by default none, and
/// the run begins anew.
struct RestartPoint {
  std::int64_t turn = 0;
  std::string checkpoint = {};
  std::int64_t phase = 0;  ///< of the timetable, in that checkpoint
  /// Grant::first_batch: all blocks have applied the batches before it, in a
  /// drain.
  std::int64_t first_batch = 0;
  /// Replicas that begin at this checkpoint, as returning_replicas() says.
  std::set<int> returning = {};
};

/// The folder that a run writes. A run that ended early is continued from it:
///
///   config.toml    the resolved config: `sluice run config.toml` repeats it
///   run.json       command, versions, host, commit; changes.patch beside it
///                  holds what was not committed
///   metrics.jsonl  one record a line; metrics-rest.jsonl beside it what it had
///                  no room for, until the run is continued
///   events.out.tfevents.*  the same for TensorBoard
///   tokenizer.model  of a text that is cut into sub-words
///   status.json    the progress of the run, for `sluice watch`
///   trace.json     the timeline of its first turns; the virtual engine's only
///                  when actions take time there
///   schedule.txt   the actions of blocks that ran free, a line per block, as
///                  `sluice replay` and `sluice plan --actions` read them:
///                  written with every checkpoint, up to it, and at the end
///   checkpoints/   turn-000120/block-1.safetensors ...; one that isn't finite
///                  is renamed turn-000120.not-finite
///   lock           while a process works there: lib/base/files/folder_lock.h
///   done           written last, when the run is complete
///   model.safetensors  written by `sluice export`
class RunFolder {
 public:
  /// Options of make().
  struct MakeOptions {
    bool overwrite = false;       ///< remove the run that is there
    bool is_new = false;          ///< the folder was made for this run
    bool may_be_refused = false;  ///< keep old files until begin()
    LockOptions lock = {};
  };
  /// Makes the folder, which no other process may work in while this object
  /// lives. One that holds a run already is an error, unless `overwrite`.
  /// Throws UserError.
  static RunFolder make(std::string path, const Experiment& experiment,
                        const std::string& command, const MakeOptions& how);
  /// The folder of a run that is continued, with its lock, which was taken
  /// before anything there was read. Removes what the run wrote about turns
  /// after that checkpoint. `rate` is a sentence for run.json on how the
  /// learning rate continues, or empty. Throws UserError.
  static RunFolder reopen(std::string path, std::shared_ptr<FolderLock> lock,
                          const Experiment& experiment,
                          const std::string& command, const RestartPoint& from,
                          const std::string& rate = {},
                          bool may_be_refused = false);

  /// Called when the run begins: from now on its files stay. Without this call
  /// the destructor restores the former state of the folder of a run that may
  /// be refused, and removes a folder made for that run. Throws UserError.
  void begin();

  /// Goes back to one of the run's own checkpoints, or to its start, and
  /// removes what was written about later turns. No sink of metrics() may exist
  /// any more. Throws UserError.
  void rewind(const RestartPoint& to);

  const std::string& path() const { return path_; }
  /// Start of the run, in seconds since 1970.
  double started() const { return started_; }
  /// Records that the run wrote before it was continued: of earlier turns, and
  /// of restarts.
  const std::vector<Record>& history() const { return history_; }
  std::string checkpoints() const { return checkpoints_of_run(path_); }
  /// A sink for metrics.jsonl, which writes each record to the file at once.
  /// Writing throws UserError when the disk is full.
  std::shared_ptr<Sink> metrics() const;
  /// Writes what couldn't be written there to a file beside it, from which the
  /// run that is continued takes it. Throws UserError.
  void keep_rest(const std::vector<Record>& records) const;
  void mark_done() const;

 private:
  RunFolder(std::string path, std::shared_ptr<FolderLock> lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  void keep_what_was(bool is_new);

  std::string path_;
  std::unique_ptr<KeptFolder> before_;  ///< outlives the lock of a new folder
  std::shared_ptr<FolderLock> lock_;
  double started_ = 0;
  std::vector<Record> history_;
};

/// The turn and folder of the run's last checkpoint. Throws UserError when the
/// folder has no run, or no checkpoint.
RestartPoint last_checkpoint(const std::string& run_folder);

/// Makes the folder "runs/NAME-1", or "runs/NAME-N" with the first free number
/// N; no other process gets the same folder. Throws UserError.
std::string make_run_folder(const std::string& name);

/// Locks the folder of a run that is to be continued; call it before reading
/// anything there. Sets aside what checkpoints of it aren't finite. Throws
/// UserError when another process works there, or the folder holds no run.
std::shared_ptr<FolderLock> lock_run(const std::string& folder,
                                     LockOptions options = {});

}  // namespace sluice
