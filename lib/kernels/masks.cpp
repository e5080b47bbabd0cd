#include "lib/kernels/masks.h"

#include <algorithm>
#include <array>

#include "lib/kernels/mask_element.h"

namespace sluice {
namespace {

using Stream = MaskKernels::Stream;

/// Counters that are computed side by side, so that the compiler does it with
/// vectors. A power of 2: the low words of a tile's counters don't overflow.
constexpr std::int64_t kLanes = 32;
constexpr std::int64_t kTile = kLanes * kElementsOfCounter;  // elements

/// Channels and pixels that are drawn before they are transposed: 32 KiB, and
/// whole cache lines of the mask.
constexpr std::int64_t kChannels = 16;
constexpr std::int64_t kPixels = 512;

/// Neighbouring counters, or their numbers: word j of all of them side by side.
struct Lanes {
  std::uint32_t word[4][kLanes];
};

Lanes counters_from(std::uint64_t counter) {
  Lanes lanes;
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    lanes.word[0][i] = static_cast<std::uint32_t>(counter) + i;
    lanes.word[1][i] = static_cast<std::uint32_t>(counter >> 32);
    lanes.word[2][i] = 0;
    lanes.word[3][i] = 0;
  }
  return lanes;
}

void do_round(Lanes& lanes, PhiloxKey key) {
  auto& word = lanes.word;
  for (std::int64_t i = 0; i < kLanes; ++i) {
    const PhiloxWords next =
        philox_round({{word[0][i], word[1][i], word[2][i], word[3][i]}}, key);
    for (int j = 0; j < 4; ++j) word[j][i] = next.word[j];
  }
}

/// Draws the elements from tile * kTile on. The rule is a copy, which no write
/// to the mask can change: else the compiler would read it anew each time.
void draw_tile(MaskRule rule, std::int64_t tile, float* __restrict mask) {
  Lanes lanes = counters_from(static_cast<std::uint64_t>(tile * kLanes));
  PhiloxKey key = philox_key(rule.key);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    do_round(lanes, key);
    key = next_philox_key(key);
  }
  for (std::int64_t i = 0; i < kLanes; ++i)
    for (int j = 0; j < kElementsOfCounter; ++j)
      mask[kElementsOfCounter * i + j] = mask_element(rule, lanes.word[j][i]);
}

/// Draws elements from `first` on, as many as are in its tile, but no more than
/// `count`; returns their number.
std::int64_t draw_part(const MaskRule& rule, std::int64_t first,
                       std::int64_t count, float* mask) {
  std::array<float, kTile> tile;
  draw_tile(rule, first / kTile, tile.data());
  const std::int64_t drawn = std::min(count, kTile - first % kTile);
  std::copy_n(tile.data() + first % kTile, drawn, mask);
  return drawn;
}

void fill(const MaskRule& rule, std::int64_t first, std::int64_t count,
          float* mask, Stream) {
  std::int64_t done = 0;
  if (first % kTile > 0) done = draw_part(rule, first, count, mask);
  for (; count - done >= kTile; done += kTile)
    draw_tile(rule, (first + done) / kTile, mask + done);
  if (done < count) draw_part(rule, first + done, count - done, mask + done);
}

/// Draws [channels, pixels] elements, of which rows are `pitch` apart.
void draw_rows(const MaskRule& rule, std::int64_t first, std::int64_t pitch,
               std::int64_t channels, std::int64_t pixels, float* rows) {
  if (pixels == pitch)
    return fill(rule, first, channels * pixels, rows, nullptr);
  for (std::int64_t c = 0; c < channels; ++c)
    fill(rule, first + c * pitch, pixels, rows + c * pixels, nullptr);
}

/// Writes [channels, pixels] as [pixels, channels], whose rows are `pitch`
/// apart.
void transpose(const float* __restrict from, std::int64_t channels,
               std::int64_t pixels, std::int64_t pitch, float* __restrict to) {
  for (std::int64_t p = 0; p < pixels; ++p)
    for (std::int64_t c = 0; c < channels; ++c)
      to[p * pitch + c] = from[c * pixels + p];
}

/// Draws one sample, which begins with element `first`.
void fill_sample(const MaskRule& rule, std::int64_t first,
                 const ChannelsLast& shape, float* mask) {
  std::array<float, kChannels * kPixels> rows;
  for (std::int64_t c = 0; c < shape.channels; c += kChannels)
    for (std::int64_t p = 0; p < shape.pixels; p += kPixels) {
      const std::int64_t channels = std::min(kChannels, shape.channels - c);
      const std::int64_t pixels = std::min(kPixels, shape.pixels - p);
      draw_rows(rule, first + c * shape.pixels + p, shape.pixels, channels,
                pixels, rows.data());
      transpose(rows.data(), channels, pixels, shape.channels,
                mask + p * shape.channels + c);
    }
}

void fill_channels_last(const MaskRule& rule, const ChannelsLast& shape,
                        float* mask, Stream) {
  const std::int64_t size = shape.channels * shape.pixels;
  for (std::int64_t i = 0; i < shape.samples; ++i)
    fill_sample(rule, (shape.first_sample + i) * size, shape, mask + i * size);
}

bool reaches(const float*) {
  return true;
}

}  // namespace

MaskRule mask_rule(double p, std::uint64_t key) {
  return {.key = key,
          .dropped_below = static_cast<std::uint32_t>(p * 0x1p32),
          .kept = static_cast<float>(1 / (1 - p))};
}

const MaskKernels& cpu_mask_kernels() {
  static constexpr MaskKernels kKernels = {fill, fill_channels_last, reaches};
  return kKernels;
}

#ifndef SLUICE_CUDA
// Weak: a program that is linked with tests/simcuda has another one.
__attribute__((weak)) const MaskKernels* cuda_mask_kernels() {
  return nullptr;
}
#endif

}  // namespace sluice
