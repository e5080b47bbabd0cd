#include "experiments/data/sets/image_files.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "experiments/data/files/decoded_image.h"
#include "experiments/data/sets/found_images.h"
#include "experiments/data/sets/image_walk.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::int64_t kColoursOfImage = 3;
constexpr std::string_view kRemedy =
    "`sluice data check CONFIG` names all such files, data.on_bad = \"skip\" "
    "leaves them out";

/// Length of the longer side, when the shorter one becomes `to`.
std::int64_t longer_side(std::int64_t longer, std::int64_t shorter,
                         std::int64_t to) {
  return to * longer / shorter;
}

/// Where the middle begins: half a pixel goes to the even side, as in Python.
std::int64_t middle(std::int64_t all, std::int64_t part) {
  return static_cast<std::int64_t>(
      std::nearbyint(static_cast<double>(all - part) / 2));
}

class ImagesOnDisk final : public ImageStore {
 public:
  ImagesOnDisk(std::shared_ptr<const ImageSplitFiles> files,
               const ImageFilesOptions& options)
      : files_(std::move(files)),
        size_(options.size),
        resize_(options.resize == 0 ? options.size : options.resize),
        turns_(options.exif_orientation),
        workers_(static_cast<int>(options.workers)) {}

  std::int64_t size() const override { return std::ssize(files_->files()); }
  std::int64_t label(std::int64_t index) const override {
    return file(index).label;
  }

  int workers() const override { return workers_; }

  const std::uint8_t* pixels(
      std::int64_t index, const Crop& crop,
      std::vector<std::uint8_t>& scratch) const override {
    const DecodedImage image = decoded(index);
    ImageBox box = {.height = image.height, .width = image.width};
    std::int64_t height = size_;
    std::int64_t width = size_;
    ImageBox window = {.height = size_, .width = size_};
    if (crop) {
      box = crop(image.height, image.width);
    } else {
      const bool is_tall = image.height > image.width;
      height =
          is_tall ? longer_side(image.height, image.width, resize_) : resize_;
      width =
          is_tall ? resize_ : longer_side(image.width, image.height, resize_);
      window.top = middle(height, size_);
      window.left = middle(width, size_);
    }
    scratch.resize(static_cast<std::size_t>(kColoursOfImage * size_ * size_));
    for (std::int64_t c = 0; c < kColoursOfImage; ++c) {
      const PlaneView view = {.first = image.rgb.data() + c,
                              .height = image.height,
                              .width = image.width,
                              .row_stride = kColoursOfImage * image.width,
                              .pixel_stride = kColoursOfImage};
      resample(view.part(box), height, width, window,
               scratch.data() + c * size_ * size_);
    }
    return scratch.data();
  }

 private:
  const ImageFile& file(std::int64_t index) const {
    return files_->files().at(static_cast<std::size_t>(index));
  }

  DecodedImage decoded(std::int64_t index) const {
    int orientation = 1;
    try {
      return decode_at(file(index).place, turns_, orientation);
    } catch (const UserError& error) {
      throw UserError("{}; {}", error.what(), kRemedy);
    }
  }

  std::shared_ptr<const ImageSplitFiles> files_;
  std::int64_t size_;
  std::int64_t resize_;
  bool turns_;
  int workers_;
};

StoredSplit on_disk(const std::shared_ptr<const ImageSplitFiles>& files,
                    const ImageFilesOptions& options) {
  return {.size = std::ssize(files->files()),
          .open = [files, options]() -> std::shared_ptr<const ImageStore> {
            if (files->is_walked_ahead()) files->check();
            return std::make_shared<ImagesOnDisk>(files, options);
          }};
}

}  // namespace

void ImageFilesOptions::describe_size(Fields& fields) {
  fields.key("size", size,
             {.text = "height and width of a sample",
              .unit = "pixels",
              .min = 1,
              .max = 4096});
  fields.key("resize", resize,
             {.text = "shorter side of an image before the middle is cut out "
                      "of it; 0: as size",
              .unit = "pixels",
              .min = 0,
              .max = 8192});
  if (resize != 0 && resize < size)
    fields.reject("resize",
                  fmt::format("must be 0, or not below size = {}", size));
}

void ImageFilesOptions::describe_reading(Fields& fields) {
  fields.key(
      "exif_orientation", exif_orientation,
      {.text = "turn images as the orientation tags of their files say"});
  fields.key("on_bad", leaves_out_damaged, {{"stop", false}, {"skip", true}},
             {.text = "at an image that can't be decoded: stop, before the "
                      "first turn where it is known; or decode all images at "
                      "the start and leave such out, in every split"});
  fields.key("workers", workers,
             {.text = "threads that decode the images of a batch, which has "
                      "the same bits for any number",
              .min = 1,
              .max = 256});
}

void describe_normalisation(Fields& fields, std::vector<double>& mean,
                            std::vector<double>& std) {
  fields.key("mean", mean,
             {.text = "of red, green and blue in 0..1, which samples are "
                      "normalised with",
              .min = 0,
              .max = 1});
  fields.key("std", std,
             {.text = "their standard deviations", .min = 1e-6, .max = 1e6});
  constexpr std::size_t kChannels = 3;
  if (mean.size() != kChannels)
    fields.reject("mean", "must have a number each for red, green and blue");
  if (std.size() != kChannels)
    fields.reject("std", "must have a number each for red, green and blue");
}

DataSet image_files_data_set(const ImageFilesOptions& options,
                             const Augmentation& augmentation,
                             ImageFiles files) {
  const ImageFormat format = {.channels = kColoursOfImage,
                              .height = options.size,
                              .width = options.size,
                              .classes = std::ssize(files.classes),
                              .mean = options.mean,
                              .std = options.std};
  const auto found =
      std::make_shared<const FoundImages>(options, std::move(files));
  DataSet data = stored_image_data_set(format, augmentation,
                                       on_disk(found->train(), options),
                                       on_disk(found->test(), options));
  if (!found->validation()->files().empty())
    data.validation = stored_image_split(format, Augmentation{},
                                         on_disk(found->validation(), options));
  data.listing = found->listing();
  data.found = [found] { return found->clauses(); };
  data.walk = [found] { return found->walk(); };
  data.leaves_out_damaged = options.leaves_out_damaged;
  return data;
}

}  // namespace sluice
