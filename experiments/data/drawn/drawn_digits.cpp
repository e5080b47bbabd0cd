#include "experiments/data/drawn/drawn_digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "experiments/data/drawn/canvas.h"
#include "experiments/data/drawn/digit_glyphs.h"
#include "experiments/data/drawn/nearly_normal.h"
#include "experiments/data/samples/validation.h"
#include "experiments/data/sets/images.h"
#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

constexpr double kSide = Canvas::kSide;
constexpr int kLinesPerCurve = 5;

/// Random numbers of one sample: spread() is even around 0, and shrinks with
/// the difficulty.
class Dice {
 public:
  Dice(std::uint64_t key, double difficulty)
      : random_(key), difficulty_(difficulty) {}

  double spread(double half_width) {
    return difficulty_ * random_.uniform(-half_width, half_width);
  }
  double uniform(double low, double high) { return random_.uniform(low, high); }
  std::size_t below(std::size_t bound) { return random_.below(bound); }
  double difficulty() const { return difficulty_; }

  double noise() { return nearly_normal(random_.next()); }

 private:
  KeyedRandom random_;
  double difficulty_;
};

/// From the unit box of a glyph to the canvas: a smooth wave on top of an
/// affine map.
class Distortion {
 public:
  explicit Distortion(Dice& dice) {
    const double angle = dice.spread(0.30);
    const double shear = dice.spread(0.35);
    const double width = kSide * (0.50 + dice.spread(0.12));
    const double height = kSide * (0.64 + dice.spread(0.14));
    const double cosine = std::cos(angle);
    const double sine = std::sin(angle);
    xx_ = width * cosine;
    xy_ = height * (shear * cosine - sine);
    yx_ = width * sine;
    yy_ = height * (shear * sine + cosine);
    centre_.x = kSide / 2 + dice.spread(3.0);
    centre_.y = kSide / 2 + dice.spread(3.0);
    for (Wave& wave : waves_) {
      wave.amplitude = dice.spread(0.06);
      wave.along_x = dice.uniform(-5.0, 5.0);
      wave.along_y = dice.uniform(-5.0, 5.0);
      wave.phase = dice.uniform(0, 2 * std::numbers::pi);
    }
  }

  Point operator()(Point point) const {
    const double x = point.x - 0.5 + waves_[0].at(point) + waves_[1].at(point);
    const double y = point.y - 0.5 + waves_[2].at(point) + waves_[3].at(point);
    return {centre_.x + xx_ * x + xy_ * y, centre_.y + yx_ * x + yy_ * y};
  }

 private:
  struct Wave {
    double amplitude = 0;
    double along_x = 0;
    double along_y = 0;
    double phase = 0;

    double at(Point point) const {
      return amplitude *
             std::sin(along_x * point.x + along_y * point.y + phase);
    }
  };

  double xx_ = 0;
  double xy_ = 0;
  double yx_ = 0;
  double yy_ = 0;
  Point centre_;
  std::array<Wave, 4> waves_;
};

/// Between p1 (at 0) and p2 (at 1), on the Catmull-Rom curve of four points.
Point on_curve(const std::array<Point, 4>& p, double at) {
  const auto value = [at](double p0, double p1, double p2, double p3) {
    const double linear = p2 - p0;
    const double square = 2 * p0 - 5 * p1 + 4 * p2 - p3;
    const double cube = 3 * (p1 - p2) + p3 - p0;
    return p1 + 0.5 * at * (linear + at * (square + at * cube));
  };
  return {value(p[0].x, p[1].x, p[2].x, p[3].x),
          value(p[0].y, p[1].y, p[2].y, p[3].y)};
}

std::vector<StrokePoint> jittered(Glyph glyph, Dice& dice) {
  std::vector<StrokePoint> points(glyph.begin(), glyph.end());
  for (StrokePoint& point : points) {
    point.x += dice.spread(0.05);
    point.y += dice.spread(0.05);
  }
  return points;
}

/// The four points that shape the curve from points[i - 1] to points[i]: at a
/// corner or an end the curve knows nothing of what lies beyond.
std::array<Point, 4> shaping(const std::vector<StrokePoint>& points,
                             std::size_t i) {
  const auto at = [&](std::size_t j) {
    return Point{points[j].x, points[j].y};
  };
  const bool begins = points[i - 1].pen != Pen::smooth;
  const bool ends = points[i].pen == Pen::corner || i + 1 == points.size() ||
                    points[i + 1].pen == Pen::down;
  return {at(begins ? i - 1 : i - 2), at(i - 1), at(i), at(ends ? i : i + 1)};
}

void draw_glyph(Glyph glyph, Dice& dice, Canvas& canvas) {
  const Distortion distortion(dice);
  const double radius = 1.15 + dice.spread(0.55);
  const std::vector<StrokePoint> points = jittered(glyph, dice);
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (points[i].pen == Pen::down) continue;
    const std::array<Point, 4> shape = shaping(points, i);
    Point from = distortion(shape[1]);
    for (int part = 1; part <= kLinesPerCurve; ++part) {
      const double at = static_cast<double>(part) / kLinesPerCurve;
      const Point to = distortion(on_curve(shape, at));
      canvas.line(from, to, radius, 1.0);
      from = to;
    }
  }
}

/// Short thin strokes that belong to no digit.
void draw_strays(Dice& dice, Canvas& canvas) {
  const double most = 4 * dice.difficulty();
  const int count = static_cast<int>(dice.uniform(0, most));
  for (int i = 0; i < count; ++i) {
    Point from;
    from.x = dice.uniform(0, kSide);
    from.y = dice.uniform(0, kSide);
    const double angle = dice.uniform(0, 2 * std::numbers::pi);
    const double length = dice.uniform(2.0, 8.0);
    const double radius = dice.uniform(0.3, 0.8);
    const double ink = dice.uniform(0.3, 0.9);
    const Point to = {from.x + length * std::cos(angle),
                      from.y + length * std::sin(angle)};
    canvas.line(from, to, radius, ink);
  }
}

/// Background with a slope, contrast and noise.
void develop(const Canvas& canvas, Dice& dice, std::span<std::uint8_t> pixels) {
  const double ground = 0.12 + dice.spread(0.12);
  const double contrast = 0.68 + dice.spread(0.20);
  const double slope_x = dice.spread(0.10) / kSide;
  const double slope_y = dice.spread(0.10) / kSide;
  const double noise = dice.difficulty() * dice.uniform(0.02, 0.10);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t row = i / Canvas::kSide;
    const std::size_t column = i % Canvas::kSide;
    const double x = static_cast<double>(column) - kSide / 2;
    const double y = static_cast<double>(row) - kSide / 2;
    const double value = ground + slope_x * x + slope_y * y +
                         contrast * canvas.levels()[i] + noise * dice.noise();
    pixels[i] = static_cast<std::uint8_t>(
        std::lround(255 * std::clamp(value, 0.0, 1.0)));
  }
}

ImageSplit split_of(const DrawnDigitsOptions& options, const char* split,
                    std::int64_t size) {
  return {.size = size, .load = [options, split, size] {
            return draw_digits(options, split, size);
          }};
}

}  // namespace

void DrawnDigitsOptions::describe(Fields& fields) {
  fields.key(
      "train", train,
      {.text = "number of training images", .min = 1, .max = 10'000'000});
  fields.key("test", test,
             {.text = "number of test images", .min = 1, .max = 10'000'000});
  fields.key("seed", seed, {.text = "which images are drawn", .min = 0});
  fields.key("difficulty", difficulty,
             {.text = "how much digits are distorted, and covered by noise and "
                      "stray strokes; 0 is not at all",
              .min = 0,
              .max = 2});
}

std::uint8_t draw_digit(const DrawnDigitsOptions& options,
                        std::string_view split, std::int64_t index,
                        std::span<std::uint8_t> pixels) {
  SLUICE_CHECK(pixels.size() == kDrawnDigitBytes, "{} bytes", pixels.size());
  Dice dice(random_key({key_part("drawn_digits"),
                        static_cast<std::uint64_t>(options.seed),
                        key_part(split), static_cast<std::uint64_t>(index)}),
            options.difficulty);
  const std::size_t digit = dice.below(10);
  const std::span<const Glyph> glyphs = glyphs_of(static_cast<int>(digit));
  const Glyph glyph = glyphs[dice.below(glyphs.size())];
  Canvas canvas;
  draw_glyph(glyph, dice, canvas);
  draw_strays(dice, canvas);
  develop(canvas, dice, pixels);
  return static_cast<std::uint8_t>(digit);
}

Images draw_digits(const DrawnDigitsOptions& options, std::string_view split,
                   std::int64_t size) {
  const auto count = static_cast<std::size_t>(size);
  Images images;
  images.pixels.resize(count * kDrawnDigitBytes);
  images.labels.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::span image(images.pixels.data() + i * kDrawnDigitBytes,
                          kDrawnDigitBytes);
    images.labels[i] =
        draw_digit(options, split, static_cast<std::int64_t>(i), image);
  }
  return images;
}

// The mean and standard deviation are those of the default options.
ImageFormat drawn_digits_format() {
  return {.mean = {0.201}, .std = {0.215}};
}

MakeDataSet configure_drawn_digits(Fields& fields) {
  DrawnDigitsOptions options;
  options.describe(fields);
  const Augmentation augmentation = read_augmentation(fields);
  const ValidationOptions validation = read_validation(fields);
  return [options, augmentation, validation](const std::string&) {
    return with_validation(
        image_data_set(drawn_digits_format(), augmentation,
                       split_of(options, "train", options.train),
                       split_of(options, "test", options.test)),
        validation);
  };
}

}  // namespace sluice
