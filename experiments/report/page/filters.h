#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lib/tensors/tensors.h"

namespace sluice::report {

/// At most so many filters are drawn, the first ones, so many in a row.
constexpr std::int64_t kMostFilters = 64;
constexpr std::int64_t kFiltersInARow = 8;

/// Filters as tiles, side by side and a pixel apart.
struct FilterPicture {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> rgba = {};  ///< by row; between tiles all is clear
  std::int64_t tile_width = 0;
  std::int64_t shown = 0;    ///< filters
  std::int64_t filters = 0;  ///< that there are
};

/// The weights of a layer that sees images of shape `sample` ([C, H, W]; empty:
/// unknown). A convolution's are drawn where it has one channel, in grey, or
/// three, in colour, and is wider than a pixel; a linear layer's where each row
/// has a weight for each value of such an image, which it is drawn as. 0 is
/// grey (128), the largest |w| of a filter its 0 or 255: round(127.5 + 127.5 w
/// / max |w|). What isn't finite is drawn as 0. Nothing for other weights.
std::optional<FilterPicture> picture_of(const at::Tensor& weights,
                                        std::span<const std::int64_t> sample);

/// The weights of two or more dimensions of the first layer in the checkpoint
/// that has such, by name. Throws UserError when it can't be read.
NamedTensors first_weights(const std::string& checkpoint);

/// The picture as a PNG in a URI.
std::string data_uri(const FilterPicture& picture);

}  // namespace sluice::report
