#include "experiments/data/drawn/canvas.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The pixels whose centres may lie within `reach` of the interval a..b.
Range pixels_near(double a, double b, double reach) {
  const double side = Canvas::kSide;
  const double low = std::clamp(std::min(a, b) - reach, 0.0, side);
  const double high = std::clamp(std::max(a, b) + reach, 0.0, side);
  return {static_cast<std::size_t>(low),
          static_cast<std::size_t>(std::ceil(high))};
}

}  // namespace

void Canvas::line(Point from, Point to, double radius, double ink) {
  const double reach = radius + 0.5;
  const Range columns = pixels_near(from.x, to.x, reach);
  const Range rows = pixels_near(from.y, to.y, reach);
  const double along_x = to.x - from.x;
  const double along_y = to.y - from.y;
  // A line of no length is a dot: any finite factor will do.
  const double squared = along_x * along_x + along_y * along_y;
  const double per_length = squared > 0 ? 1 / squared : 0;
  for (std::size_t row = rows.begin; row < rows.end; ++row) {
    const double y = static_cast<double>(row) + 0.5 - from.y;
    for (std::size_t column = columns.begin; column < columns.end; ++column) {
      const double x = static_cast<double>(column) + 0.5 - from.x;
      const double nearest =
          std::clamp((x * along_x + y * along_y) * per_length, 0.0, 1.0);
      const double off_x = x - nearest * along_x;
      const double off_y = y - nearest * along_y;
      const double squared_distance = off_x * off_x + off_y * off_y;
      if (squared_distance >= reach * reach) continue;
      const double distance = std::sqrt(squared_distance);
      const double level = ink * std::min(reach - distance, 1.0);
      double& pixel = levels_[row * kSide + column];
      pixel = std::max(pixel, level);
    }
  }
}

}  // namespace sluice
