#pragma once

#include "lib/blocks/layer.h"

namespace sluice {

/// Operations per second of float32 matrix products on all cores that this
/// process may use: measured with the threads that this one has now, in a few
/// hundredths of a second, and scaled to the cores.
double peak_of_cores();

/// Operations of the model's layers for a sample in training: a forward, two of
/// each multiply-add, and a backward, twice a forward. What methods compute
/// beside that (heads, replays, probes) doesn't count, as in the "model FLOPs
/// utilization" of Chowdhery et al. 2022 (arXiv:2204.02311).
double operations_per_sample(const Model& model);

}  // namespace sluice
