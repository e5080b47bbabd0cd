// Issue 18, item 14: maps in channels-last order get their gradient in that
// order, and the numbers stay ATen's.
#include "lib/tensors/pooling.h"

#include <functional>
#include <ostream>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

namespace sluice::pooling_test {

using Function = std::function<at::Tensor(const at::Tensor&)>;

struct Case {
  const char* name;
  Function ours;
  Function plain;
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.name;
}

struct Result {
  at::Tensor value;
  at::Tensor gradient;
};

at::Tensor noise(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

Result run(const Function& function, at::MemoryFormat format) {
  const at::Tensor maps =
      noise({6, 16, 9, 6}, 1).contiguous(format).requires_grad_();
  const at::Tensor value = function(maps);
  (value * noise(value.sizes(), 2)).sum().backward();
  return {value.detach(), maps.grad()};
}

class Pooling : public testing::TestWithParam<Case> {};

TEST_P(Pooling, GivesTheBitsOfATen) {
  for (const auto format :
       {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const Result ours = run(GetParam().ours, format);
    const Result plain = run(GetParam().plain, format);
    EXPECT_TRUE(at::equal(ours.value, plain.value));
    EXPECT_TRUE(at::equal(ours.gradient, plain.gradient));
    EXPECT_EQ(ours.value.strides(), plain.value.strides());
    EXPECT_GT(ours.gradient.abs().max().item<double>(), 0);
  }
}

// autograd::grad() hands gradients out as they come; backward() lays them out
// like the leaf.
TEST_P(Pooling, SendsTheGradientBackInTheOrderOfTheMaps) {
  for (const auto format :
       {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor maps =
        noise({6, 16, 9, 6}, 1).contiguous(format).requires_grad_();
    const at::Tensor value = GetParam().ours(maps);
    const auto gradient =
        torch::autograd::grad({(value * noise(value.sizes(), 2)).sum()}, {maps})
            .at(0);
    EXPECT_EQ(gradient.strides(), maps.strides());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Maps, Pooling,
    testing::Values(
        Case{"mean over a map",
             [](const at::Tensor& x) { return average_pool(x, 1, 1); },
             [](const at::Tensor& x) {
               return at::adaptive_avg_pool2d(x, {1, 1});
             }},
        Case{"averages of parts",
             [](const at::Tensor& x) { return average_pool(x, 3, 2); },
             [](const at::Tensor& x) {
               return at::adaptive_avg_pool2d(x, {3, 2});
             }},
        Case{"averages of parts that overlap",
             [](const at::Tensor& x) { return average_pool(x, 2, 4); },
             [](const at::Tensor& x) {
               return at::adaptive_avg_pool2d(x, {2, 4});
             }},
        Case{"mean over pixels", pixel_mean,
             [](const at::Tensor& x) {
               return x.mean({2, 3});
             }},
        Case{"larger maps",
             [](const at::Tensor& x) { return resize_bilinear(x, 20, 13); },
             [](const at::Tensor& x) {
               return at::upsample_bilinear2d(x, {20, 13}, true);
             }},
        Case{"smaller maps",
             [](const at::Tensor& x) { return resize_bilinear(x, 4, 3); },
             [](const at::Tensor& x) {
               return at::upsample_bilinear2d(x, {4, 3}, true);
             }},
        Case{"every second pixel",
             [](const at::Tensor& x) { return subsample(x, 2); },
             [](const at::Tensor& x) {
               constexpr std::int64_t kEnd = 100;
               return x.slice(2, 0, kEnd, 2).slice(3, 0, kEnd, 2);
             }},
        Case{"flat", flat, [](const at::Tensor& x) { return x.flatten(1); }}));

TEST(PoolingOfMaps, WorksWithoutGradients) {
  const at::Tensor maps =
      noise({2, 4, 3, 3}, 1).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_FALSE(flat(maps).requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(
      resize_bilinear(maps.clone().requires_grad_(), 5, 5).requires_grad());
}

}  // namespace sluice::pooling_test
