// Maps with half as many rows and columns: the mean of each square of 2 x 2
// pixels is sent, and stands for all of them where it comes; at an odd edge, of
// those that are there. That is how the messages of layer-parallel training are
// made smaller (Sun et al. 2020, arXiv:2009.01462: downsample before sending).
//
// Averaging and repeating, A, is an orthogonal projection. So a gradient that
// comes down in the same way is the true one at the features that were sent:
// of loss(A h) it is A' g = A g, where g is the gradient at A h. And what has
// been sent once is not changed by sending it again.
//
// Three parts: what carries sizes alone, for the caller; the means; and the
// sizes of the maps, since two heights have the same half. The former and the
// latter are one byte, repeated.
#include "lib/boundaries/codecs/downsample.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"

namespace sluice {
namespace {

constexpr std::int64_t kMapDimensions = 4;  // [N, C, H, W]

/// The means of pairs, and what is left alone at the end.
at::Tensor halved(const at::Tensor& maps, std::int64_t dimension) {
  const std::int64_t size = maps.size(dimension);
  const std::int64_t paired = size / 2 * 2;
  if (paired == 0) return maps;
  at::Tensor means = (maps.slice(dimension, 0, paired, 2) +
                      maps.slice(dimension, 1, paired, 2)) /
                     2;
  if (paired == size) return means;
  return at::cat({means, maps.slice(dimension, paired, size)}, dimension);
}

at::Tensor repeated(const at::Tensor& means, std::int64_t dimension,
                    std::int64_t size) {
  return means.repeat_interleave(2, dimension).narrow(dimension, 0, size);
}

/// The tensor, dense, with its dimensions in memory in the order of `like`.
at::Tensor laid_as(const at::Tensor& like, const at::Tensor& tensor) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(like.dim()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) {
                     return like.stride(a) > like.stride(b);
                   });
  std::vector<std::int64_t> strides(order.size());
  std::int64_t stride = 1;
  for (auto next = order.rbegin(); next != order.rend(); ++next) {
    strides[static_cast<std::size_t>(*next)] = stride;
    stride *= std::max<std::int64_t>(1, tensor.size(*next));
  }
  return at::empty_strided(tensor.sizes(), strides, tensor.options())
      .copy_(tensor);
}

class Downsample final : public Codec {
 public:
  std::string_view name() const override { return kDownsample; }

  bool takes(at::ScalarType) const override { return true; }

  Tensors encode(const at::Tensor& values) const override {
    if (values.dim() != kMapDimensions) return {values};
    const at::NoGradGuard no_grad;
    const at::Tensor means = halved(halved(values, 2), 3);
    const at::Tensor byte = at::zeros({1}, values.options().dtype(at::kByte));
    return {byte, laid_as(values, means), byte.expand(values.sizes())};
  }

  at::Tensor decode(const Tensors& parts) const override {
    const at::NoGradGuard no_grad;
    check(parts);
    if (parts.size() == 1) return parts[0];
    const at::Tensor& means = parts[1];
    const at::Tensor& sizes = parts[2];
    const at::Tensor maps =
        repeated(repeated(means, 2, sizes.size(2)), 3, sizes.size(3));
    return laid_as(means, maps);
  }

 private:
  static void check(const Tensors& parts) {
    const bool is_one = parts.size() == 1 &&
                        parts[0].scalar_type() == at::kFloat &&
                        parts[0].dim() != kMapDimensions;
    if (!is_one && !(parts.size() == 3 && are_halves(parts[1], parts[2])))
      throw LinkError("what came is not a tensor as codec {} sends it",
                      kDownsample);
  }

  static bool are_halves(const at::Tensor& means, const at::Tensor& sizes) {
    if (means.scalar_type() != at::kFloat || means.dim() != kMapDimensions ||
        sizes.dim() != kMapDimensions)
      return false;
    const auto half = [](std::int64_t size) { return (size + 1) / 2; };
    return means.size(0) == sizes.size(0) && means.size(1) == sizes.size(1) &&
           means.size(2) == half(sizes.size(2)) &&
           means.size(3) == half(sizes.size(3));
  }
};

}  // namespace

bool can_downsample(const SampleShape& shape) {
  return shape.size() + 1 == kMapDimensions && shape[1] * shape[2] > 1;
}

std::shared_ptr<const Codec> make_downsample() {
  return std::make_shared<Downsample>();
}

}  // namespace sluice
