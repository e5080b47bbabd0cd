#pragma once

#include <cstdint>
#include <span>

#include "experiments/data/files/decoded_image.h"

namespace sluice {

/// The orientation, 1 to 8, that a JPEG or PNG states: tag 0x0112 of its Exif
/// block (APP1, eXIf), or else tiff:Orientation of its XMP, as Pillow's
/// exif_transpose() looks for it. 1 where none is stated, or none that can be
/// read: a damaged block is no reason to refuse a picture.
int orientation_of(std::span<const std::uint8_t> bytes);

/// The picture as it is to be seen: turned and mirrored as Pillow's
/// exif_transpose() does. 5 to 8 exchange height and width.
DecodedImage upright(DecodedImage image, int orientation);

}  // namespace sluice
