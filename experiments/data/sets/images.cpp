#include "experiments/data/sets/images.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include "experiments/data/samples/in_parallel.h"
#include "experiments/data/samples/input_store.h"
#include "experiments/data/samples/samples.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

// Weights of red, green and blue in grey (ITU-R BT.601).
constexpr std::array<float, 3> kGrey = {0.299F, 0.587F, 0.114F};

std::size_t size_of(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

/// The normalised value of each byte, per channel.
std::vector<std::array<float, 256>> normalised_values(
    const ImageFormat& format) {
  std::vector<std::array<float, 256>> values(size_of(format.channels));
  for (std::size_t c = 0; c < values.size(); ++c) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const double scaled = static_cast<double>(byte) / 255.0;
      values[c][byte] =
          static_cast<float>((scaled - format.mean[c]) / format.std[c]);
    }
  }
  return values;
}

/// Moves and mirrors one channel. What comes in from outside is black.
void move_plane(const ImageFormat& format, const ImageChange& change,
                const std::uint8_t* from, std::uint8_t* to) {
  const std::int64_t begin =
      std::clamp<std::int64_t>(-change.right, 0, format.width);
  const std::int64_t end =
      std::clamp(format.width - change.right, begin, format.width);
  std::fill_n(to, format.height * format.width, std::uint8_t{0});
  for (std::int64_t y = 0; y < format.height; ++y) {
    const std::int64_t row = y + change.down;
    if (row < 0 || row >= format.height) continue;
    const std::uint8_t* source = from + row * format.width;
    std::uint8_t* target = to + y * format.width;
    if (change.mirrored) {
      for (std::int64_t x = begin; x < end; ++x)
        target[x] = source[format.width - 1 - (x + change.right)];
    } else {
      std::copy(source + begin + change.right, source + end + change.right,
                target + begin);
    }
  }
}

/// The value, at least 0 and at most 1; written so that it becomes two
/// instructions.
float clamped(float value) {
  return std::min(std::max(value, 0.0F), 1.0F);
}

/// The values of bytes scaled to 0..1, brightened.
std::array<float, 256> brightened_values(float brightness) {
  std::array<float, 256> values = {};
  for (std::size_t byte = 0; byte < values.size(); ++byte)
    values[byte] = clamped(brightness * (static_cast<float>(byte) / 255.0F));
  return values;
}

/// The grey of pixel i; of a colour image, whose planes lie one after another.
float grey_at(const float* pixels, std::size_t plane, std::size_t channels,
              std::size_t i) {
  if (channels != kGrey.size()) return pixels[i];
  return kGrey[0] * pixels[i] + kGrey[1] * pixels[i + plane] +
         kGrey[2] * pixels[i + 2 * plane];
}

float mean_grey(const float* pixels, std::size_t plane, std::size_t channels) {
  double sum = 0;
  for (std::size_t i = 0; i < plane; ++i)
    sum += static_cast<double>(grey_at(pixels, plane, channels, i));
  return static_cast<float>(sum / static_cast<double>(plane));
}

/// Changes the saturation of a colour image [3, plane] with values in 0..1.
void saturate(float saturation, std::size_t plane, float* pixels) {
  const auto change = [&](float& pixel, float grey) {
    pixel = clamped(grey + saturation * (pixel - grey));
  };
  for (std::size_t i = 0; i < plane; ++i) {
    const float grey = grey_at(pixels, plane, kGrey.size(), i);
    change(pixels[i], grey);
    change(pixels[i + plane], grey);
    change(pixels[i + 2 * plane], grey);
  }
}

/// Brightness, contrast and saturation of an image of such values in 0..1.
void jitter(const ImageChange& change, std::size_t channels, std::size_t plane,
            const std::uint8_t* bytes, float* pixels) {
  const std::size_t all = channels * plane;
  const auto values = brightened_values(change.brightness);
  for (std::size_t i = 0; i < all; ++i) pixels[i] = values[bytes[i]];
  const float mean = mean_grey(pixels, plane, channels);
  for (std::size_t i = 0; i < all; ++i)
    pixels[i] = clamped(mean + change.contrast * (pixels[i] - mean));
  if (channels == kGrey.size()) saturate(change.saturation, plane, pixels);
}

/// Memory that the images of a batch use one after the other, on one thread.
struct Scratch {
  std::vector<std::uint8_t> read = {};
  std::vector<std::uint8_t> moved = {};
};

class ImageSamples final : public Samples {
 public:
  ImageSamples(ImageFormat format, const Augmentation& augmentation,
               std::shared_ptr<const ImageStore> images)
      : format_(std::move(format)),
        augmentation_(augmentation),
        images_(std::move(images)),
        values_(normalised_values(format_)),
        store_(images_->all_pixels() == nullptr ? nullptr : store_of_all()) {}

  std::int64_t size() const override { return images_->size(); }

  std::int64_t position(std::int64_t index, EpochKey) const override {
    return index;
  }

  at::Tensor raw(const at::Tensor& inputs) const override {
    const std::int64_t each_channel[] = {1, format_.channels, 1, 1};
    const auto per_channel = [&](const std::vector<double>& values) {
      return at::tensor(values, inputs.options()).view(each_channel);
    };
    // Rounding may leave the range that a reconstruction is compared in.
    return (inputs * per_channel(format_.std) + per_channel(format_.mean))
        .clamp(0, 1);
  }

  Batch batch(std::span<const std::int64_t> indices,
              EpochKey key) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    Batch batch;
    batch.inputs = at::empty(
        {count, format_.channels, format_.height, format_.width}, at::kFloat);
    batch.labels = labels_of(indices);
    auto* inputs = batch.inputs.mutable_data_ptr<float>();
    const auto threads = static_cast<std::size_t>(images_->workers());
    std::vector<Scratch> scratch(threads);
    in_parallel(
        indices.size(), threads, [&](std::size_t thread, std::size_t i) {
          write(indices[i], key, scratch[thread],
                inputs + static_cast<std::int64_t>(i) * format_.bytes());
        });
    return batch;
  }

  std::shared_ptr<const InputStore> input_store(bool augmented) const override {
    const bool changes =
        augmentation_.changes() || augmentation_.resized_crop > 0;
    return augmented && changes ? nullptr : store_;
  }
  Batch places(std::span<const std::int64_t> indices, EpochKey) const override {
    Batch batch;
    batch.inputs = at::tensor(
        at::ArrayRef<std::int64_t>(indices.data(), indices.size()), at::kLong);
    batch.labels = labels_of(indices);
    return batch;
  }

 private:
  std::size_t plane() const { return size_of(format_.height * format_.width); }

  at::Tensor labels_of(std::span<const std::int64_t> indices) const {
    const at::Tensor labels = at::empty({std::ssize(indices)}, at::kLong);
    auto* label = labels.mutable_data_ptr<std::int64_t>();
    for (const std::int64_t index : indices) {
      SLUICE_CHECK(index >= 0 && index < size(), "sample {} of {}", index,
                   size());
      *label++ = images_->label(index);
    }
    return labels;
  }

  /// The pixels as they lie in memory, and what they are as inputs.
  std::shared_ptr<const InputStore> store_of_all() const {
    return std::make_shared<const InputStore>(
        images_->size() * format_.bytes(),
        [format = format_, images = images_, values = values_] {
          // Only read, on its way to a device.
          // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
          auto* pixels = const_cast<std::uint8_t*>(images->all_pixels());
          const at::Tensor rows = at::from_blob(
              pixels,
              {images->size(), format.channels, format.height, format.width},
              at::kByte);
          const at::Tensor table =
              at::empty({format.channels * 256}, at::kFloat);
          auto* value = table.mutable_data_ptr<float>();
          for (const std::array<float, 256>& each : values)
            value = std::copy(each.begin(), each.end(), value);
          const at::Tensor steps =
              at::arange(format.channels, at::kInt).mul_(256);
          return InputTable{rows, table, steps.view({1, -1, 1, 1})};
        });
  }

  void write(std::int64_t index, EpochKey key, Scratch& scratch,
             float* input) const {
    const Augmentation augmentation =
        key.augmented ? augmentation_ : Augmentation{};
    ImageStore::Crop crop;
    if (augmentation.resized_crop > 0)
      crop = [&](std::int64_t height, std::int64_t width) {
        return draw_resized_crop(augmentation, key, index, height, width);
      };
    const std::uint8_t* pixels = images_->pixels(index, crop, scratch.read);
    const ImageChange change =
        draw_change(augmentation, key, index, format_.height, format_.width);
    if (augmentation.crop > 0 || augmentation.flip) {
      scratch.moved.resize(size_of(format_.bytes()));
      for (std::size_t c = 0; c < values_.size(); ++c)
        move_plane(format_, change, pixels + c * plane(),
                   scratch.moved.data() + c * plane());
      pixels = scratch.moved.data();
    }
    if (augmentation.jitter > 0) {
      write_jittered(change, pixels, input);
    } else {
      write_normalised(pixels, input);
    }
    if (augmentation.cutout > 0) cut_out(change, input);
  }

  void write_normalised(const std::uint8_t* pixel, float* input) const {
    for (const std::array<float, 256>& values : values_) {
      for (std::size_t i = 0; i < plane(); ++i) *input++ = values[*pixel++];
    }
  }

  void write_jittered(const ImageChange& change, const std::uint8_t* pixels,
                      float* input) const {
    jitter(change, values_.size(), plane(), pixels, input);
    for (std::size_t c = 0; c < values_.size(); ++c) {
      const auto mean = static_cast<float>(format_.mean[c]);
      const auto scale = static_cast<float>(1 / format_.std[c]);
      for (std::size_t i = 0; i < plane(); ++i, ++input)
        *input = (*input - mean) * scale;
    }
  }

  /// Sets a square of a normalised image to 0, its mean.
  void cut_out(const ImageChange& change, float* input) const {
    for (std::int64_t c = 0; c < format_.channels; ++c) {
      for (std::int64_t y = change.hole_top; y < change.hole_bottom; ++y) {
        float* row = input + (c * format_.height + y) * format_.width;
        std::fill(row + change.hole_left, row + change.hole_right, 0.0F);
      }
    }
  }

  ImageFormat format_;
  Augmentation augmentation_;
  std::shared_ptr<const ImageStore> images_;
  std::vector<std::array<float, 256>> values_;
  std::shared_ptr<const InputStore> store_;
};

std::shared_ptr<const Samples> samples_of(
    const ImageFormat& format, const Augmentation& augmentation,
    std::shared_ptr<const ImageStore> images) {
  const std::size_t channels = size_of(format.channels);
  SLUICE_CHECK(format.mean.size() == channels && format.std.size() == channels,
               "{} channels, {} means and {} standard deviations", channels,
               format.mean.size(), format.std.size());
  return std::make_shared<ImageSamples>(format, augmentation,
                                        std::move(images));
}

std::shared_ptr<const ImageStore> store_of(const ImageFormat& format,
                                           Images images) {
  return images_in_memory(
      format, std::move(images.pixels),
      std::vector<std::int64_t>(images.labels.begin(), images.labels.end()));
}

StoredSplit in_memory(const ImageFormat& format, ImageSplit split) {
  return {.size = split.size,
          .open =
              [format, load = std::move(split.load)] {
                return store_of(format, load());
              },
          .files = std::move(split.files)};
}

}  // namespace

std::shared_ptr<const Samples> image_samples(const ImageFormat& format,
                                             const Augmentation& augmentation,
                                             Images images) {
  return samples_of(format, augmentation, store_of(format, std::move(images)));
}

Split stored_image_split(const ImageFormat& format,
                         const Augmentation& augmentation, StoredSplit split) {
  return {split.size, [format, augmentation, open = std::move(split.open)] {
            return samples_of(format, augmentation, open());
          }};
}

DataSet image_data_set(const ImageFormat& format,
                       const Augmentation& augmentation, ImageSplit train,
                       ImageSplit test) {
  return stored_image_data_set(format, augmentation,
                               in_memory(format, std::move(train)),
                               in_memory(format, std::move(test)));
}

DataSet stored_image_data_set(const ImageFormat& format,
                              const Augmentation& augmentation,
                              StoredSplit train, StoredSplit test) {
  std::vector<std::string> files = train.files;
  files.insert(files.end(), test.files.begin(), test.files.end());
  return {.sample = {.shape = {format.channels, format.height, format.width},
                     .classes = format.classes},
          .train = stored_image_split(format, augmentation, std::move(train)),
          .test = stored_image_split(format, Augmentation{}, std::move(test)),
          .files = std::move(files),
          .varies = augmentation.changes() || augmentation.resized_crop > 0};
}

}  // namespace sluice
