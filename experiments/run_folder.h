#pragma once

#include <fstream>
#include <memory>
#include <string>

#include "experiments/experiment.h"
#include "lib/metrics/record.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// What a run leaves behind:
///
///   config.toml    the resolved config: `sluice run config.toml` repeats it
///   run.json       command, versions, host
///   metrics.jsonl  one record a line
///   checkpoints/   turn-000120/block-1.safetensors ...
///   done           written last, when the run is complete
class RunFolder {
 public:
  /// Makes the folder. One that holds a run already is an error, unless
  /// `overwrite`: then that run is removed. Throws UserError.
  RunFolder(std::string path, const Experiment& experiment,
            const std::string& command, bool overwrite);

  const std::string& path() const { return path_; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  /// A sink for metrics.jsonl; each record is written through at once. Throws
  /// UserError when the disk is full.
  std::shared_ptr<Sink> metrics() const;
  void mark_done() const;

 private:
  std::string path_;
};

/// "runs/NAME-1", or the first number that is free.
std::string free_run_folder(const std::string& name);

/// The config.toml of a run folder.
std::string config_of_run(const std::string& path);

}  // namespace sluice
