#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "experiments/config/experiment.h"
#include "lib/base/files/folder_lock.h"

namespace sluice {

/// Result of draining a run's last checkpoint.
struct DrainResult {
  std::string checkpoint;
  std::int64_t turn = 0;
  std::int64_t batches = 0;  ///< that were in flight; 0: nothing was changed
};

/// Applies what is in flight in the run's last checkpoint, without feeding it
/// further batches: as a run does at its end, at the rates of the turns that
/// would come. The checkpoint, replaced when the new one is whole, can then be
/// continued under another cut or other policies. The metrics get the records
/// of what was applied; nothing is evaluated. In this thread, whatever the
/// run's engine, and with its lock (lock_run()). Throws UserError when there is
/// nothing to drain from.
DrainResult drain_last_checkpoint(const std::string& folder,
                                  std::shared_ptr<FolderLock> lock,
                                  const Experiment& experiment,
                                  const std::string& command);

}  // namespace sluice
