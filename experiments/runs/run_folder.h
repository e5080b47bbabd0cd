#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/kept_folder.h"
#include "lib/base/folder_lock.h"
#include "lib/metrics/record.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// The config.toml of a run folder, and the folder of its checkpoints.
std::string config_of_run(const std::string& path);
std::string checkpoints_of_run(const std::string& path);

/// A run to continue: its last whole checkpoint. Without one it begins anew.
struct Resumed {
  std::int64_t turn = 0;
  std::string checkpoint = {};
  std::int64_t phase = 0;  ///< of the timetable, in that checkpoint
  /// Batches before it were applied by all blocks, in a drain: Grant's.
  std::int64_t first_batch = 0;
};

/// What a run leaves behind; a run that ended before its time is continued from
/// it:
///
///   config.toml    the resolved config: `sluice run config.toml` repeats it
///   run.json       command, versions, host, commit; changes.patch beside it
///                  holds what was not committed
///   metrics.jsonl  one record a line
///   events.out.tfevents.*  the same for TensorBoard
///   status.json    how it goes, for `sluice watch`
///   trace.json     the timeline of its first turns; the virtual engine's only
///                  when actions take time there
///   schedule.txt   the actions of blocks that ran free, a line per block, as
///                  `sluice replay` and `sluice plan --actions` read them:
///                  written with every checkpoint, up to it, and at the end
///   checkpoints/   turn-000120/block-1.safetensors ...
///   lock           while a process works there: lib/base/folder_lock.h
///   done           written last, when the run is complete
///   model.safetensors  what `sluice export` has made of it
class RunFolder {
 public:
  /// What a new run may do with the folder.
  struct Making {
    bool overwrite = false;       ///< remove the run that is there
    bool is_new = false;          ///< the folder was made for this run
    bool may_be_refused = false;  ///< by ranks: until begin() all can come back
    LockOptions lock = {};
  };
  /// Makes the folder, which no other process may work in while this object
  /// lives. One that holds a run already is an error, unless `overwrite`.
  /// Throws UserError.
  static RunFolder make(std::string path, const Experiment& experiment,
                        const std::string& command, const Making& how);
  /// The folder of a run that is continued, with its lock, which was taken
  /// before anything there was read: what the run wrote about what comes after
  /// that checkpoint is forgotten. `rate` is kept in run.json: what becomes of
  /// the learning rate, or empty. Throws UserError.
  static RunFolder reopen(std::string path, std::shared_ptr<FolderLock> lock,
                          const Experiment& experiment,
                          const std::string& command, const Resumed& from,
                          const std::string& rate = {},
                          bool may_be_refused = false);

  /// The run begins: from now on what it writes stays. Without this call the
  /// folder of a run that may be refused becomes again, in the destructor, what
  /// it was: one that was made for it is removed. Throws UserError.
  void begin();

  /// The run itself goes back to a checkpoint of its own, or to its start: the
  /// same is forgotten. Nobody may hold metrics() any more. Throws UserError.
  void rewind(const Resumed& to);

  const std::string& path() const { return path_; }
  /// When the run began, in seconds since 1970.
  double started() const { return started_; }
  /// What the continued run had written about turns before, and of its
  /// restarts.
  const std::vector<Record>& history() const { return history_; }
  std::string checkpoints() const { return checkpoints_of_run(path_); }
  /// A sink for metrics.jsonl; each record is written through at once. Throws
  /// UserError when the disk is full.
  std::shared_ptr<Sink> metrics() const;
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
Resumed last_checkpoint(const std::string& run_folder);

/// Makes "runs/NAME-1", or that of the first number that is free: no other
/// process gets the same. Throws UserError.
std::string make_run_folder(const std::string& name);

/// The lock of a run that is continued, to be taken before it is looked at.
/// Throws UserError when another process works there, or it is no run.
std::shared_ptr<FolderLock> lock_run(const std::string& folder,
                                     LockOptions options = {});

}  // namespace sluice
