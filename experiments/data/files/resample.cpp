#include "experiments/data/files/resample.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

// Weights are whole numbers with so many bits behind the point: 255 of them and
// a sign fit into 32 bits.
constexpr int kWeightBits = 32 - 8 - 2;

std::size_t places(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

/// Source pixels, and their weights, of a pixel of the result.
struct Tap {
  std::int64_t begin = 0;
  std::vector<std::int32_t> weights = {};
};

double triangle(double x) {
  return std::max(0.0, 1 - std::abs(x));
}

/// Weights of the source pixels that make pixel `at` of `to`, from `from`
/// pixels.
Tap tap_of(std::int64_t from, std::int64_t to, std::int64_t at) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  const double centre = (static_cast<double>(at) + 0.5) * scale;
  Tap tap = {.begin = std::max<std::int64_t>(
                 static_cast<std::int64_t>(centre - reach + 0.5), 0)};
  const std::int64_t end =
      std::min(static_cast<std::int64_t>(centre + reach + 0.5), from);
  std::vector<double> shares;
  double sum = 0;
  for (std::int64_t x = tap.begin; x < end; ++x) {
    shares.push_back(
        triangle((static_cast<double>(x) - centre + 0.5) * (1 / reach)));
    sum += shares.back();
  }
  for (const double share : shares)
    tap.weights.push_back(static_cast<std::int32_t>(
        0.5 + share / sum * static_cast<double>(1 << kWeightBits)));
  return tap;
}

/// Weights for pixels [begin, begin + count) of the result.
std::vector<Tap> taps_of(std::int64_t from, std::int64_t to, std::int64_t begin,
                         std::int64_t count) {
  std::vector<Tap> taps;
  for (std::int64_t i = 0; i < count; ++i)
    taps.push_back(from == to ? Tap{begin + i, {1 << kWeightBits}}
                              : tap_of(from, to, begin + i));
  return taps;
}

/// The weighted mean of pixels that lie `stride` apart.
std::uint8_t mean_of(const std::uint8_t* pixel, std::int64_t stride,
                     const Tap& tap) {
  std::int64_t sum = std::int64_t{1} << (kWeightBits - 1);
  for (const std::int32_t weight : tap.weights) {
    sum += std::int64_t{*pixel} * weight;
    pixel += stride;
  }
  return static_cast<std::uint8_t>(
      std::clamp<std::int64_t>(sum >> kWeightBits, 0, 255));
}

}  // namespace

void resample(const PlaneView& plane, std::int64_t height, std::int64_t width,
              const ImageBox& window, std::uint8_t* to) {
  const auto columns = taps_of(plane.width, width, window.left, window.width);
  const auto rows = taps_of(plane.height, height, window.top, window.height);
  if (rows.empty() || columns.empty()) return;
  // The rows that the window is made of, each as wide as it.
  const std::int64_t first = rows.front().begin;
  const std::int64_t last = rows.back().begin + std::ssize(rows.back().weights);
  std::vector<std::uint8_t> narrow(places((last - first) * window.width));
  std::uint8_t* next = narrow.data();
  for (std::int64_t y = first; y < last; ++y) {
    const std::uint8_t* row = plane.first + y * plane.row_stride;
    for (const Tap& tap : columns)
      *next++ = mean_of(row + tap.begin * plane.pixel_stride,
                        plane.pixel_stride, tap);
  }
  for (const Tap& tap : rows) {
    const std::uint8_t* from =
        narrow.data() + (tap.begin - first) * window.width;
    for (std::int64_t x = 0; x < window.width; ++x)
      *to++ = mean_of(from + x, window.width, tap);
  }
}

}  // namespace sluice
