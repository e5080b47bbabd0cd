#include "experiments/data/change/augmentation.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "lib/base/random.h"

namespace sluice {
namespace {

/// A whole number in [-most, most], each equally often.
std::int64_t shift(KeyedRandom& random, std::int64_t most) {
  return static_cast<std::int64_t>(
             random.below(static_cast<std::uint64_t>(2 * most + 1))) -
         most;
}

std::int64_t below(KeyedRandom& random, std::int64_t bound) {
  return static_cast<std::int64_t>(
      random.below(static_cast<std::uint64_t>(bound)));
}

KeyedRandom numbers_for(std::string_view purpose, EpochKey key,
                        std::int64_t index) {
  return KeyedRandom(random_key({key.seed, key_part(purpose),
                                 static_cast<std::uint64_t>(key.epoch),
                                 static_cast<std::uint64_t>(index)}));
}

// Width over height of a part that is resized.
constexpr double kLeastRatio = 3.0 / 4;
constexpr double kMostRatio = 4.0 / 3;

ImageBox central_part(std::int64_t height, std::int64_t width) {
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  ImageBox box = {.height = height, .width = width};
  if (ratio < kLeastRatio)
    box.height = std::llround(static_cast<double>(width) / kLeastRatio);
  else if (ratio > kMostRatio)
    box.width = std::llround(static_cast<double>(height) * kMostRatio);
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

float factor(KeyedRandom& random, double strength) {
  return static_cast<float>(random.uniform(1 - strength, 1 + strength));
}

}  // namespace

void Augmentation::describe(Fields& fields) {
  fields.key("resized_crop", resized_crop,
             {.text = "above 0: a part of each training image, of a drawn "
                      "place, a ratio of sides from 3/4 to 4/3 and at least "
                      "this share of its area, is resized to the size of "
                      "samples; usual for photographs: 0.08",
              .min = 0,
              .max = 1});
  fields.key("crop", crop,
             {.text = "training images move by up to so much in each "
                      "direction, and black comes in; as padding and a crop",
              .unit = "pixels",
              .min = 0,
              .max = 1024});
  fields.key("flip", flip, {.text = "mirror half of the training images"});
  fields.key("jitter", jitter,
             {.text = "brightness, contrast and saturation of training images "
                      "change by factors of 1 - jitter to 1 + jitter",
              .min = 0,
              .max = 1});
  fields.key("cutout", cutout,
             {.text = "side of a square, anywhere in a training image, that is "
                      "set to the mean",
              .unit = "pixels",
              .min = 0,
              .max = 1024});
}

Augmentation read_augmentation(Fields& options) {
  Augmentation augmentation;
  options.section("augment",
                  "random changes of training images, keyed by seed, epoch and "
                  "sample",
                  [&](Fields& fields) { augmentation.describe(fields); });
  return augmentation;
}

ImageBox draw_resized_crop(const Augmentation& augmentation, EpochKey key,
                           std::int64_t index, std::int64_t height,
                           std::int64_t width) {
  constexpr int kDraws = 10;
  KeyedRandom numbers = numbers_for("augment.resized_crop", key, index);
  const double all = static_cast<double>(height) * static_cast<double>(width);
  for (int draw = 0; draw < kDraws; ++draw) {
    const double area = all * numbers.uniform(augmentation.resized_crop, 1);
    const double ratio =
        std::exp(numbers.uniform(std::log(kLeastRatio), std::log(kMostRatio)));
    ImageBox box = {.height = std::llround(std::sqrt(area / ratio)),
                    .width = std::llround(std::sqrt(area * ratio))};
    if (box.height < 1 || box.width < 1 || box.height > height ||
        box.width > width)
      continue;
    box.top = below(numbers, height - box.height + 1);
    box.left = below(numbers, width - box.width + 1);
    return box;
  }
  return central_part(height, width);
}

ImageChange draw_change(const Augmentation& augmentation, EpochKey key,
                        std::int64_t index, std::int64_t height,
                        std::int64_t width) {
  const auto random = [&](std::string_view purpose) {
    return numbers_for(purpose, key, index);
  };
  ImageChange change;
  if (augmentation.crop > 0) {
    KeyedRandom numbers = random("augment.crop");
    change.down = shift(numbers, augmentation.crop);
    change.right = shift(numbers, augmentation.crop);
  }
  if (augmentation.flip) change.mirrored = random("augment.flip").below(2) == 1;
  if (augmentation.jitter > 0) {
    KeyedRandom numbers = random("augment.jitter");
    change.brightness = factor(numbers, augmentation.jitter);
    change.contrast = factor(numbers, augmentation.jitter);
    change.saturation = factor(numbers, augmentation.jitter);
  }
  if (augmentation.cutout > 0) {
    KeyedRandom numbers = random("augment.cutout");
    const std::int64_t side = augmentation.cutout;
    const std::int64_t top = below(numbers, height) - side / 2;
    const std::int64_t left = below(numbers, width) - side / 2;
    change.hole_top = std::max<std::int64_t>(top, 0);
    change.hole_bottom = std::min(top + side, height);
    change.hole_left = std::max<std::int64_t>(left, 0);
    change.hole_right = std::min(left + side, width);
  }
  return change;
}

}  // namespace sluice
