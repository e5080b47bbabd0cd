#pragma once

#include <array>
#include <cstddef>

namespace sluice {

struct Point {
  double x = 0;
  double y = 0;
};

/// A square grey image to draw strokes on; 0 is empty, 1 is full ink. Pixel
/// (column, row) covers its square of side 1, so its centre is at
/// (column + 0.5, row + 0.5).
class Canvas {
 public:
  static constexpr std::size_t kSide = 28;

  /// A line with round ends, smoothed at its rim over one pixel. Where lines
  /// overlap the darker one shows. What lies outside is left out.
  void line(Point from, Point to, double radius, double ink);

  /// The pixels, row by row.
  const std::array<double, kSide * kSide>& levels() const { return levels_; }

 private:
  std::array<double, kSide* kSide> levels_ = {};
};

}  // namespace sluice
