#pragma once

#include <string>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Sets checkpoints of a run aside (set_aside.h), from the newest on, until one
/// is finite, and says so on stderr. The caller has the folder's lock. Throws
/// UserError when none is left of several.
void go_back_to_sound_checkpoint(const std::string& run_folder);

/// Throws NonFiniteError, with the last sound checkpoint of the run as the
/// remedy, where a tensor isn't finite. `weights` is the checkpoint or file
/// that they come from; `command` is what would be given the other: "sluice
/// eval".
void check_are_finite(const NamedTensors& tensors, const std::string& weights,
                      const std::string& command);

/// Throws NonFiniteError where a checkpoint was set aside that is newer than
/// the last one of the run: the run's result isn't finite.
void check_last_was_kept(const std::string& run_folder,
                         const std::string& command);

}  // namespace sluice
