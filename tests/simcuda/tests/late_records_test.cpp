// Records whose figures the GPU computes: in their order, late but not too
// late, and without a wait of the host.
#include "lib/workers/late_records.h"

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "lib/blocks/evaluation.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::late_records_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

at::Tensor figure_on(const c10::Device& device, double value) {
  return at::full({}, value, at::TensorOptions(at::kFloat).device(device)) + 1;
}

class LateRecordsOfGpus : public SimulatedGpu {
 protected:
  void add(LateRecords& late, const at::Tensor& figure) {
    late.add({figure, at::Tensor()}, [this](const LateRecords::Values& read) {
      ASSERT_EQ(read.size(), 2U);
      EXPECT_FALSE(read[1].has_value());
      written_.push_back(read[0].value());
    });
  }

  std::vector<double> written_;
};

TEST_F(LateRecordsOfGpus, ComeInOrderWithoutAWaitOfTheHost) {
  LateRecords late(8);
  const std::int64_t waits = waits_of_this_thread();
  for (int i = 0; i < 20; ++i) {
    late.updated();
    add(late, figure_on(kGpu, i));
    if (i == 0) {
      EXPECT_THAT(written_, IsEmpty());
    }
  }
  EXPECT_GE(written_.size(), 12U);
  EXPECT_EQ(waits_of_this_thread(), waits);
  late.settle();
  ASSERT_THAT(written_, SizeIs(20));
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(written_[static_cast<std::size_t>(i)], i + 1);
}

TEST_F(LateRecordsOfGpus, ComeWhenSoManyUpdatesHaveFollowed) {
  LateRecords late(1);
  add(late, figure_on(kGpu, 1));
  EXPECT_THAT(written_, IsEmpty());
  const std::int64_t waits = waits_of_this_thread();
  late.updated();
  EXPECT_THAT(written_, ElementsAre(2));
  EXPECT_EQ(waits_of_this_thread(), waits + 1);
}

TEST_F(LateRecordsOfGpus, ComeAtOnceWhereThatIsWanted) {
  LateRecords late(0);
  add(late, figure_on(kGpu, 1));
  EXPECT_THAT(written_, ElementsAre(2));
}

TEST_F(LateRecordsOfGpus, LateRecordsOfTheCpuComeAtOnceUnlessOthersAreBefore) {
  LateRecords late(8);
  add(late, figure_on(at::kCPU, 1));
  EXPECT_THAT(written_, ElementsAre(2));
  add(late, figure_on(kGpu, 2));
  add(late, figure_on(at::kCPU, 3));
  EXPECT_THAT(written_, SizeIs(1));
  late.settle();
  EXPECT_THAT(written_, ElementsAre(2, 3, 4));
}

/// Memory that a figure arrives in is used again, for other types too.
TEST_F(LateRecordsOfGpus, PinNoMoreMemoryAsTheyGoOn) {
  LateRecords late(2);
  const auto go_on = [&](int from) {
    for (int i = from; i < from + 10; ++i) {
      add(late, figure_on(kGpu, i));
      late.updated();
    }
  };
  go_on(0);
  const std::int64_t pinned = counts().pinned_allocations;
  go_on(10);
  EXPECT_EQ(counts().pinned_allocations, pinned);
  add(late, figure_on(kGpu, 20).to(at::kDouble));
  late.settle();
  EXPECT_EQ(written_.back(), 21);
}

class EvaluationOnGpus : public SimulatedGpu {};

Evaluation evaluated_on(const c10::Device& device) {
  const Loss loss = [](const at::Tensor& outputs, const at::Tensor& labels) {
    return at::cross_entropy_loss(outputs, labels);
  };
  at::manual_seed(5);
  Evaluation evaluation;
  for (const std::int64_t size : {7, 7, 3}) {
    const at::Tensor outputs = at::randn({size, 4});
    const at::Tensor labels = at::randint(4, {size}, at::kLong);
    evaluation.add(loss, outputs.to(device), labels.to(device));
  }
  return evaluation;
}

TEST_F(EvaluationOnGpus, HaveTheSumsOfTheCpu) {
  const Evaluation cpu = evaluated_on(at::kCPU);
  const Evaluation gpu = evaluated_on(kGpu);
  EXPECT_GT(cpu.loss(), 0);
  EXPECT_EQ(gpu.loss(), cpu.loss());
  EXPECT_EQ(gpu.accuracy(), cpu.accuracy());
  EXPECT_EQ(gpu.labels(), 17);
}

/// But for the batches' own copies.
TEST_F(EvaluationOnGpus, AreReadOnce) {
  const std::int64_t items = counts().waits_for_items;
  const Evaluation gpu = evaluated_on(kGpu);
  EXPECT_EQ(counts().waits_for_items, items);
  gpu.loss();
  EXPECT_EQ(counts().waits_for_items, items + 1);
}

}  // namespace sluice::simcuda::late_records_test
