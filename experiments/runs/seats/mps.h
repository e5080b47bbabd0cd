#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/files/temporary_folder.h"

namespace sluice {

/// Whether processes that share a GPU of this host compute there at the same
/// time: whether a daemon of CUDA's Multi-Process Service listens, in the
/// folder that CUDA_MPS_PIPE_DIRECTORY names, or /tmp/nvidia-mps.
bool mps_is_running();

/// A daemon of CUDA's Multi-Process Service for the processes that this one
/// starts while it lives: they find it by CUDA_MPS_PIPE_DIRECTORY, which the
/// constructor sets. Ends with it; kill -9 of this process leaves the daemon.
class MpsDaemon {
 public:
  /// Starts the daemon. Throws UserError where nvidia-cuda-mps-control isn't
  /// installed or fails.
  MpsDaemon();
  ~MpsDaemon();
  MpsDaemon(const MpsDaemon&) = delete;
  MpsDaemon& operator=(const MpsDaemon&) = delete;

 private:
  void restore_environment();

  TemporaryFolder folder_;
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

}  // namespace sluice
