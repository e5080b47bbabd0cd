#include "experiments/data/order/sample_source.h"

#include <cstdint>
#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/data/sets/images.h"
#include "lib/base/buffer.h"

namespace sluice::data_sample_source_test {

/// `size` images of [2, 1, 2] whose bytes are 4i, 4i + 1, ... and whose label
/// is i.
std::shared_ptr<const Samples> counting(std::size_t size) {
  Images images;
  for (std::size_t i = 0; i < size; ++i) {
    images.labels.push_back(static_cast<std::uint8_t>(i));
    for (std::size_t p = 0; p < 4; ++p) {
      images.pixels.push_back(static_cast<std::uint8_t>(4 * i + p));
    }
  }
  return image_samples({.channels = 2,
                        .height = 1,
                        .width = 2,
                        .classes = static_cast<std::int64_t>(size),
                        .mean = {0.5, 0.25},
                        .std = {0.5, 0.125}},
                       {}, std::move(images));
}

TEST(SampleSource, NormalisesEachChannel) {
  SampleSource source(counting(10), {.batch_size = 1, .shuffled = false});
  const at::Tensor expected =
      at::tensor({(8 / 255.0 - 0.5) / 0.5, (9 / 255.0 - 0.5) / 0.5,
                  (10 / 255.0 - 0.25) / 0.125, (11 / 255.0 - 0.25) / 0.125})
          .to(at::kFloat)
          .view({1, 2, 1, 2});
  EXPECT_TRUE(at::equal(source.batch(2).inputs, expected));
}

TEST(SampleSource, RawInputsAreThePixelsBeforeNormalisation) {
  SampleSource source(counting(10), {.batch_size = 4, .raw_inputs = true});
  const Batch batch = source.batch(1);
  const at::Tensor bytes = (batch.raw_inputs * 255).round();
  EXPECT_TRUE(at::allclose(batch.raw_inputs * 255, bytes, 0, 1e-4));
  EXPECT_TRUE(at::equal(bytes.select(1, 0).select(1, 0).select(1, 0),
                        4 * batch.labels.to(at::kFloat)));
}

TEST(SampleSource, RawInputsAreMadeForThoseWhoAsk) {
  SampleSource source(counting(10), {.batch_size = 4});
  EXPECT_FALSE(source.batch(0).raw_inputs.defined());
}

TEST(SampleSource, IdsAreTheIndicesOfTheSamplesInTheirSplit) {
  SampleSource source(counting(10),
                      {.batch_size = 4, .seed = 3, .sample_ids = true});
  for (const std::int64_t t : {0, 2, 3}) {
    const Batch batch = source.batch(t);
    // The label of image i is i.
    EXPECT_TRUE(at::equal(batch.ids, batch.labels)) << t;
  }
  SampleSource other(counting(10), {.batch_size = 4, .seed = 3});
  EXPECT_FALSE(other.batch(0).ids.defined());
}

/// Echoes of two batches that come three times; an epoch has three.
TEST(SampleSource, BatchesOfAnEchoComeAgainWithTheirEpoch) {
  SampleSource plain(counting(10), {.batch_size = 4, .seed = 3});
  SampleSource echoed(counting(10), {.batch_size = 4,
                                     .seed = 3,
                                     .sample_ids = true,
                                     .echo = {.batches = 2, .times = 3}});
  std::int64_t t = 0;
  for (const std::int64_t original : {0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 4}) {
    const Batch batch = echoed.batch(t);
    EXPECT_TRUE(at::equal(batch.inputs, plain.batch(original).inputs)) << t;
    EXPECT_EQ(batch.index, t);
    EXPECT_EQ(echoed.epoch(t), plain.epoch(original)) << t;
    EXPECT_EQ(echoed.positions(t), plain.positions(original)) << t;
    ++t;
  }
}

TEST(SampleSource, IdsOfAnEchoArePlacesInTheEcho) {
  SampleSource source(counting(10), {.batch_size = 4,
                                     .seed = 3,
                                     .sample_ids = true,
                                     .echo = {.batches = 2, .times = 2}});
  EXPECT_TRUE(at::equal(source.batch(0).ids, at::arange(0, 4)));
  EXPECT_TRUE(at::equal(source.batch(3).ids, at::arange(4, 8)));
  // The last batch of an epoch, the first of its echo, has two samples.
  EXPECT_TRUE(at::equal(source.batch(4).ids, at::arange(0, 2)));
}

TEST(SampleSource, LabelsBelongToTheirImages) {
  SampleSource source(counting(10), {.batch_size = 4, .seed = 3});
  const Batch batch = source.batch(1);
  // The first byte of image i is 4i, and its label i.
  const at::Tensor first_bytes =
      batch.inputs.select(1, 0).select(1, 0).select(1, 0) * 0.5 + 0.5;
  EXPECT_TRUE(
      at::equal((first_bytes * 255 / 4).round().to(at::kLong), batch.labels));
}

TEST(SampleSource, LabelsAreThoseOfThePositionsThatItReports) {
  SampleSource source(counting(10), {.batch_size = 4, .seed = 3});
  EXPECT_TRUE(
      at::equal(source.batch(4).labels, at::tensor(source.positions(4))));
}

TEST(SampleSource, GivesTheSameBitsForTheSameSeedAndBatch) {
  SampleSource first(counting(10), {.batch_size = 4, .seed = 3});
  SampleSource second(counting(10), {.batch_size = 4, .seed = 3});
  second.batch(0);
  EXPECT_TRUE(at::equal(first.batch(7).inputs, second.batch(7).inputs));
}

TEST(SampleSource, BatchesStartOnAlignedMemoryOfTheirOwn) {
  SampleSource source(counting(10), {.batch_size = 3});
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
  SampleSource source(counting(10), {.batch_size = 4});
  const Batch batch = source.batch(0);
  EXPECT_EQ(batch.inputs.sizes(), at::IntArrayRef({4, 2, 1, 2}));
  EXPECT_TRUE(batch.inputs.is_contiguous());
  EXPECT_EQ(batch.inputs.scalar_type(), at::kFloat);
  EXPECT_EQ(batch.labels.scalar_type(), at::kLong);
}

TEST(SampleSource, TheLastBatchOfAnEpochKeepsItsRealSize) {
  SampleSource source(counting(10), {.batch_size = 4});
  EXPECT_EQ(source.batches_per_epoch(), 3);
  EXPECT_EQ(source.batch(2).inputs.size(0), 2);
  EXPECT_EQ(source.batch(2).labels.size(0), 2);
}

TEST(SampleSource, NumbersItsBatchesBeyondAnEpoch) {
  SampleSource source(counting(10), {.batch_size = 4});
  EXPECT_EQ(source.batch(5).index, 5);
}

}  // namespace sluice::data_sample_source_test
