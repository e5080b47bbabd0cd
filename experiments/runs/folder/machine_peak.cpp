#include "experiments/runs/folder/machine_peak.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>

#include "experiments/runs/folder/child_run.h"
#include "lib/tensors/precision.h"

namespace sluice {
namespace {

/// Operations per second of the best of a few products; the first warms up.
double peak_of_threads() {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kSize = 512;
  constexpr int kTries = 4;
  const at::Tensor a = at::ones({kSize, kSize}, at::kFloat);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const auto begin = Clock::now();
    const at::Tensor product = at::mm(a, a);
    best = std::min(
        best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  constexpr double kOperations = 2. * kSize * kSize * kSize;
  return kOperations / std::max(best, 1e-9);
}

}  // namespace

double peak_of_cores() {
  const c10::NoGradGuard no_grad;
  const FullPrecisionScope full;
  const auto cores = static_cast<double>(usable_cores().size());
  const double threads =
      std::min(cores, static_cast<double>(at::get_num_threads()));
  return peak_of_threads() * cores / threads;
}

double operations_per_sample(const Model& model) {
  constexpr double kPerMultiplyAdd = 2;
  constexpr double kPasses = 3;
  double multiply_adds = 0;
  for (const LayerSpec& layer : model.layers) multiply_adds += layer.flops;
  return kPerMultiplyAdd * kPasses * multiply_adds;
}

}  // namespace sluice
