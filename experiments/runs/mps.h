#pragma once

namespace sluice {

/// Whether processes that share a GPU of this host compute there at the same
/// time: whether a daemon of CUDA's Multi-Process Service listens, in the
/// folder that CUDA_MPS_PIPE_DIRECTORY names, or /tmp/nvidia-mps.
bool mps_is_running();

}  // namespace sluice
