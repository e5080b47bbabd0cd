#pragma once

#include <cstdint>
#include <span>

namespace sluice {

/// How the pen reaches a point: it is set down there, or comes from the point
/// before and goes on smoothly, or turns sharply there.
enum class Pen : std::uint8_t { down, smooth, corner };

/// A point of a stroke, in a box of 1 x 1 with y downwards.
struct StrokePoint {
  double x = 0;
  double y = 0;
  Pen pen = Pen::smooth;
};

/// One way of writing a digit: its strokes, one after the other.
using Glyph = std::span<const StrokePoint>;

/// The ways of writing `digit`, 0 to 9.
std::span<const Glyph> glyphs_of(int digit);

}  // namespace sluice
