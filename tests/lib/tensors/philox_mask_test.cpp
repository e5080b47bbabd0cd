// One element has one value, however the mask lies in memory, and whatever is
// drawn beside it.
#include "lib/tensors/philox_mask.h"

#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/oracles/plain_philox.h"

namespace sluice::philox_mask_test {

constexpr double kP = 0.3;
constexpr std::uint64_t kKey = 0xfeed'0123'4567'89ab;

/// By the oracle, contiguous.
at::Tensor expected(at::IntArrayRef sizes) {
  const std::vector<float> mask =
      plain_mask(kP, kKey, 0, c10::multiply_integers(sizes));
  return at::tensor(mask).view(sizes);
}

void expect_mask(const at::Tensor& mask) {
  fill_philox_mask(mask, kP, kKey);
  EXPECT_TRUE(mask.equal(expected(mask.sizes())))
      << mask.sizes() << " with strides " << mask.strides();
}

TEST(PhiloxMask, PhiloxMaskOfAnyShapeIsThatOfTheOracle) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{}, {1}, {1000}, {7, 33}, {5, 3, 7, 9}})
    expect_mask(at::empty(sizes));
}

TEST(PhiloxMask, WithChannelsLastHasTheSameElements) {
  expect_mask(
      at::empty({3, 20, 7, 9}).contiguous(at::MemoryFormat::ChannelsLast));
  expect_mask(
      at::empty({2, 3, 40, 30}).contiguous(at::MemoryFormat::ChannelsLast));
  expect_mask(
      at::empty({2, 5, 3, 4, 6}).contiguous(at::MemoryFormat::ChannelsLast3d));
}

TEST(PhiloxMask, WithOtherStridesHasTheSameElements) {
  expect_mask(at::empty({20, 30}).t());
  expect_mask(at::empty({4, 5, 6, 7}).permute({3, 1, 0, 2}));
  expect_mask(at::empty({20, 60}).slice(1, 7, 40));
  expect_mask(at::empty({6, 3, 20, 8})
                  .contiguous(at::MemoryFormat::ChannelsLast)
                  .slice(2, 3, 11));
}

TEST(PhiloxMask, BehindAnOffsetInItsStorageIsTheSame) {
  expect_mask(at::empty({100}).slice(0, 3));
}

TEST(PhiloxMask, PhiloxMaskOfNothingIsLeftAlone) {
  expect_mask(at::empty({0, 3}));
}

/// The first samples of a batch have the masks that they have in a larger one.
TEST(PhiloxMask, PhiloxMaskOfFewerSamplesIsTheBeginningOfThatOfMore) {
  const at::Tensor all = at::empty({9, 4, 5, 5});
  const at::Tensor few = at::empty({5, 4, 5, 5});
  fill_philox_mask(all, kP, kKey);
  fill_philox_mask(few, kP, kKey);
  EXPECT_TRUE(few.equal(all.slice(0, 0, 5)));
}

TEST(PhiloxMask, DoesNotDependOnTheNumberOfThreads) {
  const int before = at::get_num_threads();
  const at::Tensor flat = at::empty({200'000});
  const at::Tensor maps =
      at::empty({8, 16, 40, 40}).contiguous(at::MemoryFormat::ChannelsLast);
  at::set_num_threads(1);
  fill_philox_mask(flat, kP, kKey);
  fill_philox_mask(maps, kP, kKey);
  const at::Tensor flat_alone = flat.clone();
  const at::Tensor maps_alone = maps.clone();
  at::set_num_threads(3);
  fill_philox_mask(flat.zero_(), kP, kKey);
  fill_philox_mask(maps.zero_(), kP, kKey);
  at::set_num_threads(before);
  EXPECT_TRUE(flat.equal(flat_alone));
  EXPECT_TRUE(maps.equal(maps_alone));
}

}  // namespace sluice::philox_mask_test
