#include "experiments/data/sets/image_store.h"

#include <cstddef>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

std::size_t places_of(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

class ImagesInMemory final : public ImageStore {
 public:
  ImagesInMemory(ImageFormat format, std::vector<std::uint8_t> pixels,
                 std::vector<std::int64_t> labels)
      : format_(std::move(format)),
        pixels_(std::move(pixels)),
        labels_(std::move(labels)) {
    SLUICE_CHECK(pixels_.size() == labels_.size() * places_of(format_.bytes()),
                 "{} bytes for {} images", pixels_.size(), labels_.size());
  }

  std::int64_t size() const override { return std::ssize(labels_); }
  std::int64_t label(std::int64_t index) const override {
    return labels_[places_of(index)];
  }

  const std::uint8_t* all_pixels() const override { return pixels_.data(); }

  const std::uint8_t* pixels(
      std::int64_t index, const Crop& crop,
      std::vector<std::uint8_t>& scratch) const override {
    const std::uint8_t* image = pixels_.data() + index * format_.bytes();
    if (!crop) return image;
    const ImageBox box = crop(format_.height, format_.width);
    const std::int64_t plane = format_.height * format_.width;
    scratch.resize(places_of(format_.bytes()));
    for (std::int64_t c = 0; c < format_.channels; ++c) {
      const PlaneView view = {.first = image + c * plane,
                              .height = format_.height,
                              .width = format_.width,
                              .row_stride = format_.width};
      resample(view.part(box), format_.height, format_.width,
               {.height = format_.height, .width = format_.width},
               scratch.data() + c * plane);
    }
    return scratch.data();
  }

 private:
  ImageFormat format_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int64_t> labels_;
};

}  // namespace

std::shared_ptr<const ImageStore> images_in_memory(
    const ImageFormat& format, std::vector<std::uint8_t> pixels,
    std::vector<std::int64_t> labels) {
  return std::make_shared<ImagesInMemory>(format, std::move(pixels),
                                          std::move(labels));
}

}  // namespace sluice
