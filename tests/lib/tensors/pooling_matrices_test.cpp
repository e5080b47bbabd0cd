#include "lib/tensors/pooling_matrices.h"

#include <functional>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace sluice::pooling_matrices_test {

constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 32};

using Operation = std::function<at::Tensor(
    const at::Tensor& maps, std::int64_t height, std::int64_t width)>;

struct Result {
  at::Tensor value;
  at::Tensor gradient;
};

/// With a gradient at the result that differs at every place.
Result result_of(const Operation& operation, const at::Tensor& maps,
                 std::int64_t height, std::int64_t width) {
  const at::Tensor x = maps.detach().requires_grad_();
  const at::Tensor value = operation(x, height, width);
  const at::Tensor above =
      at::arange(value.numel(), value.options()).reshape(value.sizes()).sin();
  value.backward(above);
  return {value.detach(), x.grad()};
}

double distance(const at::Tensor& left, const at::Tensor& right) {
  return (left - right).abs().max().item<double>();
}

at::Tensor numbers(std::int64_t height, std::int64_t width,
                   at::MemoryFormat format) {
  return at::randn({2, 3, height, width},
                   at::make_generator<at::CPUGeneratorImpl>(1),
                   at::TensorOptions(at::kDouble))
      .contiguous(format);
}

/// From each size to each other one, in both orders of memory.
void expect_equal(const Operation& ours, const Operation& theirs) {
  for (const auto format :
       {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
    for (const std::int64_t in : kSizes)
      for (const std::int64_t out : kSizes) {
        const at::Tensor maps = numbers(in, in + 2, format);
        const Result mine = result_of(ours, maps, out, 5);
        const Result right = result_of(theirs, maps, out, 5);
        EXPECT_LT(distance(mine.value, right.value), 1e-12) << in << out;
        EXPECT_LT(distance(mine.gradient, right.gradient), 1e-12) << in << out;
        EXPECT_EQ(mine.gradient.is_contiguous(format), true) << in << out;
      }
}

TEST(PoolingMatrices, AveragesAreThoseOfAdaptivePooling) {
  expect_equal(
      average_by_matrices,
      [](const at::Tensor& maps, std::int64_t height, std::int64_t width) {
        return at::adaptive_avg_pool2d(maps, {height, width});
      });
}

TEST(PoolingMatrices, ResizesAreThoseOfBilinearInterpolation) {
  expect_equal(resize_by_matrices, [](const at::Tensor& maps,
                                      std::int64_t height, std::int64_t width) {
    return at::upsample_bilinear2d(maps, {height, width},
                                   /*align_corners=*/true);
  });
}

TEST(PoolingMatrices, LowPrecisionIsKeptOutsideAndNotInside) {
  const at::Tensor maps =
      numbers(7, 7, at::MemoryFormat::Contiguous).to(at::kBFloat16);
  const at::Tensor pooled = average_by_matrices(maps, 3, 3);
  EXPECT_EQ(pooled.scalar_type(), at::kBFloat16);
  const at::Tensor exact = average_by_matrices(maps.to(at::kDouble), 3, 3);
  EXPECT_TRUE(pooled.equal(exact.to(at::kFloat).to(at::kBFloat16)));
}

}  // namespace sluice::pooling_matrices_test
