#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace sluice {

/// Zeros [rows, numbers], float32, in a file without a name in the system's
/// temporary folder (TMPDIR), whose place on the disk is taken at once: the
/// system moves them between memory and disk as it needs to. The file goes with
/// the tensor, also when the process is killed. Throws UserError where the
/// disk has no place for it.
at::Tensor zeros_on_disk(std::int64_t rows, std::int64_t numbers);

}  // namespace sluice
