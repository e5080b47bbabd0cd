#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "experiments/data/samples/data_set.h"
#include "experiments/data/sets/images.h"

namespace sluice {

/// The built-in data set: 28x28 grey images of digits, each a few strokes drawn
/// under a random distortion, in random contrast, with noise and stray strokes.
struct DrawnDigitsOptions {
  std::int64_t train = 12000;
  std::int64_t test = 2000;
  std::int64_t seed = 0;
  /// Scales all that makes it hard; 0 draws clean digits.
  double difficulty = 1.0;

  void describe(Fields& fields);
};

/// Bytes of an image.
inline constexpr std::size_t kDrawnDigitBytes = std::size_t{28} * 28;

/// Draws sample `index` of `split` ("train" or "test") into `pixels`, of
/// kDrawnDigitBytes, and returns its label: a pure function of options.seed,
/// options.difficulty, split and index.
std::uint8_t draw_digit(const DrawnDigitsOptions& options,
                        std::string_view split, std::int64_t index,
                        std::span<std::uint8_t> pixels);

/// Draws the first `size` of a split: about 30 microseconds a sample.
Images draw_digits(const DrawnDigitsOptions& options, std::string_view split,
                   std::int64_t size);

ImageFormat drawn_digits_format();

MakeDataSet configure_drawn_digits(Fields& options);

}  // namespace sluice
