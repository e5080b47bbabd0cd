#include "experiments/report/page/filters.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include <ATen/ATen.h>
#include <openssl/evp.h>

#include "experiments/data/files/encoded_image.h"
#include "lib/base/error.h"
#include "lib/blocks/layer_names.h"
#include "lib/checkpoints/safetensors.h"

namespace sluice::report {
namespace {

constexpr std::uint8_t kOpaque = 255;

bool has_colours(std::int64_t channels) {
  return channels == 1 || channels == 3;
}

/// [N, C, H, W]; undefined where the weights are no images.
at::Tensor as_images(const at::Tensor& weights,
                     std::span<const std::int64_t> sample) {
  at::Tensor images = weights;
  if (weights.dim() == 2 && sample.size() == 3 &&
      weights.size(1) == sample[0] * sample[1] * sample[2])
    images =
        weights.reshape({weights.size(0), sample[0], sample[1], sample[2]});
  const bool is_seen = images.dim() == 4 && images.size(0) > 0 &&
                       has_colours(images.size(1)) &&
                       images.size(2) * images.size(3) > 1;
  return is_seen ? images : at::Tensor();
}

std::uint8_t brightness_of(double weight, double most) {
  constexpr double kMiddle = 127.5;
  const double share = most > 0 && std::isfinite(weight) ? weight / most : 0;
  return static_cast<std::uint8_t>(std::lround(kMiddle + kMiddle * share));
}

/// A filter [C, H, W] and its place in the picture.
struct Tile {
  std::span<const double> values = {};
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t top = 0;
  std::int64_t left = 0;
};

void paint(const Tile& tile, FilterPicture& picture) {
  double most = 0;
  for (const double value : tile.values)
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  const auto value_at = [&](std::int64_t c, std::int64_t y, std::int64_t x) {
    return tile.values[static_cast<std::size_t>(
        (c * tile.height + y) * tile.width + x)];
  };
  for (std::int64_t y = 0; y < tile.height; ++y)
    for (std::int64_t x = 0; x < tile.width; ++x) {
      const auto pixel = static_cast<std::size_t>(
          4 * ((tile.top + y) * picture.width + tile.left + x));
      for (std::size_t c = 0; c < 3; ++c)
        picture.rgba[pixel + c] = brightness_of(
            value_at(std::min(static_cast<std::int64_t>(c), tile.channels - 1),
                     y, x),
            most);
      picture.rgba[pixel + 3] = kOpaque;
    }
}

/// The weights of the blocks, without their state.
std::vector<std::string> weight_files(const std::string& checkpoint) {
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(checkpoint, error)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".safetensors") && !path.ends_with(".state.safetensors"))
      files.push_back(path);
  }
  if (error)
    throw UserError("{}: can't be read: {}", checkpoint, error.message());
  std::sort(files.begin(), files.end());
  return files;
}

std::optional<std::int64_t> layer_of_weight(std::string_view name) {
  return name.ends_with("weight") ? layer_of_name(name) : std::nullopt;
}

std::string base64(std::span<const std::uint8_t> bytes) {
  // One byte more than the text, for the zero that EVP_EncodeBlock() writes.
  std::vector<unsigned char> text((bytes.size() + 2) / 3 * 4 + 1);
  const int length = EVP_EncodeBlock(text.data(), bytes.data(),
                                     static_cast<int>(bytes.size()));
  return {text.begin(), text.begin() + length};
}

}  // namespace

std::optional<FilterPicture> picture_of(const at::Tensor& weights,
                                        std::span<const std::int64_t> sample) {
  const at::Tensor all = as_images(weights, sample);
  if (!all.defined()) return std::nullopt;
  const std::int64_t shown = std::min(all.size(0), kMostFilters);
  const at::Tensor images =
      all.narrow(0, 0, shown).to(at::kDouble).contiguous();
  const std::int64_t height = images.size(2);
  const std::int64_t width = images.size(3);
  const std::int64_t columns = std::min(shown, kFiltersInARow);
  const std::int64_t rows = (shown + columns - 1) / columns;
  FilterPicture picture = {.height = rows * (height + 1) - 1,
                           .width = columns * (width + 1) - 1,
                           .tile_width = width,
                           .shown = shown,
                           .filters = all.size(0)};
  picture.rgba.resize(
      static_cast<std::size_t>(4 * picture.height * picture.width));
  const auto values = static_cast<std::size_t>(images.numel() / shown);
  for (std::int64_t i = 0; i < shown; ++i)
    paint({.values = {images.const_data_ptr<double>() +
                          static_cast<std::size_t>(i) * values,
                      values},
           .channels = images.size(1),
           .height = height,
           .width = width,
           .top = i / columns * (height + 1),
           .left = i % columns * (width + 1)},
          picture);
  return picture;
}

NamedTensors first_weights(const std::string& checkpoint) {
  // File of each layer: only names are read, since blocks may be large.
  std::map<std::int64_t, std::string> files;
  for (const std::string& file : weight_files(checkpoint))
    read_safetensors(file, [&](std::string_view name) {
      if (const auto layer = layer_of_weight(name)) files[*layer] = file;
      return false;
    });
  for (const auto& [layer, file] : files) {
    NamedTensors found =
        read_safetensors(file, [wanted = layer](std::string_view name) {
          return layer_of_weight(name) == wanted;
        });
    std::erase_if(found,
                  [](const auto& named) { return named.second.dim() < 2; });
    if (!found.empty()) return found;
  }
  return {};
}

std::string data_uri(const FilterPicture& picture) {
  return "data:image/png;base64," +
         base64(encode_png(static_cast<std::uint32_t>(picture.height),
                           static_cast<std::uint32_t>(picture.width),
                           picture.rgba));
}

}  // namespace sluice::report
