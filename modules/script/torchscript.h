#pragma once

#include <string>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Throws the UserError for a TorchScript file that does more than compute
/// (load_script() of script_file.h), or is none. Nothing of it runs.
void check_torchscript(const std::string& file);

/// Writes the TorchScript file `from` once more as `to`, with these weights and
/// buffers in the place of its own; others stay as they are. `weights` are
/// named as in checkpoints of the model `torchscript`:
/// "layers.2.layer1.0.conv1.weight". Throws UserError for a file that can't be
/// read or written, and for a tensor that it hasn't got, or has in another
/// shape, and what load_script() (script_file.h) refuses.
void save_torchscript(const std::string& from, bool is_trusted,
                      const NamedTensors& weights, const std::string& to);

}  // namespace sluice
