#pragma once

#include <memory>

#include "lib/boundaries/codecs/codec.h"

namespace sluice {

/// Levels of zstd: the lowest is the fastest.
inline constexpr int kMostZstd = 19;

/// The codec, whose parts zstd makes smaller where that pays: the numbers that
/// come are the same. The bytes of a message then depend on its numbers;
/// Codec::for_plans() is the codec without.
std::shared_ptr<const Codec> in_zstd(std::shared_ptr<const Codec> codec,
                                     int level);

}  // namespace sluice
