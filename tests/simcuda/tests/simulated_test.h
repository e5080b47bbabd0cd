#pragma once

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "lib/tensors/streams.h"
#include "tests/simcuda/simcuda.h"

namespace sluice::simcuda {

const c10::Device kGpu(c10::DeviceType::CUDA, 0);

/// A test on the simulated GPU, whose reports it keeps. What is left of them at
/// its end is a failure.
class SimulatedGpu : public testing::Test {
 protected:
  void SetUp() override { collect_reports(); }
  void TearDown() override {
    EXPECT_EQ(take_reports(), std::vector<std::string>());
  }
};

inline at::Tensor pinned(double value, std::int64_t elements = 1000) {
  return at::full({elements}, value,
                  at::TensorOptions(at::kFloat).pinned_memory(true));
}

inline c10::Stream leaving() {
  return copies_of_this_thread(kGpu, CopyWay::leaving);
}
inline c10::Stream arriving() {
  return copies_of_this_thread(kGpu, CopyWay::arriving);
}

}  // namespace sluice::simcuda
