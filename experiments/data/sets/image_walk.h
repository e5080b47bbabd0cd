#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/data/files/decoded_image.h"
#include "experiments/data/sets/image_place.h"

namespace sluice {

/// An image file that was decoded from its first byte to its last.
struct WalkedImage {
  std::int64_t height = 0;  ///< upright
  std::int64_t width = 0;
  int orientation = 1;      ///< files/orientation.h
  std::string damage = {};  ///< the error that names it; empty: none
  bool was_read = false;    ///< else the damage may be one of a moment
};

/// Decodes all images, on all cores; the answers have the order of the places.
std::vector<WalkedImage> walk_images(std::span<const ImagePlace> places);

/// Result of a walk through images.
struct WalkSummary {
  struct DamagedImage {
    std::int64_t index = 0;
    std::string damage = {};
  };
  std::vector<DamagedImage> damaged = {};
  std::int64_t turned = 0;  ///< images with an orientation other than 1
};

/// Walk as above, kept in the user's cache by paths, sizes and times of change,
/// where there are so many files that decoding them takes time: processes of
/// one run, and later runs, then don't decode them again.
WalkSummary summary_of_walk(std::span<const ImagePlace> places);

/// The picture at a place, upright where `turns` says so; `orientation` becomes
/// the one that it states. Throws UserError.
DecodedImage decode_at(const ImagePlace& place, bool turns, int& orientation);

}  // namespace sluice
