#pragma once

#include <cstdint>
#include <string>

#include "tests/benchmarks/speed_cases.h"

namespace sluice {

/// Steps before the timed ones.
inline constexpr int kWarmUp = 3;

/// A plain LibTorch loop; with `tuned`, over our allocator, memory format and
/// fused optimizer, and nothing else of Sluice. Returns seconds per step, data
/// loading included: batches are gathered from tensors in memory.
double time_plain(const SpeedCase& of, std::int64_t threads, bool tuned);

/// `sluice run` with one block, in this process: the same step through our
/// sources, workers, schedule and metrics.
double time_sluice(const SpeedCase& of, std::int64_t threads, bool bf16,
                   const std::string& root);

/// Multiply-adds of a forward of a batch, in the cost model of the cut.
double forward_flops(const SpeedCase& of, const std::string& root);

/// FLOP/s of a large matrix product.
double matrix_rate(std::int64_t threads);

}  // namespace sluice
