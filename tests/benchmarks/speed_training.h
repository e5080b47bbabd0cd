#pragma once

#include <cstdint>
#include <string>

#include "tests/benchmarks/speed_cases.h"
#include "tests/benchmarks/turns.h"

namespace sluice {

/// These train until the process is ended.
///
/// A plain LibTorch loop; with `tuned`, over our allocator, memory format and
/// fused optimizer, and nothing else of Sluice. Batches are gathered from
/// tensors in memory.
void train_plainly(const SpeedCase& of, std::int64_t threads, bool tuned,
                   Turns& turns);
/// `sluice run` with one block, in this process: the same step through our
/// sources, workers, schedule and metrics.
void train_with_sluice(const SpeedCase& of, std::int64_t threads, bool bf16,
                       const std::string& root, Turns& turns);
/// Products of large matrices, one a step.
void multiply_matrices(std::int64_t threads, Turns& turns);
/// Operations of such a product.
double matrix_flops();

/// Multiply-adds of a forward of a batch, in the cost model of the cut.
double forward_flops(const SpeedCase& of, const std::string& root);

}  // namespace sluice
