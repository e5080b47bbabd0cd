#include "experiments/data/image_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "experiments/data/files/decoded_image.h"
#include "lib/base/crc32c.h"
#include "lib/base/error.h"
#include "lib/base/read_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Bytes of a file; a picture with the most pixels takes less.
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 28;
constexpr std::int64_t kColours = 3;

bool is_image_name(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

DecodedImage decoded_file(const std::string& path) {
  const std::string bytes = read_file(path, kMostFileBytes);
  return decode_image(
      {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()},
      path);
}

/// The longer side, when the shorter one becomes `to`.
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
  ImagesOnDisk(std::vector<ImageFile> files, std::int64_t size,
               std::int64_t resize)
      : files_(std::move(files)), size_(size), resize_(resize) {}

  std::int64_t size() const override { return std::ssize(files_); }
  std::int64_t label(std::int64_t index) const override {
    return file(index).label;
  }

  const std::uint8_t* pixels(
      std::int64_t index, const Crop& crop,
      std::vector<std::uint8_t>& scratch) const override {
    const DecodedImage image = decoded_file(file(index).path);
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
    scratch.resize(static_cast<std::size_t>(kColours * size_ * size_));
    for (std::int64_t c = 0; c < kColours; ++c) {
      const PlaneView view = {.first = image.rgb.data() + c,
                              .height = image.height,
                              .width = image.width,
                              .row_stride = kColours * image.width,
                              .pixel_stride = kColours};
      resample(view.part(box), height, width, window,
               scratch.data() + c * size_ * size_);
    }
    return scratch.data();
  }

 private:
  const ImageFile& file(std::int64_t index) const {
    return files_.at(static_cast<std::size_t>(index));
  }

  std::vector<ImageFile> files_;
  std::int64_t size_;
  std::int64_t resize_;
};

StoredSplit on_disk(std::vector<ImageFile> files,
                    const ImageFilesOptions& options) {
  const std::int64_t size = std::ssize(files);
  const std::int64_t resize =
      options.resize == 0 ? options.size : options.resize;
  return {.size = size,
          .open = [files = std::move(files), side = options.size,
                   resize]() -> std::shared_ptr<const ImageStore> {
            return std::make_shared<ImagesOnDisk>(files, side, resize);
          }};
}

/// Names without the folder, which may lie elsewhere on another machine.
std::string listing_of(const ImageFiles& files) {
  std::uint32_t crc = 0;
  std::size_t count = 0;
  const auto add = [&](std::string_view split, std::span<const ImageFile> all) {
    for (const ImageFile& file : all) {
      const fs::path path = file.path;
      std::error_code error;
      const std::uintmax_t bytes = fs::file_size(path, error);
      if (error)
        throw UserError(
            "{}: can't be read: {}; correct who may read it, or take it "
            "out of its folder",
            file.path, error.message());
      const std::string line = fmt::format("{}/{}/{} {}\n", split, file.label,
                                           path.filename().string(), bytes);
      crc = crc32c(std::as_bytes(std::span(line)), crc);
      ++count;
    }
  };
  add("train", files.train);
  add("test", files.test);
  add("validation", files.validation);
  return fmt::format("{} files, whose names and sizes have CRC-32C {:08x}",
                     count, crc);
}

/// What the system says while `look` goes through a folder.
template <class Look>
void look_into(const std::string& folder, Look look) {
  try {
    look();
  } catch (const fs::filesystem_error& error) {
    throw UserError("{}: can't be listed: {}", folder, error.code().message());
  }
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

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> names;
  look_into(folder, [&] {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.is_directory())
        names.push_back(entry.path().filename().string());
  });
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> image_files_in(const std::string& folder) {
  std::vector<std::string> paths;
  look_into(folder, [&] {
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(folder))
      if (is_image_name(entry.path()) && entry.is_regular_file())
        paths.push_back(entry.path().string());
  });
  if (paths.empty())
    throw UserError("{}: has no image (.png, .jpg or .jpeg)", folder);
  std::sort(paths.begin(), paths.end());
  return paths;
}

DataSet image_files_data_set(const ImageFilesOptions& options,
                             const Augmentation& augmentation,
                             ImageFiles files) {
  const ImageFormat format = {.channels = kColours,
                              .height = options.size,
                              .width = options.size,
                              .classes = std::ssize(files.classes),
                              .mean = options.mean,
                              .std = options.std};
  const std::string listing = listing_of(files);
  DataSet data = stored_image_data_set(format, augmentation,
                                       on_disk(std::move(files.train), options),
                                       on_disk(std::move(files.test), options));
  if (!files.validation.empty())
    data.validation = stored_image_split(
        format, Augmentation{}, on_disk(std::move(files.validation), options));
  data.listing = listing;
  return data;
}

}  // namespace sluice
