// Batches that are on the GPU before they are wanted.
#include "experiments/data/order/copied_ahead.h"

#include <cstdint>
#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/data/order/prefetch.h"
#include "lib/blocks/micro_batch_source.h"
#include "lib/tensors/gpu/staging.h"
#include "tests/simcuda/simcuda.h"

namespace sluice::copied_ahead_test {

const c10::Device kGpu(c10::DeviceType::CUDA, 0);

/// Source in whose batch t every number is t.
class Numbers final : public Source {
 public:
  Batch batch(std::int64_t t) override {
    return {.index = t,
            .inputs = at::full({4, 3, 5, 5}, static_cast<double>(t)),
            .labels = at::full({4}, t, at::kLong)};
  }
  std::int64_t batches_per_epoch() const override { return 100; }
};

std::unique_ptr<Source> numbers_on_gpu(std::int64_t depth) {
  return in_order_of_copies(
      prefetched(copied_ahead(std::make_unique<Numbers>(), kGpu,
                              MemoryFormat::channels_last),
                 depth));
}

TEST(CopiedAhead, HasTheNumbersLaidOutOnTheGpu) {
  for (const std::int64_t depth : {0, 1, 3}) {
    const auto source = numbers_on_gpu(depth);
    for (std::int64_t t = 0; t < 6; ++t) {
      const Batch batch = source->batch(t);
      EXPECT_EQ(batch.inputs.device(), kGpu);
      EXPECT_TRUE(batch.inputs.is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_EQ(batch.copied, nullptr);
      const at::Tensor doubled = (batch.inputs * 2).cpu();
      EXPECT_EQ(doubled.min().item<double>(), static_cast<double>(2 * t));
      EXPECT_EQ(doubled.max().item<double>(), static_cast<double>(2 * t));
      EXPECT_TRUE(batch.labels.is_cpu());
      EXPECT_EQ(batch.labels.max().item<std::int64_t>(), t);
    }
  }
}

TEST(CopiedAhead, CopiesFromPinnedMemoryAndTheHostWaitsForNothing) {
  const auto source = numbers_on_gpu(1);
  const std::int64_t waits = simcuda::waits_of_this_thread();
  const std::int64_t pageable = simcuda::counts().pageable_to_device;
  const std::int64_t pinned = simcuda::counts().pinned_to_device;
  for (std::int64_t t = 0; t < 5; ++t) {
    const Batch batch = source->batch(t);
    const at::Tensor labels = on_device(batch.labels, kGpu);
    EXPECT_EQ((batch.inputs + 1).dim(), 4);
  }
  EXPECT_EQ(simcuda::waits_of_this_thread(), waits);
  EXPECT_EQ(simcuda::counts().pageable_to_device, pageable);
  EXPECT_GE(simcuda::counts().pinned_to_device, pinned + 10);
}

/// What it does without.
TEST(CopiedAhead, IsNotCopiedFromPinnedMemoryOtherwise) {
  Numbers numbers;
  const std::int64_t pageable = simcuda::counts().pageable_to_device;
  on_device(numbers.batch(0).inputs, kGpu);
  EXPECT_EQ(simcuda::counts().pageable_to_device, pageable + 1);
}

TEST(CopiedAhead, IsCutIntoMicroBatchesThere) {
  MicroBatches cut{.count = 2, .samples = 4};
  const auto source = in_micro_batches(numbers_on_gpu(1), cut);
  for (std::int64_t n = 0; n < 6; ++n) {
    const Batch batch = source->batch(n);
    EXPECT_EQ(batch.inputs.size(0), 2);
    EXPECT_EQ(batch.inputs.cpu().max().item<double>(),
              static_cast<double>(n / 2));
  }
}

}  // namespace sluice::copied_ahead_test
