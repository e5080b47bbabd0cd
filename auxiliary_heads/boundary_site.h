#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "lib/base/error.h"
#include "lib/boundaries/head.h"

namespace sluice {

/// A batch is too small for a head that normalises over it.
class TooFewSamplesError final : public UserError {
 public:
  using UserError::UserError;
};

// Each throws UserError, in the name of `head`.

/// Unless the features are [C] or [C, H, W], and there are 2 classes or more,
/// or targets are numbers.
void check_features(const BoundarySite& site, std::string_view head);
/// Checks that the features are maps, [C, H, W].
void check_maps(const BoundarySite& site, std::string_view head);
/// Whether the features are the tokens of an image, [T, C], as of ViT. A model
/// that is unknown may be one of texts.
bool has_image_tokens(const BoundarySite& site);
/// Checks as check_features() does, or that the features are tokens of an
/// image.
void check_features_or_tokens(const BoundarySite& site, std::string_view head);
/// Checks that the features are those of texts, [T, C].
void check_sequences(const BoundarySite& site, std::string_view head);
/// TooFewSamplesError, unless BatchNorm sees two values for each channel:
/// features [N, ...], of which each sample gives `values` to a channel.
void check_batch(const at::Tensor& features, std::int64_t values,
                 std::string_view head);

/// The key of the head's weights: (seed, layer, name).
std::uint64_t head_key(const BoundarySite& site, std::string_view head);

}  // namespace sluice
