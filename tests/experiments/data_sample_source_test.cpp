#include <cstdint>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/data/sample_source.h"
#include "experiments/data/stored_samples.h"
#include "lib/base/buffer.h"

namespace sluice {
namespace {

/// `size` images of [2, 1, 2] whose bytes are 4i, 4i + 1, ... and whose label
/// is i.
DataSet counting(std::size_t size) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
  for (std::size_t i = 0; i < size; ++i) {
    labels.push_back(static_cast<std::uint8_t>(i));
    for (std::size_t p = 0; p < 4; ++p) {
      pixels.push_back(static_cast<std::uint8_t>(4 * i + p));
    }
  }
  return {.shape = {2, 1, 2},
          .classes = static_cast<std::int64_t>(size),
          .mean = {0.5, 0.25},
          .std = {0.5, 0.125},
          .train = stored_samples(std::move(pixels), std::move(labels))};
}

TEST(SampleSource, NormalisesEachChannel) {
  const DataSet data_set = counting(10);
  SampleSource source(data_set, *data_set.train,
                      {.batch_size = 1, .shuffled = false});
  const at::Tensor expected =
      at::tensor({(8 / 255.0 - 0.5) / 0.5, (9 / 255.0 - 0.5) / 0.5,
                  (10 / 255.0 - 0.25) / 0.125, (11 / 255.0 - 0.25) / 0.125})
          .to(at::kFloat)
          .view({1, 2, 1, 2});
  EXPECT_TRUE(at::equal(source.batch(2).inputs, expected));
}

TEST(SampleSource, LabelsBelongToTheirImages) {
  const DataSet data_set = counting(10);
  SampleSource source(data_set, *data_set.train, {.batch_size = 4, .seed = 3});
  const Batch batch = source.batch(1);
  // The first byte of image i is 4i, and its label i.
  const at::Tensor first_bytes =
      batch.inputs.select(1, 0).select(1, 0).select(1, 0) * 0.5 + 0.5;
  EXPECT_TRUE(
      at::equal((first_bytes * 255 / 4).round().to(at::kLong), batch.labels));
}

TEST(SampleSource, LabelsAreThoseOfTheIndicesThatItReports) {
  const DataSet data_set = counting(10);
  SampleSource source(data_set, *data_set.train, {.batch_size = 4, .seed = 3});
  EXPECT_TRUE(at::equal(source.batch(4).labels, at::tensor(source.indices(4))));
}

TEST(SampleSource, GivesTheSameBitsForTheSameSeedAndBatch) {
  const DataSet data_set = counting(10);
  SampleSource first(data_set, *data_set.train, {.batch_size = 4, .seed = 3});
  SampleSource second(data_set, *data_set.train, {.batch_size = 4, .seed = 3});
  second.batch(0);
  EXPECT_TRUE(at::equal(first.batch(7).inputs, second.batch(7).inputs));
}

TEST(SampleSource, BatchesStartOnAlignedMemoryOfTheirOwn) {
  const DataSet data_set = counting(10);
  SampleSource source(data_set, *data_set.train, {.batch_size = 3});
  const Batch first = source.batch(0);
  const Batch second = source.batch(1);
  const auto address = [](const Batch& batch) {
    return reinterpret_cast<std::uintptr_t>(batch.inputs.const_data_ptr());
  };
  EXPECT_EQ(address(first) % kAlignment, 0U);
  EXPECT_EQ(address(second) % kAlignment, 0U);
  EXPECT_NE(address(first), address(second));
}

TEST(SampleSource, InputsAreContiguousFloatsAndLabelsIntegers) {
  const DataSet data_set = counting(10);
  SampleSource source(data_set, *data_set.train, {.batch_size = 4});
  const Batch batch = source.batch(0);
  EXPECT_EQ(batch.inputs.sizes(), at::IntArrayRef({4, 2, 1, 2}));
  EXPECT_TRUE(batch.inputs.is_contiguous());
  EXPECT_EQ(batch.inputs.scalar_type(), at::kFloat);
  EXPECT_EQ(batch.labels.scalar_type(), at::kLong);
}

TEST(SampleSource, TheLastBatchOfAnEpochKeepsItsRealSize) {
  const DataSet data_set = counting(10);
  SampleSource source(data_set, *data_set.train, {.batch_size = 4});
  EXPECT_EQ(source.batches_per_epoch(), 3);
  EXPECT_EQ(source.batch(2).inputs.size(0), 2);
  EXPECT_EQ(source.batch(2).labels.size(0), 2);
}

TEST(SampleSource, NumbersItsBatchesBeyondAnEpoch) {
  const DataSet data_set = counting(10);
  SampleSource source(data_set, *data_set.train, {.batch_size = 4});
  EXPECT_EQ(source.batch(5).index, 5);
}

}  // namespace
}  // namespace sluice
