#include "auxiliary_heads/boundary_site.h"

#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

bool trains_on_pairs(const BoundarySite& site) {
  return site.model != nullptr && site.model->trains_on_pairs;
}

bool may_be_text(const BoundarySite& site) {
  return site.model == nullptr || site.model->sample.is_text;
}

[[noreturn]] void refuse(const BoundarySite& site, std::string_view head,
                         std::string_view shapes) {
  std::string_view advice;
  if (trains_on_pairs(site)) {
    advice = "; for pairs of samples there is the head 'forward_forward'";
  } else if (has_image_tokens(site)) {
    advice = "; for tokens of images, [T, C], there is the head 'linear'";
  } else if (site.features.size() == 2) {
    advice = "; for features of texts, [T, C], there is the head 'vocabulary'";
  }
  throw UserError("[{}] block {}: takes features of shape {}, not [{}]{}", head,
                  site.block, shapes, fmt::join(site.features, ", "), advice);
}

void check_classes(const BoundarySite& site, std::string_view head) {
  if (site.classes >= 2 || targets_of(site) == Targets::values) return;
  throw UserError("[{}] block {}: needs 2 classes or more, not {}", head,
                  site.block, site.classes);
}

}  // namespace

bool has_image_tokens(const BoundarySite& site) {
  return site.features.size() == 2 && !may_be_text(site) &&
         !trains_on_pairs(site);
}

void check_features(const BoundarySite& site, std::string_view head) {
  if (site.features.size() != 1 && site.features.size() != 3)
    refuse(site, head, "[C] or [C, H, W]");
  check_classes(site, head);
}

void check_features_or_tokens(const BoundarySite& site, std::string_view head) {
  if (has_image_tokens(site)) return check_classes(site, head);
  check_features(site, head);
}

void check_maps(const BoundarySite& site, std::string_view head) {
  if (site.features.size() != 3) refuse(site, head, "[C, H, W]");
  check_classes(site, head);
}

void check_sequences(const BoundarySite& site, std::string_view head) {
  if (site.features.size() != 2 || trains_on_pairs(site) ||
      has_image_tokens(site))
    refuse(site, head, "[T, C] (of texts)");
  check_classes(site, head);
}

void check_batch(const at::Tensor& features, std::int64_t values,
                 std::string_view head) {
  if (features.size(0) * values >= 2) return;
  throw TooFewSamplesError(
      "[{}] a batch of {}: BatchNorm needs 2 samples or more here; choose a "
      "batch_size that doesn't leave a single sample over, or drop_last = true",
      head, features.size(0));
}

std::uint64_t head_key(const BoundarySite& site, std::string_view head) {
  return random_key(
      {site.seed, static_cast<std::uint64_t>(site.layer), key_part(head)});
}

}  // namespace sluice
