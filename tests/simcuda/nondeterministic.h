#pragma once

#include <string>

namespace sluice::simcuda {

/// Whether the operation (aten::NAME) has no deterministic algorithm in CUDA:
/// it throws there while such are asked for.
bool is_nondeterministic(const std::string& operation);

}  // namespace sluice::simcuda
